//! Options of the loads of `bench` that are about copies between servers, long lines, and vector reads.

use std::path::PathBuf;
use std::time::Duration;

use bench::load::latency::{Latency, Way, Window};
use bench::load::third_party::Pair;
use bench::load::tpc::Tpc;
use bench::load::vector::{Pattern, Vector};
use clap::{Args, ValueEnum};
use remote::Direction;

use super::bench::{BenchCommon, many, positive_size};
use super::client::time;
use super::server::size;

/// Who makes a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyWay {
    /// The destination fetches
    Pull,
    /// The source sends
    Push,
}

impl CopyWay {
    fn direction(self) -> Direction {
        match self {
            Self::Pull => Direction::Pull,
            Self::Push => Direction::Push,
        }
    }
}

/// Options of `bench tpc`. The targets are pairs: copies go from the first to the second, from the third to the fourth.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpcOptions {
    /// Ways to measure; servers of the XRootD protocol only fetch
    #[arg(
        long = "only",
        value_enum,
        value_name = "WAY,...",
        value_delimiter = ',',
        default_value = "pull,push"
    )]
    pub(crate) ways: Vec<CopyWay>,
    /// Copies that are under way at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,100", value_parser = many())]
    pub(crate) concurrency: Vec<u32>,
    /// Streams that each copy is asked to take; 0 leaves it to the server
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = streams())]
    pub(crate) streams: Vec<u32>,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// How many different files are copied
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) files: u32,
    /// For how long each sample begins new copies
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl TpcOptions {
    /// As the load takes them.
    pub(crate) fn load(&self, pairs: Vec<Pair>) -> Tpc {
        Tpc {
            pairs,
            ways: self.ways.iter().map(|way| way.direction()).collect(),
            concurrency: self.concurrency.clone(),
            streams: self.streams.clone(),
            size_bytes: self.size,
            files: self.files,
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}

/// Which way bytes go over a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineWay {
    /// From a server to this client
    Get,
    /// From this client to a server
    Put,
    /// From the first of two servers to the second, which fetches
    Pull,
    /// From the first of two servers, which sends, to the second
    Push,
}

impl LineWay {
    fn is_copy(self) -> bool {
        matches!(self, Self::Pull | Self::Push)
    }
}

/// Options of `bench latency`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LatencyOptions {
    /// Ways to measure; pull and push take the targets in pairs, which must be on this machine
    #[arg(
        long = "only",
        value_enum,
        value_name = "WAY,...",
        value_delimiter = ',',
        default_value = "get,put"
    )]
    pub(crate) ways: Vec<LineWay>,
    /// Round-trip times that are added, in milliseconds
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0,10,30,100,300", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) rtt: Vec<u32>,
    /// Streams, each a connection; for pull and push 0 leaves it to the server
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,10", value_parser = streams())]
    pub(crate) streams: Vec<u32>,
    /// What a sample moves, such as 256MiB
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// What may be under way on a connection in each direction: a size, "none" for no bounds, or "buffers" for what this
    /// machine's socket buffers allow
    #[arg(long, value_name = "SIZE", default_value = "buffers", value_parser = window)]
    pub(crate) window: Window,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl LatencyOptions {
    /// Whether servers are to copy, for which there must be pairs of them.
    pub(crate) fn has_copies(&self) -> bool {
        self.ways.iter().any(|way| way.is_copy())
    }

    /// As the load takes them.
    pub(crate) fn load(&self, pairs: Vec<Pair>) -> Latency {
        let way = |way: &LineWay| match way {
            LineWay::Get => Way::Get,
            LineWay::Put => Way::Put,
            LineWay::Pull => Way::Copy(Direction::Pull),
            LineWay::Push => Way::Copy(Direction::Push),
        };
        Latency {
            ways: self.ways.iter().map(way).collect(),
            pairs,
            rtts: self
                .rtt
                .iter()
                .map(|ms| Duration::from_millis(u64::from(*ms)))
                .collect(),
            streams: self.streams.clone(),
            size_bytes: self.size,
            window: self.window,
            repetitions: self.common.repetitions,
        }
    }
}

/// Options of `bench vector`.
#[derive(Clone, Debug, Args)]
pub(crate) struct VectorOptions {
    /// Read these pieces: a file with "offset length" in each line, and an empty line behind each request [default: a
    /// pattern like that of an analysis of a ROOT file]
    #[arg(long, value_name = "FILE")]
    pub(crate) pattern: Option<PathBuf>,
    /// Pieces in each request [default: as the pattern has them, or 64]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pieces: Option<u32>,
    /// Connections that read at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Size of the file, without --pattern
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// For how long each sample begins new requests
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl VectorOptions {
    /// As the load takes them.
    pub(crate) fn load(&self, pattern: Pattern) -> Vector {
        Vector {
            pattern,
            connections: self.connections.clone(),
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}

/// A number of streams: more than servers take is not asked for.
fn streams() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=100)
}

fn window(text: &str) -> Result<Window, String> {
    match text {
        "buffers" => Ok(Window::Buffers),
        "none" => Ok(Window::Unlimited),
        text => match size(text) {
            Ok(bytes) if bytes > 0 => Ok(Window::Bytes(bytes)),
            _ => Err("not a size such as 4MiB, nor none or buffers".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_size_or_one_of_two_words() {
        assert_eq!(window("4MiB"), Ok(Window::Bytes(4 << 20)));
        assert_eq!(
            (window("buffers"), window("none")),
            (Ok(Window::Buffers), Ok(Window::Unlimited))
        );
        assert!(window("0").is_err() && window("wide").is_err());
    }
}
