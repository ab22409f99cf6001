//! Options of `healthy`.

use clap::Args;

use super::client::Common;

/// Examples of its help.
pub(super) const EXAMPLES: &str = "\
Examples:
  # Can the server on this machine do its work?
  crossload healthy http://127.0.0.1:9090

  # As the health check of a container
  crossload healthy http://127.0.0.1:9090 --timeout 5s

Exit codes: 0 ready, 1 not ready, else the errno of why it does not answer.";

/// Options of `healthy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HealthyOptions {
    /// The server's admin address ([server] admin_listen)
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub(crate) admin: String,
    #[command(flatten)]
    pub(crate) common: Common,
}
