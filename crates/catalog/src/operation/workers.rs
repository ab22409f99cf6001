//! The processes that share the queue, and what one tells the others.

use std::sync::Arc;

use schedule::{FileId, FileState, JobId, JobState};
use serde::Serialize;
use serde_json::Value as Json;
use types::Result;

use super::words::word_id;
use crate::Catalog;
use crate::limits::LISTED_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::{file_state, job_state};

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerRecord {
    /// Its name.
    pub name: String,
    /// When it last reported.
    pub beat_ms: i64,
    /// Until when its files are its own.
    pub lease_ms: i64,
    /// What it says of itself.
    pub capacity: Option<Json>,
    /// Files that it has.
    pub files: u64,
}

/// A change that became visible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its number. Later events have higher ones.
    pub sequence: i64,
    /// When it happened.
    pub at_ms: i64,
    /// The job.
    pub job: JobId,
    /// The file; `None`: the job itself, which was submitted or changed its state.
    pub file: Option<FileId>,
    /// The state that the file has now.
    pub file_state: Option<FileState>,
    /// The state that the job has now.
    pub job_state: JobState,
    /// The virtual organisation.
    pub vo: String,
}

/// An entry of the log of events.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntry {
    /// A job or file has changed.
    Change(Event),
    /// The queue has decided about a link: what [`Catalog::put_decisions`] stored.
    Decision {
        /// Its number among all events.
        sequence: i64,
        /// When, in milliseconds since 1970.
        at_ms: i64,
        /// What was stored.
        decision: Json,
    },
}

impl Catalog {
    /// At most `limit` entries of the log after one, in order; 0: from the first that is kept.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn log_after(&self, sequence: i64, limit: usize) -> Result<Vec<LogEntry>> {
        self.read(move |transaction| Box::pin(log_after(transaction, sequence, limit)))
            .await
    }

    /// A worker reports.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn beat(&self, worker: &str, capacity: &Json, now_ms: i64) -> Result<()> {
        let arguments = Arc::new((worker.to_owned(), Value::json(capacity)?));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let worker = word_id(transaction, &arguments.0).await?;
                let parameters = [worker.into(), now_ms.into(), arguments.1.clone()];
                let sql = "INSERT INTO worker (name, beat_ms, lease_ms, capacity) VALUES ($1, $2, 0, $3) \
                    ON CONFLICT (name) DO UPDATE SET beat_ms = excluded.beat_ms, capacity = excluded.capacity";
                transaction.execute(sql, &parameters).await?;
                Ok(())
            })
        })
        .await
    }

    /// A worker has ended: it is not listed any more, unless it has files.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn leave(&self, worker: &str) -> Result<()> {
        let worker = Arc::new(worker.to_owned());
        self.write(move |transaction| {
            let worker = Arc::clone(&worker);
            Box::pin(async move {
                let worker = word_id(transaction, &worker).await?;
                let sql = "DELETE FROM worker WHERE name = $1 \
                    AND NOT EXISTS (SELECT 1 FROM file WHERE worker = $1 AND state IN (8, 9))";
                transaction.execute(sql, &[worker.into()]).await?;
                Ok(())
            })
        })
        .await
    }

    /// The workers that have reported since a time, or have files.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn workers(&self, since_ms: i64) -> Result<Vec<WorkerRecord>> {
        self.read(move |transaction| Box::pin(workers(transaction, since_ms)))
            .await
    }

    /// Events after one, in order; 0: from the first that is kept. At most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn events_after(&self, sequence: i64, limit: usize) -> Result<Vec<Event>> {
        self.read(move |transaction| Box::pin(events_after(transaction, sequence, limit)))
            .await
    }

    /// The number of the last event; 0 without any.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn last_event(&self) -> Result<i64> {
        self.read(|transaction| {
            Box::pin(async move {
                let sql = "SELECT COALESCE(MAX(sequence), 0) FROM event";
                let mut rows = transaction.query(sql, &[]).await?;
                rows.first_mut().map_or(Ok(0), Row::integer)
            })
        })
        .await
    }
}

async fn workers(transaction: &mut dyn Transaction, since_ms: i64) -> Result<Vec<WorkerRecord>> {
    let sql = "SELECT n.text, w.beat_ms, w.lease_ms, w.capacity, \
        (SELECT COUNT(*) FROM file f WHERE f.worker = w.name AND f.state IN (8, 9)) AS files \
        FROM worker w JOIN word n ON n.id = w.name ORDER BY n.text";
    let mut rows = transaction.query(sql, &[]).await?;
    let mut workers = Vec::new();
    for row in &mut rows {
        let worker = WorkerRecord {
            name: row.text()?,
            beat_ms: row.integer()?,
            lease_ms: row.integer()?,
            capacity: row.optional_json()?,
            files: row.number()?,
        };
        if worker.beat_ms >= since_ms || worker.files > 0 {
            workers.push(worker);
        }
    }
    Ok(workers)
}

async fn log_after(transaction: &mut dyn Transaction, sequence: i64, limit: usize) -> Result<Vec<LogEntry>> {
    let sql = "SELECT e.sequence, e.at_ms, CASE WHEN e.job IS NULL THEN e.detail END, e.job, e.file, e.file_state, \
        e.job_state, v.text FROM event e LEFT JOIN word v ON v.id = e.vo WHERE e.sequence > $1 \
        ORDER BY e.sequence LIMIT $2";
    let parameters = [sequence.into(), Value::from(limit.min(LISTED_MAX) as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    rows.iter_mut().map(read_entry).collect()
}

fn read_entry(row: &mut Row) -> Result<LogEntry> {
    let (sequence, at_ms) = (row.integer()?, row.integer()?);
    if let Some(decision) = row.optional_json()? {
        return Ok(LogEntry::Decision {
            sequence,
            at_ms,
            decision,
        });
    }
    read_event(row, sequence, at_ms).map(LogEntry::Change)
}

/// The rest of an event, from its job on.
fn read_event(row: &mut Row, sequence: i64, at_ms: i64) -> Result<Event> {
    let job = row.job_id()?;
    let file = row.optional_integer()?.map(FileId);
    let file_state = match file {
        Some(_) => Some(file_state(row)?),
        None => row.optional_integer().map(|_| None)?,
    };
    Ok(Event {
        sequence,
        at_ms,
        job,
        file,
        file_state,
        job_state: job_state(row)?,
        vo: row.text()?,
    })
}

async fn events_after(transaction: &mut dyn Transaction, sequence: i64, limit: usize) -> Result<Vec<Event>> {
    let sql = "SELECT e.sequence, e.at_ms, e.job, e.file, e.file_state, e.job_state, v.text FROM event e \
        JOIN word v ON v.id = e.vo WHERE e.sequence > $1 ORDER BY e.sequence LIMIT $2";
    let parameters = [sequence.into(), Value::from(limit.min(LISTED_MAX) as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    let read = |row: &mut Row| {
        let (sequence, at_ms) = (row.integer()?, row.integer()?);
        read_event(row, sequence, at_ms)
    };
    rows.iter_mut().map(read).collect()
}
