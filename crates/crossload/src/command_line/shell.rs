//! Options of `shell`.

use clap::Args;

use super::client::Common;

/// Options of `shell`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShellOptions {
    /// The first directory: a URL, NAME:PATH in a named remote, or a local path
    #[arg(value_name = "PLACE")]
    pub(crate) place: String,
    #[command(flatten)]
    pub(crate) common: Common,
}
