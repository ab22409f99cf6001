//! The tables, as migrations that lead from one version to the next.
//!
//! A migration that was released never changes. `state` columns hold the numbers of
//! [`schedule::FileState`] and [`schedule::JobState`]; times are milliseconds since 1970.

use tokio::sync::watch;
use types::{ErrorCode, Result};

use crate::store::postgres::Postgres;
use crate::store::{Row, Transaction, Value, failure};

/// Version 1 and its successors, in order.
const MIGRATIONS: [&str; 11] = [
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8, VERSION_9, VERSION_10,
    VERSION_11,
];

/// The version of our tables.
pub const TABLES_VERSION: usize = MIGRATIONS.len();
/// The first version that notes which copies were interrupted.
pub(crate) const WITH_INTERRUPTED: usize = 6;

/// * `word`: each text that rows repeat (storages, organisations, activities, users, workers), once
/// * `queue`: files of one link, organisation and activity; `queue_count` counts them
/// * `job` and `file` hold what changes, `job_body` and `file_body` what does not
/// * `file_pending` has each file that can be claimed, in order, and no other
/// * `job_history` and `file_history` hold what has ended, one record a row
/// * `event`: what changed, in the order in which it became visible
const VERSION_1: &str = "
CREATE TABLE word (id {identity}, text TEXT NOT NULL UNIQUE);
CREATE TABLE queue (
    id {identity}, source BIGINT NOT NULL, destination BIGINT NOT NULL, vo BIGINT NOT NULL,
    activity BIGINT NOT NULL, UNIQUE (source, destination, vo, activity));
CREATE INDEX queue_destination ON queue (destination);
CREATE TABLE queue_count (
    queue BIGINT NOT NULL, priority SMALLINT NOT NULL, waiting BIGINT NOT NULL, delayed BIGINT NOT NULL,
    held BIGINT NOT NULL, active BIGINT NOT NULL, PRIMARY KEY (queue, priority));

CREATE TABLE job (
    id {identity}, uuid {blob} NOT NULL UNIQUE, kind TEXT NOT NULL, state SMALLINT NOT NULL,
    user_name BIGINT NOT NULL, delegation BIGINT NOT NULL, vo BIGINT NOT NULL, login TEXT NOT NULL,
    submitted_ms BIGINT NOT NULL, finished_ms BIGINT, priority SMALLINT NOT NULL, expires_ms BIGINT,
    is_canceled SMALLINT NOT NULL, reason TEXT, source BIGINT, destination BIGINT, files BIGINT NOT NULL,
    staging BIGINT NOT NULL, waiting BIGINT NOT NULL, unused BIGINT NOT NULL, running BIGINT NOT NULL,
    archiving BIGINT NOT NULL, finished BIGINT NOT NULL, failed BIGINT NOT NULL, canceled BIGINT NOT NULL);
CREATE INDEX job_live ON job (id) WHERE state <= 4;
CREATE INDEX job_expiry ON job (expires_ms) WHERE expires_ms IS NOT NULL AND state <= 4;
CREATE INDEX job_ended ON job (finished_ms) WHERE state > 4;
CREATE INDEX job_delegation ON job (delegation);
CREATE TABLE job_body (job BIGINT NOT NULL PRIMARY KEY, options TEXT NOT NULL, metadata TEXT);

CREATE TABLE file (
    id {identity}, job BIGINT NOT NULL, place BIGINT NOT NULL, state SMALLINT NOT NULL,
    initial_state SMALLINT NOT NULL, queue BIGINT NOT NULL, priority SMALLINT NOT NULL, due_ms BIGINT,
    given_size BIGINT, size BIGINT, moved BIGINT NOT NULL, attempts BIGINT NOT NULL, worker BIGINT,
    problem TEXT, staging_started_ms BIGINT, staging_finished_ms BIGINT, started_ms BIGINT, finished_ms BIGINT,
    archiving_started_ms BIGINT, archiving_finished_ms BIGINT, way TEXT, report TEXT, request TEXT);
CREATE INDEX file_job ON file (job);
CREATE INDEX file_pending ON file (queue, priority, id) WHERE state = 4 AND due_ms IS NULL;
CREATE INDEX file_due ON file (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX file_running ON file (worker) WHERE state IN (8, 9);
CREATE INDEX file_tape ON file (state, queue, id) WHERE state IN (1, 2, 3, 10);
CREATE INDEX file_held ON file (queue, id) WHERE state IN (5, 6);
CREATE TABLE file_body (
    file BIGINT NOT NULL PRIMARY KEY, source TEXT NOT NULL, destination TEXT NOT NULL, options TEXT NOT NULL);
CREATE TABLE attempt (
    file BIGINT NOT NULL, number BIGINT NOT NULL, at_ms BIGINT NOT NULL, worker BIGINT, problem TEXT NOT NULL,
    PRIMARY KEY (file, number));

CREATE TABLE job_history (
    id BIGINT NOT NULL PRIMARY KEY, uuid {blob} NOT NULL UNIQUE, state SMALLINT NOT NULL, user_name BIGINT NOT NULL,
    delegation BIGINT NOT NULL, vo BIGINT NOT NULL, source BIGINT, destination BIGINT, submitted_ms BIGINT NOT NULL,
    finished_ms BIGINT NOT NULL, record TEXT NOT NULL);
CREATE INDEX job_history_finished ON job_history (finished_ms);
CREATE INDEX job_history_delegation ON job_history (delegation);
CREATE TABLE file_history (
    id BIGINT NOT NULL PRIMARY KEY, job BIGINT NOT NULL, state SMALLINT NOT NULL, queue BIGINT NOT NULL,
    record TEXT NOT NULL);
CREATE INDEX file_history_job ON file_history (job);

CREATE TABLE event (
    sequence {identity}, at_ms BIGINT NOT NULL, job {blob} NOT NULL, file BIGINT, file_state SMALLINT,
    job_state SMALLINT NOT NULL, vo BIGINT NOT NULL);
CREATE INDEX event_age ON event (at_ms);
CREATE TABLE worker (
    name BIGINT NOT NULL PRIMARY KEY, beat_ms BIGINT NOT NULL, lease_ms BIGINT NOT NULL, capacity TEXT);
CREATE TABLE setting (kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, name));
CREATE TABLE audit (id {identity}, at_ms BIGINT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE secret (
    kind TEXT NOT NULL, name TEXT NOT NULL, sealed {blob} NOT NULL, expires_ms BIGINT, owner TEXT NOT NULL,
    stored_ms BIGINT NOT NULL, PRIMARY KEY (kind, name));
CREATE TABLE secret_use (name TEXT NOT NULL, job BIGINT NOT NULL, PRIMARY KEY (name, job));
CREATE INDEX secret_use_job ON secret_use (job);
";

/// Keys of clients that make a repeated submission the same.
const VERSION_2: &str = "
CREATE TABLE submission_key (
    owner TEXT NOT NULL, name TEXT NOT NULL, digest {blob} NOT NULL, job {blob} NOT NULL, PRIMARY KEY (owner, name));
CREATE INDEX submission_key_job ON submission_key (job);
";

/// Secrets that are renewed: when, by whom now, and the secret that takes their place.
const VERSION_3: &str = "
ALTER TABLE secret ADD COLUMN renews_ms BIGINT;
ALTER TABLE secret ADD COLUMN lease_ms BIGINT;
ALTER TABLE secret ADD COLUMN renewed_by TEXT;
CREATE INDEX secret_renewal ON secret (renews_ms) WHERE renews_ms IS NOT NULL;
";

/// Events keep how attempts ended. Without a job, `detail` is a decision about a link. `reader`:
/// how far those are who read all events. Older events are dropped: none is kept for long.
const VERSION_4: &str = "
DROP TABLE event;
CREATE TABLE event (
    sequence {identity}, at_ms BIGINT NOT NULL, job {blob}, file BIGINT, file_state SMALLINT, job_state SMALLINT,
    vo BIGINT, detail TEXT);
CREATE INDEX event_age ON event (at_ms);
CREATE TABLE reader (
    name TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, lease_ms BIGINT NOT NULL, sequence BIGINT NOT NULL);
";

/// Requests at tape systems for which something is left to do.
const VERSION_5: &str = "
CREATE TABLE stage_request (
    id {identity}, storage BIGINT NOT NULL, request TEXT NOT NULL, asked_ms BIGINT NOT NULL, members TEXT NOT NULL);
";

/// Files whose copy was begun by a worker that was lost before it stored the end.
const VERSION_6: &str = "
ALTER TABLE file ADD COLUMN interrupted SMALLINT NOT NULL DEFAULT 0;
";

/// The hop of a file, and the queue in which it was submitted. `hop_file` has each file that may be
/// at a hop; what no file needs any more is due to be removed.
const VERSION_7: &str = "
ALTER TABLE file ADD COLUMN home BIGINT;
ALTER TABLE file ADD COLUMN hop TEXT;
CREATE TABLE hop_file (
    url TEXT NOT NULL PRIMARY KEY, file BIGINT NOT NULL, due_ms BIGINT, tries BIGINT NOT NULL);
CREATE INDEX hop_file_file ON hop_file (file);
CREATE INDEX hop_file_due ON hop_file (due_ms) WHERE due_ms IS NOT NULL;
";

/// What storages can do: the words of `queue` for what, and for how it is known.
const VERSION_8: &str = "
CREATE TABLE capability (
    storage TEXT NOT NULL, cell TEXT NOT NULL, can SMALLINT NOT NULL, evidence TEXT NOT NULL, at_ms BIGINT NOT NULL,
    PRIMARY KEY (storage, cell));
CREATE INDEX capability_age ON capability (at_ms);
";

/// A queue has the files of one user. Those that were there before have a user without a name.
const VERSION_9: &str = "
INSERT INTO word (text) VALUES ('') ON CONFLICT (text) DO NOTHING;
CREATE TABLE queue_of_user (
    id {identity}, source BIGINT NOT NULL, destination BIGINT NOT NULL, vo BIGINT NOT NULL,
    activity BIGINT NOT NULL, user_name BIGINT NOT NULL, UNIQUE (source, destination, vo, activity, user_name));
INSERT INTO queue_of_user (id, source, destination, vo, activity, user_name)
    SELECT q.id, q.source, q.destination, q.vo, q.activity, w.id FROM queue q, word w WHERE w.text = '';
DROP TABLE queue;
ALTER TABLE queue_of_user RENAME TO queue;
CREATE INDEX queue_destination ON queue (destination);
{queue_ids_go_on}
";

/// Changes of large jobs that take several transactions, each with its place among the files.
const VERSION_10: &str = "
CREATE TABLE long_change (
    job BIGINT NOT NULL, kind TEXT NOT NULL, last_file BIGINT NOT NULL, detail TEXT NOT NULL, seen_ms BIGINT NOT NULL,
    PRIMARY KEY (job, kind));
DROP INDEX file_job;
CREATE INDEX file_job ON file (job, id);
";

/// Files are found by their destination. Its text may be longer than the rows of an ordered index
/// of PostgreSQL.
const VERSION_11: &str = "
CREATE INDEX file_body_destination ON file_body {by_hash} (destination);
";

/// Refuses tables of a later release; `database` is the name of the file, or what it is.
pub(crate) fn refuse_newer(database: &str, version: usize) -> Result<()> {
    if version <= TABLES_VERSION {
        return Ok(());
    }
    let words = format!("{database}: its version is {version}, ours is {TABLES_VERSION}");
    Err(failure(ErrorCode::CatalogNewer).with_detail(words))
}

/// The version of the tables; `None` before there are any.
pub(crate) async fn version(transaction: &mut dyn Transaction) -> Result<Option<usize>> {
    let mut rows = transaction.query("SELECT number FROM catalog_version", &[]).await?;
    rows.first_mut().map(Row::number).transpose()
}

/// The version of the tables in a database of PostgreSQL; `None` if there are none.
///
/// # Errors
/// Those of the database.
pub async fn version_in_postgres(url: &str) -> Result<Option<usize>> {
    let (sender, _changes) = watch::channel(0);
    let database = Postgres::open(url, sender)?;
    database.read(|transaction| Box::pin(version_if_any(transaction))).await
}

async fn version_if_any(transaction: &mut dyn Transaction) -> Result<Option<usize>> {
    let sql = "SELECT count(*) FROM information_schema.tables \
        WHERE table_name = 'catalog_version' AND table_schema = current_schema()";
    let mut rows = transaction.query(sql, &[]).await?;
    match rows.first_mut().map_or(Ok(0), Row::integer)? {
        0 => Ok(None),
        _ => version(transaction).await,
    }
}

/// Brings the tables to our version.
///
/// # Errors
/// `catalog_newer` if a later release has been here; those of the database.
pub(crate) async fn migrate(transaction: &mut dyn Transaction) -> Result<()> {
    // Of several processes that begin at the same time, the first makes the tables.
    transaction.order_events().await?;
    let table = "CREATE TABLE IF NOT EXISTS catalog_version (number BIGINT NOT NULL)";
    transaction.execute(table, &[]).await?;
    let version = version(transaction).await?.unwrap_or_default();
    refuse_newer("the database of the queue", version)?;
    if version == TABLES_VERSION {
        return Ok(());
    }
    for migration in &MIGRATIONS[version..] {
        transaction.script(migration).await?;
    }
    transaction.execute("DELETE FROM catalog_version", &[]).await?;
    let current = [Value::from(TABLES_VERSION as i64)];
    let insert = "INSERT INTO catalog_version (number) VALUES ($1)";
    transaction.execute(insert, &current).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use schedule::{FileState, JobId, JobState};
    use testkit::{Postgres, available};

    use super::*;
    use crate::store::sqlite::dialect;
    use crate::{Catalog, Grant, copy_of_file, kept_copy, prepare_restored_file, version_in_file};

    const JOB: JobId = JobId([7; 16]);
    const SUBMITTED_MS: i64 = 1_800_000_000_000;
    /// The first version whose queues are of one user.
    const WITH_USERS: usize = 9;
    const WORDS: &str = "word s, word d, word v, word a, word u WHERE s.text = 'davs://a:443' \
        AND d.text = 'davs://b:443' AND v.text = 'atlas' AND a.text = 'Production' AND u.text = '/CN=Jane'";

    /// Makes the tables of a version, with a job of one file that waits.
    async fn make(transaction: &mut dyn Transaction, version: usize) -> Result<()> {
        for migration in &MIGRATIONS[..version] {
            transaction.script(migration).await?;
        }
        let (column, user) = match version {
            WITH_USERS.. => (", user_name", ", u.id"),
            _ => ("", ""),
        };
        let job = format!(
            "INSERT INTO job (uuid, kind, state, user_name, delegation, vo, login, submitted_ms, priority, is_canceled, \
            files, staging, waiting, unused, running, archiving, finished, failed, canceled) SELECT $1, 'N', 2, \
            u.id, u.id, v.id, '\"certificate\"', {SUBMITTED_MS}, 3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0 FROM {WORDS}"
        );
        let tables = format!(
            "CREATE TABLE catalog_version (number BIGINT NOT NULL);
            INSERT INTO catalog_version (number) VALUES ({version});
            INSERT INTO word (text)
                VALUES ('davs://a:443'), ('davs://b:443'), ('atlas'), ('Production'), ('/CN=Jane');
            INSERT INTO queue (source, destination, vo, activity{column}) SELECT s.id, d.id, v.id, a.id{user}
                FROM {WORDS};
            INSERT INTO queue_count (queue, priority, waiting, delayed, held, active)
                SELECT id, 3, 1, 0, 0, 0 FROM queue;"
        );
        transaction.script(&tables).await?;
        transaction.execute(&job, &[JOB.into()]).await?;
        let files = "INSERT INTO job_body (job, options) SELECT id, '{}' FROM job;
            INSERT INTO file (job, place, state, initial_state, queue, priority, moved, attempts)
                SELECT j.id, 0, 4, 4, q.id, 3, 0, 0 FROM job j, queue q;
            INSERT INTO file_body (file, source, destination, options)
                SELECT id, 'davs://a:443/x', 'davs://b:443/x', '{}' FROM file;";
        transaction.script(files).await
    }

    async fn make_old(catalog: Catalog, version: usize) {
        let made = catalog.write(move |transaction| Box::pin(make(transaction, version)));
        made.await.unwrap();
        catalog.close().await;
    }

    /// The job that a database of this version had is there, and runs.
    async fn check(catalog: Catalog, version: usize) {
        let job = catalog.job(JOB).await.unwrap().unwrap();
        assert_eq!((job.state, job.files), (JobState::Submitted, 1), "{version}");
        let files = catalog.files(JOB).await.unwrap();
        assert_eq!(files[0].destination, "davs://b:443/x", "{version}");
        let counts = catalog.queues().await.unwrap();
        let user = if version < WITH_USERS { "" } else { "/CN=Jane" };
        assert_eq!((counts[0].waiting, &*counts[0].key.user), (1, user), "{version}");
        let grant = Grant {
            queue: counts[0].key.clone(),
            priority: 3,
            count: 1,
        };
        let lease_ms = SUBMITTED_MS + 1;
        let claimed = catalog.claim(&[grant], "w", SUBMITTED_MS, lease_ms).await.unwrap();
        assert_eq!(claimed[0].file.state, FileState::Ready, "{version}");
        catalog.close().await;
    }

    #[tokio::test]
    async fn a_database_of_each_version_is_migrated_with_sqlite() {
        let directory = tempfile::tempdir().unwrap();
        for version in 1..=MIGRATIONS.len() {
            let path = directory.path().join(version.to_string());
            make_old(Catalog::connect_sqlite(&path).await.unwrap(), version).await;
            check(Catalog::open_sqlite(&path).await.unwrap(), version).await;
            let kept = kept_copy(&path, version);
            match version == TABLES_VERSION {
                true => assert!(!kept.exists(), "{version}"),
                false => {
                    let mode = kept.metadata().unwrap().permissions().mode();
                    assert_eq!(mode & 0o777, 0o600, "{version}");
                    assert_eq!(version_in_file(&kept).unwrap(), Some(version));
                    check(Catalog::open_sqlite(&kept).await.unwrap(), version).await;
                }
            }
        }
    }

    #[tokio::test]
    async fn a_database_whose_copy_cannot_be_kept_is_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queue.db");
        make_old(Catalog::connect_sqlite(&path).await.unwrap(), 1).await;
        std::fs::create_dir(kept_copy(&path, 1)).unwrap();
        let refused = Catalog::open_sqlite(&path).await.map(drop).unwrap_err();
        let detail = refused.detail().unwrap_or_default();
        assert!(detail.contains("queue.db.version-1"), "{refused:?}");
        assert_eq!(version_in_file(&path).unwrap(), Some(1));
    }

    /// What is on disk when a process is killed in the middle: with a cache this small, SQLite has
    /// written pages of the open transaction.
    #[tokio::test]
    async fn a_migration_that_was_killed_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut unfinished_bytes = 0;
        for done in 1..TABLES_VERSION {
            let (path, left) = (
                directory.path().join("queue.db"),
                directory.path().join(done.to_string()),
            );
            make_old(Catalog::connect_sqlite(&path).await.unwrap(), 1).await;
            let killed = rusqlite::Connection::open(&path).unwrap();
            killed
                .execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM catalog_version")
                .unwrap();
            for migration in &MIGRATIONS[1..=done] {
                killed.execute_batch(&dialect(migration)).unwrap();
            }
            std::fs::copy(&path, &left).unwrap();
            let log = std::fs::copy(beside(&path, "-wal"), beside(&left, "-wal"));
            unfinished_bytes += log.unwrap_or_default();
            killed.execute_batch("ROLLBACK").unwrap();
            drop(killed);
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(beside(&path, suffix));
            }
            check(Catalog::open_sqlite(&left).await.unwrap(), 1).await;
        }
        assert!(unfinished_bytes > 0, "no transaction was written before its end");
    }

    fn beside(path: &Path, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", path.display()))
    }

    #[tokio::test]
    async fn a_restored_database_looks_at_destinations_before_it_copies() {
        let directory = tempfile::tempdir().unwrap();
        for version in 1..=TABLES_VERSION {
            let path = directory.path().join(version.to_string());
            make_old(Catalog::connect_sqlite(&path).await.unwrap(), version).await;
            let copy = directory.path().join(format!("copy-{version}"));
            copy_of_file(&path, &copy).unwrap();
            prepare_restored_file(&copy).unwrap();
            let catalog = Catalog::open_sqlite(&copy).await.unwrap();
            let files = catalog.files(JOB).await.unwrap();
            assert_eq!(files[0].is_interrupted, version >= WITH_INTERRUPTED, "{version}");
            check(catalog, version).await;
        }
        let other = directory.path().join("other");
        std::fs::write(&other, vec![b'x'; 8192]).unwrap();
        let refused = prepare_restored_file(&other).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::CatalogDamaged);
        let newer = directory.path().join(TABLES_VERSION.to_string());
        let connection = rusqlite::Connection::open(&newer).unwrap();
        let sql = format!("UPDATE catalog_version SET number = {}", TABLES_VERSION + 1);
        connection.execute_batch(&sql).unwrap();
        drop(connection);
        let refused = prepare_restored_file(&newer).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::CatalogNewer);
    }

    #[test]
    fn a_database_of_each_version_is_migrated_with_postgresql() {
        let test = "a_database_of_each_version_is_migrated_with_postgresql";
        let Some(server) = available(test, Postgres::start()) else {
            return;
        };
        execution::single_thread_runtime().unwrap().block_on(async {
            for version in 1..=MIGRATIONS.len() {
                let url = server.database(&format!("version{version}")).unwrap();
                make_old(Catalog::connect_postgres(&url).unwrap(), version).await;
                check(Catalog::open_postgres(&url).await.unwrap(), version).await;
            }
        });
    }
}
