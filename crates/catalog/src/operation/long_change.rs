//! Changes of large jobs, in several transactions, so that others come in between.
//!
//! The first transaction notes the change in `long_change`, the last one removes the note. What is
//! left of it after the end of a process is done by another one, or after the next start.

use schedule::FileId;
use types::Result;

use super::admit::admit;
use super::cancel::{RunningFile, cancel};
use super::history::{remove_files, retire_files, retire_job};
use crate::Catalog;
use crate::limits::{CHANGED_FILES_MAX, STALLED_CHANGES_MAX};
use crate::store::{Operation, Row, Transaction, Value, damaged, stopped};
use crate::work::{FileRow, Work};

/// The time of files that wait for the end of their submission: never.
pub(crate) const NOT_ADMITTED_MS: i64 = i64::MAX;

/// A change of a large job that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongChange {
    pub(super) job: i64,
    pub(super) kind: LongChangeKind,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongChangeKind {
    /// Its files are stored. There is no job yet, so they are not seen, and no worker gets them.
    Arrival,
    /// Files that have no job any more are removed: it is in the history, or its submission was
    /// given up.
    Removal,
    /// Its files are copied to the history. It goes there itself with the last of them.
    Retirement,
    /// The job is stored; its files can be claimed from now on.
    Admission,
    /// It is canceled. The detail is the reason.
    Cancellation,
    /// It has another priority. The detail is the number.
    Priority,
}

impl LongChangeKind {
    const ALL: [Self; 6] = [
        Self::Arrival,
        Self::Removal,
        Self::Retirement,
        Self::Admission,
        Self::Cancellation,
        Self::Priority,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Removal => "removal",
            Self::Retirement => "retirement",
            Self::Admission => "admission",
            Self::Cancellation => "cancellation",
            Self::Priority => "priority",
        }
    }

    /// Which files are left to change.
    fn condition(self) -> &'static str {
        match self {
            // The largest number of 64 bits: `NOT_ADMITTED_MS`.
            Self::Admission => "due_ms = 9223372036854775807",
            _ => "state <= 10",
        }
    }
}

/// What a step has done.
struct Step {
    running: Vec<RunningFile>,
    has_ended: bool,
}

impl Catalog {
    /// Changes of large jobs that have not gone on since a time: their processes have ended, or
    /// their clients have gone. At most [`STALLED_CHANGES_MAX`].
    ///
    /// # Errors
    /// Those of the database.
    pub async fn stalled_changes(&self, before_ms: i64) -> Result<Vec<LongChange>> {
        self.read(move |transaction| {
            Box::pin(async move {
                let sql = "SELECT job, kind FROM long_change WHERE seen_ms < $1 ORDER BY seen_ms, job LIMIT $2";
                let parameters = [before_ms.into(), Value::from(STALLED_CHANGES_MAX as i64)];
                let mut rows = transaction.query(sql, &parameters).await?;
                rows.iter_mut().map(read).collect()
            })
        })
        .await
    }

    /// Takes the next step of such a change. A submission that was not answered is removed. Returns
    /// whether the change has ended.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn resume_change(&self, change: LongChange, now_ms: i64) -> Result<bool> {
        let stepped = self.in_turn(move |transaction| Box::pin(step(transaction, change, now_ms)));
        Ok(stepped.await?.has_ended)
    }

    /// Takes all steps that are left of a change. Returns copies to stop.
    pub(super) async fn complete(&self, change: LongChange, now_ms: i64) -> Result<Vec<RunningFile>> {
        let mut running = Vec::new();
        loop {
            let stepped = self.in_turn(move |transaction| Box::pin(step(transaction, change, now_ms)));
            let stepped = stepped.await?;
            running.extend(stepped.running);
            if stepped.has_ended {
                return Ok(running);
            }
        }
    }

    /// A step of a long change: of all that are under way in this process, one is written at a
    /// time, in turn. So others wait for one of them at most.
    pub(super) async fn in_turn<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        let _turn = self.long_changes.acquire().await.map_err(|_| stopped())?;
        self.write(operation).await
    }
}

/// The only process that uses the database begins: no process goes on with what was under way.
pub(crate) async fn forget_processes(transaction: &mut dyn Transaction) -> Result<()> {
    transaction.execute("UPDATE long_change SET seen_ms = 0", &[]).await?;
    Ok(())
}

fn read(row: &mut Row) -> Result<LongChange> {
    let (job, name) = (row.integer()?, row.text()?);
    let mut kinds = LongChangeKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| damaged("a long change of no kind"))?;
    Ok(LongChange { job, kind })
}

/// Notes a change. If it is under way, it begins again, with the new detail.
pub(super) async fn note(
    transaction: &mut dyn Transaction,
    change: LongChange,
    detail: &str,
    now_ms: i64,
) -> Result<()> {
    let sql = "INSERT INTO long_change (job, kind, last_file, detail, seen_ms) VALUES ($1, $2, 0, $3, $4) \
        ON CONFLICT (job, kind) DO UPDATE SET last_file = 0, detail = excluded.detail, seen_ms = excluded.seen_ms";
    let parameters = [
        change.job.into(),
        change.kind.name().into(),
        detail.into(),
        now_ms.into(),
    ];
    transaction.execute(sql, &parameters).await?;
    Ok(())
}

/// Makes one change of another. Returns whether it was still under way.
pub(super) async fn turn_into(
    transaction: &mut dyn Transaction,
    change: LongChange,
    kind: LongChangeKind,
    seen_ms: i64,
) -> Result<bool> {
    let sql = "UPDATE long_change SET kind = $3, seen_ms = $4 WHERE job = $1 AND kind = $2";
    let parameters = [
        change.job.into(),
        change.kind.name().into(),
        kind.name().into(),
        seen_ms.into(),
    ];
    Ok(transaction.execute(sql, &parameters).await? > 0)
}

async fn step(transaction: &mut dyn Transaction, change: LongChange, now_ms: i64) -> Result<Step> {
    let ended = |running| Step {
        running,
        has_ended: true,
    };
    let key = || [change.job.into(), change.kind.name().into()];
    let sql = "SELECT last_file, detail FROM long_change WHERE job = $1 AND kind = $2 {lock}";
    let mut rows = transaction.query(sql, &key()).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(ended(Vec::new()));
    };
    let (after, detail) = (row.integer()?, row.text()?);
    let (next, running) = match change.kind {
        LongChangeKind::Arrival => {
            turn_into(transaction, change, LongChangeKind::Removal, 0).await?;
            return Ok(ended(Vec::new()));
        }
        LongChangeKind::Removal => (remove(transaction, change.job).await?, Vec::new()),
        LongChangeKind::Retirement => {
            let next = retire_files(transaction, change.job, FileId(after), CHANGED_FILES_MAX).await?;
            if next.is_none() {
                retire_job(transaction, change.job).await?;
                turn_into(transaction, change, LongChangeKind::Removal, 0).await?;
                return Ok(ended(Vec::new()));
            }
            (next, Vec::new())
        }
        _ => change_files(transaction, change, after, &detail, now_ms).await?,
    };
    let [job, kind] = key();
    let Some(next) = next else {
        let sql = "DELETE FROM long_change WHERE job = $1 AND kind = $2";
        transaction.execute(sql, &[job, kind]).await?;
        return Ok(ended(running));
    };
    let sql = "UPDATE long_change SET last_file = $3, seen_ms = $4 WHERE job = $1 AND kind = $2";
    transaction
        .execute(sql, &[job, kind, next.into(), now_ms.into()])
        .await?;
    Ok(Step {
        running,
        has_ended: false,
    })
}

/// Changes the next files. Returns the last of them if there may be more, and copies to stop.
async fn change_files(
    transaction: &mut dyn Transaction,
    change: LongChange,
    after: i64,
    detail: &str,
    now_ms: i64,
) -> Result<(Option<FileId>, Vec<RunningFile>)> {
    let mut work = Work::new(transaction, now_ms);
    let left = change.kind.condition();
    let condition = format!("job = $1 AND id > $2 AND {left} ORDER BY id LIMIT $3 {{lock}}");
    let parameters = [change.job.into(), after.into(), Value::from(CHANGED_FILES_MAX as i64)];
    let files = work.select_files(&condition, &parameters).await?;
    let Some(last) = files.last().map(|file| file.id) else {
        return Ok((None, Vec::new()));
    };
    let mut running = Vec::new();
    match change.kind {
        LongChangeKind::Cancellation => {
            work.cancel_job(change.job, detail);
            running = cancel(&mut work, &files, detail).await?;
        }
        LongChangeKind::Priority => {
            let priority: i64 = detail.parse().map_err(|_| damaged("a priority is no number"))?;
            prioritize(&mut work, &files, priority).await?;
        }
        _ => admit(&mut work, &files).await?,
    }
    work.settle().await?;
    let next = (files.len() == CHANGED_FILES_MAX).then_some(last);
    Ok((next, running))
}

/// Gives locked files, which live, another priority.
pub(super) async fn prioritize(work: &mut Work<'_>, files: &[FileRow], priority: i64) -> Result<()> {
    let mut sets = Vec::with_capacity(files.len());
    for file in files {
        work.count_at(file.queue, file.priority, file.state, file.due_ms, -1);
        work.count_at(file.queue, priority, file.state, file.due_ms, 1);
        sets.push(vec![file.id.into(), priority.into()]);
    }
    let sql = "UPDATE file SET priority = $2 WHERE id = $1";
    work.transaction.execute_each(sql, &sets).await?;
    work.transaction.order_events().await
}

/// Removes files that have no job, and their uses of secrets. Returns the place for the next step
/// if there may be more.
async fn remove(transaction: &mut dyn Transaction, job: i64) -> Result<Option<FileId>> {
    let limit = CHANGED_FILES_MAX as i64;
    let sql = "DELETE FROM secret_use WHERE job = $1 AND name IN (SELECT name FROM secret_use WHERE job = $1 LIMIT $2)";
    let uses = transaction.execute(sql, &[job.into(), limit.into()]).await?;
    let removed = uses + remove_files(transaction, job, limit).await?;
    Ok((removed > 0).then_some(FileId(0)))
}
