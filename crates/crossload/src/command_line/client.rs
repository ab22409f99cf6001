//! Options of the client's commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use config::parse_duration;
use remote::Delegation;
use transfer::route::Preference;
use types::{Checksum, ChecksumAlgorithm, Secret};

use super::display::DisplayOptions;
use super::habits::{CopyHabits, GfalOptions, RemoveHabits};
use super::metadata::mode;
use super::places::Places;
use super::server::size;
use crate::input_file::{InputFile, input_file};

/// Options that all commands of the client have.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct Common {
    /// Print details, such as which credential is sent; -vv: requests and answers, without secrets
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Append what -vv prints to this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Abort after this time, in seconds or as 30s, 5m, 2h [default: no limit]
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Text for the servers' logs, as key=value; can be repeated
    #[arg(short = 'C', long, value_name = "TEXT", value_parser = visible)]
    pub(crate) client_info: Vec<String>,
    #[command(flatten)]
    pub(crate) display: DisplayOptions,
    #[command(flatten)]
    pub(crate) gfal: GfalOptions,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How the client authenticates, and which servers it trusts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Credentials and trust")]
pub(crate) struct Access {
    /// Send the token or macaroon in this file
    ///
    /// Default (WLCG token discovery): BEARER_TOKEN, the file named by BEARER_TOKEN_FILE,
    /// bt_u<uid> in XDG_RUNTIME_DIR, /tmp/bt_u<uid>; the first that exists.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The token itself, where a command takes one.
    #[arg(skip)]
    pub(crate) token: Option<Secret>,
    /// Authenticate with this proxy
    ///
    /// Default: X509_USER_PROXY, X509_USER_CERT with X509_USER_KEY, /tmp/x509up_u<uid>; the
    /// first that exists.
    #[arg(long, value_name = "PEM")]
    pub(crate) proxy: Option<PathBuf>,
    /// Authenticate with this certificate; its key is in the same file or in that of --key
    #[arg(short = 'E', long, value_name = "PEM", conflicts_with = "proxy")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Also trust the authorities in this file; can be repeated
    #[arg(long, value_name = "PEM", value_parser = input_file(), value_hint = ValueHint::FilePath)]
    pub(crate) cacert: Vec<InputFile>,
    /// Trust the authorities in this directory
    ///
    /// Default: X509_CERT_DIR, or /etc/grid-security/certificates.
    #[arg(long, value_name = "DIR")]
    pub(crate) capath: Option<PathBuf>,
    /// Do not verify server certificates (unsafe)
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
}

impl Access {
    /// Whether an option is given.
    pub(crate) fn is_given(&self) -> bool {
        self.names_credential() || !self.cacert.is_empty() || self.capath.is_some() || self.insecure
    }

    /// Whether the options name a credential. It goes to all servers of the command.
    pub(crate) fn names_credential(&self) -> bool {
        let files = [&self.token_file, &self.proxy, &self.cert];
        self.token.is_some() || files.iter().any(|file| file.is_some())
    }
}

/// Which side moves the bytes of a copy between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Pull, then push, then stream: the first that works
    Auto,
    /// The destination fetches from the source
    Pull,
    /// The source sends to the destination
    Push,
    /// This machine reads from the source and writes to the destination
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

/// Whether the server that makes a copy gets a proxy of the user's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Delegate {
    /// No
    Never,
    /// Yes; if it takes none, it copies with a token, a rendezvous key or no credential
    First,
    /// Yes; if it takes none, the copy fails
    Only,
}

impl From<Delegate> for Delegation {
    fn from(delegate: Delegate) -> Self {
        match delegate {
            Delegate::Never => Self::Never,
            Delegate::First => Self::First,
            Delegate::Only => Self::Only,
        }
    }
}

/// Whether the checksums of both sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verify {
    /// Yes; a file without a checksum on both sides fails
    Required,
    /// If both sides report one
    Available,
    /// No
    Never,
}

/// Whose checksum is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumMode {
    /// That of the source, before the copy
    Source,
    /// That of the destination, after the copy
    Target,
    /// Both, and they must be equal
    Both,
}

/// A checksum to verify: the algorithm, and the value if the user knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumWish {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) value: Option<Checksum>,
}

/// Options of `copy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CopyOptions {
    /// The sources, and last the destination
    ///
    /// - http, https, dav, davs, root, roots, s3 or s3s URLs
    /// - NAME:PATH in a named remote (crossload config remote add)
    /// - local paths
    /// - a single - for standard input or output
    ///
    /// With -r, a directory is copied into the destination; if its name ends with a slash, only
    /// its contents are.
    #[arg(required_unless_present = "from_file", value_name = "PLACE", verbatim_doc_comment)]
    pub(crate) places: Vec<String>,
    /// Copy directories with everything in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Overwrite existing files, equal ones too
    #[arg(short, long, help_heading = "Existing files")]
    pub(crate) force: bool,
    /// Overwrite existing files that are older than the source
    #[arg(
        short,
        long,
        conflicts_with_all = ["force", "ignore_existing"],
        help_heading = "Existing files"
    )]
    pub(crate) update: bool,
    /// Skip existing files, whatever they contain
    #[arg(
        long,
        visible_alias = "skip-existing",
        conflicts_with = "force",
        help_heading = "Existing files"
    )]
    pub(crate) ignore_existing: bool,
    /// Make missing parent directories of the destination
    #[arg(short, long)]
    pub(crate) parent: bool,
    /// Read the sources from this file; - is standard input
    ///
    /// A line has a source, or a source and its destination. Between them is a tab; after a URL a
    /// space is enough. Empty lines, and those that begin with #, do not count.
    #[arg(long, short_alias = 'I', alias = "infiles", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) habits: CopyHabits,
    #[command(flatten)]
    pub(crate) transfer: TransferOptions,
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `sync`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SyncOptions {
    /// The directory to copy: a URL, NAME:PATH in a named remote, or a local path
    ///
    /// Its contents are copied if its name ends with a slash.
    pub(crate) source: String,
    /// The directory it goes into
    pub(crate) destination: String,
    /// Delete what the source does not have
    ///
    /// Nothing is deleted if a directory of the source could not be listed completely.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete nothing if it would be more than this many files and directories
    #[arg(long, value_name = "N", requires = "delete")]
    pub(crate) max_delete: Option<u64>,
    #[command(flatten)]
    pub(crate) transfer: TransferOptions,
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareOptions {
    /// A directory: a URL, NAME:PATH in a named remote, or a local path
    pub(crate) first: String,
    /// Another one, which should have the same files
    pub(crate) second: String,
    /// How files of the same size are compared
    #[arg(long, value_name = "HOW", value_enum, default_value_t = CompareBy::Checksum)]
    pub(crate) compare: CompareBy,
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How files of the same size are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// By listed checksums, times, or checksums that are asked for: the first that decides
    Auto,
    /// Not further: they are equal
    Size,
    /// They are equal if the second is newer
    Time,
    /// By checksums
    Checksum,
}

/// What is done with symbolic links of local trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Links {
    /// They are left out, and named
    #[default]
    Skip,
    /// They are made at the destination, if it is local, and lead to the same
    Copy,
    /// What they lead to is copied, if it is in the tree
    Follow,
}

/// Which entries of trees are copied.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Trees")]
pub(crate) struct SelectOptions {
    /// Only files that match this pattern; can be repeated
    ///
    /// - "*.root" matches names in all directories
    /// - "raw/*.root" and "/*.root" are relative to the top of the tree
    /// - "raw/**" matches everything below raw
    #[arg(long, value_name = "GLOB", verbatim_doc_comment)]
    pub(crate) include: Vec<String>,
    /// No files and directories that match this pattern; can be repeated, and wins over --include
    ///
    /// As --include. With a slash at the end it matches directories only.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Only files that were changed within this time, such as 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_age: Option<Duration>,
    /// Only files of at least this size, such as 1MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) min_size: Option<u64>,
    /// What is done with symbolic links of local trees
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Links::Skip)]
    pub(crate) links: Links,
    /// Directories that are listed, and files that are compared, at the same time, 1 to 64
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=64),
        default_value_t = CHECKERS
    )]
    pub(crate) checkers: u32,
}

/// Directories that are listed at the same time, if the user does not say.
const CHECKERS: u32 = 8;

impl Default for SelectOptions {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            max_age: None,
            min_size: None,
            links: Links::Skip,
            checkers: CHECKERS,
        }
    }
}

/// How the files of a command are copied.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransferOptions {
    /// Print errors only: no progress, and not what was done
    #[arg(short, long, conflicts_with = "json", help_heading = "General options")]
    pub(crate) quiet: bool,
    /// Begin no further file after one has failed
    #[arg(long)]
    pub(crate) abort_on_failure: bool,
    /// Only print what would be copied, and by which mode
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Files that are copied at the same time, 1 to 256 [default: 4, and more while that is faster]
    #[arg(
        long,
        visible_alias = "parallel",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=256),
        help_heading = "Transfer"
    )]
    pub(crate) transfers: Option<u32>,
    /// Copy a file again, up to N times, after a failure that may pass
    ///
    /// Default: 2 for trees and lists, else 0. The error table says which failures may pass.
    #[arg(long, alias = "retry", value_name = "N", help_heading = "Transfer")]
    pub(crate) retries: Option<u32>,
    /// Bytes per second through this machine, for all files together, such as 10MiB
    #[arg(
        long,
        value_name = "RATE",
        value_parser = rate,
        conflicts_with = "nbstreams",
        help_heading = "Transfer"
    )]
    pub(crate) bwlimit: Option<u64>,
    /// How existing files of the same size are compared
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t = CompareBy::Auto,
        help_heading = "Existing files"
    )]
    pub(crate) compare: CompareBy,
    /// Keep modification times, where the destination can: local files, servers with X-OC-MTime
    #[arg(long, help_heading = "Transfer")]
    pub(crate) times: bool,
    /// Which side moves the bytes between two servers
    #[arg(
        long,
        visible_alias = "copy-mode",
        value_enum,
        default_value_t = Mode::Auto,
        help_heading = "Transfer"
    )]
    pub(crate) mode: Mode,
    /// Delegate a proxy to the server that makes the copy: it acts as you at the other one
    ///
    /// Default: never, or first if XrdSecGSIDELEGPROXY is 1 or 2 (no private key is ever sent).
    /// Without a value: first. The proxy lasts for 12 hours, or as long as your own.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "first",
        conflicts_with = "insecure",
        help_heading = "Transfer",
        verbatim_doc_comment
    )]
    pub(crate) delegate: Option<Delegate>,
    /// Connections per file, 1 to 100 [default: 1, and more where that is faster]
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100),
        help_heading = "Transfer"
    )]
    pub(crate) nbstreams: Option<u32>,
    /// Flow label for network accounting (SciTags), 65 to 65535
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(65..),
        help_heading = "Transfer"
    )]
    pub(crate) scitag: Option<u16>,
    /// Export traces to the collector (OTLP) at this URL [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL", help_heading = "Transfer")]
    pub(crate) traces_to: Option<String>,
    /// Whether the checksums of both sides are compared
    ///
    /// Default: if both sides report one; with -r and sync, a file without one fails if others of
    /// the same servers had one.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Verification")]
    pub(crate) verify: Option<Verify>,
    /// Verify this checksum: adler32, crc32c, md5 or sha-256
    ///
    /// With a value, both sides must have it. Without, they must have the same.
    #[arg(
        short = 'K',
        long,
        value_name = "ALG[:VALUE]",
        value_parser = checksum_wish,
        help_heading = "Verification",
    )]
    pub(crate) checksum: Option<ChecksumWish>,
    /// Whose checksum --checksum verifies
    #[arg(
        long,
        value_name = "SIDE",
        value_enum,
        default_value_t = ChecksumMode::Both,
        help_heading = "Verification"
    )]
    pub(crate) checksum_mode: ChecksumMode,
    /// Whether only the data is asked for.
    #[arg(skip)]
    pub(crate) just_copy: bool,
    /// Whether the destination is `/dev/null`: the data is read, and kept nowhere.
    #[arg(skip)]
    pub(crate) discards: bool,
}

/// The variable with which users of XRootD's client and gfal ask for delegation.
const DELEGATION_VARIABLE: &str = "XrdSecGSIDELEGPROXY";

impl TransferOptions {
    /// Whether the server that makes a copy gets a proxy: as the option says, else the variable of
    /// XRootD's client.
    pub(crate) fn delegation(&self, is_insecure: bool) -> Delegation {
        let variable = std::env::var(DELEGATION_VARIABLE).ok();
        self.delegate
            .map_or_else(|| by_variable(variable.as_deref(), is_insecure), Delegation::from)
    }
}

/// With 2, XRootD's client would send the private key; we sign a proxy. Without verified
/// certificates the variable does not count.
pub(super) fn by_variable(value: Option<&str>, is_insecure: bool) -> Delegation {
    match value {
        Some("1" | "2") if !is_insecure => Delegation::First,
        _ => Delegation::Never,
    }
}

/// Options of `stat`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `mkdir`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MakeDirectoryOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Make missing parents too; accept a directory that exists
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// Permissions in octal, such as 750, where the protocol has them: not over HTTP
    #[arg(short, long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<u16>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `rm`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RemoveOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Remove directories with everything in them
    #[arg(short, short_alias = 'R', long)]
    pub(crate) recursive: bool,
    /// `xrdfs rmdir`: only directories, and only empty ones.
    #[arg(long, conflicts_with = "recursive", hide = true)]
    pub(crate) rmdir: bool,
    #[command(flatten)]
    habits: RemoveHabits,
    /// Print errors only: not what was removed
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// Ignore names that do not exist
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `mv`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenameOptions {
    /// Old name: a URL, NAME:PATH in a named remote, or a local path
    pub(crate) source: String,
    /// New name, on the same server
    pub(crate) destination: String,
    /// Overwrite an existing file
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Parses a time. A number without a unit is seconds, as in gfal's tools.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let plain = text.parse::<u64>().ok().map(Duration::from_secs);
    plain
        .or_else(|| parse_duration(text))
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "not a time such as 1800, 30s or 5m".to_owned())
}

fn rate(text: &str) -> Result<u64, String> {
    let plain = text.strip_suffix("/s").unwrap_or(text);
    Some(size(plain)?)
        .filter(|bytes_s| *bytes_s > 0)
        .ok_or_else(|| "nothing would be copied".to_owned())
}

pub(super) fn algorithm(text: &str) -> Result<ChecksumAlgorithm, String> {
    ChecksumAlgorithm::from_name(text).ok_or_else(|| "not one of adler32, crc32c, md5, sha-256".to_owned())
}

pub(super) fn checksum_wish(text: &str) -> Result<ChecksumWish, String> {
    let Some((name, value)) = text.split_once(':') else {
        return Ok(ChecksumWish {
            algorithm: algorithm(text)?,
            value: None,
        });
    };
    let algorithm = algorithm(name)?;
    let value = Checksum::from_hex(algorithm, value)
        .ok_or_else(|| format!("\"{value}\" is not a hexadecimal {algorithm} value"))?;
    Ok(ChecksumWish {
        algorithm,
        value: Some(value),
    })
}

fn visible(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    plain
        .then(|| text.to_owned())
        .ok_or_else(|| "only printable ASCII characters are allowed".to_owned())
}
