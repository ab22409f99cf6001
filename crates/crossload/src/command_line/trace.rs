//! Options of `trace`.

use std::path::PathBuf;

use clap::Args;

use super::client::Common;

/// Options of `trace`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceOptions {
    /// The job of a queue, or the ID of a transfer, a request or a trace (W3C Trace Context), as
    /// reports and logs have it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Admin address of an endpoint, redirector or queue; repeat it
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Vec<String>,
    /// A log as JSON, of any of them; repeat it
    #[arg(long = "log", value_name = "FILE", required_unless_present = "admin")]
    pub(crate) logs: Vec<PathBuf>,
    /// Also write everything that was found into a new file, for a ticket: without secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}
