//! Options of `cat`, `head` and `tail`.

use clap::Args;

use super::client::Common;
use super::places::Places;
use super::server::size;

/// How much of a file is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Lines or bytes.
    pub(crate) count: u64,
    /// Written with a plus: `tail` prints from this line or byte on, and the first is 1. For
    /// `head` it changes nothing.
    pub(crate) is_start: bool,
}

fn lines(text: &str) -> Result<Amount, String> {
    amount(text, |count| {
        count.parse().map_err(|_| "not a number of lines".to_owned())
    })
}

/// Bytes, also with the letters of `head` and `tail`: powers of 1024.
fn bytes(text: &str) -> Result<Amount, String> {
    amount(text, |count| match count.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(_) => size(&format!("{count}iB")),
        None => size(count),
    })
}

fn amount(text: &str, count: impl FnOnce(&str) -> Result<u64, String>) -> Result<Amount, String> {
    let start = text.strip_prefix('+');
    Ok(Amount {
        count: count(start.unwrap_or(text))?,
        is_start: start.is_some(),
    })
}

/// Options of `head` and `tail`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print so many lines; tail +N: from line N on
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = lines,
        default_value = "10",
        conflicts_with = "bytes"
    )]
    pub(crate) lines: Amount,
    /// Print so many bytes instead, such as 100 or 4KiB; tail +N: from byte N on
    #[arg(short = 'c', long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) bytes: Option<Amount>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `cat`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// gfal-cat's: files are bytes here.
    #[arg(short, long, hide = true)]
    bytes: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
