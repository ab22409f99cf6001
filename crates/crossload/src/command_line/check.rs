//! Options of `check`.

use std::path::PathBuf;

use clap::Args;

use super::client::Common;

/// Options of `check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckOptions {
    /// Configuration file of the server
    #[arg(long, value_name = "FILE", default_value = "/etc/crossload/crossload.toml")]
    pub(crate) config: PathBuf,
    /// URL under which clients reach the server [default: server.name]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Let another server connect to this one
    ///
    /// URL of a directory there where you may write. Nothing is written.
    #[arg(long, value_name = "URL", conflicts_with = "offline")]
    pub(crate) from: Option<String>,
    /// Warn about certificates that expire within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    pub(crate) warn_days: u32,
    /// Make no connections and no DNS queries
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print only what should be changed
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// End with 0 also if there are warnings, but no errors
    #[arg(long)]
    pub(crate) allow_warnings: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
