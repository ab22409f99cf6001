//! Clusters: a redirector in front of three data servers, ours and those of XRootD.
//!
//! The clients are the benchmark's own, the same for all: they keep their connections open, go
//! where they are sent, and wait as long as the server says. All of it is in clear text. XRootD's
//! redirector is two processes, `xrootd` and `cmsd`; both count.

mod http;
mod load;
mod root;
mod site;

use std::collections::BTreeMap;

use testkit::{Error, Result};

use self::load::Load;
use self::site::{NODES, Site, Start};
use crate::floor::{Answers, Floor};
use crate::metric::Metric;
use crate::progress;
use crate::report::Goal;
use crate::server::Kind;
use crate::workload::{Bench, Sample};

pub(crate) use self::load::{CONNECTIONS, THREADS};

/// Files that a redirector knows when its memory is measured.
const KNOWN_FILES: usize = 100_000;
/// Clients that read small files at once.
const READERS: usize = 4;
/// Size of a small file.
const SMALL_BYTES: u64 = 10 << 10;
/// How many of them are read, over and over.
const SMALL_FILES: usize = 96;
/// Most names of a sample that are new to the redirector.
const NEW_NAMES: usize = 1000;

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Root,
    Http,
}

impl Protocol {
    pub(crate) const BOTH: [Self; 2] = [Self::Root, Self::Http];

    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Http => "http",
        }
    }

    /// Questions about as long as the benchmark's, and answers about as long as ours.
    fn answers(self) -> Answers {
        let (request_bytes, answer_bytes) = match self {
            Self::Root => (64, 32),
            Self::Http => (96, 256),
        };
        Answers {
            request_bytes,
            answer_bytes,
            connections: 1,
            threads: 1,
            seconds: 1,
        }
    }
}

/// A figure of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The redirection of an open, of files that the redirector knows.
    KnownRedirect,
    /// The whole open, and close.
    KnownOpen,
    /// The redirection of an open, of files that it was never asked for.
    NewRedirect,
    /// The whole open, and close.
    NewOpen,
    /// The answer for names that do not exist.
    Missing,
    /// As many redirections as there can be.
    Redirects(Protocol),
    /// Small files that are read.
    Reads(Protocol),
    /// A large file that is stored.
    Upload(Protocol),
    /// Memory with many known files.
    Memory,
}

impl Figure {
    /// All, in the order of the tables.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![
            Self::KnownRedirect,
            Self::KnownOpen,
            Self::NewRedirect,
            Self::NewOpen,
            Self::Missing,
        ];
        all.extend(Protocol::BOTH.map(Self::Redirects));
        all.extend(Protocol::BOTH.map(Self::Reads));
        all.extend(Protocol::BOTH.map(Self::Upload));
        all.push(Self::Memory);
        all
    }

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::KnownRedirect | Self::KnownOpen | Self::NewRedirect | Self::NewOpen | Self::Missing => {
                Metric::ClusterTime
            }
            Self::Redirects(_) => Metric::ClusterRedirects,
            Self::Reads(_) => Metric::ClusterShare,
            Self::Upload(_) => Metric::ClusterUpload,
            Self::Memory => Metric::ClusterMemory,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::KnownRedirect => "open root, known file, until the redirection".to_owned(),
            Self::KnownOpen => "open and close root, known file".to_owned(),
            Self::NewRedirect => "open root, never asked before, until the redirection".to_owned(),
            Self::NewOpen => "open and close root, never asked before".to_owned(),
            Self::Missing => "open root, no such file".to_owned(),
            Self::Redirects(protocol) => format!("{}, known files", protocol.name()),
            Self::Reads(protocol) => {
                format!(
                    "files of {} KiB, {}, {READERS} clients",
                    SMALL_BYTES >> 10,
                    protocol.name()
                )
            }
            Self::Upload(protocol) => format!("upload {}", protocol.name()),
            Self::Memory => format!("{} 000 known files", KNOWN_FILES / 1000),
        }
    }

    /// What is good enough.
    pub(crate) fn goal(self) -> Goal {
        let first = match self {
            Self::KnownRedirect => Some(0.3),
            Self::NewRedirect | Self::Missing => Some(2.0),
            Self::Redirects(_) => Some(20_000.0),
            Self::Reads(_) => Some(0.7),
            Self::Upload(_) => Some(0.97),
            Self::KnownOpen | Self::NewOpen | Self::Memory => None,
        };
        Goal {
            first,
            ..Goal::default()
        }
    }

    /// What no redirector can do without. That of reading is [`Bench::cluster_floor`].
    pub(crate) fn floor(self, seconds: u32) -> Option<Floor> {
        let (protocol, threads, connections) = match self {
            Self::KnownRedirect => (Protocol::Root, 1, 1),
            Self::Redirects(protocol) => (protocol, THREADS, CONNECTIONS / THREADS),
            _ => return None,
        };
        Some(Floor::Answers(Answers {
            connections,
            threads,
            seconds,
            ..protocol.answers()
        }))
    }

    /// What the files of a sample take in memory at once.
    pub(crate) fn written_bytes(self, size_bytes: u64) -> u64 {
        match self {
            Self::Upload(_) => size_bytes,
            _ => 0,
        }
    }
}

/// A node that a client is sent to, and what to ask it for.
#[derive(Debug, Clone)]
struct Place {
    port: u16,
    target: String,
}

/// The port in a URL.
fn port_of(url: &str) -> Option<u16> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

/// What the figures depend on.
pub(crate) fn conditions(load_seconds: u32) -> String {
    format!(
        "A redirector and {NODES} data servers of each kind, in clear text on loopback, with their default delays; files \
         are in memory. XRootD's redirector is `xrootd` and `cmsd`. One client asks for {load_seconds} s (new names: at \
         most {NEW_NAMES}); {THREADS} threads ask on {CONNECTIONS} kept connections. Clients go back and forth between \
         redirector and nodes every second. An upload is as large as the largest file. Names that do not exist: CPU is \
         that of {NEW_NAMES} at once."
    )
}

/// The clusters that run, or why they do not.
#[derive(Default)]
pub(crate) struct Clusters(BTreeMap<Kind, std::result::Result<Site, String>>);

impl Bench {
    /// Starts the clusters of `kinds` that do not run yet, and waits until they answer.
    pub(crate) fn start_clusters(&mut self, kinds: &[Kind]) {
        let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| kind.is_storage()).collect();
        let missing = |kind: &&Kind| !self.clusters.0.contains_key(*kind);
        let missing: Vec<Kind> = kinds.iter().filter(missing).copied().collect();
        for kind in missing {
            let site = Site::start(&mut self.lab, kind, Start::Default);
            let site = site.and_then(|site| {
                let time = site.wait()?.as_secs_f64();
                progress(&format!("  {}: answers {time:.1} s after its start", kind.name()));
                Ok(site)
            });
            self.clusters.0.insert(kind, site.map_err(|error| error.to_string()));
        }
    }

    /// Measures a cluster.
    pub(crate) fn cluster(&mut self, kind: Kind, figure: Figure) -> Result<Sample> {
        if figure == Figure::Memory {
            return self.cluster_memory(kind);
        }
        let size_bytes = self.size_bytes;
        self.load(kind)?.measure(figure, size_bytes)
    }

    /// The floor of reading: our nodes behind the floor of a redirector. `None` for other figures,
    /// and where ours is not measured.
    pub(crate) fn cluster_floor(&mut self, figure: Figure) -> Option<Result<Sample>> {
        let Figure::Reads(protocol) = figure else {
            return None;
        };
        let mut load = self.load(Kind::Crossload).ok()?;
        Some(load.reads_behind(protocol, protocol.answers()))
    }

    fn load(&mut self, kind: Kind) -> Result<Load<'_>> {
        let site = match self.clusters.0.get_mut(&kind) {
            Some(Ok(site)) => site,
            Some(Err(words)) => return Err(Error::Failed(words.clone())),
            None => return Err(Error::Failed("its cluster was not started".to_owned())),
        };
        Ok(Load {
            lab: &mut self.lab,
            site,
            seconds: self.load_seconds,
        })
    }

    /// Resident memory of a fresh redirector when it knows many files, and before.
    fn cluster_memory(&mut self, kind: Kind) -> Result<Sample> {
        let mut site = Site::start(&mut self.lab, kind, Start::Soon)?;
        let sample = site.wait().and_then(|_| {
            let idle = site.resident_mib()?;
            let paths = site.plant(&mut self.lab, KNOWN_FILES, 0)?;
            let found = load::find_all(&site, &paths)?;
            match found == paths.len() {
                true => Ok(Sample {
                    first: site.resident_mib()?,
                    second: idle,
                }),
                false => Err(Error::Failed(format!("{found} of {KNOWN_FILES} files were found"))),
            }
        });
        site.end().and(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_urls() {
        assert_eq!(port_of("http://localhost:1094/data/f?a=b:7"), Some(1094));
        assert_eq!(port_of("root://[::1]:1095//data/f"), Some(1095));
        assert_eq!(port_of("http://localhost/data/f"), None);
    }

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let all = Figure::all();
        let names: std::collections::BTreeSet<String> = all
            .iter()
            .map(|figure| format!("{:?} {}", figure.metric(), figure.name()))
            .collect();
        assert_eq!(names.len(), all.len());
    }
}
