//! Options of `head` and `tail`.

use clap::Args;

use super::client::Common;
use super::places::Places;
use super::server::size;

/// Bytes, also with the letters of `head` and `tail`: powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    if text.starts_with('+') {
        return Err("write how many bytes to print; a start cannot be given".to_owned());
    }
    match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(_) => size(&format!("{text}iB")),
        None => size(text),
    }
}

/// Options of `head` and `tail`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print so many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, conflicts_with = "bytes")]
    pub(crate) lines: u64,
    /// Print so many bytes instead, such as 100 or 4KiB
    #[arg(short = 'c', long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}
