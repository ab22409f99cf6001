//! Options of the client's commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use config::parse_duration;
use transfer::route::Preference;
use types::{Checksum, ChecksumAlgorithm};

/// Options that all commands of the client have.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Say more; twice, say everything
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Give the whole command up after this time, in seconds or as 30s, 5m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON, one object in each line
    #[arg(long)]
    pub(crate) json: bool,
    /// What the request is for, as key=value; goes to the servers' logs
    #[arg(short = 'C', long, value_name = "TEXT", value_parser = visible)]
    pub(crate) client_info: Vec<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How servers are reached and believed.
#[derive(Clone, Debug, Args)]
pub(crate) struct Access {
    /// Believe every server, whatever its certificate says
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Trust the authorities in this file too
    #[arg(long, value_name = "PEM")]
    pub(crate) cacert: Vec<PathBuf>,
    /// Trust the authorities in this directory instead of X509_CERT_DIR or /etc/grid-security/certificates
    #[arg(long, value_name = "DIR")]
    pub(crate) capath: Option<PathBuf>,
    /// Send the bearer token in this file [default: found by the WLCG discovery rules]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Show this certificate; with its key in the same file, or in that of --key
    #[arg(long, value_name = "PEM", conflicts_with = "proxy")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Show this proxy [default: X509_USER_PROXY, X509_USER_CERT with X509_USER_KEY, /tmp/x509up_u<uid>]
    #[arg(long, value_name = "PEM")]
    pub(crate) proxy: Option<PathBuf>,
}

/// How the bytes travel between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Pull, then push, then stream: the first that works
    Auto,
    /// The destination fetches from the source
    Pull,
    /// The source sends to the destination
    Push,
    /// Through this machine
    #[value(alias = "streamed")]
    Stream,
}

impl From<Mode> for Preference {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Auto => Self::Any,
            Mode::Pull => Self::Pull,
            Mode::Push => Self::Push,
            Mode::Stream => Self::Stream,
        }
    }
}

/// Which sides' checksums are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumMode {
    /// The source's, before the copy
    Source,
    /// The destination's, after the copy
    Target,
    /// Both, and compared with each other
    Both,
}

/// A checksum to verify: the algorithm, and the value when it is known beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumWish {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) value: Option<Checksum>,
}

/// Options of `copy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CopyOptions {
    /// What to copy, and last where to: http, https, dav, davs, root, roots URLs, local paths, or - for standard input or output
    #[arg(required = true, value_name = "SRC... DST")]
    pub(crate) places: Vec<String>,
    /// Copy directories and what is in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Overwrite existing files
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Make missing parent directories of the destination
    #[arg(short, long)]
    pub(crate) parent: bool,
    /// Connections that carry one file at the same time; without it one, and more where they make it faster
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) nbstreams: Option<u32>,
    /// Verify this checksum: adler32, crc32c, md5 or sha-256, with the value when it is known
    #[arg(short = 'K', long, value_name = "ALG[:VALUE]", value_parser = checksum_wish)]
    pub(crate) checksum: Option<ChecksumWish>,
    /// Which side's checksum is verified
    #[arg(long, value_enum, default_value_t = ChecksumMode::Both)]
    pub(crate) checksum_mode: ChecksumMode,
    /// How the bytes travel between two servers
    #[arg(long, visible_alias = "copy-mode", value_enum, default_value_t = Mode::Auto)]
    pub(crate) mode: Mode,
    /// Say what would be done, and look whether the sources exist
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Tag of the flow for the network's accounting (SciTags)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) scitag: Option<u16>,
    /// Stop at the first file that fails
    #[arg(long)]
    pub(crate) abort_on_failure: bool,
    /// Read the sources from this file, one in each line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListOptions {
    /// Directories or files
    #[arg(required = true)]
    pub(crate) places: Vec<String>,
    /// Show kind, size and time
    #[arg(short)]
    pub(crate) long: bool,
    /// Show names that begin with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show the directory itself
    #[arg(short, long)]
    pub(crate) directory: bool,
    /// Sizes for people, such as 1.2G
    #[arg(short = 'H', long)]
    pub(crate) human_readable: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `stat`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatOptions {
    /// Files or directories
    #[arg(required = true)]
    pub(crate) places: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `sum`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SumOptions {
    /// The file
    pub(crate) place: String,
    /// adler32, crc32c, md5 or sha-256
    #[arg(default_value = "adler32", value_parser = algorithm)]
    pub(crate) algorithm: ChecksumAlgorithm,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `mkdir`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MakeDirectoryOptions {
    /// Directories to make
    #[arg(required = true)]
    pub(crate) places: Vec<String>,
    /// Make missing parents; an existing directory is no error
    #[arg(short, long)]
    pub(crate) parents: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `rm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoveOptions {
    /// Files, and with -r directories
    #[arg(required = true)]
    pub(crate) places: Vec<String>,
    /// Remove directories with all that is in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `mv`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenameOptions {
    /// The old name
    pub(crate) source: String,
    /// The new name, on the same server
    pub(crate) destination: String,
    /// Replace an existing file
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `cat`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatOptions {
    /// Files, one after the other
    #[arg(required = true)]
    pub(crate) places: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// gfal's tools take seconds without a unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let plain = text.parse::<u64>().ok().map(Duration::from_secs);
    plain
        .or_else(|| parse_duration(text))
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "not a time such as 1800, 30s or 5m".to_owned())
}

fn algorithm(text: &str) -> Result<ChecksumAlgorithm, String> {
    ChecksumAlgorithm::from_name(text).ok_or_else(|| "not one of adler32, crc32c, md5, sha-256".to_owned())
}

fn checksum_wish(text: &str) -> Result<ChecksumWish, String> {
    let Some((name, value)) = text.split_once(':') else {
        return Ok(ChecksumWish {
            algorithm: algorithm(text)?,
            value: None,
        });
    };
    let algorithm = algorithm(name)?;
    let value = Checksum::from_hex(algorithm, value)
        .ok_or_else(|| format!("\"{value}\" is not a value of {algorithm} in hexadecimal digits"))?;
    Ok(ChecksumWish {
        algorithm,
        value: Some(value),
    })
}

fn visible(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    plain
        .then(|| text.to_owned())
        .ok_or_else(|| "only visible ASCII characters".to_owned())
}
