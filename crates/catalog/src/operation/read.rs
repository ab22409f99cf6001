//! Reading jobs and files, those that live and those in the history.

use std::collections::BTreeSet;
use std::sync::Arc;

use schedule::{FileId, JobId, JobState};
use serde::{Deserialize, Serialize};
use types::Result;

use super::long_change::NOT_ADMITTED_MS;
use crate::Catalog;
use crate::job::{FileRecord, JobRecord, Owner, Problem, Times};
use crate::store::{Row, Transaction, Value};
use crate::work::{file_state, job_kind, job_state};

/// An attempt that failed. The last attempt of a file does not always count: if its storage took no
/// work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which attempt it was, from 1.
    pub number: u32,
    /// When it failed.
    pub at_ms: i64,
    /// The worker that had the file.
    pub worker: Option<String>,
    /// Why.
    pub problem: Problem,
}

/// A job, its number first. Conditions and order follow.
pub(super) const SELECT_JOB: &str = "SELECT j.id, j.uuid, j.kind, j.state, u.text, g.text, v.text, j.login, \
    j.submitted_ms, j.finished_ms, j.priority, j.expires_ms, j.is_canceled, j.reason, s.text, d.text, b.options, \
    b.metadata, j.files FROM job j JOIN job_body b ON b.job = j.id JOIN word u ON u.id = j.user_name \
    JOIN word g ON g.id = j.delegation JOIN word v ON v.id = j.vo LEFT JOIN word s ON s.id = j.source \
    LEFT JOIN word d ON d.id = j.destination";

/// A file, the number of its job first. Conditions and order follow.
pub(super) const SELECT_FILE: &str = "SELECT f.job, f.id, j.uuid, f.place, f.state, f.initial_state, b.source, \
    b.destination, s.text, d.text, v.text, a.text, n.text, f.priority, f.given_size, f.size, f.moved, f.attempts, f.problem, \
    f.staging_started_ms, f.staging_finished_ms, f.started_ms, f.finished_ms, f.archiving_started_ms, \
    f.archiving_finished_ms, f.due_ms, w.text, f.way, f.report, f.interrupted, f.interrupted, f.hop, b.options \
    FROM file f JOIN job j ON j.id = f.job JOIN file_body b ON b.file = f.id JOIN queue q ON q.id = f.queue \
    JOIN word s ON s.id = q.source JOIN word d ON d.id = q.destination JOIN word v ON v.id = q.vo \
    JOIN word a ON a.id = q.activity JOIN word n ON n.id = q.user_name LEFT JOIN word w ON w.id = f.worker";

impl Catalog {
    /// Jobs by identifier, in the order of the request; `None` for those that do not exist.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn jobs(&self, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>> {
        let ids: Arc<[JobId]> = ids.into();
        self.read(move |transaction| {
            let ids = Arc::clone(&ids);
            Box::pin(async move { jobs(transaction, &ids).await })
        })
        .await
    }

    /// A job.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        Ok(self.jobs(&[id]).await?.pop().flatten())
    }

    /// The files of a job, in the order of submission; none if it does not exist.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn files(&self, job: JobId) -> Result<Vec<FileRecord>> {
        Ok(self.files_of(&[job], usize::MAX).await?.pop().unwrap_or_default())
    }

    /// The first `limit` files of each of several jobs, as [`Catalog::files`] returns them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn files_of(&self, jobs: &[JobId], limit: usize) -> Result<Vec<Vec<FileRecord>>> {
        let jobs: Arc<[JobId]> = jobs.into();
        self.read(move |transaction| {
            let jobs = Arc::clone(&jobs);
            Box::pin(async move { files_of(transaction, &jobs, limit).await })
        })
        .await
    }

    /// A file.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn file(&self, id: FileId) -> Result<Option<FileRecord>> {
        self.read(move |transaction| {
            Box::pin(async move {
                if let Some(file) = files_by_id(transaction, &[id]).await?.pop() {
                    return Ok(Some(file.record));
                }
                let sql = "SELECT record FROM file_history WHERE id = $1";
                let mut rows = transaction.query(sql, &[id.into()]).await?;
                rows.first_mut().map(Row::json).transpose()
            })
        })
        .await
    }

    /// The failed attempts of a file, the first one first. Many are kept in part: the first
    /// [`FIRST_ATTEMPTS_KEPT`](crate::limits::FIRST_ATTEMPTS_KEPT) and the last
    /// [`LAST_ATTEMPTS_KEPT`](crate::limits::LAST_ATTEMPTS_KEPT). Of attempts in a row that do not
    /// count, because a storage took no work, there is the last one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn attempts(&self, file: FileId) -> Result<Vec<Attempt>> {
        self.read(move |transaction| Box::pin(attempts(transaction, file)))
            .await
    }
}

async fn attempts(transaction: &mut dyn Transaction, file: FileId) -> Result<Vec<Attempt>> {
    let sql = "SELECT t.number, t.at_ms, w.text, t.problem FROM attempt t LEFT JOIN word w ON w.id = t.worker \
        WHERE t.file = $1 ORDER BY t.number";
    let mut rows = transaction.query(sql, &[file.into()]).await?;
    let read = |row: &mut Row| {
        Ok(Attempt {
            number: row.number()?,
            at_ms: row.integer()?,
            worker: row.optional_text()?,
            problem: row.json()?,
        })
    };
    rows.iter_mut().map(read).collect()
}

pub(super) async fn jobs(transaction: &mut dyn Transaction, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>> {
    let sets: Vec<Vec<Value>> = ids.iter().map(|id| vec![(*id).into()]).collect();
    let sql = format!("{SELECT_JOB} WHERE j.uuid = $1");
    let mut found = Vec::with_capacity(ids.len());
    for mut rows in transaction.query_each(&sql, &sets).await? {
        found.push(rows.first_mut().map(read_job).transpose()?.map(|job| job.record));
    }
    let missing: Vec<usize> = (0..ids.len()).filter(|index| found[*index].is_none()).collect();
    let sets: Vec<Vec<Value>> = missing.iter().map(|index| vec![ids[*index].into()]).collect();
    let sql = "SELECT record FROM job_history WHERE uuid = $1";
    for (mut rows, index) in transaction.query_each(sql, &sets).await?.into_iter().zip(missing) {
        found[index] = rows.first_mut().map(Row::json).transpose()?;
    }
    Ok(found)
}

async fn files_of(transaction: &mut dyn Transaction, jobs: &[JobId], limit: usize) -> Result<Vec<Vec<FileRecord>>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sets: Vec<Vec<Value>> = jobs.iter().map(|id| vec![(*id).into(), limit.into()]).collect();
    let sql = format!("{SELECT_FILE} WHERE j.uuid = $1 ORDER BY f.id LIMIT $2");
    let mut found = Vec::with_capacity(jobs.len());
    for mut rows in transaction.query_each(&sql, &sets).await? {
        let files = rows.iter_mut().map(|row| read_file(row).map(|file| file.record));
        found.push(files.collect::<Result<Vec<FileRecord>>>()?);
    }
    // A job has files.
    let missing: Vec<usize> = (0..jobs.len()).filter(|index| found[*index].is_empty()).collect();
    let parameters = |index: &usize| vec![jobs[*index].into(), limit.into()];
    let sets: Vec<Vec<Value>> = missing.iter().map(parameters).collect();
    let sql = "SELECT f.record FROM job_history j JOIN file_history f ON f.job = j.id \
        WHERE j.uuid = $1 ORDER BY f.id LIMIT $2";
    for (mut rows, index) in transaction.query_each(sql, &sets).await?.into_iter().zip(missing) {
        found[index] = rows.iter_mut().map(Row::json).collect::<Result<_>>()?;
    }
    Ok(found)
}

/// A file with the number of its job.
pub(super) struct NumberedFile {
    pub(super) job: i64,
    pub(super) record: FileRecord,
}

/// A job with its number.
pub(super) struct NumberedJob {
    pub(super) number: i64,
    pub(super) record: JobRecord,
}

/// Files that are not in the history.
pub(super) async fn files_by_id(transaction: &mut dyn Transaction, ids: &[FileId]) -> Result<Vec<NumberedFile>> {
    let sets: Vec<Vec<Value>> = ids.iter().map(|id| vec![(*id).into()]).collect();
    let sql = format!("{SELECT_FILE} WHERE f.id = $1");
    let found = transaction.query_each(&sql, &sets).await?;
    found.into_iter().flatten().map(|mut row| read_file(&mut row)).collect()
}

/// Jobs that are not in the history, with their numbers.
pub(super) async fn jobs_by_number(
    transaction: &mut dyn Transaction,
    numbers: &BTreeSet<i64>,
) -> Result<Vec<NumberedJob>> {
    let sets: Vec<Vec<Value>> = numbers.iter().map(|number| vec![(*number).into()]).collect();
    let sql = format!("{SELECT_JOB} WHERE j.id = $1");
    let found = transaction.query_each(&sql, &sets).await?;
    found.into_iter().flatten().map(|mut row| read_job(&mut row)).collect()
}

pub(super) fn read_job(row: &mut Row) -> Result<NumberedJob> {
    let number = row.integer()?;
    let mut record = JobRecord {
        id: row.job_id()?,
        kind: job_kind(row)?,
        state: job_state(row)?,
        owner: Owner {
            user: row.text()?,
            delegation_id: row.text()?,
            vo: row.text()?,
            login: row.json()?,
        },
        submitted_ms: row.integer()?,
        finished_ms: row.optional_integer()?,
        priority: row.number()?,
        expires_ms: row.optional_integer()?,
        is_canceled: row.integer()? != 0,
        reason: row.optional_text()?,
        source_storage: row.optional_text()?,
        destination_storage: row.optional_text()?,
        options: row.json()?,
        metadata: row.optional_json()?,
        files: row.number()?,
    };
    // The row keeps the latest failure also while other files go on.
    if !record.state.is_terminal() || record.state == JobState::Finished {
        record.reason = None;
    }
    Ok(NumberedJob { number, record })
}

pub(super) fn read_file(row: &mut Row) -> Result<NumberedFile> {
    let job = row.integer()?;
    let record = FileRecord {
        id: FileId(row.integer()?),
        job: row.job_id()?,
        index: row.number()?,
        state: file_state(row)?,
        initial_state: file_state(row)?,
        source: row.text()?,
        destination: row.text()?,
        source_storage: row.text()?,
        destination_storage: row.text()?,
        vo: row.text()?,
        activity: row.text()?,
        user: row.text()?,
        priority: row.number()?,
        given_size_bytes: row.optional_number()?,
        size_bytes: row.optional_number()?,
        moved_bytes: row.number()?,
        attempts: row.number()?,
        problem: row.optional_json()?,
        times: Times {
            staging_started_ms: row.optional_integer()?,
            staging_finished_ms: row.optional_integer()?,
            started_ms: row.optional_integer()?,
            finished_ms: row.optional_integer()?,
            archiving_started_ms: row.optional_integer()?,
            archiving_finished_ms: row.optional_integer()?,
            retry_ms: row.optional_integer()?.filter(|due_ms| *due_ms != NOT_ADMITTED_MS),
        },
        worker: row.optional_text()?,
        way: row.optional_text()?,
        destination_report: row.optional_json()?,
        // One column, read twice: 1, and 1 more for each look.
        is_interrupted: row.integer()? != 0,
        lost_part_looks: row.number::<u16>()?.saturating_sub(1),
        hop: row.optional_json()?,
        options: row.json()?,
    };
    Ok(NumberedFile { job, record })
}
