//! Options of `touch` and `chmod`.

use clap::Args;

use super::client::Common;
use super::places::Places;

/// Options of `touch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TouchOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `chmod`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModeOptions {
    /// Permissions in octal, such as 640
    #[arg(value_parser = mode)]
    pub(crate) mode: u16,
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Permission bits in octal.
///
/// # Errors
/// What the text should be.
pub(super) fn mode(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "not three octal digits such as 640".to_owned())
}
