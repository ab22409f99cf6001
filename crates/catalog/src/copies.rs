//! Copies of a database of SQLite: for a backup, and before a release changes its tables.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use schedule::FileState;
use types::{ErrorCode, Result};

use crate::schema::{self, TABLES_VERSION};
use crate::store::failure;
use crate::store::sqlite::{OWNER_ONLY, connect, translate};

/// The version of the tables in a file, which another process may use; `None` if it has none yet.
///
/// # Errors
/// Those of the database.
pub fn version_in_file(path: &Path) -> Result<Option<usize>> {
    let is_empty = match std::fs::metadata(path) {
        Ok(facts) => facts.len() == 0,
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(failure(ErrorCode::CatalogUnavailable).with_private(error)),
    };
    match is_empty {
        true => Ok(None),
        false => version_of(&reading(path)?),
    }
}

/// Writes a copy of a database to a file that does not exist, readable for its owner only. Another
/// process may use the database meanwhile: the copy has one state of it.
///
/// # Errors
/// Those of the database and of the file.
pub fn copy_of_file(path: &Path, copy: &Path) -> Result<()> {
    let refused = |error: std::io::Error| {
        let code = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorCode::CatalogFull,
            _ => ErrorCode::CatalogUnavailable,
        };
        let detail = format!("cannot write its copy {}", copy.display());
        failure(code).with_detail(detail).with_private(error)
    };
    let unnamed = || failure(ErrorCode::CatalogUnavailable).with_detail("the name of the copy is no UTF-8");
    let name = copy.to_str().ok_or_else(unnamed)?;
    let mut options = OpenOptions::new();
    // SQLite takes an empty file, and keeps its permissions.
    let file = options.write(true).create_new(true).mode(OWNER_ONLY).open(copy);
    let file = file.map_err(refused)?;
    reading(path)?
        .execute("VACUUM INTO ?1", [name])
        .map_err(|error| translate(&error).with_detail(format!("cannot write its copy {}", copy.display())))?;
    file.sync_all().map_err(refused)
}

/// Lets a queue look at the destination of each file before it copies it: files may have been
/// copied since the backup was made, and the database does not know of them.
///
/// # Errors
/// `catalog_newer` if a later release has made the database; `catalog_damaged` if it is none, or
/// damaged.
pub fn prepare_restored_file(path: &Path) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| translate(&error))?;
    let version = version_of(&connection)?.unwrap_or_default();
    if version == 0 {
        return Err(failure(ErrorCode::CatalogDamaged).with_detail(format!("{} has no tables", path.display())));
    }
    schema::refuse_newer(&path.display().to_string(), version)?;
    let says = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    let says = says.map_err(|error| translate(&error))?;
    if says != "ok" {
        let detail = format!("{} is damaged", path.display());
        return Err(failure(ErrorCode::CatalogDamaged)
            .with_detail(detail)
            .with_private(says));
    }
    if version >= schema::WITH_INTERRUPTED {
        let changed = connection.execute(&interrupt_sql(), []);
        changed.map_err(|error| translate(&error))?;
    }
    // The only connection: this puts all of it into the file.
    connection.close().map_err(|(_, error)| translate(&error))
}

/// Marks the files that may have been copied after a backup. What waits for tape was copied.
pub(crate) fn interrupt_sql() -> String {
    format!(
        "UPDATE file SET interrupted = 1 WHERE state <= {}",
        FileState::Active.number()
    )
}

/// Refuses a database of a later release before anything is changed, and keeps a copy of one whose
/// tables will be changed: an earlier release cannot read them any more.
pub(crate) fn keep_before_migration(path: &Path) -> Result<()> {
    let version = version_in_file(path)?.unwrap_or_default();
    schema::refuse_newer(&path.display().to_string(), version)?;
    if version == 0 || version == TABLES_VERSION {
        return Ok(());
    }
    let kept = kept_copy(path, version);
    let refused = |error: std::io::Error| {
        let detail = format!("cannot keep a copy of it as {}", kept.display());
        failure(ErrorCode::CatalogUnavailable)
            .with_detail(detail)
            .with_private(error)
    };
    // A process that was killed here before may have left a part of one.
    let part = with_suffix(&kept, ".part");
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(error)),
        _ => {}
    }
    copy_of_file(path, &part).inspect_err(|_| drop(std::fs::remove_file(&part)))?;
    std::fs::rename(&part, &kept).map_err(refused)?;
    let directory = kept.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new(".")));
    directory.and_then(|directory| directory.sync_all()).map_err(refused)
}

/// The copy that a release keeps of a database with tables of this version before it changes them.
#[must_use]
pub fn kept_copy(path: &Path, version: usize) -> PathBuf {
    with_suffix(path, &format!(".version-{version}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn reading(path: &Path) -> Result<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

fn version_of(connection: &Connection) -> Result<Option<usize>> {
    let read = || -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'catalog_version'";
        let tables: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        if tables == 0 {
            return Ok(None);
        }
        let sql = "SELECT coalesce(max(number), 0) FROM catalog_version";
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(Some)
    };
    let number = read().map_err(|error| translate(&error))?;
    Ok(number.map(|number| usize::try_from(number).unwrap_or_default()))
}
