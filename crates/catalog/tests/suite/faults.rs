//! Faults of SQLite: a killed process, a full disk, a damaged or foreign file.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use catalog::{Catalog, CopyFacts, Ending, Grant, Outcome};
use schedule::{FileId, FileState, JobId};
use testkit::{Scratch, Tmpfs, available};
use types::ErrorCode;

use crate::place::{NOW, plain_job, queue};

/// Names the database to the process that is killed.
const VICTIM: &str = "CATALOG_VICTIM";
/// Endings that the process acknowledges before it is killed.
const ACKNOWLEDGED: usize = 40;

/// Not a test: the process that [`a_killed_process_loses_nothing_that_it_acknowledged`] kills.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    let runtime = execution::worker_runtime().unwrap();
    runtime.block_on(async {
        let catalog = Catalog::open_sqlite(Path::new(&path)).await.unwrap();
        let submitting = async {
            for number in 1..=250 {
                catalog.submit(plain_job(number, 20)).await.unwrap();
                tell(&format!("job {number}"));
            }
        };
        let ending = async {
            loop {
                end_some(&catalog).await;
            }
        };
        tokio::join!(submitting, ending);
    });
}

async fn end_some(catalog: &Catalog) {
    let grant = Grant {
        queue: queue(),
        priority: 3,
        count: 3,
    };
    let claimed = catalog.claim(&[grant], "w1", NOW, NOW + 1000).await.unwrap();
    if claimed.is_empty() {
        catalog.changes().wait().await;
    }
    let ending = |file: FileId| Ending {
        file,
        moved_bytes: 1,
        outcome: Outcome::Finished {
            size_bytes: 1,
            way: None,
        },
        facts: CopyFacts::default(),
    };
    let endings: Vec<Ending> = claimed.iter().map(|claimed| ending(claimed.file.id)).collect();
    catalog.end("w1", endings.clone(), NOW).await.unwrap();
    for ending in endings {
        tell(&format!("file {}", ending.file));
    }
}

/// One line, in one write.
fn tell(line: &str) {
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let scratch = Scratch::new("catalog-kill").unwrap();
    let path = scratch.join("queue.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["faults::victim", "--exact", "--nocapture"])
        .env(VICTIM, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut jobs, mut files) = (Vec::new(), Vec::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.strip_prefix("job ") {
            jobs.push(JobId([number.parse().unwrap(); 16]));
        }
        if let Some(number) = line.strip_prefix("file ") {
            files.push(FileId(number.parse().unwrap()));
        }
        if files.len() == ACKNOWLEDGED {
            // What it had written before is still read.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(files.len() >= ACKNOWLEDGED && !jobs.is_empty());
    execution::worker_runtime().unwrap().block_on(async {
        let catalog = Catalog::open_sqlite(&path).await.unwrap();
        assert!(catalog.jobs(&jobs).await.unwrap().iter().all(Option::is_some));
        for file in files {
            let file = catalog.file(file).await.unwrap().unwrap();
            assert_eq!(file.state, FileState::Finished);
        }
        is_consistent(&catalog).await;
    });
}

/// Each job has all of its files, and the counters agree with them.
async fn is_consistent(catalog: &Catalog) {
    let all = catalog::JobFilter {
        limit: 10_000,
        ..catalog::JobFilter::default()
    };
    let jobs = catalog.list_jobs(&all).await.unwrap();
    let mut waiting = 0;
    for job in &jobs {
        let files = catalog.files(job.id).await.unwrap();
        assert_eq!(files.len(), job.files as usize);
        waiting += files.iter().filter(|file| file.state == FileState::Submitted).count() as u64;
    }
    let queues = catalog.queues().await.unwrap();
    assert_eq!(queues.iter().map(|queue| queue.waiting).sum::<u64>(), waiting);
}

#[test]
fn a_full_disk_stores_nothing_half_and_recovers() {
    let scratch = Scratch::new("catalog-full").unwrap();
    let mount = Tmpfs::mount(&scratch.join("disk"), 8 << 20);
    let Some(disk) = available("a_full_disk_stores_nothing_half_and_recovers", mount) else {
        return;
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 2 << 20]).unwrap();
    execution::worker_runtime().unwrap().block_on(async {
        let catalog = Catalog::open_sqlite(&disk.path().join("queue.db")).await.unwrap();
        let mut stored = Vec::new();
        let error = loop {
            let job = plain_job(stored.len() as u8 + 1, 400);
            match catalog.submit(job).await {
                Ok(_) => stored.push(JobId([stored.len() as u8 + 1; 16])),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), ErrorCode::CatalogFull, "{error:?}");
        assert!(!stored.is_empty());
        is_consistent(&catalog).await;
        assert!(catalog.jobs(&stored).await.unwrap().iter().all(Option::is_some));
        assert_eq!(catalog.last_event().await.unwrap(), stored.len() as i64);
        std::fs::remove_file(&ballast).unwrap();
        catalog.submit(plain_job(200, 400)).await.unwrap();
        catalog.close().await;
    });
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_refused_in_words() {
    let scratch = Scratch::new("catalog-refused").unwrap();
    let path = scratch.join("queue.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    let refused = async |path: &Path| Catalog::open_sqlite(path).await.map(drop).unwrap_err();
    let error = refused(&path).await;
    assert_eq!(
        (error.code(), error.detail()),
        (
            ErrorCode::CatalogUnavailable,
            Some("queue.state_directory is in use by another process")
        )
    );
    catalog.close().await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("UPDATE catalog_version SET number = 99")
        .unwrap();
    drop(connection);
    let error = refused(&path).await;
    assert_eq!(error.code(), ErrorCode::CatalogNewer);
    let detail = error.detail().unwrap();
    let begins = format!("{}: its version is 99, ours is ", path.display());
    assert!(detail.starts_with(&begins), "{detail}");
    // Nothing is changed, and no copy is kept.
    let connection = rusqlite::Connection::open(&path).unwrap();
    let number: i64 = connection
        .query_row("SELECT number FROM catalog_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!((number, catalog::kept_copy(&path, 99).exists()), (99, false));
    drop(connection);
    let foreign = scratch.join("foreign.db");
    std::fs::write(&foreign, vec![b'x'; 8192]).unwrap();
    assert_eq!(refused(&foreign).await.code(), ErrorCode::CatalogDamaged);
    let nowhere = scratch.join("missing/queue.db");
    assert_eq!(refused(&nowhere).await.code(), ErrorCode::CatalogUnavailable);
    let error = Catalog::open_postgres("postgres://pg@127.0.0.1:1/x?sslmode=disable").await;
    assert_eq!(error.map(drop).unwrap_err().code(), ErrorCode::CatalogUnavailable);
    let error = Catalog::open_postgres("mysql://x").await;
    assert!(error.map(drop).unwrap_err().detail().unwrap().contains("postgres://"));
}

#[tokio::test]
async fn others_cannot_read_the_files_of_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    // As an earlier release left it.
    std::fs::write(&path, b"").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    catalog.submit(plain_job(1, 1)).await.unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["queue.db", "queue.db-shm", "queue.db-wal", "queue.db.lock"]);
}
