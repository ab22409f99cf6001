//! Options of `bench tpc`, `latency` and `vector`.

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

/// The active side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyWay {
    /// The destination fetches from the source
    Pull,
    /// The source sends to the destination
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

/// Options of `bench tpc`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpcOptions {
    /// Measure only these; with the XRootD protocol there is only pull
    #[arg(
        long = "only",
        value_enum,
        value_name = "WAY,...",
        value_delimiter = ',',
        default_value = "pull,push"
    )]
    pub(crate) ways: Vec<CopyWay>,
    /// Copies at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,100", value_parser = many())]
    pub(crate) concurrency: Vec<u32>,
    /// Streams to request per copy; 0 leaves it to the server
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = streams())]
    pub(crate) streams: Vec<u32>,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Number of different files to copy
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) files: u32,
    /// Length of each sample; copies that run at its end are completed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl TpcOptions {
    /// In the type of the load.
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

/// The direction of a transfer over a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineWay {
    /// Downloads
    Get,
    /// Uploads
    Put,
    /// The destination fetches from the source
    Pull,
    /// The source sends to the destination
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
    /// Measure only these
    ///
    /// pull and push take the targets in pairs. The servers must run on this machine.
    #[arg(
        long = "only",
        value_enum,
        value_name = "WAY,...",
        value_delimiter = ',',
        default_value = "get,put"
    )]
    pub(crate) ways: Vec<LineWay>,
    /// Round-trip times to add, in milliseconds
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0,10,30,100,300", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) rtt: Vec<u32>,
    /// Streams, one connection each; with pull and push 0 leaves it to the server
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,10", value_parser = streams())]
    pub(crate) streams: Vec<u32>,
    /// Bytes per sample, such as 256MiB
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Most bytes in flight per connection and direction
    ///
    /// - a size, such as 4MiB
    /// - buffers: as this machine's socket buffers allow
    /// - none: no limit
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "buffers",
        value_parser = window,
        verbatim_doc_comment
    )]
    pub(crate) window: Window,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl LatencyOptions {
    /// Whether copies between servers are measured, which needs pairs of targets.
    pub(crate) fn has_copies(&self) -> bool {
        self.ways.iter().any(|way| way.is_copy())
    }

    /// In the type of the load.
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
    /// Read the pieces that this file lists [default: like an analysis of a ROOT file]
    ///
    /// Each line is "offset length" in bytes. An empty line ends a request.
    #[arg(long, value_name = "FILE")]
    pub(crate) pattern: Option<PathBuf>,
    /// Pieces per request [default: those of the pattern, or 64]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pieces: Option<u32>,
    /// Connections that send requests at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Size of the file to read, without --pattern
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Length of each sample
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl VectorOptions {
    /// In the type of the load.
    pub(crate) fn load(&self, pattern: Pattern) -> Vector {
        Vector {
            pattern,
            connections: self.connections.clone(),
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}

/// Parses a number of streams, up to what servers accept.
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
