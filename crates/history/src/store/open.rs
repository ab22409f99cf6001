//! Opening a history: to write, which makes it, or to read, which changes nothing.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{Keep, Store, StoreError, schema};

/// Permissions of the database: it names servers and those who care for them.
const OWNER_ONLY: u32 = 0o600;
/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 64;
/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

impl Store {
    /// Opens a history, or makes it, with its directory, for its owner alone.
    ///
    /// # Errors
    /// The file cannot be made or opened, is no history, or that of a newer program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(StoreError::File)?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Before anything is changed: the file may be a database of another program.
        schema::check(&connection)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 16777216;",
        )?;
        schema::migrate(&mut connection)?;
        Self::with(connection)
    }

    /// Opens a history that exists, to be changed; `None` when there is none.
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

    /// Opens a history that exists, to be read, also without the right to write; `None` when there
    /// is none.
    ///
    /// # Errors
    /// The file cannot be opened, is no history, or that of a newer program.
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::open_to_read_within(path, BUSY_TIMEOUT)
    }

    /// As [`Store::open_to_read`], for a reader who waits for another process no longer than this.
    ///
    /// # Errors
    /// As [`Store::open_to_read`].
    pub fn open_to_read_within(path: &Path, wait: Duration) -> Result<Option<Self>, StoreError> {
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(cause) => return Err(StoreError::File(cause)),
        }
        // SQLite says only that it cannot open the file.
        std::fs::File::open(path).map_err(StoreError::File)?;
        let connection = match readable(path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait) {
            // A reader needs files beside it, and cannot make them: it may not, or there is no
            // room. Without anything in the log, the file alone has everything.
            Err(error) if needs_files(&error) && has_empty_log(path) => read_unchanging(path)?,
            opened => opened?,
        };
        match schema::check(&connection)? {
            schema::Found::Nothing => Ok(None),
            schema::Found::History => Self::with(connection).map(Some),
        }
    }

    /// Writes a copy of the history, in one state, to a file that does not exist or is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn copy_to(&self, copy: &Path) -> Result<(), StoreError> {
        let unnamed = || StoreError::File(std::io::Error::other("the name of the copy is no UTF-8"));
        // SQLite takes an empty file, and keeps its permissions.
        make_private(copy).map_err(StoreError::File)?;
        let name = copy.to_str().ok_or_else(unnamed)?;
        self.connection.execute("VACUUM INTO ?1", [name])?;
        Ok(())
    }

    fn with(connection: Connection) -> Result<Self, StoreError> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;")?;
        Ok(Self {
            keeps_reasons: schema::keeps_reasons(&connection)?,
            connection,
            keep: Keep::default(),
        })
    }
}

/// A connection that has read the database's head.
fn readable(path: &Path, flags: OpenFlags, wait: Duration) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(wait)?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

/// Reads a database without any file beside it.
pub(super) fn read_unchanging(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    readable(&unchanging(path), flags, BUSY_TIMEOUT)
}

fn needs_files(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::DiskFull | ErrorCode::SystemIoFailure)
    )
}

/// Whether nothing is in a database's log, or there is none. SQLite makes an empty one, before it
/// meets the lack of room for its other file.
fn has_empty_log(path: &Path) -> bool {
    match beside(path, "-wal").metadata() {
        Ok(log) => log.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// A file beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The name of a database that does not change while it is read
/// (<https://www.sqlite.org/uri.html>).
fn unchanging(path: &Path) -> PathBuf {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
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
