//! Options of `queue submit`. Those of `fts-rest-transfer-submit` keep their names and letters.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::QueueCommon;
use crate::command_line::client::time;

/// On which sides a checksum is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumSides {
    /// None
    None,
    /// The source, before the copy
    Source,
    /// The destination, after the copy
    #[value(alias = "destination")]
    Target,
    /// Both
    Both,
}

impl ChecksumSides {
    /// The word in FTS's API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Source => "source",
            Self::Target => "target",
            Self::Both => "both",
        }
    }
}

/// Options of `queue submit`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueSubmitOptions {
    /// URL to copy from
    #[arg(required_unless_present = "file", requires = "destination")]
    pub(crate) source: Option<String>,
    /// URL to copy to
    pub(crate) destination: Option<String>,
    /// Checksum of the file, such as adler32:1a2b3c4d
    pub(crate) checksum: Option<String>,
    /// Read the files from here; - is standard input
    ///
    /// Either the JSON of FTS's client (files, and params if need be), or lines with source,
    /// destination and perhaps a checksum, separated by blanks.
    #[arg(short, long, value_name = "FILE", conflicts_with = "source")]
    pub(crate) file: Option<PathBuf>,
    /// Wait until all jobs end; exit code 1 if a file was not copied
    #[arg(short, long)]
    pub(crate) blocking: bool,
    /// Time between two looks at a job with --blocking [default: 0.5 s, growing to 30 s]
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) interval: Option<Duration>,
    /// Export traces to the collector (OTLP) at this URL [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub(crate) traces_to: Option<String>,
    /// Only print the jobs as JSON; tokens are left out
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Files of a job at most, with --file
    #[arg(
        long,
        value_name = "N",
        default_value_t = crate::limits::QUEUE_FILES_PER_JOB,
        value_parser = crate::command_line::queue::submit::files_per_job
    )]
    pub(crate) files_per_job: usize,
    /// Name of the submission: a second one of the same name makes no second job
    ///
    /// Default: a random name, so that a lost answer makes no second job.
    #[arg(long, alias = "sid", value_name = "NAME")]
    pub(crate) submission_id: Option<String>,
    /// Overwrite existing files
    #[arg(short, long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) files: FileOptions,
    #[command(flatten)]
    pub(crate) job: JobOptions,
    #[command(flatten)]
    pub(crate) tape: TapeOptions,
    #[command(flatten)]
    pub(crate) tokens: TokenOptions,
    #[command(flatten)]
    pub(crate) ignored: IgnoredOptions,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `fts-rest-transfer-submit` that change nothing here.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of FTS's client")]
pub(crate) struct IgnoredOptions {
    /// Minutes that a delegated proxy lasts
    #[arg(short, long, value_name = "MINUTES", hide = true)]
    expire: Option<u32>,
    /// Parameters of GridFTP
    #[arg(short, long, value_name = "TEXT", hide = true)]
    gparam: Option<String>,
    /// Where the queue has the keys of cloud storages
    #[arg(long, value_name = "NAME", hide = true)]
    cloud_credentials: Option<String>,
    /// Fail if the source is on tape only
    #[arg(long, hide = true)]
    fail_nearline: bool,
}

impl IgnoredOptions {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            (self.expire.is_some(), "--expire"),
            (self.gparam.is_some(), "--gparam"),
            (self.cloud_credentials.is_some(), "--cloud-credentials"),
            (self.fail_nearline, "--fail-nearline"),
        ];
        all.into_iter()
            .filter(|(is_given, _)| *is_given)
            .map(|(_, name)| name)
            .collect()
    }
}

/// What holds for each file that says nothing else.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileOptions {
    /// Another URL of the source, tried if the first fails; can be repeated
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "via"])]
    pub(crate) replica: Vec<String>,
    /// Copy by way of this URL; can be repeated
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    pub(crate) via: Vec<String>,
    /// Compare this checksum: the algorithm alone compares source and destination
    #[arg(long = "checksum", value_name = "ALG[:VALUE]", id = "checksum_option")]
    pub(crate) checksum: Option<String>,
    /// Compare checksums on both sides
    #[arg(short = 'K', long)]
    pub(crate) compare_checksum: bool,
    /// On which sides checksums are compared
    #[arg(
        short = 'C',
        long,
        value_name = "SIDE",
        value_enum,
        conflicts_with = "compare_checksum"
    )]
    pub(crate) checksum_mode: Option<ChecksumSides>,
    /// Size of the file, in bytes
    #[arg(long, visible_alias = "filesize", value_name = "BYTES")]
    pub(crate) file_size: Option<u64>,
    /// Text or JSON that is kept with each file
    #[arg(long, value_name = "TEXT")]
    pub(crate) file_metadata: Option<String>,
    /// Activity whose share of the link is used
    #[arg(long = "activity", value_name = "NAME")]
    pub(crate) activity: Option<String>,
    /// Flow label for network accounting (SciTags)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(65..))]
    pub(crate) scitag: Option<u16>,
}

/// What holds for a whole job.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobOptions {
    /// Overwrite when an attempt follows a failed one
    #[arg(long)]
    pub(crate) overwrite_on_retry: bool,
    /// Overwrite at intermediate storages
    #[arg(long)]
    pub(crate) overwrite_hop: bool,
    /// Overwrite a file that is on disk and not on tape; needs --archive-timeout
    #[arg(long)]
    pub(crate) overwrite_when_only_on_disk: bool,
    /// The files are one chain: each copy begins when the one before has ended
    #[arg(short, long, alias = "multihop")]
    pub(crate) multi_hop: bool,
    /// All files are between the same two storages, over one session
    #[arg(short, long)]
    pub(crate) reuse: bool,
    /// Further attempts after a passing error; -1 is none, 0 leaves it to the queue [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) retry: Option<i32>,
    /// Time between two attempts, in seconds or as 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) retry_delay: Option<u32>,
    /// Priority within the link, 1 (last) to 5 (first) [default: 3]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// Time that a copy may take, in seconds or as 30s, 10m, 2h [default: by its size]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) timeout: Option<u32>,
    /// Time that a file may wait, in hours or as 90s, 30m, 12h, 2d
    #[arg(long, value_name = "TIME")]
    pub(crate) max_time_in_queue: Option<String>,
    /// Text or JSON that is kept with the job
    #[arg(long, value_name = "TEXT")]
    pub(crate) job_metadata: Option<String>,
    /// Streams of each copy
    #[arg(long, value_name = "N")]
    pub(crate) nostreams: Option<u32>,
    /// TCP buffer of each stream, in bytes
    #[arg(long, alias = "buff-size", value_name = "BYTES")]
    pub(crate) buffer_size: Option<u64>,
    /// Copy only: no check before or after
    #[arg(long)]
    pub(crate) strict_copy: bool,
    /// Leave what a failed copy has stored
    #[arg(long)]
    pub(crate) disable_cleanup: bool,
    /// Use IPv4 only
    #[arg(long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Use path-style URLs of S3
    #[arg(long)]
    pub(crate) s3alternate: bool,
}

/// Tape and space tokens.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Tape and space")]
pub(crate) struct TapeOptions {
    /// Stage the source from tape within this time, in seconds or as 10m, 2h, 1d
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = signed_seconds)]
    pub(crate) bring_online: Option<i64>,
    /// Keep the staged file on disk for this time, in seconds or as 10m, 2h, 1d
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = signed_seconds)]
    pub(crate) copy_pin_lifetime: Option<i64>,
    /// Wait for this time until the destination is on tape, in seconds or as 10m, 2h, 1d
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = signed_seconds)]
    pub(crate) archive_timeout: Option<i64>,
    /// Report on a destination that exists
    #[arg(long)]
    pub(crate) dst_file_report: bool,
    /// Text or JSON for the tape system of the source
    #[arg(long, value_name = "TEXT")]
    pub(crate) staging_metadata: Option<String>,
    /// Text or JSON for the tape system of the destination
    #[arg(long, value_name = "TEXT")]
    pub(crate) archive_metadata: Option<String>,
    /// Space token at the destination
    #[arg(short = 't', long, value_name = "TOKEN")]
    pub(crate) destination_spacetoken: Option<String>,
    /// Space token at the source
    #[arg(short = 'S', long, value_name = "TOKEN")]
    pub(crate) source_spacetoken: Option<String>,
}

/// Credentials for the storages.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Credentials for the storages")]
pub(crate) struct TokenOptions {
    /// Token for the source [default: that of --token-file, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) source_token_file: Option<PathBuf>,
    /// Token for the destination [default: that of --token-file, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) destination_token_file: Option<PathBuf>,
    /// Token for the source; others see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "source_token_file")]
    pub(crate) src_access_token: Option<String>,
    /// Token for the destination; others see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "destination_token_file")]
    pub(crate) dst_access_token: Option<String>,
    /// The queue uses tokens as they are, and renews none
    #[arg(long)]
    pub(crate) unmanaged_tokens: bool,
    /// Delegate a proxy if that at the queue lasts for fewer minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 120)]
    pub(crate) delegate_when_lifetime_lt: u32,
}

/// Reads a time as whole seconds.
fn seconds(text: &str) -> Result<u32, String> {
    signed_seconds(text).and_then(|seconds| {
        let fits = u32::try_from(seconds);
        fits.map_err(|_| format!("from 0 to {} seconds", u32::MAX))
    })
}

/// The same, where a negative number means something: FTS's client has -1 for "none".
fn signed_seconds(text: &str) -> Result<i64, String> {
    let plain = text.parse().ok();
    let written = || config::parse_duration(text).and_then(|time| i64::try_from(time.as_secs()).ok());
    plain
        .or_else(written)
        .ok_or_else(|| "not a time in seconds, or such as 30s, 10m, 2h".to_owned())
}

/// Reads how many files a job may have.
pub(crate) fn files_per_job(text: &str) -> Result<usize, String> {
    let count = text.parse().map_err(|_| "not a number".to_owned())?;
    match count {
        1..=door_queue::limits::JOB_FILES_MAX => Ok(count),
        _ => Err(format!("1 to {}", door_queue::limits::JOB_FILES_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        assert_eq!(
            (seconds("600"), seconds("1h"), signed_seconds("-1")),
            (Ok(600), Ok(3600), Ok(-1))
        );
        for bad in ["x", "1y", ""] {
            assert!(seconds(bad).unwrap_err().contains("10m"), "{bad}");
        }
        assert!(seconds("-1").is_err());
    }
}
