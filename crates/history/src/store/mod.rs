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

mod bytes;
mod cells;
mod days;
mod read;
mod schema;
mod thin;
mod write;

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

pub use cells::Detail;
pub use days::LinkDay;
pub use read::{FigurePoint, FigureSeries, Filter, LinkRun, LinkSeries, Summary};

/// Permissions of the database: it names servers and those who care for them.
const OWNER_ONLY: u32 = 0o600;
/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 64;
/// How long to wait for another process that writes, in milliseconds.
const BUSY_TIMEOUT_MS: u64 = 30_000;
/// Milliseconds of a day.
pub(crate) const DAY_MS: u64 = 86_400_000;

/// Why the history cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// The file or its directory cannot be made or opened.
    File(std::io::Error),
    /// The database refuses something: the disk is full, the file is no database.
    Database(rusqlite::Error),
    /// It was written by a newer program.
    Newer,
    /// It holds what no program has written.
    Damaged,
}

impl StoreError {
    /// Whether the file is no history that this program can use, so that another attempt does not
    /// help.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        match self {
            Self::Newer | Self::Damaged => true,
            Self::Database(cause) => matches!(
                cause.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            ),
            Self::File(_) => false,
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(cause) => cause.fmt(formatter),
            Self::Database(cause) => cause.fmt(formatter),
            Self::Newer => formatter.write_str("it was written by a newer version of this program"),
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
}

impl Default for Keep {
    /// 30 days, 90 days, and three years.
    fn default() -> Self {
        Self {
            full_days: 30,
            outcome_days: 90,
            days: 3 * 366,
        }
    }
}

/// The number of a run in its database.
pub type RunId = i64;

/// An open history.
pub struct Store {
    connection: Connection,
    keep: Keep,
}

impl Store {
    /// Opens a history, or makes it, with its directory, for its owner alone.
    ///
    /// # Errors
    /// The file cannot be made or opened, is no history, or that of a newer program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(StoreError::File)?;
        let mut connection = Connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 16777216;",
        )?;
        schema::migrate(&mut connection)?;
        Ok(Self {
            connection,
            keep: Keep::default(),
        })
    }

    /// Opens a history that exists; `None` when there is none.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Option<Self>, StoreError> {
        match path.try_exists() {
            Ok(true) => Self::open(path).map(Some),
            Ok(false) => Ok(None),
            Err(cause) => Err(StoreError::File(cause)),
        }
    }

    /// The same with other times.
    #[must_use]
    pub fn keeping(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// The text of a word.
    fn text(&self, word: i64) -> Result<String, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT text FROM word WHERE id = ?1")?;
        let text = statement.query_row([word], |row| row.get(0)).optional()?;
        text.ok_or(StoreError::Damaged)
    }
}

/// Makes the file and its directory, if they are missing, for their owner alone. SQLite gives the
/// files beside it the same permissions. A file that is there keeps its own: it may not be a
/// history.
fn make_private(path: &Path) -> std::io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(OWNER_ONLY);
    options.open(path).map(drop)
}

#[cfg(test)]
mod tests;
