//! Options of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use bench::load::bulk::{Bulk, Way};
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::bench_files::{MetadataOptions, MixedOptions, OverwriteOptions, RedirectedOptions, TlsOptions};
use super::bench_transfers::{LatencyOptions, TpcOptions, VectorOptions};
use super::client::{Access, time};
use super::server::size;

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchLoad {
    /// Throughput of large files, by connections and streams
    Bulk(BulkOptions),
    /// Rate of small requests: stat over each protocol, and listings
    Metadata(MetadataOptions),
    /// Latency of small requests beside large downloads and uploads
    Mixed(MixedOptions),
    /// Overwriting existing files compared with writing new ones
    Overwrite(OverwriteOptions),
    /// Cost of encryption by cipher suite, and new connections per second
    Tls(TlsOptions),
    /// Throughput of third-party copies, by the number at once
    Tpc(TpcOptions),
    /// Throughput by round-trip time and streams, through a relay that delays
    Latency(LatencyOptions),
    /// Small files through a redirector and directly, and names that do not exist
    Redirector(RedirectedOptions),
    /// Vector reads: many small pieces per request, as an analysis reads them
    Vector(VectorOptions),
}

impl BenchLoad {
    /// Its name on the command line and in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Bulk(_) => "bulk",
            Self::Metadata(_) => "metadata",
            Self::Mixed(_) => "mixed",
            Self::Overwrite(_) => "overwrite",
            Self::Tls(_) => "tls",
            Self::Tpc(_) => "tpc",
            Self::Latency(_) => "latency",
            Self::Redirector(_) => "redirector",
            Self::Vector(_) => "vector",
        }
    }

    /// The options that all loads have.
    pub(crate) fn common(&self) -> &BenchCommon {
        match self {
            Self::Bulk(options) => &options.common,
            Self::Metadata(options) => &options.common,
            Self::Mixed(options) => &options.common,
            Self::Overwrite(options) => &options.common,
            Self::Tls(options) => &options.common,
            Self::Tpc(options) => &options.common,
            Self::Latency(options) => &options.common,
            Self::Redirector(options) => &options.common,
            Self::Vector(options) => &options.common,
        }
    }
}

/// Options that all loads have.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of all loads")]
pub(crate) struct BenchCommon {
    /// Directories to measure, where you may write
    ///
    /// Each run makes a directory of its own in them, and removes it at the end. URLs with the
    /// same NAME are one server over several protocols. Default NAME: host and port of the URL.
    #[arg(
        required = true,
        value_name = "[NAME=]URL",
        value_parser = named,
        help_heading = None,
    )]
    pub(crate) targets: Vec<Named>,
    /// Read this file instead of uploading one; can be repeated
    ///
    /// It counts for the target with the same scheme, host and port.
    #[arg(long, value_name = "URL")]
    pub(crate) file: Vec<String>,
    /// Measure the processor time of this process and its children
    ///
    /// The server NAME runs as this process on this machine. Without it, the run takes the
    /// server for a disturbance.
    #[arg(
        long = "pid",
        value_name = "[NAME=]PID",
        value_parser = process,
    )]
    pub(crate) processes: Vec<Process>,
    /// Samples per figure
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repetitions: u32,
    /// Write the report to this file as JSON, for --compare
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) json: Option<PathBuf>,
    /// Write all figures to this file as CSV
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with tables and plots to this file
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) html: Option<PathBuf>,
    /// Compare with an earlier run: a file that --json wrote
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) compare: Option<PathBuf>,
    /// End after this time with what is measured, in seconds or as 30s, 5m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Print no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print details, such as which credential is sent; -vv: requests and answers, without secrets
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// A URL, and the name of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: Option<String>,
    pub(crate) url: String,
}

/// A process, and the name of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: Option<String>,
    pub(crate) id: u32,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// Downloads
    Get,
    /// Uploads
    Put,
}

/// The option of loads with downloads and uploads.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ways {
    /// Measure only these
    #[arg(
        long,
        value_enum,
        value_name = "WAY,...",
        value_delimiter = ',',
        default_value = "get,put"
    )]
    only: Vec<Direction>,
}

impl Ways {
    /// In the type of the loads.
    pub(super) fn list(&self) -> Vec<Way> {
        let way = |way: &Direction| match way {
            Direction::Get => Way::Get,
            Direction::Put => Way::Put,
        };
        self.only.iter().map(way).collect()
    }
}

/// Options of `bench bulk`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BulkOptions {
    #[command(flatten)]
    pub(crate) ways: Ways,
    /// Files in transfer at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Ranges per file, each on a connection of its own
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = many())]
    pub(crate) streams: Vec<u32>,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Least bytes per sample; few connections move several files each
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = positive_size)]
    pub(crate) volume: u64,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl BulkOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Bulk {
        Bulk {
            ways: self.ways.list(),
            connections: self.connections.clone(),
            streams: self.streams.clone(),
            size_bytes: self.size,
            volume_bytes: self.volume,
            repetitions: self.common.repetitions,
        }
    }
}

/// Parses a number of connections or streams. With more, the client would be the limit.
pub(super) fn many() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}

pub(super) fn positive_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("at least one byte is needed".to_owned()),
        size => Ok(size),
    }
}

fn named(text: &str) -> Result<Named, String> {
    // A name has no slash. Text with a slash is the beginning of a URL that contains "=".
    Ok(match text.split_once('=').filter(|(name, _)| !name.contains('/')) {
        Some(("", _)) => return Err("the name before = is empty".to_owned()),
        Some((name, url)) => Named {
            name: Some(name.to_owned()),
            url: url.to_owned(),
        },
        None => Named {
            name: None,
            url: text.to_owned(),
        },
    })
}

fn process(text: &str) -> Result<Process, String> {
    let (name, id) = match text.split_once('=') {
        Some((name, id)) => (Some(name.to_owned()), id),
        None => (None, text),
    };
    let id = id.parse().map_err(|_| format!("\"{id}\" is not a process ID"))?;
    Ok(Process { name, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_urls_and_processes() {
        let of = |text: &str| named(text).map(|named| (named.name, named.url));
        let name = |text: &str| Some(text.to_owned());
        assert_eq!(of("se=https://a/b"), Ok((name("se"), "https://a/b".to_owned())));
        assert_eq!(of("https://a/b?x=y"), Ok((None, "https://a/b?x=y".to_owned())));
        assert!(of("=https://a").is_err());
        assert_eq!(
            process("se=12"),
            Ok(Process {
                name: name("se"),
                id: 12
            })
        );
        assert_eq!(process("12").map(|process| process.name), Ok(None));
        assert!(process("se=all").is_err());
    }
}
