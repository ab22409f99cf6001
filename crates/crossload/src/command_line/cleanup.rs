//! Options of `cleanup`.

use std::time::Duration;

use clap::Args;

use config::parse_duration;

use super::client::Common;
use super::places::Places;

/// Options of `cleanup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanupOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Remove only uploads that began this long ago, as 30m, 12h, 7d
    ///
    /// Others may be under way.
    #[arg(long, value_name = "TIME", value_parser = age, default_value = "1d")]
    pub(crate) older_than: Duration,
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// An age, which may be none.
fn age(text: &str) -> Result<Duration, String> {
    let plain = text.parse::<u64>().ok().map(Duration::from_secs);
    let age = plain.or_else(|| parse_duration(text));
    age.ok_or_else(|| "not a time such as 1800, 30m or 7d".to_owned())
}
