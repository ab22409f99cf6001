//! Claims: files are given to workers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use schedule::{FileEvent, FileId};
use types::Result;

use super::count::QueueKey;
use super::read::{files_by_id, jobs_by_number};
use super::settings::SettingKind;
use super::words::{known_queue, word_id};
use crate::Catalog;
use crate::job::{FileRecord, JobRecord};
use crate::store::{Row, Transaction, Value};
use crate::work::{Change, FileRow, Work};

/// So many files of a queue may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The queue.
    pub queue: QueueKey,
    /// The priority.
    pub priority: u8,
    /// Files at most.
    pub count: u32,
}

/// A file that a worker has now.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The file.
    pub file: FileRecord,
    /// Its job.
    pub job: Arc<JobRecord>,
}

impl Catalog {
    /// Claims the first files of queues for a worker, whose lease then ends at `lease_ms`. They are
    /// `Ready`. No two claims get the same file.
    ///
    /// The name of a worker is used by one process only, and never again after a restart: else it
    /// would take files of its predecessor for its own.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim(&self, grants: &[Grant], worker: &str, now_ms: i64, lease_ms: i64) -> Result<Vec<Claimed>> {
        let arguments = Arc::new((grants.to_vec(), worker.to_owned()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (grants, worker) = &*arguments;
                claim(transaction, grants, worker, now_ms, lease_ms).await
            })
        })
        .await
    }

    /// As [`Catalog::claim`], if no other worker has claimed anything since the counters were read
    /// with this number ([`Catalog::queues_in_turn`]): what was decided from them would exceed the
    /// limits together with the other's. `None`: one has, and nothing was claimed.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim_in_turn(
        &self,
        turn: i64,
        grants: &[Grant],
        worker: &str,
        now_ms: i64,
        lease_ms: i64,
    ) -> Result<Option<Vec<Claimed>>> {
        let arguments = Arc::new((grants.to_vec(), worker.to_owned()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                if !take_turn(transaction, turn).await? {
                    return Ok(None);
                }
                let (grants, worker) = &*arguments;
                claim(transaction, grants, worker, now_ms, lease_ms).await.map(Some)
            })
        })
        .await
    }

    /// A worker begins the copies of files that it has claimed. Returns those that it may copy: the
    /// others are no longer its own.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn start(&self, files: &[FileId], worker: &str, now_ms: i64) -> Result<Vec<FileId>> {
        let arguments = Arc::new((files.to_vec(), worker.to_owned()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (files, worker) = &*arguments;
                start(transaction, files, worker, now_ms).await
            })
        })
        .await
    }
}

async fn claim(
    transaction: &mut dyn Transaction,
    grants: &[Grant],
    worker: &str,
    now_ms: i64,
    lease_ms: i64,
) -> Result<Vec<Claimed>> {
    let worker = word_id(transaction, worker).await?;
    let mut work = Work::new(transaction, now_ms);
    let ids = take(&mut work, grants, worker).await?;
    work.settle().await?;
    extend_lease(transaction, worker, now_ms, lease_ms).await?;
    claimed(transaction, &ids).await
}

/// The number of claims so far, among what the queue itself keeps.
const TURN: &str = "claims";

/// Counts a claim, if `turn` is still the number of those before. Others wait here until the
/// transaction has ended.
async fn take_turn(transaction: &mut dyn Transaction, turn: i64) -> Result<bool> {
    let place = || [SettingKind::Internal.name().into(), TURN.into()];
    let sql = "INSERT INTO setting (kind, name, value) VALUES ($1, $2, '0') ON CONFLICT (kind, name) DO NOTHING";
    transaction.execute(sql, &place()).await?;
    let sql = "UPDATE setting SET value = $3 WHERE kind = $1 AND name = $2 AND value = $4";
    let [kind, name] = place();
    let numbers = [Value::json(&(turn + 1))?, Value::json(&turn)?];
    let [next, now] = numbers;
    Ok(transaction.execute(sql, &[kind, name, next, now]).await? > 0)
}

/// The number of claims so far.
pub(super) async fn turn(transaction: &mut dyn Transaction) -> Result<i64> {
    let sql = "SELECT value FROM setting WHERE kind = $1 AND name = $2";
    let place = [SettingKind::Internal.name().into(), TURN.into()];
    let mut rows = transaction.query(sql, &place).await?;
    rows.first_mut().map_or(Ok(0), Row::json)
}

async fn start(transaction: &mut dyn Transaction, files: &[FileId], worker: &str, now_ms: i64) -> Result<Vec<FileId>> {
    let worker = word_id(transaction, worker).await?;
    let mut work = Work::new(transaction, now_ms);
    let rows = work.lock_files(files).await?;
    let is_ready = |row: &FileRow| row.worker == Some(worker) && row.state.after(FileEvent::Started).is_ok();
    let mut started = Vec::with_capacity(files.len());
    for row in rows.into_iter().flatten().filter(is_ready) {
        let change = Change {
            moved_bytes: Some(0),
            ..Change::default()
        };
        work.step(&row, FileEvent::Started, change)?;
        started.push(row.id);
    }
    work.settle().await?;
    Ok(started)
}

async fn take(work: &mut Work<'_>, grants: &[Grant], worker: i64) -> Result<Vec<FileId>> {
    let mut ids = Vec::new();
    let mut taken = HashSet::new();
    for grant in grants {
        let Some(queue) = known_queue(work.transaction, &grant.queue).await? else {
            continue;
        };
        let first = "queue = $1 AND priority = $2 AND state = 4 AND due_ms IS NULL ORDER BY id LIMIT $3 {lock_free}";
        let parameters = [queue.into(), grant.priority.into(), grant.count.into()];
        for file in work.select_files(first, &parameters).await? {
            // A grant that repeats an earlier one finds the same files.
            if !taken.insert(file.id) {
                continue;
            }
            let change = Change {
                worker: Some(worker),
                ..Change::default()
            };
            work.step(&file, FileEvent::Claimed, change)?;
            ids.push(file.id);
        }
    }
    Ok(ids)
}

/// The lease of all files that a worker has.
pub(super) async fn extend_lease(
    transaction: &mut dyn Transaction,
    worker: i64,
    now_ms: i64,
    lease_ms: i64,
) -> Result<()> {
    let sql = "INSERT INTO worker (name, beat_ms, lease_ms) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
        beat_ms = excluded.beat_ms, lease_ms = excluded.lease_ms";
    let parameters = [worker.into(), now_ms.into(), lease_ms.into()];
    transaction.execute(sql, &parameters).await?;
    Ok(())
}

async fn claimed(transaction: &mut dyn Transaction, ids: &[FileId]) -> Result<Vec<Claimed>> {
    let files = files_by_id(transaction, ids).await?;
    let numbers: BTreeSet<i64> = files.iter().map(|file| file.job).collect();
    let jobs: HashMap<i64, Arc<JobRecord>> = jobs_by_number(transaction, &numbers)
        .await?
        .into_iter()
        .map(|job| (job.number, Arc::new(job.record)))
        .collect();
    let with_job = files.into_iter().filter_map(|file| {
        let job = Arc::clone(jobs.get(&file.job)?);
        let file = file.record;
        Some(Claimed { file, job })
    });
    Ok(with_job.collect())
}
