//! Options of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use bench::load::bulk::{Bulk, Way};
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::bench_files::{MetadataOptions, MixedOptions, OverwriteOptions, TlsOptions};
use super::bench_transfers::{LatencyOptions, TpcOptions, VectorOptions};
use super::client::{Access, time};
use super::server::size;

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchLoad {
    /// Large files: throughput against connections and streams
    Bulk(BulkOptions),
    /// Many small questions: stat over each protocol in its own ways, and listing a directory
    Metadata(MetadataOptions),
    /// Small questions beside large downloads and uploads: how long they wait, against how many of these there are
    Mixed(MixedOptions),
    /// Writing over existing files against writing new ones
    Overwrite(OverwriteOptions),
    /// What encryption costs: each cipher suite beside clear text, and connections made in a second
    Tls(TlsOptions),
    /// Third-party copies from the first of two targets to the second: throughput against how many are under way
    Tpc(TpcOptions),
    /// Long lines: throughput against round-trip time and streams, with a relay that delays
    Latency(LatencyOptions),
    /// Many small pieces in each request, as an analysis reads them
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
            Self::Vector(options) => &options.common,
        }
    }
}

/// Options that all loads have.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchCommon {
    /// Directories to measure, in which a directory for the run is made and removed again; URLs with the same NAME are one
    /// server over several protocols [default NAME: the URL's host and port]
    #[arg(required = true, value_name = "[NAME=]URL", value_parser = named)]
    pub(crate) targets: Vec<Named>,
    /// Read this file instead of one that is uploaded, at the target of the same scheme, host and port
    #[arg(long, value_name = "URL")]
    pub(crate) file: Vec<String>,
    /// A server's process on this machine, for its processor time and to tell it from what disturbs; children belong to it
    #[arg(long = "pid", value_name = "[NAME=]PID", value_parser = process)]
    pub(crate) processes: Vec<Process>,
    /// How often each case is measured
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repetitions: u32,
    /// Write the report to this file as JSON, which --compare reads
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write all figures to this file as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the report to this file as a page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Put an earlier run beside this one: a file of --json
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// End after this time, in seconds or as 30s, 5m, 2h, with what has been measured
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Say nothing while measuring
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// A URL, and what its server is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: Option<String>,
    pub(crate) url: String,
}

/// A process, and which server it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: Option<String>,
    pub(crate) id: u32,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// From the server
    Get,
    /// To the server
    Put,
}

/// The option of loads that go both ways.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ways {
    /// Ways in which files are moved
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
    /// As loads take them.
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
    /// Files that are under way at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Ranges on connections of their own in which each file is read
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = many())]
    pub(crate) streams: Vec<u32>,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// What a sample moves at the least: few connections take several files one after the other
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = positive_size)]
    pub(crate) volume: u64,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl BulkOptions {
    /// As the load takes them.
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

/// A number of connections or streams: beyond, the client would be measured.
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
    // A name has no slash; what has one is the beginning of a URL with "=" in it.
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
    let id = id
        .parse()
        .map_err(|_| format!("\"{id}\" is not the number of a process"))?;
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
