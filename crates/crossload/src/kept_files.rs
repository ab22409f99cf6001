//! Files that are kept under another name when new ones take their places. None is ever replaced.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::limits::KEPT_FILES_MAX;

/// The files that belong to a database of SQLite.
pub(crate) const DATABASE_FILES: [&str; 3] = ["", "-wal", "-shm"];

/// A path with this at its end.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// A name that begins like this and that no file has, nor one that belongs to it. From the second
/// on it ends with a number.
///
/// # Errors
/// All names are in use, or a directory cannot be read.
pub(crate) fn free_name(path: &Path, suffix: &str, files: &[&str]) -> io::Result<PathBuf> {
    let first = beside(path, suffix);
    let others = (2..=KEPT_FILES_MAX).map(|number| beside(&first, &format!(".{number}")));
    for name in std::iter::once(first.clone()).chain(others) {
        if is_free(&name, files)? {
            return Ok(name);
        }
    }
    Err(io::Error::other(format!(
        "{KEPT_FILES_MAX} files are kept already; remove those whose names begin with {}",
        first.display()
    )))
}

fn is_free(name: &Path, files: &[&str]) -> io::Result<bool> {
    for file in files {
        match beside(name, file).symlink_metadata() {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
            Ok(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Renames a file, but never over another one.
///
/// # Errors
/// The new name is in use; those of the system.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can refuse.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}
