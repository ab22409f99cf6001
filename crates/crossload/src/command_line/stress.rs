//! Options of `stress`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use history::Mode;
use probe::mesh::{Protocol, Topology, mode};

use super::client::{Common, time};
use super::mesh::{ResultOptions, topology};
use super::server::size;

/// Options of `stress`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StressOptions {
    /// File of endpoints, as `crossload mesh --init` prints one
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Copies that begin on each link in the time of --per
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) copies: u32,
    /// Time for these copies
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) per: Duration,
    /// Size of a file, such as 4GB
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = size)]
    pub(crate) size: u64,
    /// Time in which the rate grows from nothing
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time_or_none)]
    pub(crate) ramp: Duration,
    /// Time at the full rate
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) hold: Duration,
    /// Begin no copy with which more bytes than this would be copied
    #[arg(long, value_name = "SIZE", value_parser = size_above_zero, help_heading = "Limits")]
    pub(crate) max_bytes: Option<u64>,
    /// Begin no copy after so many failures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub(crate) max_failures: Option<u64>,
    /// Copies under way at the same time [default: that of the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Limits")]
    pub(crate) parallel: Option<u32>,
    /// Copies under way with one endpoint [default: that of the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Limits")]
    pub(crate) parallel_each: Option<u32>,
    /// Which pairs to load: full, star:NAME, ring, sample:N
    #[arg(long, value_name = "PAIRS", default_value = "full", value_parser = topology)]
    pub(crate) topology: Topology,
    /// Copy only in these protocols: http, root, s3 [default: those of the file]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = Protocol::from_name)]
    pub(crate) protocol: Vec<Protocol>,
    /// Copy only in these ways: pull, push, rendezvous, lite, streamed
    #[arg(
        long,
        value_name = "MODE,...",
        value_delimiter = ',',
        value_parser = mode,
        default_value = "pull,rendezvous"
    )]
    pub(crate) mode: Vec<Mode>,
    /// Load only links from or to the endpoints with these names or tags
    #[arg(long, value_name = "NAME|TAG,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Print what would be moved
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) results: ResultOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A size with which a copy can begin.
fn size_above_zero(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("with 0 bytes no copy begins".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A time that may be zero.
fn time_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        text => time(text),
    }
}
