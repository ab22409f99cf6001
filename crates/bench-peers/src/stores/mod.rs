//! Stores on other servers: S3 behind an export, another server behind an export, the cache in
//! front of one, and copies between S3 servers by clients.
//!
//! What stands behind is the same for all: versitygw for S3, Debian's XRootD otherwise. In between
//! are ours, XRootD's proxy (`pss`, with `libXrdPfc` as a cache) and `rclone serve webdav`. All of
//! it is in clear text.

mod fronts;
mod ranges;
mod s3;
mod site;
mod upstream;

use std::collections::{BTreeMap, VecDeque};

use testkit::{Error, Result};

use self::fronts::{Front, Role};
use self::site::Site;
use crate::arguments::Row;
use crate::clients::Program;
use crate::floor::{Floor, Loop, Pass};
use crate::metric::Metric;
use crate::report::Goal;
use crate::server::Kind;
use crate::workload::{Bench, Pair, Sample};

/// Transfers at once when memory is looked at, and readers of one cold file.
const TRANSFERS: u64 = 16;
/// Round-trip time to a store far away.
const RTT_MS: u64 = 100;
/// So many windows are as long as the file: what comes before and after counts little.
const WINDOWS: u64 = 64;

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    S3Get,
    S3Put,
    Dtn,
    /// Over the XRootD protocol on both sides.
    DtnRoot,
    Cached,
}

/// How a store far away is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Upstream {
    Root,
    Http,
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Processor time of the server in between.
    Data(Work),
    /// That of the server behind and of the client, in the same samples.
    Others(Work),
    /// Memory of each transfer.
    Memory(Work),
    Copy,
    Range,
    Readers,
    Far(Upstream),
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::S3Get => "GET http, S3 behind",
            Self::S3Put => "PUT http, S3 behind",
            Self::Dtn => "GET http, XRootD behind",
            Self::DtnRoot => "xrdcp download root, XRootD behind",
            Self::Cached => "GET http, warm cache",
        }
    }

    fn is_s3(self) -> bool {
        matches!(self, Self::S3Get | Self::S3Put)
    }

    fn role(self) -> Role {
        match self {
            Self::S3Get | Self::S3Put => Role::S3,
            Self::Dtn | Self::DtnRoot => Role::Dtn,
            Self::Cached => Role::Cache,
        }
    }
}

impl Figure {
    /// All, in the order of the tables.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for work in [Work::S3Get, Work::S3Put] {
            all.extend([Self::Data(work), Self::Others(work), Self::Memory(work)]);
        }
        all.push(Self::Copy);
        for work in [Work::Dtn, Work::DtnRoot] {
            all.extend([Self::Data(work), Self::Others(work)]);
        }
        all.push(Self::Memory(Work::Dtn));
        all.extend([Self::Data(Work::Cached), Self::Range, Self::Readers]);
        all.extend([Upstream::Root, Upstream::Http].map(Self::Far));
        all
    }

    /// Its name for `--row`.
    pub(crate) fn row(self) -> Row {
        match self {
            Self::Data(work) | Self::Others(work) | Self::Memory(work) => match work {
                Work::S3Get => Row::S3Get,
                Work::S3Put => Row::S3Put,
                Work::Dtn | Work::DtnRoot => Row::Dtn,
                Work::Cached => Row::Cache,
            },
            Self::Copy => Row::S3Copy,
            Self::Range => Row::Range,
            Self::Readers => Row::Readers,
            Self::Far(_) => Row::Far,
        }
    }

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Data(_) => Metric::StoreData,
            Self::Others(_) => Metric::StoreOthers,
            Self::Memory(_) => Metric::StoreMemory,
            Self::Copy => Metric::StoreCopy,
            Self::Range => Metric::StoreRange,
            Self::Readers => Metric::StoreReaders,
            Self::Far(_) => Metric::StoreFar,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Data(work) | Self::Others(work) => work.name().to_owned(),
            Self::Memory(work) => format!("{}, {TRANSFERS} transfers", work.name()),
            Self::Copy => "copy s3, one object between two servers".to_owned(),
            Self::Range => "1 MiB of a cached file, http".to_owned(),
            Self::Readers => format!("{TRANSFERS} readers of a file that is not cached, http"),
            Self::Far(Upstream::Root) => format!("GET http, root behind, {RTT_MS} ms"),
            Self::Far(Upstream::Http) => format!("GET http, http behind, {RTT_MS} ms"),
        }
    }

    /// What is good enough.
    pub(crate) fn goal(self) -> Goal {
        let first = |first| Goal {
            first: Some(first),
            ..Goal::default()
        };
        match self {
            Self::Data(Work::S3Get | Work::S3Put) => Goal {
                floor: Some(1.15),
                ..first(0.5)
            },
            Self::Data(_) => first(0.6),
            Self::Memory(Work::S3Get | Work::S3Put) => first(8.0),
            Self::Others(_) | Self::Memory(_) => Goal::default(),
            Self::Copy => Goal {
                second: Some(0.5),
                ..first(1.0)
            },
            Self::Range => first(1.2),
            Self::Readers => first(1.02),
            Self::Far(_) => first(0.8),
        }
    }

    /// What the server in between cannot do without.
    pub(crate) fn floor(self) -> Option<Floor> {
        match self {
            Self::Data(Work::S3Get | Work::Dtn) => Some(Floor::Pass(Pass { has_checksum: false })),
            Self::Data(Work::S3Put) => Some(Floor::Pass(Pass { has_checksum: true })),
            // The checksums of the cache are of larger pieces, over the same bytes.
            Self::Data(Work::Cached) => Some(Floor::Connections(Loop::SendPages, 1)),
            _ => None,
        }
    }

    /// Whether it is to be measured of `kind`.
    pub(crate) fn concerns(self, kind: Kind) -> bool {
        match self {
            Self::Data(work) | Self::Others(work) | Self::Memory(work) if work.is_s3() => {
                matches!(kind, Kind::Crossload | Kind::Client(Program::Rclone))
            }
            Self::Copy => matches!(kind, Kind::Crossload | Kind::Client(Program::Rclone | Program::Aws)),
            Self::Far(Upstream::Http) => kind == Kind::Crossload,
            _ => kind.is_storage(),
        }
    }

    /// What the files of a sample take in memory at once.
    pub(crate) fn written_bytes(self, size_bytes: u64) -> u64 {
        match self {
            Self::Data(Work::S3Put) | Self::Copy | Self::Data(Work::Cached) => size_bytes,
            Self::Memory(Work::S3Put) => TRANSFERS * memory_bytes(size_bytes),
            _ => 0,
        }
    }
}

/// The length of each transfer when memory is looked at: so long that they overlap.
fn memory_bytes(size_bytes: u64) -> u64 {
    size_bytes / 32
}

/// What the figures depend on.
pub(crate) fn conditions(size_bytes: u64) -> String {
    let mib = size_bytes >> 20;
    format!(
        "One transfer of {mib} MiB in clear text; behind is versitygw for S3, and XRootD 5.5.3 otherwise. CPU is that of the \
         server in between. XRootD is its proxy (`pss`), with its cache (`libXrdPfc`) where there is one; rclone is `rclone \
         serve webdav`, which waits for no `100 Continue`. Memory is what {TRANSFERS} transfers of {} MiB add, for each. Copies between S3 servers: CPU of the \
         client; aws is `aws s3 cp` to a pipe and from it. A warm cache is read {} times. The cold file has {} MiB. With \
         {RTT_MS} ms, {} MiB may be under way on each connection to the server behind.",
        memory_bytes(size_bytes) >> 20,
        upstream::WARM_READS,
        upstream::cold_bytes(size_bytes) >> 20,
        (size_bytes / WINDOWS) >> 20,
    )
}

/// The servers that run, and what was seen beside the rows so far.
#[derive(Default)]
pub(crate) struct Stores {
    site: Option<Site>,
    fronts: BTreeMap<(Kind, Role), Front>,
    /// Samples of [`Figure::Others`] that were taken with those of [`Figure::Data`].
    others: BTreeMap<(Work, Kind), VecDeque<Sample>>,
    /// Counts what gets a name of its own.
    named: u64,
}

impl Stores {
    fn next_name(&mut self, words: &str) -> String {
        self.named += 1;
        format!("{words}-{}", self.named)
    }
}

impl Bench {
    /// A figure of stores; [`Error::Missing`] without a program that it needs.
    pub(crate) fn store(&mut self, kind: Kind, figure: Figure, pair: Option<&mut Pair>) -> Result<Sample> {
        match figure {
            Figure::Data(Work::S3Get) => self.s3_get(kind),
            Figure::Data(Work::S3Put) => self.s3_put(kind),
            Figure::Data(work) => self.through(kind, work),
            Figure::Others(work) => {
                let others = self.stores.others.get_mut(&(work, kind));
                let sample = others.and_then(VecDeque::pop_front);
                sample.ok_or_else(|| Error::Missing(work.name().to_owned()))
            }
            Figure::Memory(work) => self.transfer_memory(kind, work),
            Figure::Copy => self.s3_copy(kind),
            Figure::Range => self.warm_ranges(kind, pair),
            Figure::Readers => self.cold_readers(kind),
            Figure::Far(upstream) => self.far(kind, upstream),
        }
    }

    /// Starts what stands behind.
    fn store_site(&mut self) -> Result<&mut Site> {
        let site = match self.stores.site.take() {
            Some(site) => site,
            None => Site::start(self.size_bytes / WINDOWS)?,
        };
        Ok(self.stores.site.insert(site))
    }

    /// Takes the running server of `kind` out, or starts it; [`Bench::put_front`] puts it back.
    fn front(&mut self, kind: Kind, role: Role) -> Result<Front> {
        if let Some(front) = self.stores.fronts.remove(&(kind, role)) {
            return Ok(front);
        }
        self.store_site()?;
        let site = self.stores.site.as_mut();
        let site = site.ok_or_else(|| Error::Failed("nothing stands behind".to_owned()))?;
        Front::start(&mut self.lab, site, kind, role)
    }

    fn put_front(&mut self, kind: Kind, role: Role, front: Front) {
        self.stores.fronts.insert((kind, role), front);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name() {
        let all = Figure::all();
        let names: std::collections::BTreeSet<String> = all
            .iter()
            .map(|figure| format!("{:?} {}", figure.metric(), figure.name()))
            .collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn clients_are_beside_s3_only() {
        let rclone = Kind::Client(Program::Rclone);
        assert!(Figure::Data(Work::S3Get).concerns(rclone) && Figure::Copy.concerns(rclone));
        assert!(!Figure::Data(Work::Dtn).concerns(rclone) && !Figure::Readers.concerns(rclone));
        assert!(!Figure::Data(Work::S3Put).concerns(Kind::Client(Program::Aws)));
        assert!(!Figure::Data(Work::Dtn).concerns(Kind::Nginx));
    }
}
