//! Clients beside each other: the same trees from and to the same server, near and far away.
//!
//! The servers are always ours, and behind a relay for those far away. Each client is started as
//! users start it, with what it does by default. The slow ones copy fewer files: what counts is the
//! rate, and a copy of thousands of files one after the other would take an hour.

mod program;
mod site;

use std::time::{Duration, Instant};

use testkit::Result;

pub(crate) use self::program::Program;
pub(crate) use self::site::Site;
use crate::arguments::Row;
use crate::client::run_all;
use crate::metric::Metric;
use crate::report::Goal;
use crate::server::{Kind, Lab};
use crate::workload::{Bench, Sample};

/// Round-trip times of a near and a far server, in milliseconds.
const ROUND_TRIPS_MS: [u64; 2] = [0, 50];
/// How often the shortest command is repeated in one sample.
const STARTS: u32 = 20;

/// How large the trees are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    small_files: u64,
    large_files: u64,
    third_party_files: u64,
}

impl Sizes {
    /// Those of the goals.
    pub(crate) const FULL: Self = Self {
        small_files: 5_000,
        large_files: 50,
        third_party_files: 1_000,
    };
    /// A look.
    pub(crate) const QUICK: Self = Self {
        small_files: 1_000,
        large_files: 5,
        third_party_files: 200,
    };
}

/// What is copied where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the server to this machine.
    Download,
    /// From this machine to the server.
    Upload,
    /// Between two servers, directly.
    ThirdParty,
}

/// The files of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Of 10 KB.
    Small,
    /// Of 1 MB.
    Middle,
    /// Of 100 MB.
    Large,
}

impl Content {
    fn file_bytes(self) -> u64 {
        match self {
            Self::Small => 10_000,
            Self::Middle => 1_000_000,
            Self::Large => 100_000_000,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Small => "files of 10 KB",
            Self::Middle => "files of 1 MB",
            Self::Large => "files of 100 MB",
        }
    }
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// A tree over https.
    Tree(Way, Content, u64),
    /// The listing of an empty directory in clear text.
    Start,
}

impl Figure {
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for content in [Content::Small, Content::Large] {
            for way in [Way::Download, Way::Upload] {
                all.extend(ROUND_TRIPS_MS.map(|rtt_ms| Self::Tree(way, content, rtt_ms)));
            }
        }
        all.push(Self::Tree(Way::ThirdParty, Content::Middle, ROUND_TRIPS_MS[1]));
        all.push(Self::Start);
        all
    }

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Tree(_, Content::Large, _) => Metric::ClientData,
            Self::Tree(..) => Metric::ClientFiles,
            Self::Start => Metric::ClientStart,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Tree(way, content, rtt_ms) => {
                let way = match way {
                    Way::Download => "download",
                    Way::Upload => "upload",
                    Way::ThirdParty => "third-party copy",
                };
                format!("{way} https, {}, {rtt_ms} ms", content.words())
            }
            Self::Start => "ls http of an empty directory".to_owned(),
        }
    }

    /// Its name for `--row`.
    pub(crate) fn row(self) -> Row {
        let (way, content, is_far) = match self {
            Self::Tree(way, content, rtt_ms) => (way, content, rtt_ms > 0),
            Self::Start => return Row::Start,
        };
        match (content, way, is_far) {
            (_, Way::ThirdParty, _) => Row::ThirdParty,
            (Content::Large, Way::Download, false) => Row::LargeGet,
            (Content::Large, Way::Download, true) => Row::LargeGetFar,
            (Content::Large, Way::Upload, false) => Row::LargePut,
            (Content::Large, Way::Upload, true) => Row::LargePutFar,
            (_, Way::Download, false) => Row::SmallGet,
            (_, Way::Download, true) => Row::SmallGetFar,
            (_, Way::Upload, false) => Row::SmallPut,
            (_, Way::Upload, true) => Row::SmallPutFar,
        }
    }

    pub(crate) fn goal(self) -> Goal {
        let (first, second) = match self {
            Self::Tree(Way::ThirdParty, ..) => (Some(5.0), None),
            Self::Tree(_, Content::Small, ms) if ms > 0 => (Some(5.0), Some(0.5)),
            Self::Tree(_, Content::Small, _) => (None, Some(0.5)),
            Self::Tree(..) => (Some(1.0), Some(0.5)),
            Self::Start => (Some(20.0), None),
        };
        Goal {
            first,
            second,
            ..Goal::default()
        }
    }

    /// Whether a client can do this.
    pub(crate) fn concerns(self, kind: Kind) -> bool {
        match (self, kind) {
            (_, Kind::Crossload) => true,
            // The others send the bytes through this machine, or do not copy trees directly.
            (Self::Tree(Way::ThirdParty, ..), _) => kind == Kind::Client(Program::Gfal),
            (_, Kind::Client(program)) => program != Program::Aws,
            _ => false,
        }
    }
}

/// What the figures depend on.
pub(crate) fn conditions(sizes: &Sizes) -> String {
    format!(
        "Trees of one directory: {} files of 10 KB, {} of 100 MB, {} of 1 MB between two servers. The servers are \
         Crossload; all speak https, but xrdcp root in clear text, since it does not copy trees over roots. Options are those by default, so gfal-copy and \
         xrdcp copy one file after the other, and rclone four at once. With 50 ms each connection goes through a relay. \
         Beside Crossload, slow clients copy a part of the small files: {} of them, rclone {} at 50 ms. CPU is that of the \
         client's process. Each file is compared by size afterwards.",
        sizes.small_files,
        sizes.large_files,
        sizes.third_party_files,
        words_of(Program::Gfal, sizes),
        Program::Rclone.files(Content::Small, ROUND_TRIPS_MS[1], sizes),
    )
}

fn words_of(program: Program, sizes: &Sizes) -> String {
    let files = ROUND_TRIPS_MS.map(|rtt_ms| program.files(Content::Small, rtt_ms, sizes));
    format!("{}, at 50 ms {}", files[0], files[1])
}

impl Bench {
    /// What one client does in one row.
    pub(crate) fn client(&mut self, kind: Kind, figure: Figure) -> Result<Sample> {
        let program = Program::of(kind)?;
        let site = match self.site.take() {
            Some(site) => site,
            None => Site::start(&mut self.lab)?,
        };
        let site = self.site.insert(site);
        match figure {
            Figure::Tree(way, content, rtt_ms) => {
                let files = program.files(content, rtt_ms, &self.client_sizes);
                tree(
                    &mut self.lab,
                    site,
                    program,
                    Tree {
                        way,
                        content,
                        rtt_ms,
                        files,
                    },
                )
            }
            Figure::Start => start(site, program),
        }
    }
}

/// A tree that is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) way: Way,
    pub(crate) content: Content,
    pub(crate) rtt_ms: u64,
    pub(crate) files: u64,
}

fn tree(lab: &mut Lab, site: &mut Site, program: Program, tree: Tree) -> Result<Sample> {
    let ends = site.prepare(lab, program, tree)?;
    let command = program.copy(site, &ends)?;
    let (elapsed, cpu_seconds) = timed(|| run_all([command]).map(drop))?;
    site.take_away(&ends, tree)?;
    let bytes = tree.files * tree.content.file_bytes();
    Ok(match tree.content {
        Content::Large => Sample {
            first: bytes as f64 / 1e6 / elapsed.as_secs_f64(),
            second: cpu_seconds / (bytes as f64 / 1e9),
        },
        _ => Sample {
            first: tree.files as f64 / elapsed.as_secs_f64(),
            second: cpu_seconds * 1e3 / tree.files as f64,
        },
    })
}

fn start(site: &Site, program: Program) -> Result<Sample> {
    let (elapsed, cpu_seconds) = timed(|| (0..STARTS).try_for_each(|_| run_all([program.list(site)?]).map(drop)))?;
    let times = f64::from(STARTS);
    Ok(Sample {
        first: elapsed.as_secs_f64() * 1e3 / times,
        second: cpu_seconds * 1e3 / times,
    })
}

/// How long something takes, and the processor seconds of the programs that it runs.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<(Duration, f64)> {
    let before = testkit::ended_children_cpu_seconds()?;
    let began = Instant::now();
    work()?;
    let elapsed = began.elapsed();
    Ok((elapsed, testkit::ended_children_cpu_seconds()? - before))
}
