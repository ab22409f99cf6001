//! Cancellation of jobs and files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedule::{FileEvent, FileId, JobId, JobState};
use types::Result;

use super::long_change::{LongChange, LongChangeKind, note};
use crate::Catalog;
use crate::limits::{CHANGED_FILES_MAX, SWEEP_FILES_MAX};
use crate::store::{Row, Transaction, Value};
use crate::work::{Change, FileRow, Work, canceled, job_state};

/// What became of one job or file that was to be canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is canceled now. A job whose other files have failed ends as failed.
    Canceled,
    /// It had ended before.
    Terminal,
    /// It does not exist.
    Unknown,
}

/// A canceled file whose worker must stop its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningFile {
    /// The file.
    pub file: FileId,
    /// The worker that has it.
    pub worker: String,
}

/// What a cancellation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canceled {
    /// One for each identifier of the request, in its order.
    pub outcomes: Vec<CancelOutcome>,
    /// Copies to stop. Their workers also learn it when they renew their leases.
    pub running: Vec<RunningFile>,
}

impl Catalog {
    /// Cancels jobs, with all of their files that live. Large ones are canceled in several
    /// transactions: from the first on, they will be.
    ///
    /// # Errors
    /// Those of the database. The rest of large jobs may be canceled later then.
    pub async fn cancel_jobs(&self, jobs: &[JobId], reason: &str, now_ms: i64) -> Result<Canceled> {
        let arguments = Arc::new((jobs.to_vec(), reason.to_owned()));
        let begun = self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (jobs, reason) = &*arguments;
                cancel_jobs(transaction, jobs, reason, now_ms).await
            })
        });
        let Begun { mut canceled, large } = begun.await?;
        for job in large {
            canceled.running.extend(self.complete(job, now_ms).await?);
        }
        Ok(canceled)
    }

    /// Cancels files of one job. Files of other jobs are unknown.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cancel_files(&self, job: JobId, files: &[FileId], reason: &str, now_ms: i64) -> Result<Canceled> {
        let arguments = Arc::new((files.to_vec(), reason.to_owned()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (files, reason) = &*arguments;
                cancel_files(transaction, job, files, reason, now_ms).await
            })
        })
        .await
    }

    /// Cancels all jobs that live, or those of a virtual organisation. Returns them.
    ///
    /// # Errors
    /// Those of the database. Some jobs may be canceled then.
    pub async fn cancel_all(&self, vo: Option<&str>, reason: &str, now_ms: i64) -> Result<(Vec<JobId>, Canceled)> {
        let (mut ids, mut all) = (Vec::new(), Canceled::default());
        let vo = Arc::new(vo.map(str::to_owned));
        loop {
            let vo = Arc::clone(&vo);
            let next = self.read(move |transaction| {
                let vo = Arc::clone(&vo);
                Box::pin(async move { live_jobs(transaction, vo.as_deref()).await })
            });
            let jobs = next.await?;
            if jobs.is_empty() {
                return Ok((ids, all));
            }
            let step = self.cancel_jobs(&jobs, reason, now_ms).await?;
            ids.extend(jobs);
            all.outcomes.extend(step.outcomes);
            all.running.extend(step.running);
        }
    }
}

async fn live_jobs(transaction: &mut dyn Transaction, vo: Option<&str>) -> Result<Vec<JobId>> {
    let limit = Value::from((SWEEP_FILES_MAX / 10) as i64);
    let mut rows = match vo {
        Some(vo) => {
            let sql = "SELECT uuid FROM job WHERE state <= 4 AND vo = (SELECT id FROM word WHERE text = $1) \
                ORDER BY id LIMIT $2";
            transaction.query(sql, &[vo.into(), limit]).await?
        }
        None => {
            let sql = "SELECT uuid FROM job WHERE state <= 4 ORDER BY id LIMIT $1";
            transaction.query(sql, &[limit]).await?
        }
    };
    rows.iter_mut().map(Row::job_id).collect()
}

/// What the first transaction of a cancellation did.
struct Begun {
    canceled: Canceled,
    /// Jobs that are too large for it.
    large: Vec<LongChange>,
}

async fn cancel_jobs(transaction: &mut dyn Transaction, jobs: &[JobId], reason: &str, now_ms: i64) -> Result<Begun> {
    let known = numbers_of(transaction, jobs).await?;
    let live: BTreeMap<i64, usize> = known.values().filter_map(|job| job.live).collect();
    let mut left = CHANGED_FILES_MAX;
    let mut fits = |files: usize| {
        let rest = left.checked_sub(files);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let (small, large): (Vec<_>, Vec<_>) = live.into_iter().partition(|(_, files)| fits(*files));
    let large = large.into_iter().map(|(job, _)| LongChange {
        job,
        kind: LongChangeKind::Cancellation,
    });
    let large: Vec<LongChange> = large.collect();
    for change in &large {
        note(transaction, *change, reason, now_ms).await?;
    }
    let mut work = Work::new(transaction, now_ms);
    let mut files = Vec::new();
    let mut ended = BTreeSet::new();
    for (number, _) in small {
        let live = work
            .select_files("job = $1 AND state <= 10 ORDER BY id {lock}", &[number.into()])
            .await?;
        match live.is_empty() {
            // Another operation was faster.
            true => drop(ended.insert(number)),
            false => work.cancel_job(number, reason),
        }
        files.extend(live);
    }
    let running = cancel(&mut work, &files, reason).await?;
    work.settle().await?;
    let outcome = |id: &JobId| match known.get(id) {
        None => CancelOutcome::Unknown,
        Some(Known {
            live: Some((number, _)),
        }) if !ended.contains(number) => CancelOutcome::Canceled,
        Some(_) => CancelOutcome::Terminal,
    };
    let canceled = Canceled {
        outcomes: jobs.iter().map(outcome).collect(),
        running,
    };
    Ok(Begun { canceled, large })
}

/// A job that exists, with its number and how many files it has if it lives.
struct Known {
    live: Option<(i64, usize)>,
}

async fn numbers_of(transaction: &mut dyn Transaction, jobs: &[JobId]) -> Result<BTreeMap<JobId, Known>> {
    let ids: Vec<JobId> = jobs.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let sets: Vec<Vec<Value>> = ids.iter().map(|id| vec![(*id).into()]).collect();
    let mut known = BTreeMap::new();
    let rows = transaction
        .query_each("SELECT id, state, files FROM job WHERE uuid = $1", &sets)
        .await?;
    for (mut rows, id) in rows.into_iter().zip(&ids) {
        if let Some(row) = rows.first_mut() {
            let number = row.integer()?;
            let state: JobState = job_state(row)?;
            let files = row.number()?;
            let live = (!state.is_terminal()).then_some((number, files));
            known.insert(*id, Known { live });
        }
    }
    let past = transaction
        .query_each("SELECT id FROM job_history WHERE uuid = $1", &sets)
        .await?;
    for (rows, id) in past.into_iter().zip(&ids) {
        if !rows.is_empty() {
            known.insert(*id, Known { live: None });
        }
    }
    Ok(known)
}

/// Cancels locked files. Returns those that run.
pub(super) async fn cancel(work: &mut Work<'_>, files: &[FileRow], reason: &str) -> Result<Vec<RunningFile>> {
    let mut running = Vec::new();
    for file in files {
        let change = Change {
            problem: Some(canceled(reason)),
            ..Change::default()
        };
        work.step(file, FileEvent::Canceled, change)?;
        if let Some(worker) = file.worker.filter(|_| file.state.is_running()) {
            running.push((file.id, worker));
        }
    }
    let sets: Vec<Vec<Value>> = running.iter().map(|(_, worker)| vec![(*worker).into()]).collect();
    let names = work
        .transaction
        .query_each("SELECT text FROM word WHERE id = $1", &sets)
        .await?;
    let named = names.into_iter().zip(running).map(|(mut rows, (file, _))| {
        let worker = rows.first_mut().map_or(Ok(String::new()), Row::text)?;
        Ok(RunningFile { file, worker })
    });
    named.collect()
}

async fn cancel_files(
    transaction: &mut dyn Transaction,
    job: JobId,
    ids: &[FileId],
    reason: &str,
    now_ms: i64,
) -> Result<Canceled> {
    let sql = "SELECT id FROM job WHERE uuid = $1";
    let mut rows = transaction.query(sql, &[job.into()]).await?;
    let number = rows.first_mut().map(Row::integer).transpose()?;
    let past = past_files(transaction, job, ids).await?;
    let mut work = Work::new(transaction, now_ms);
    let mut files = Vec::new();
    let mut outcomes = Vec::with_capacity(ids.len());
    let mut seen = BTreeSet::new();
    for (file, id) in work.lock_files(ids).await?.into_iter().zip(ids) {
        outcomes.push(match file {
            // Its rows beside the history may still be there.
            _ if past.contains(id) => CancelOutcome::Terminal,
            Some(file) if Some(file.job) != number => CancelOutcome::Unknown,
            Some(file) if file.state.is_terminal() => CancelOutcome::Terminal,
            Some(file) => {
                if seen.insert(file.id) {
                    files.push(file);
                }
                CancelOutcome::Canceled
            }
            None => CancelOutcome::Unknown,
        });
    }
    let running = cancel(&mut work, &files, reason).await?;
    work.settle().await?;
    Ok(Canceled { outcomes, running })
}

/// Which of these files are in the history of the job.
async fn past_files(transaction: &mut dyn Transaction, job: JobId, ids: &[FileId]) -> Result<BTreeSet<FileId>> {
    let sets: Vec<Vec<Value>> = ids.iter().map(|id| vec![(*id).into(), job.into()]).collect();
    let sql = "SELECT f.id FROM file_history f JOIN job_history j ON j.id = f.job WHERE f.id = $1 AND j.uuid = $2";
    let found = transaction.query_each(sql, &sets).await?;
    let rows = found.into_iter().flatten();
    rows.map(|mut row| row.integer().map(FileId)).collect()
}
