//! Options of `bench metadata`, `mixed`, `overwrite` and `tls`.

use std::time::Duration;

use bench::load::metadata::Metadata;
use bench::load::mixed::Mixed;
use bench::load::overwrite::Overwrite;
use bench::load::redirector::Redirected;
use bench::load::tls::Tls;
use clap::Args;

use super::bench::{BenchCommon, Ways, many, positive_size};
use super::client::time;

/// Options of `bench metadata`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MetadataOptions {
    /// Files to make and to ask about
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) files: u32,
    /// Use the files that are in the targets, and make none
    #[arg(long)]
    pub(crate) existing: bool,
    /// Connections that send requests at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,16,64", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Length of each sample
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl MetadataOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Metadata {
        Metadata {
            files: self.files,
            connections: self.connections.clone(),
            duration: self.during,
            repetitions: self.common.repetitions,
            existing: self.existing,
        }
    }
}

/// Options of `bench redirector`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RedirectedOptions {
    /// Files to make and to read
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) files: u32,
    /// Size of each file, such as 10KiB
    #[arg(short, long, value_name = "SIZE", default_value = "10KiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Clients at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Length of each sample
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl RedirectedOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Redirected {
        Redirected {
            files: self.files,
            size_bytes: self.size,
            clients: self.connections.clone(),
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}

/// Options of `bench mixed`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MixedOptions {
    #[command(flatten)]
    pub(crate) ways: Ways,
    /// Transfers beside the requests, one connection each; 0 is a server at rest
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "0,1,16,64", value_parser = clap::value_parser!(u32).range(..=4096))]
    pub(crate) connections: Vec<u32>,
    /// Size of each file, such as 1GiB
    ///
    /// Uploads are smaller where they would take more than 2 GiB together.
    #[arg(
        short,
        long,
        value_name = "SIZE",
        default_value = "256MiB",
        value_parser = positive_size,
    )]
    pub(crate) size: u64,
    /// Length of each sample
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl MixedOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Mixed {
        Mixed {
            ways: self.ways.list(),
            transfers: self.connections.clone(),
            size_bytes: self.size,
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}

/// Options of `bench overwrite`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverwriteOptions {
    /// Files in transfer at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Files per connection
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) files: u32,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl OverwriteOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Overwrite {
        Overwrite {
            connections: self.connections.clone(),
            files: self.files,
            size_bytes: self.size,
            repetitions: self.common.repetitions,
        }
    }
}

/// Options of `bench tls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsOptions {
    /// Files in transfer at the same time
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = many())]
    pub(crate) connections: Vec<u32>,
    /// Size of each file, such as 1GiB
    #[arg(short, long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    pub(crate) size: u64,
    /// Least bytes per sample; few connections move several files each
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = positive_size)]
    pub(crate) volume: u64,
    /// Clients that open new connections at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = many())]
    pub(crate) clients: u32,
    /// Length of each sample of new connections
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) during: Duration,
    #[command(flatten)]
    pub(crate) common: BenchCommon,
}

impl TlsOptions {
    /// In the type of the load.
    pub(crate) fn load(&self) -> Tls {
        Tls {
            connections: self.connections.clone(),
            size_bytes: self.size,
            volume_bytes: self.volume,
            clients: self.clients,
            duration: self.during,
            repetitions: self.common.repetitions,
        }
    }
}
