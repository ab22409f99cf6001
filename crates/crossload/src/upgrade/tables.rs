//! The tables of a queue whose new program changed them and did not come up.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use catalog::{copy_of_file, kept_copy, prepare_restored_file, version_in_file};

use super::services::Service;
use crate::failure::Failure;
use crate::kept_files::{DATABASE_FILES, beside, free_name, rename_to_free};
use crate::queue::state::{Database, State};

/// The unit of a queue.
const QUEUE: &str = "crossload-queue.service";

/// The database of a queue in a file, and the version of its tables.
pub(super) struct Tables {
    database: PathBuf,
    version: usize,
}

/// The tables that a service has now, if it is a queue.
pub(super) fn of(service: &Service) -> Option<Tables> {
    if service.unit != QUEUE {
        return None;
    }
    let configuration = service.configuration()?;
    let Database::Sqlite(database) = State::of(&configuration).database else {
        return None;
    };
    let version = version_in_file(&database).ok()??;
    Some(Tables { database, version })
}

/// Puts back the database as it was, if its tables were changed since. The changed one is kept
/// beside it.
///
/// # Errors
/// There is no copy, or a file cannot be written.
pub(super) fn go_back(tables: &Tables) -> Result<(), Failure> {
    let (database, version) = (tables.database.as_path(), tables.version);
    let now = version_in_file(database)?.unwrap_or_default();
    if now <= version {
        return Ok(());
    }
    let system = |cause: std::io::Error| Failure::system(database.display(), &cause);
    let kept = kept_copy(database, version);
    if !kept.is_file() {
        return Err(Failure::invalid(format!("there is no copy {}", kept.display())));
    }
    let owner = database.metadata().map_err(system)?;
    let fresh = beside(database, ".going-back");
    match std::fs::remove_file(&fresh) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(system(cause)),
        _ => {}
    }
    copy_of_file(&kept, &fresh)?;
    // The new program may have copied files.
    prepare_restored_file(&fresh)?;
    // The directory is the service's own: a link in its place is not followed.
    lchown(&fresh, Some(owner.uid()), Some(owner.gid())).map_err(system)?;
    // An upgrade before may have left one, too.
    let changed = free_name(database, &format!(".version-{now}"), &DATABASE_FILES).map_err(system)?;
    for suffix in DATABASE_FILES {
        match rename_to_free(&beside(database, suffix), &beside(&changed, suffix)) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(system(cause)),
            _ => {}
        }
    }
    std::fs::rename(&fresh, database).map_err(system)?;
    let directory = database.parent().unwrap_or(Path::new("/"));
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(system)
}

#[cfg(test)]
mod tests {
    use catalog::{Catalog, TABLES_VERSION};

    use super::*;

    #[tokio::test]
    async fn changed_tables_are_put_aside_and_the_kept_copy_takes_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("queue.db");
        Catalog::open_sqlite(&database).await.unwrap().close().await;
        let tables = |version| Tables {
            database: database.clone(),
            version,
        };
        go_back(&tables(TABLES_VERSION)).unwrap();
        let changed = kept_copy(&database, TABLES_VERSION);
        assert!(!changed.exists(), "nothing was changed");
        // As if the tables had been of the version before.
        let before = tables(TABLES_VERSION - 1);
        let refused = go_back(&before).unwrap_err().words;
        assert!(refused.contains("there is no copy"), "{refused}");
        let kept = kept_copy(&database, before.version);
        copy_of_file(&database, &kept).unwrap();
        go_back(&before).unwrap();
        assert!(changed.is_file() && kept.is_file());
        // A second upgrade that fails keeps its tables beside those of the first.
        std::fs::write(&changed, "first").unwrap();
        go_back(&before).unwrap();
        assert_eq!(std::fs::read(&changed).unwrap(), b"first");
        assert!(
            directory
                .path()
                .join(format!("queue.db.version-{TABLES_VERSION}.2"))
                .is_file()
        );
        assert_eq!(version_in_file(&database).unwrap(), Some(TABLES_VERSION));
        Catalog::open_sqlite(&database).await.unwrap().close().await;
    }
}
