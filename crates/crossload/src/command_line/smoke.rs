//! Options of `smoke`.

use clap::Args;
use probe::Kind;

use super::client::Common;
use super::server::size;

/// Options of `smoke`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SmokeOptions {
    /// The directory to probe, where files may be made; give it as an https and as a root URL to probe both protocols
    #[arg(required = true, value_name = "URL")]
    pub(crate) places: Vec<String>,
    /// A file at another server that everybody may read, for pulls; once for each protocol
    #[arg(long, value_name = "URL")]
    pub(crate) pull: Vec<String>,
    /// A directory at another server that you may write to, for pushes and for pulls that need a credential; once for
    /// each protocol
    #[arg(long, value_name = "URL")]
    pub(crate) push: Vec<String>,
    /// Probe with these: anonymous, token, macaroon, x509 [default: all that are at hand]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kind)]
    pub(crate) credential_kinds: Vec<Kind>,
    /// Size of the files that are made, such as 1MiB
    #[arg(long, value_name = "SIZE", default_value = "1200KB", value_parser = size)]
    pub(crate) size: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = Kind::ALL
        .into_iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(text));
    known.ok_or_else(|| "not one of anonymous, token, macaroon, x509".to_owned())
}
