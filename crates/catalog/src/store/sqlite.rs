//! SQLite: one thread that writes, and a few that read, each with a connection of its own.
//!
//! The database is in WAL mode with `synchronous = FULL`: what was acknowledged survives a power
//! cut. A lock file beside it keeps a second process away.

use std::fs::{File, OpenOptions, Permissions};
use std::future::ready;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql, ffi};
use rustix::process::{Resource, getrlimit};
use tokio::sync::watch;
use types::{Error, ErrorCode, Result};

use super::readers::Readers;
use super::writer::Writer;
use super::{Operation, Row, Step, Transaction, Value, failure};
use crate::limits::STATEMENTS_MAX;

/// Permissions of all files.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// An open database.
#[derive(Clone)]
pub(crate) struct Sqlite(Arc<Inner>);

struct Inner {
    writer: Writer,
    readers: Readers,
}

impl Sqlite {
    /// Opens the database, or makes it. `prepare` sees the file when no other process uses it, and
    /// before anything is changed.
    pub(crate) fn open(
        path: &Path,
        changes: watch::Sender<u64>,
        prepare: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let lock = lock(path)?;
        prepare(path)?;
        make_private(path)?;
        let connection = connect(path, OpenFlags::default())?;
        let writer = Writer::start(connection, lock, changes)?;
        Ok(Self(Arc::new(Inner {
            writer,
            readers: Readers::start(path)?,
        })))
    }

    /// Runs an operation in a transaction, and returns when it is durable.
    pub(crate) async fn write<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        self.0.writer.run(operation).await
    }

    /// Runs an operation that only reads. It sees what was committed before it began.
    pub(crate) async fn read<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        self.0.readers.run(operation).await
    }

    /// Waits until the writer has ended, and the file is unlocked.
    pub(crate) async fn close(self) {
        self.0.writer.close().await;
    }
}

/// Locks the database for this process. The lock ends with the file.
fn lock(path: &Path) -> Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let refused = |error: &dyn std::fmt::Display| failure(ErrorCode::CatalogUnavailable).with_private(error);
    let file =
        owned_file(Path::new(&name)).map_err(|error| refused(&error).with_detail("cannot create its lock file"))?;
    file.try_lock()
        .map_err(|error| refused(&error).with_detail("queue.state_directory is in use by another process"))?;
    Ok(file)
}

/// Makes the database's file, if it is missing, for its owner alone: it holds users' names and
/// URLs. SQLite gives the files beside it the same permissions; those of an earlier release are
/// changed.
fn make_private(path: &Path) -> Result<()> {
    let refused = |error: std::io::Error| failure(ErrorCode::CatalogUnavailable).with_private(error);
    owned_file(path).map_err(refused)?;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::set_permissions(&name, Permissions::from_mode(OWNER_ONLY)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
    }
    Ok(())
}

/// A file that only its owner can read, made if it is missing.
fn owned_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)
}

/// Opens a connection.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags).map_err(|error| translate(&error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
        PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32768; PRAGMA journal_size_limit = 67108864;";
    // A reader finds the mode in the file.
    let settings = match flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        true => "PRAGMA busy_timeout = 5000; PRAGMA cache_size = -16384;",
        false => settings,
    };
    batch(&connection, settings)?;
    Ok(connection)
}

/// Runs an operation that only reads, on a database that another process may use.
pub(crate) fn peek<T>(path: &Path, operation: &impl Operation<T>) -> Result<T> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(path, flags)?;
    run(operation, &mut SqliteTransaction::new(&mut connection))
}

/// Runs statements without parameters and rows.
pub(super) fn batch(connection: &Connection, sql: &str) -> Result<()> {
    connection.execute_batch(sql).map_err(|error| translate(&error))
}

/// Our error for one of SQLite.
pub(crate) fn translate(error: &rusqlite::Error) -> Error {
    let extended_code = error.sqlite_error().map(|error| error.extended_code);
    let code = match extended_code.map(|code| code & 0xff) {
        _ if extended_code == Some(ffi::SQLITE_IOERR_WRITE) && has_file_size_limit() => ErrorCode::CatalogFull,
        Some(ffi::SQLITE_FULL) => ErrorCode::CatalogFull,
        Some(ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB) => ErrorCode::CatalogDamaged,
        Some(ffi::SQLITE_CONSTRAINT | ffi::SQLITE_ERROR | ffi::SQLITE_MISUSE) | None => ErrorCode::Internal,
        Some(_) => ErrorCode::CatalogUnavailable,
    };
    failure(code).with_private(error)
}

/// Whether the process may write files up to a size only (`ulimit -f`). SQLite does not say that a
/// write failed because of it.
fn has_file_size_limit() -> bool {
    getrlimit(Resource::Fsize).current.is_some()
}

/// Runs an operation to its end. Nothing in it waits, since each statement is executed in place.
pub(super) fn run<T>(operation: &impl Operation<T>, transaction: &mut SqliteTransaction<'_>) -> Result<T> {
    let mut future = pin!(operation(transaction));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(failure(ErrorCode::Internal).with_private("an operation waits")),
    }
}

/// A transaction that its owner begins and ends.
pub(super) struct SqliteTransaction<'c> {
    connection: &'c mut Connection,
    /// Whether others must learn of changes.
    pub(super) has_news: bool,
}

impl<'c> SqliteTransaction<'c> {
    pub(super) fn new(connection: &'c mut Connection) -> Self {
        Self {
            connection,
            has_news: false,
        }
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        let statement = self.connection.prepare_cached(&dialect(sql));
        statement.map_err(|error| translate(&error))
    }

    fn execute_all(&self, sql: &str, sets: &[&[Value]]) -> Result<Vec<u64>> {
        let mut statement = self.prepare(sql)?;
        let mut changed = Vec::with_capacity(sets.len());
        for set in sets {
            let count = statement.execute(rusqlite::params_from_iter(set.iter()));
            changed.push(count.map_err(|error| translate(&error))? as u64);
        }
        Ok(changed)
    }

    fn query_all(&self, sql: &str, sets: &[&[Value]]) -> Result<Vec<Vec<Row>>> {
        let mut statement = self.prepare(sql)?;
        let width = statement.column_count();
        let mut found = Vec::with_capacity(sets.len());
        for set in sets {
            let rows = statement.query_map(rusqlite::params_from_iter(set.iter()), |row| {
                let columns = (0..width).map(|index| row.get_ref(index).map(owned));
                columns.collect::<rusqlite::Result<Vec<Value>>>().map(Row::new)
            });
            let rows = rows.and_then(Iterator::collect);
            found.push(rows.map_err(|error| translate(&error))?);
        }
        Ok(found)
    }
}

/// The statement in SQLite's words.
pub(crate) fn dialect(sql: &str) -> String {
    sql.replace('$', "?")
        .replace("{lock}", "")
        .replace("{lock_free}", "")
        .replace("{identity}", "INTEGER PRIMARY KEY AUTOINCREMENT")
        .replace("{blob}", "BLOB")
        .replace("{by_hash}", "")
        .replace("{queue_ids_go_on}", "")
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        // The schema has no such column.
        ValueRef::Real(number) => Value::Integer(number as i64),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

fn slices(sets: &[Vec<Value>]) -> Vec<&[Value]> {
    sets.iter().map(Vec::as_slice).collect()
}

impl Transaction for SqliteTransaction<'_> {
    fn execute<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, u64> {
        let changed = self.execute_all(sql, &[parameters]);
        Box::pin(ready(changed.map(|counts| counts.into_iter().sum())))
    }

    fn query<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, Vec<Row>> {
        let found = self.query_all(sql, &[parameters]);
        Box::pin(ready(found.map(|sets| sets.into_iter().flatten().collect())))
    }

    fn execute_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<u64>> {
        Box::pin(ready(self.execute_all(sql, &slices(sets))))
    }

    fn query_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<Vec<Row>>> {
        Box::pin(ready(self.query_all(sql, &slices(sets))))
    }

    fn script<'t>(&'t mut self, sql: &'t str) -> Step<'t, ()> {
        Box::pin(ready(batch(self.connection, &dialect(sql))))
    }

    fn order_events(&mut self) -> Step<'_, ()> {
        self.has_news = true;
        Box::pin(ready(Ok(())))
    }
}
