//! Submission.

use std::collections::BTreeSet;
use std::sync::Arc;

use schedule::{FileId, FileState, JobKind, JobTally};
use types::{ErrorCode, Result};

use super::words::{QueueWords, queue_ids, word_ids, word_of};
use crate::Catalog;
use crate::job::{NewFile, NewJob};
use crate::limits::JOB_FILES_MAX;
use crate::store::{Transaction, Value, failure};
use crate::work::{Work, tally_columns};

impl Catalog {
    /// Stores a job. Returns its files, in order.
    ///
    /// # Errors
    /// `job_exists` if there is or was a job with this identifier; `bad_request` without files or
    /// with more than [`JOB_FILES_MAX`]; those of the database.
    pub async fn submit(&self, job: NewJob) -> Result<Vec<FileId>> {
        let id = job.id;
        let files = self.submit_many(vec![job]).await?.pop().flatten();
        files.ok_or_else(|| failure(ErrorCode::JobExists).with_subject(id))
    }

    /// Stores jobs: all that are new, or with an error none. Returns the files of each; `None` if
    /// there is or was a job with its identifier.
    ///
    /// # Errors
    /// As [`Catalog::submit`].
    pub async fn submit_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Option<Vec<FileId>>>> {
        for job in &jobs {
            check(job)?;
        }
        let jobs = Arc::new(jobs);
        self.write(move |transaction| {
            let jobs = Arc::clone(&jobs);
            Box::pin(async move {
                let mut results = Vec::with_capacity(jobs.len());
                for job in jobs.iter() {
                    results.push(submit(transaction, job, &[]).await?);
                }
                Ok(results)
            })
        })
        .await
    }
}

pub(super) fn check(job: &NewJob) -> Result<()> {
    let refused = |words: String| Err(failure(ErrorCode::BadRequest).with_detail(words));
    if job.files.is_empty() {
        return refused("the job has no files".to_owned());
    }
    if job.files.len() > JOB_FILES_MAX {
        return refused(format!("a job has at most {JOB_FILES_MAX} files"));
    }
    let cannot_begin =
        |file: &NewFile| file.state.is_terminal() || file.state.is_running() || file.state == FileState::Archiving;
    match job.files.iter().find(|file| cannot_begin(file)) {
        Some(file) => refused(format!("a file cannot begin as {}", file.state.fts_name())),
        None => Ok(()),
    }
}

/// Stores a job that uses the secrets of its files, and these.
pub(super) async fn submit(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    used: &[String],
) -> Result<Option<Vec<FileId>>> {
    let past = transaction
        .query("SELECT id FROM job_history WHERE uuid = $1", &[job.id.into()])
        .await?;
    if !past.is_empty() {
        return Ok(None);
    }
    let user = job.owner.unique_name();
    let mut texts = BTreeSet::from([&*job.owner.user, &job.owner.delegation_id, &job.owner.vo, &user]);
    for file in &job.files {
        texts.extend([&*file.source_storage, &file.destination_storage, &file.activity]);
    }
    let words = word_ids(transaction, texts).await?;
    let (vo, user) = (word_of(&words, &job.owner.vo)?, word_of(&words, &user)?);
    let mut keys = Vec::with_capacity(job.files.len());
    for file in &job.files {
        let [source, destination] = [&file.source_storage, &file.destination_storage].map(|text| word_of(&words, text));
        keys.push([source?, destination?, vo, word_of(&words, &file.activity)?, user]);
    }
    let owner = [
        word_of(&words, &job.owner.user)?,
        word_of(&words, &job.owner.delegation_id)?,
        vo,
    ];
    let tally = JobTally::of(job.files.iter().map(|file| file.state));
    let Some(number) = insert_job(transaction, job, owner, &keys, &tally).await? else {
        return Ok(None);
    };
    let queues = queue_ids(transaction, keys.iter().copied().collect()).await?;
    let queues: Vec<i64> = keys.iter().filter_map(|key| queues.get(key).copied()).collect();
    let files = insert_files(transaction, job, number, &queues).await?;
    use_secrets(transaction, job, number, used).await?;
    let mut work = Work::new(transaction, job.submitted_ms);
    for (file, queue) in job.files.iter().zip(queues) {
        work.count_at(queue, job.priority.into(), file.state, None, 1);
    }
    work.event(job.id, vo, tally.state(job.kind), None);
    work.settle().await?;
    Ok(Some(files))
}

/// Returns the number of the row, or nothing if the job exists.
async fn insert_job(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    owner: [i64; 3],
    keys: &[QueueWords],
    tally: &JobTally,
) -> Result<Option<i64>> {
    let [user, delegation, vo] = owner;
    let mut parameters = vec![
        job.id.into(),
        job.kind.letter().into(),
        tally.state(job.kind).number().into(),
        user.into(),
        delegation.into(),
        vo.into(),
        Value::json(&job.owner.login)?,
        job.submitted_ms.into(),
        job.priority.into(),
        job.expires_ms.into(),
        source_of(job.kind, keys).into(),
        destination_of(job.kind, keys).into(),
        (job.files.len() as i64).into(),
    ];
    parameters.extend(tally_columns(tally));
    let sql = "INSERT INTO job (uuid, kind, state, user_name, delegation, vo, login, submitted_ms, priority, \
        expires_ms, source, destination, files, staging, waiting, unused, running, archiving, finished, failed, \
        canceled, is_canceled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
        $18, $19, $20, $21, 0) ON CONFLICT (uuid) DO NOTHING RETURNING id";
    let mut rows = transaction.query(sql, &parameters).await?;
    let Some(row) = rows.first_mut() else {
        return Ok(None);
    };
    let number = row.integer()?;
    let body = [
        number.into(),
        Value::json(&job.options)?,
        Value::optional_json(job.metadata.as_ref())?,
    ];
    let sql = "INSERT INTO job_body (job, options, metadata) VALUES ($1, $2, $3)";
    transaction.execute(sql, &body).await?;
    Ok(Some(number))
}

fn source_of(kind: JobKind, keys: &[QueueWords]) -> Option<i64> {
    let first = keys.first()?[0];
    let is_common = kind == JobKind::Multihop || keys.iter().all(|key| key[0] == first);
    is_common.then_some(first)
}

fn destination_of(kind: JobKind, keys: &[QueueWords]) -> Option<i64> {
    let last = keys.last()?[1];
    let is_common = kind == JobKind::Multihop || keys.iter().all(|key| key[1] == last);
    is_common.then_some(last)
}

async fn insert_files(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    number: i64,
    queues: &[i64],
) -> Result<Vec<FileId>> {
    let row = |(file, queue): (&NewFile, &i64)| {
        vec![
            number.into(),
            file.index.into(),
            file.state.number().into(),
            (*queue).into(),
            job.priority.into(),
            file.size_bytes.into(),
        ]
    };
    let rows: Vec<Vec<Value>> = job.files.iter().zip(queues).map(row).collect();
    let sql = "INSERT INTO file (job, place, state, initial_state, queue, priority, given_size, moved, attempts) \
        VALUES ($1, $2, $3, $3, $4, $5, $6, 0, 0) RETURNING id";
    let mut ids = Vec::with_capacity(rows.len());
    for mut answer in transaction.query_each(sql, &rows).await? {
        if let Some(row) = answer.first_mut() {
            ids.push(FileId(row.integer()?));
        }
    }
    let mut bodies = Vec::with_capacity(ids.len());
    for (file, id) in job.files.iter().zip(&ids) {
        let options = Value::json(&file.options)?;
        let (source, destination) = (file.source.as_str().into(), file.destination.as_str().into());
        bodies.push(vec![(*id).into(), source, destination, options]);
    }
    let sql = "INSERT INTO file_body (file, source, destination, options) VALUES ($1, $2, $3, $4)";
    transaction.execute_each(sql, &bodies).await?;
    Ok(ids)
}

/// Notes which secrets the job uses.
async fn use_secrets(transaction: &mut dyn Transaction, job: &NewJob, number: i64, used: &[String]) -> Result<()> {
    let mut names: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    for file in &job.files {
        names.extend(file.options.source_token.as_deref());
        names.extend(file.options.destination_token.as_deref());
    }
    let secrets: Vec<Vec<Value>> = names.into_iter().map(|name| vec![name.into(), number.into()]).collect();
    let sql = "INSERT INTO secret_use (name, job) VALUES ($1, $2)";
    transaction.execute_each(sql, &secrets).await?;
    Ok(())
}
