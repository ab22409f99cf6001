//! Submission.

use std::collections::BTreeSet;

use schedule::{FileId, FileState, JobKind, JobTally};
use types::{ErrorCode, Result};

use super::once::{JobSecrets, Submitted};
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
        match self.submit_with_secrets(job, JobSecrets::default(), None).await? {
            Submitted::New(files) => Ok(files),
            Submitted::Past(_) => Err(failure(ErrorCode::JobExists).with_subject(id)),
        }
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

/// A job with the numbers of its words and queues.
pub(super) struct Placed {
    /// User, delegation and virtual organisation.
    owner: [i64; 3],
    /// The common storages of its files.
    source: Option<i64>,
    destination: Option<i64>,
    /// The queue of each file.
    pub(super) queues: Vec<i64>,
    tally: JobTally,
}

/// Whether a job with this identifier has ended and moved to the history.
pub(super) async fn is_known(transaction: &mut dyn Transaction, job: &NewJob) -> Result<bool> {
    let sql = "SELECT id FROM job_history WHERE uuid = $1";
    Ok(!transaction.query(sql, &[job.id.into()]).await?.is_empty())
}

/// Stores a job that uses the secrets of its files, and these.
pub(super) async fn submit(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    used: &[String],
) -> Result<Option<Vec<FileId>>> {
    if is_known(transaction, job).await? {
        return Ok(None);
    }
    let placed = place(transaction, job).await?;
    let Some(number) = insert_job(transaction, job, &placed, None).await? else {
        return Ok(None);
    };
    let files = insert_files(transaction, number, job.priority, &job.files, &placed.queues, None).await?;
    use_secrets(transaction, number, used_secrets(job, used)).await?;
    settle(transaction, job, &placed, None).await?;
    Ok(Some(files))
}

/// Looks up the words and queues of a job; new ones are added.
pub(super) async fn place(transaction: &mut dyn Transaction, job: &NewJob) -> Result<Placed> {
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
    let queues = queue_ids(transaction, keys.iter().copied().collect()).await?;
    Ok(Placed {
        owner: [
            word_of(&words, &job.owner.user)?,
            word_of(&words, &job.owner.delegation_id)?,
            vo,
        ],
        source: source_of(job.kind, &keys),
        destination: destination_of(job.kind, &keys),
        queues: keys.iter().filter_map(|key| queues.get(key).copied()).collect(),
        tally: JobTally::of(job.files.iter().map(|file| file.state)),
    })
}

/// Counts the files of a stored job, and tells of it.
pub(super) async fn settle(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    placed: &Placed,
    due_ms: Option<i64>,
) -> Result<()> {
    let mut work = Work::new(transaction, job.submitted_ms);
    for (file, queue) in job.files.iter().zip(&placed.queues) {
        work.count_at(*queue, job.priority.into(), file.state, due_ms, 1);
    }
    let [_, _, vo] = placed.owner;
    work.event(job.id, vo, placed.tally.state(job.kind), None);
    work.settle().await
}

/// Stores the row of a job, under this number if there is one. Returns its number, or nothing if
/// the job exists.
pub(super) async fn insert_job(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    placed: &Placed,
    number: Option<i64>,
) -> Result<Option<i64>> {
    let [user, delegation, vo] = placed.owner;
    let mut parameters = vec![
        job.id.into(),
        job.kind.letter().into(),
        placed.tally.state(job.kind).number().into(),
        user.into(),
        delegation.into(),
        vo.into(),
        Value::json(&job.owner.login)?,
        job.submitted_ms.into(),
        job.priority.into(),
        job.expires_ms.into(),
        placed.source.into(),
        placed.destination.into(),
        (job.files.len() as i64).into(),
    ];
    parameters.extend(tally_columns(&placed.tally));
    let (column, mark) = match number {
        Some(_) => ("id, ", "$22, "),
        None => ("", ""),
    };
    parameters.extend(number.map(Value::from));
    let sql = format!(
        "INSERT INTO job ({column}uuid, kind, state, user_name, delegation, vo, login, submitted_ms, priority, \
        expires_ms, source, destination, files, staging, waiting, unused, running, archiving, finished, failed, \
        canceled, is_canceled) VALUES ({mark}$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
        $17, $18, $19, $20, $21, 0) ON CONFLICT (uuid) DO NOTHING RETURNING id"
    );
    let mut rows = transaction.query(&sql, &parameters).await?;
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

/// Stores files of the job with this number. Before `due_ms` no worker gets them.
pub(super) async fn insert_files(
    transaction: &mut dyn Transaction,
    number: i64,
    priority: u8,
    files: &[NewFile],
    queues: &[i64],
    due_ms: Option<i64>,
) -> Result<Vec<FileId>> {
    let row = |(file, queue): (&NewFile, &i64)| {
        vec![
            number.into(),
            file.index.into(),
            file.state.number().into(),
            (*queue).into(),
            priority.into(),
            file.size_bytes.into(),
            due_ms.into(),
        ]
    };
    let rows: Vec<Vec<Value>> = files.iter().zip(queues).map(row).collect();
    let sql = "INSERT INTO file (job, place, state, initial_state, queue, priority, given_size, due_ms, moved, \
        attempts) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, 0, 0) RETURNING id";
    let mut ids = Vec::with_capacity(rows.len());
    for mut answer in transaction.query_each(sql, &rows).await? {
        if let Some(row) = answer.first_mut() {
            ids.push(FileId(row.integer()?));
        }
    }
    let mut bodies = Vec::with_capacity(ids.len());
    for (file, id) in files.iter().zip(&ids) {
        let options = Value::json(&file.options)?;
        let (source, destination) = (file.source.as_str().into(), file.destination.as_str().into());
        bodies.push(vec![(*id).into(), source, destination, options]);
    }
    let sql = "INSERT INTO file_body (file, source, destination, options) VALUES ($1, $2, $3, $4)";
    transaction.execute_each(sql, &bodies).await?;
    Ok(ids)
}

/// The secrets that a job uses: those of its files, and these.
pub(super) fn used_secrets(job: &NewJob, used: &[String]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = used.iter().cloned().collect();
    for file in &job.files {
        let tokens = [&file.options.source_token, &file.options.destination_token];
        names.extend(tokens.into_iter().flatten().cloned());
    }
    names
}

/// Notes that the job with this number uses secrets.
async fn use_secrets(transaction: &mut dyn Transaction, number: i64, names: BTreeSet<String>) -> Result<()> {
    let secrets: Vec<Vec<Value>> = names.into_iter().map(|name| vec![name.into(), number.into()]).collect();
    let sql = "INSERT INTO secret_use (name, job) VALUES ($1, $2)";
    transaction.execute_each(sql, &secrets).await?;
    Ok(())
}
