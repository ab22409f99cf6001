//! Runs in a SQLite database.
//!
//! The database is in WAL mode with `synchronous = FULL`, and a run is one transaction: one that
//! was stored survives a crash of the program and of the machine. Several processes may use it.
//!
//! # What is kept how long
//! | | |
//! |---|---|
//! | all of a run | [`Keep::full_days`] |
//! | how each cell ended, and how long it took | [`Keep::outcome_days`] |
//! | what each link did on each day; each run's counts, conditions of endpoints and findings | [`Keep::days`] |
//! | figures of benchmarks, with their runs | for ever |
//!
//! A run that is stored thins out a few old ones on the way, so that no stored run takes long.
//! Pages that this frees are used again.
//!
//! # Clocks
//! A run of a wrong clock that lies in the future would be the newest one for ever. None is
//! stored, and those that are there already count in no result ([`Store::is_future`]). A clock that
//! is ahead would make all runs before it old, so ages count from the earliest of the last runs
//! ([`Keep::last_runs`]): it must be wrong for that many before anything goes.

mod bytes;
mod cells;
mod days;
mod open;
mod past;
mod read;
mod remove;
mod schema;
mod thin;
mod write;

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

pub use cells::Detail;
pub use days::LinkDay;
pub use past::Past;
pub use read::{FigurePoint, FigureSeries, Filter, LinkRun, LinkSeries, Summary};

/// Milliseconds of a day.
pub(crate) const DAY_MS: u64 = 86_400_000;
/// How far clocks of machines may be apart. A run that begins later than this is of a wrong one.
const CLOCKS_APART_MS: u64 = DAY_MS;

/// Why the history cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// The file or its directory cannot be made or opened.
    File(std::io::Error),
    /// The database refuses something: the disk is full, the file is no database.
    Database(rusqlite::Error),
    /// It was written by a newer program, and has this version.
    Newer(i64),
    /// It is a database of another program.
    Foreign,
    /// The run begins in the future, at this time in milliseconds since 1970.
    Future(u64),
    /// It holds what no program has written.
    Damaged,
}

impl StoreError {
    /// Whether the file is no history that this program can use, so that another attempt does not
    /// help.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        match self {
            Self::Newer(_) | Self::Foreign | Self::Damaged => true,
            Self::Database(cause) => matches!(
                cause.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            ),
            Self::File(_) | Self::Future(_) => false,
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(cause) => cause.fmt(formatter),
            Self::Database(cause) => cause.fmt(formatter),
            Self::Newer(found) => write!(
                formatter,
                "a later release has written it: its version is {found}, ours is {}; install that release, or name \
                 another file",
                schema::VERSION
            ),
            Self::Foreign => formatter.write_str("it is a database of another program, and no history of runs"),
            Self::Future(started_ms) => write!(
                formatter,
                "the run begins in the future, at {}: it is of a machine with a wrong clock, or the clock here is wrong",
                crate::minute(*started_ms)
            ),
            Self::Damaged => formatter.write_str("the database is damaged"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<bytes::Torn> for StoreError {
    fn from(_: bytes::Torn) -> Self {
        Self::Damaged
    }
}

/// How long what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// All of a run, in days.
    pub full_days: u64,
    /// Outcomes and times of cells, in days.
    pub outcome_days: u64,
    /// Days of links, and runs without cells, in days.
    pub days: u64,
    /// Times count from the earliest of so many runs, those that were kept last. One at least.
    pub last_runs: u64,
}

impl Default for Keep {
    /// 30 days, 90 days, and three years, counted from the earliest of the last hundred runs.
    fn default() -> Self {
        Self {
            full_days: 30,
            outcome_days: 90,
            days: 3 * 366,
            last_runs: 100,
        }
    }
}

/// The number of a run in its database.
pub type RunId = i64;

/// An open history.
pub struct Store {
    connection: Connection,
    keep: Keep,
    /// Whether the database has reasons of early ends.
    keeps_reasons: bool,
}

impl Store {
    /// The same with other times.
    #[must_use]
    pub fn keeping(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Whether a run that begins then is of a wrong clock.
    #[must_use]
    pub fn is_future(started_ms: u64) -> bool {
        started_ms > latest_ms()
    }

    /// The text of a word.
    fn text(&self, word: i64) -> Result<String, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT text FROM word WHERE id = ?1")?;
        let text = statement.query_row([word], |row| row.get(0)).optional()?;
        text.ok_or(StoreError::Damaged)
    }
}

/// Milliseconds since 1970.
fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The latest begin of a run that counts, in milliseconds since 1970.
fn latest_ms() -> u64 {
    clock_ms().saturating_add(CLOCKS_APART_MS)
}

#[cfg(test)]
mod tests;
