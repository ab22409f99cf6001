//! Options of xrdcp 5.5 that gfal-copy does not have. The help leaves them out; `docs/client.md`
//! lists them.

use clap::{ArgAction, Args};
use config::parse_size;

use super::client::{ChecksumWish, CopyOptions, checksum_wish};
use crate::failure::Failure;

/// Options of xrdcp.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Transfer")]
pub(super) struct XrdcpOptions {
    #[arg(long, value_name = "ALG", value_parser = checksum, hide = true)]
    cksum: Vec<Wish>,
    #[arg(short = 'd', long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3), hide = true)]
    debug: Option<u8>,
    #[arg(
        short = 'X',
        long,
        value_name = "RATE",
        value_parser = rate,
        conflicts_with_all = ["bwlimit", "nbstreams", "streams"],
        hide = true
    )]
    xrate: Option<u64>,
    #[command(flatten)]
    without_effect: WithoutEffect,
    #[command(flatten)]
    refused: Refused,
}

/// Options that change nothing here.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Transfer")]
struct WithoutEffect {
    #[arg(short = 'A', long, hide = true)]
    allow_http: bool,
    #[arg(short = 'F', long, hide = true)]
    coerce: bool,
    #[arg(short = 'Z', long, hide = true)]
    dynamic_src: bool,
    #[arg(long, hide = true)]
    notlsok: bool,
    #[arg(long, hide = true)]
    rm_bad_cksum: bool,
    #[arg(long, value_name = "POLICY", value_parser = ["force", "continue"], hide = true)]
    retry_policy: Option<String>,
    #[arg(short = 'y', long, value_name = "N", hide = true)]
    sources: Option<u32>,
    #[arg(long, hide = true)]
    tlsmetalink: bool,
    #[arg(long, hide = true)]
    tlsnodata: bool,
    #[arg(long, hide = true)]
    zip_mtln_cksum: bool,
}

/// Options that are refused: a copy without them would be another one.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Transfer")]
struct Refused {
    #[arg(long, hide = true)]
    xattr: bool,
    #[arg(short = 'z', long, value_name = "FILE", hide = true)]
    zip: Option<String>,
    #[arg(long, hide = true)]
    zip_append: bool,
    #[arg(long, value_name = "RATE", hide = true)]
    xrate_threshold: Option<String>,
    #[arg(long, hide = true)]
    server: bool,
    #[arg(short = 'H', long, hide = true)]
    license: bool,
    /// `-ODx` and `-OSx`: what is added to the destination's or the sources' URLs.
    #[arg(short = 'O', value_name = "TEXT", action = ArgAction::Append, hide = true)]
    opaque: Vec<String>,
}

impl XrdcpOptions {
    /// Does to `options` what these say.
    ///
    /// # Errors
    /// An option that is refused, or two that contradict each other.
    pub(super) fn apply(self, options: &mut CopyOptions) -> Result<(), Failure> {
        if let Some(words) = self.refused.words() {
            return Err(Failure::invalid(words));
        }
        options.common.verbose = options.common.verbose.max(self.debug.unwrap_or(0));
        options.transfer.bwlimit = options.transfer.bwlimit.or(self.xrate);
        match self.cksum.into_iter().next_back() {
            Some(_) if options.transfer.checksum.is_some() => {
                return Err(Failure::invalid("--cksum and --checksum name a checksum each"));
            }
            Some(Wish(Some(wish))) => options.transfer.checksum = Some(wish),
            Some(Wish(None)) | None => {}
        }
        Ok(())
    }
}

impl Refused {
    /// What to do instead of the first of them.
    fn words(&self) -> Option<&'static str> {
        [
            (
                self.xattr,
                "--xattr: copy without it, then use: crossload xattr get, and xattr set",
            ),
            (
                self.zip.is_some() || self.zip_append,
                "--zip, --zip-append: copy the whole archive, and pack or unpack it here",
            ),
            (
                self.xrate_threshold.is_some(),
                "--xrate-threshold: leave it out; a copy that stands still is given up, and --timeout limits the rest",
            ),
            (
                self.server,
                "--server: this program cannot make another server's copies; crossload serve makes its own",
            ),
            (self.license, "--license: read the file LICENSE of the source code"),
            (
                !self.opaque.is_empty(),
                "-OD, -OS: write the text at the end of the URL, behind a ?",
            ),
        ]
        .into_iter()
        .find_map(|(is_given, words)| is_given.then_some(words))
    }
}

/// A checksum that is wished for; `None` for `auto`, which is what happens without an option.
#[derive(Clone, Debug)]
struct Wish(Option<ChecksumWish>);

/// What xrdcp's `-C` and `--cksum` ask for: `auto`, `ALG`, `ALG:source`, `ALG:print` or
/// `ALG:VALUE`. The inner `None` is `auto`.
///
/// # Errors
/// What the text should be.
pub(super) fn xrdcp_checksum(text: &str) -> Result<Option<ChecksumWish>, String> {
    let name = text
        .strip_suffix(":source")
        .or_else(|| text.strip_suffix(":print"))
        .unwrap_or(text);
    match name {
        "auto" => Ok(None),
        name => checksum_wish(name).map(Some),
    }
}

fn checksum(text: &str) -> Result<Wish, String> {
    xrdcp_checksum(text).map(Wish)
}

/// Bytes per second, with `k`, `m` or `g` for powers of 1024 as in xrdcp.
fn rate(text: &str) -> Result<u64, String> {
    let powers = [('k', "KiB"), ('m', "MiB"), ('g', "GiB")];
    let lower = text.to_ascii_lowercase();
    let with_unit = powers
        .into_iter()
        .find_map(|(letter, unit)| Some(format!("{}{unit}", lower.strip_suffix(letter)?)));
    parse_size(&with_unit.unwrap_or(lower))
        .filter(|bytes_s| *bytes_s > 0)
        .ok_or_else(|| "not a rate such as 10m".to_owned())
}
