//! Options of `check`.

use std::path::PathBuf;

use clap::Args;

use super::client::Common;

/// Options of `check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckOptions {
    /// The server's configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/crossload/crossload.toml")]
    pub(crate) config: PathBuf,
    /// The URL under which clients reach the server, instead of server.name
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Have another server connect to this one: a directory there that you may write to (nothing is written)
    #[arg(long, value_name = "URL", conflicts_with = "offline")]
    pub(crate) from: Option<String>,
    /// Warn when a certificate expires within so many days
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    pub(crate) warn_days: u32,
    /// Connect to nobody and ask no name service
    #[arg(long)]
    pub(crate) offline: bool,
    /// Show only what should be changed
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
