//! Bans hold files and cancel them; priorities change.

use std::collections::BTreeSet;
use std::sync::Arc;

use schedule::{FileEvent, JobId};
use types::Result;

use super::cancel::{RunningFile, cancel};
use super::list::Conditions;
use super::long_change::{LongChange, LongChangeKind, note, prioritize};
use crate::Catalog;
use crate::limits::{CHANGED_FILES_MAX, LISTED_MAX, SWEEP_FILES_MAX};
use crate::store::{Transaction, Value};
use crate::work::{Change, FileRow, Work};

/// What a sweep over the files of a storage has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many files.
    pub files: usize,
    /// Their jobs. Bounded by [`LISTED_MAX`].
    pub jobs: BTreeSet<JobId>,
    /// Copies to stop. Their workers also learn it when they renew their leases.
    pub running: Vec<RunningFile>,
}

impl Swept {
    fn add(&mut self, step: Self) {
        self.files += step.files;
        let room = LISTED_MAX.saturating_sub(self.jobs.len());
        self.jobs.extend(step.jobs.into_iter().take(room));
        self.running.extend(step.running);
    }
}

/// What a sweep over the files of a storage does.
#[derive(Clone, Debug)]
enum Sweep {
    Hold,
    Release,
    Cancel { reason: String },
}

impl Sweep {
    /// Conditions for the files of one queue, each with an index.
    fn conditions(&self) -> &'static [&'static str] {
        match self {
            Self::Hold => &[
                "queue = $1 AND state = 4 AND due_ms IS NULL",
                "queue = $1 AND state = 4 AND due_ms IS NOT NULL",
                "queue = $1 AND state = 2 AND state IN (1, 2, 3, 10)",
            ],
            Self::Release => &["queue = $1 AND state IN (5, 6)"],
            Self::Cancel { .. } => &[
                "queue = $1 AND state = 4 AND due_ms IS NULL",
                "queue = $1 AND state = 4 AND due_ms IS NOT NULL",
                "queue = $1 AND state IN (1, 2, 3) AND state IN (1, 2, 3, 10)",
                "queue = $1 AND state IN (5, 6)",
                "queue = $1 AND state IN (8, 9)",
            ],
        }
    }
}

impl Catalog {
    /// Holds the files that wait for a storage, of one virtual organisation or all. Those that run
    /// go on.
    ///
    /// # Errors
    /// Those of the database. Some files may be held then.
    pub async fn hold(&self, storage: &str, vo: Option<&str>, now_ms: i64) -> Result<Swept> {
        self.sweep(storage, vo, Sweep::Hold, now_ms).await
    }

    /// Releases what [`Catalog::hold`] holds. A file may be held by a ban of its other storage too:
    /// hold the files of that one again afterwards.
    ///
    /// # Errors
    /// Those of the database. Some files may be released then.
    pub async fn release(&self, storage: &str, vo: Option<&str>, now_ms: i64) -> Result<usize> {
        Ok(self.sweep(storage, vo, Sweep::Release, now_ms).await?.files)
    }

    /// Cancels the files of a storage that live, of one virtual organisation or all, except for
    /// spare replicas and later hops.
    ///
    /// # Errors
    /// Those of the database. Some files may be canceled then.
    pub async fn cancel_storage(&self, storage: &str, vo: Option<&str>, reason: &str, now_ms: i64) -> Result<Swept> {
        let reason = reason.to_owned();
        self.sweep(storage, vo, Sweep::Cancel { reason }, now_ms).await
    }

    async fn sweep(&self, storage: &str, vo: Option<&str>, sweep: Sweep, now_ms: i64) -> Result<Swept> {
        let mut conditions = Conditions::default();
        conditions.storages(&["q.source", "q.destination"], storage);
        conditions.word("q.vo", vo);
        let (conditions, sweep) = (Arc::new(conditions), Arc::new(sweep));
        let mut all = Swept::default();
        loop {
            let (conditions, sweep) = (Arc::clone(&conditions), Arc::clone(&sweep));
            let step = self.write(move |transaction| {
                let (conditions, sweep) = (Arc::clone(&conditions), Arc::clone(&sweep));
                Box::pin(async move { sweep_once(transaction, &conditions, &sweep, now_ms).await })
            });
            let step = step.await?;
            if step.files == 0 {
                return Ok(all);
            }
            all.add(step);
        }
    }

    /// Gives a job another priority, with its files that live. Those of a large one change in
    /// several transactions. Returns whether it lives.
    ///
    /// # Errors
    /// Those of the database. The rest of a large job may change later then.
    pub async fn set_priority(&self, job: JobId, priority: u8, now_ms: i64) -> Result<bool> {
        let begun = self.write(move |transaction| Box::pin(set_priority(transaction, job, priority, now_ms)));
        match begun.await? {
            Prioritized::Done { is_alive } => Ok(is_alive),
            Prioritized::Begun(change) => self.complete(change, now_ms).await.map(|_| true),
        }
    }
}

/// Changes as many files as one operation may.
async fn sweep_once(
    transaction: &mut dyn Transaction,
    conditions: &Conditions,
    sweep: &Sweep,
    now_ms: i64,
) -> Result<Swept> {
    let sql = format!("SELECT q.id FROM queue q{} ORDER BY q.id", conditions.clause());
    let mut queues = transaction.query(&sql, &conditions.parameters).await?;
    let mut work = Work::new(transaction, now_ms);
    let mut files: Vec<FileRow> = Vec::new();
    for queue in &mut queues {
        let queue = queue.integer()?;
        for condition in sweep.conditions() {
            let room = SWEEP_FILES_MAX.saturating_sub(files.len()) as i64;
            if room == 0 {
                break;
            }
            // Files that are being stored have no job yet.
            let has_job = "EXISTS (SELECT 1 FROM job j WHERE j.id = file.job)";
            let condition = format!("{condition} AND {has_job} ORDER BY id LIMIT $2 {{lock}}");
            files.extend(work.select_files(&condition, &[queue.into(), room.into()]).await?);
        }
    }
    let event = match sweep {
        Sweep::Hold => FileEvent::HeldByBan,
        Sweep::Release => FileEvent::Released,
        Sweep::Cancel { reason } => {
            let running = cancel(&mut work, &files, reason).await?;
            work.settle().await?;
            return swept(transaction, &files, running).await;
        }
    };
    for file in &files {
        let change = Change {
            due_ms: file.due_ms,
            ..Change::default()
        };
        work.step(file, event, change)?;
    }
    work.settle().await?;
    swept(transaction, &files, Vec::new()).await
}

async fn swept(transaction: &mut dyn Transaction, files: &[FileRow], running: Vec<RunningFile>) -> Result<Swept> {
    let numbers: BTreeSet<i64> = files.iter().map(|file| file.job).collect();
    let sets: Vec<Vec<Value>> = numbers.into_iter().map(|number| vec![number.into()]).collect();
    let found = transaction
        .query_each("SELECT uuid FROM job WHERE id = $1", &sets)
        .await?;
    let jobs = found.into_iter().flatten().map(|mut row| row.job_id());
    Ok(Swept {
        files: files.len(),
        jobs: jobs.collect::<Result<_>>()?,
        running,
    })
}

/// What the first transaction of a change of priority did.
enum Prioritized {
    Done {
        is_alive: bool,
    },
    /// The job is too large for it: so far only its own priority has changed.
    Begun(LongChange),
}

async fn set_priority(transaction: &mut dyn Transaction, id: JobId, priority: u8, now_ms: i64) -> Result<Prioritized> {
    let sql = "SELECT id, files FROM job WHERE uuid = $1 AND state <= 4";
    let mut rows = transaction.query(sql, &[id.into()]).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(Prioritized::Done { is_alive: false });
    };
    let (job, count): (i64, usize) = (row.integer()?, row.number()?);
    let parameters: [Value; 2] = [job.into(), priority.into()];
    let sql = "UPDATE job SET priority = $2 WHERE id = $1";
    if count > CHANGED_FILES_MAX {
        let kind = LongChangeKind::Priority;
        note(transaction, LongChange { job, kind }, &priority.to_string(), now_ms).await?;
        transaction.execute(sql, &parameters).await?;
        return Ok(Prioritized::Begun(LongChange { job, kind }));
    }
    let mut work = Work::new(transaction, now_ms);
    let files = work
        .select_files("job = $1 AND state <= 10 ORDER BY id {lock}", &[job.into()])
        .await?;
    prioritize(&mut work, &files, priority.into()).await?;
    work.transaction.execute(sql, &parameters).await?;
    work.settle().await?;
    let is_alive = !files.is_empty();
    Ok(Prioritized::Done { is_alive })
}
