//! Options of `trace`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::client::Common;

/// Examples of its help.
pub(super) const EXAMPLES: &str = "\
Examples:
  # A job of a queue: what the queue and the endpoints did
  crossload trace 0af76519-16cd-43dd-8448-eb211c80319c \\
      --admin http://fts.example.org:9090 --admin http://se1.example.org:9090

  # From log files, with everything in one file for a ticket
  crossload trace 65f2a1c09b3d4e7f --log /var/log/crossload/crossload.log \\
      --bundle ticket.json

Exit code: 0 found; 1 not all could be asked, or lines were left out; 2 not found; else the errno of \
the failure, as if the only server or log cannot be asked.";

/// Options of `trace`.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("sources").args(["admin", "logs"]).required(true).multiple(true)))]
pub(crate) struct TraceOptions {
    /// The job of a queue (JOB or JOB:FILE), or the ID of a transfer, a request or a trace (W3C
    /// Trace Context), as reports and logs have it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Admin address of an endpoint, redirector or queue; repeat it. It is sent no credential
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Vec<String>,
    /// A log as JSON, of any of them; repeat it
    #[arg(long = "log", value_name = "FILE")]
    pub(crate) logs: Vec<PathBuf>,
    /// Also write everything that was found into a new file, for a ticket: without secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}
