//! Options of `smoke`.

use std::path::PathBuf;

use clap::Args;
use probe::Kind;

use super::client::Common;
use super::mesh::ResultOptions;
use super::server::size;

/// Options of `smoke`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SmokeOptions {
    /// Directory to probe, where you may write
    ///
    /// Give its https URL and its root URL to probe both protocols; s3 URLs too.
    #[arg(required_unless_present = "list", value_name = "URL")]
    pub(crate) places: Vec<String>,
    /// Probe all endpoints of this file instead, as crossload mesh --init prints one
    #[arg(long, value_name = "FILE", conflicts_with = "places")]
    pub(crate) list: Option<PathBuf>,
    /// Keep the run, and print how each endpoint stands at the end: new problems first, and scores
    ///
    /// The history is that of --history, or crossload/history.sqlite in XDG_STATE_HOME or
    /// ~/.local/state. With --mail, each administrator gets their part.
    #[arg(long)]
    pub(crate) daily: bool,
    /// Public file at another server, to pull from
    ///
    /// Give it once per protocol. Default: no pulls of public files.
    #[arg(long, value_name = "URL")]
    pub(crate) pull: Vec<String>,
    /// Directory at another server where you may write, to push to
    ///
    /// Pulls with a credential use it too. Give it once per protocol. Default: no such copies.
    #[arg(long, value_name = "URL")]
    pub(crate) push: Vec<String>,
    /// Probe with these kinds of credentials [default: all that you have]
    ///
    /// - anonymous: no credential
    /// - token: the token of --token-file
    /// - macaroon: one that the endpoint issues
    /// - x509: the proxy or certificate
    /// - keys: the access key for an S3 storage
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        value_parser = kind,
        verbatim_doc_comment
    )]
    pub(crate) credential_kinds: Vec<Kind>,
    /// Size of the files to upload, such as 1MiB
    #[arg(long, value_name = "SIZE", default_value = "1200KB", value_parser = size)]
    pub(crate) size: u64,
    /// End with 0 also if probes were skipped, but none failed
    #[arg(long)]
    pub(crate) allow_skipped: bool,
    #[command(flatten)]
    pub(crate) results: ResultOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = Kind::ALL
        .into_iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(text));
    known.ok_or_else(|| "not one of anonymous, token, macaroon, x509, keys".to_owned())
}
