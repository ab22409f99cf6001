//! Options of `why`.

use clap::Args;
use types::LogicalPath;

use super::client::Common;
use super::server::{logical_path, size};

/// Options of `why`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhyOptions {
    /// The file
    #[arg(value_name = "/PATH", value_parser = logical_path)]
    pub(crate) path: LogicalPath,
    /// The redirector
    #[arg(long, value_name = "URL")]
    pub(crate) redirector: String,
    /// Where would it be stored? [default: where is it read?]
    #[arg(long)]
    pub(crate) write: bool,
    /// Size of the file to store, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "write")]
    pub(crate) size: Option<u64>,
    /// For a client of the XRootD protocol [default: an HTTP client]
    #[arg(long)]
    pub(crate) root: bool,
    /// Ask the nodes again
    #[arg(long)]
    pub(crate) refresh: bool,
    /// A node that was tried in vain; repeat it
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) tried: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}
