//! The transfer queue: how fast jobs come in, how fast files go through, and what it costs.
//!
//! The figures of one database are of one course ([`course`]): the queue is filled while its first
//! copies stay open, asked about its jobs, and then let go. The storage of the copies is the
//! benchmark's own and answers at once ([`testkit::HollowStorage`]).

mod api;
mod course;
pub(crate) mod decision;

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::{Error, Result};

use crate::metric::Metric;
use crate::report::Goal;
use crate::workload::{Bench, Sample};

/// Connections that submit at once.
const CONNECTIONS: usize = 16;
/// Files of a job, as Rucio submits them.
const JOB_FILES: u64 = 50;
/// Jobs that one request asks about.
const ASKED_JOBS: usize = 100;
/// Copies that run at once when files are to go through.
const COPIES: usize = 100;
/// Files of the jobs that fill the queue behind the first ones.
const LARGE_JOB_FILES: u64 = 2_000;
/// Files that FTS finishes each second world-wide.
const WORLD_FILES_PER_SECOND: f64 = 38.0;

/// How large the courses are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Files that fill the queue.
    files: u64,
    /// Copies that are held open at once.
    active_copies: usize,
    /// How long files go through.
    through_time: Duration,
}

impl Sizes {
    /// Those of the goals.
    pub(crate) const FULL: Self = Self {
        files: 1_000_000,
        active_copies: 5_000,
        through_time: Duration::from_secs(30),
    };
    /// A look.
    pub(crate) const QUICK: Self = Self {
        files: 50_000,
        active_copies: 500,
        through_time: Duration::from_secs(5),
    };
}

/// Where the queue keeps its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    /// A file of its own.
    Sqlite,
    /// A server, beside it on the same machine.
    Postgres,
}

impl Database {
    pub(crate) const BOTH: [Self; 2] = [Self::Sqlite, Self::Postgres];

    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// What part of the goals counts.
    fn part(self) -> f64 {
        match self {
            Self::Sqlite => 1.0,
            Self::Postgres => 0.5,
        }
    }
}

/// A figure of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Files that are submitted in a second.
    Submission,
    /// Files that are scheduled, run and finished in a second.
    Through,
    /// Processor time of a file's submission.
    SubmissionCost,
    /// Processor time of a file that goes through.
    ThroughCost,
    /// Memory with the queue full, and after.
    Full,
    /// Memory with many copies open.
    Active,
    /// The state of many jobs.
    Status,
    /// Why a file waits.
    Why,
    /// The files of a large job.
    Files,
    /// Processor time without work.
    Idle,
}

impl Figure {
    pub(crate) const ALL: [Self; 10] = [
        Self::Submission,
        Self::Through,
        Self::SubmissionCost,
        Self::ThroughCost,
        Self::Full,
        Self::Active,
        Self::Status,
        Self::Why,
        Self::Files,
        Self::Idle,
    ];

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Submission | Self::Through => Metric::QueueRate,
            Self::SubmissionCost | Self::ThroughCost => Metric::QueueCost,
            Self::Full | Self::Active => Metric::QueueMemory,
            Self::Status | Self::Why | Self::Files => Metric::QueueTime,
            Self::Idle => Metric::QueueIdle,
        }
    }

    pub(crate) fn name(self, database: Database) -> String {
        let words = match self {
            Self::Submission => "submission".to_owned(),
            Self::Through => "scheduled, run and finished".to_owned(),
            Self::SubmissionCost => "submitted".to_owned(),
            Self::ThroughCost => "scheduled, run, finished".to_owned(),
            Self::Full => "full queue, before and while it runs".to_owned(),
            Self::Active => "active copies".to_owned(),
            Self::Status => format!("status of {ASKED_JOBS} jobs, full queue"),
            Self::Why => "why a file waits, full queue".to_owned(),
            Self::Files => format!("the {LARGE_JOB_FILES} files of a job, full queue"),
            Self::Idle => "idle service".to_owned(),
        };
        format!("{words}, {}", database.name())
    }

    /// What is good enough. With PostgreSQL half of it is.
    pub(crate) fn goal(self, database: Database) -> Goal {
        let part = database.part();
        let first = match self {
            Self::Submission => Some(5_000.0 * part),
            Self::Through => Some(300.0 * part),
            Self::Full => Some(300.0 / part),
            Self::Active => Some(400.0 / part),
            Self::Status => Some(30.0 / part),
            Self::Why => Some(20.0 / part),
            Self::Idle => Some(1.0 / part),
            Self::SubmissionCost | Self::ThroughCost | Self::Files => None,
        };
        Goal {
            first,
            ..Goal::default()
        }
    }
}

/// The figures of a course; a failure ends it and leaves those before it. Those that it could not
/// measure, for example because the database is not installed, are missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    samples: BTreeMap<Figure, Sample>,
    failure: Option<String>,
}

impl Figures {
    fn set(&mut self, figure: Figure, first: f64, second: f64) {
        self.samples.insert(figure, Sample { first, second });
    }
}

/// What the figures depend on.
pub(crate) fn conditions(sizes: &Sizes) -> String {
    format!(
        "The queue is measured once. It holds {} files of one link: a fifth of them in jobs of {JOB_FILES} over https from \
         {CONNECTIONS} connections, which is the rate of submission, the rest in jobs of {LARGE_JOB_FILES}; {COPIES} \
         copies at once go through for {} s; then {} copies are held open. Database files are on disk. The storage is the \
         benchmark's own, in clear text, and shares the cores, as clients do. FTS finishes {WORLD_FILES_PER_SECOND} files \
         per second world-wide.",
        sizes.files,
        sizes.through_time.as_secs(),
        sizes.active_copies,
    )
}

/// A figure of files per second, with its ratio to the world's.
fn rate(files: u64, seconds: f64) -> (f64, f64) {
    let rate = files as f64 / seconds;
    (rate, rate / WORLD_FILES_PER_SECOND)
}

impl Bench {
    /// A figure of the queue; [`Error::Missing`] without the database. The first one of a database
    /// takes the course; it is not repeated.
    pub(crate) fn queue(&mut self, database: Database, figure: Figure) -> Result<Sample> {
        if !self.queue.contains_key(&database) {
            let figures = course::take(&mut self.lab, database, self.queue_sizes);
            self.queue.insert(database, figures);
        }
        let figures = &self.queue[&database];
        let failure = || match &figures.failure {
            Some(words) => Error::Failed(words.clone()),
            None => Error::Missing(figure.name(database)),
        };
        figures.samples.get(&figure).copied().ok_or_else(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_enough_with_postgresql() {
        let goal = |figure: Figure, database| figure.goal(database).first;
        assert_eq!(goal(Figure::Through, Database::Sqlite), Some(300.0));
        assert_eq!(goal(Figure::Through, Database::Postgres), Some(150.0));
        assert_eq!(goal(Figure::Full, Database::Postgres), Some(600.0));
        assert_eq!(rate(76, 2.0), (38.0, 1.0));
    }
}
