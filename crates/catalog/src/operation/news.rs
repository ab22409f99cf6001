//! Events with their subjects, for those who report them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use schedule::{FileId, FileState, JobId, JobState};
use serde_json::Value as Json;
use types::Result;

use super::read::{files_by_id, jobs};
use crate::Catalog;
use crate::attempt::AttemptEnd;
use crate::job::{FileRecord, JobRecord};
use crate::limits::LISTED_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::{file_state, job_state};

/// An event and its subject.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// The number of the event. Later events have higher ones.
    pub sequence: i64,
    /// When it happened.
    pub at_ms: i64,
    /// What it is about.
    pub subject: Subject,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A file has another state.
    File(Box<FileNews>),
    /// The queue has decided about a link: what [`Catalog::put_decisions`] stored.
    Link(Json),
}

/// A file with another state.
#[derive(Clone, Debug, PartialEq)]
pub struct FileNews {
    /// The file as it is now: it may have changed again since.
    pub file: FileRecord,
    /// Its job as it is now.
    pub job: Arc<JobRecord>,
    /// The state of the file after the event.
    pub state: FileState,
    /// The state of the job after the event.
    pub job_state: JobState,
    /// The attempt that ended with the event.
    pub ended: Option<AttemptEnd>,
}

/// Events in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewsList {
    /// Those about files and links. Events of jobs, and of what was forgotten, are left out.
    pub news: Vec<News>,
    /// The number of the last event that was looked at: the next call continues after it.
    pub last: i64,
    /// Whether there may be more.
    pub has_more: bool,
}

impl Catalog {
    /// Events after one with their subjects, in order; 0: from the first that is kept. Looks at
    /// `limit` events at most.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn news_after(&self, sequence: i64, limit: usize) -> Result<NewsList> {
        self.read(move |transaction| Box::pin(news_after(transaction, sequence, limit.min(LISTED_MAX))))
            .await
    }

    /// Stores decisions about links as events.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_decisions(&self, decisions: Vec<Json>, now_ms: i64) -> Result<()> {
        let decisions = Arc::new(decisions);
        self.write(move |transaction| {
            let decisions = Arc::clone(&decisions);
            Box::pin(async move {
                let row = |decision| Ok(vec![now_ms.into(), Value::json(decision)?]);
                let rows = decisions.iter().map(row).collect::<Result<Vec<_>>>()?;
                transaction.order_events().await?;
                let sql = "INSERT INTO event (at_ms, detail) VALUES ($1, $2)";
                transaction.execute_each(sql, &rows).await.map(drop)
            })
        })
        .await
    }
}

/// A row of the table.
struct EventRow {
    sequence: i64,
    at_ms: i64,
    about: About,
}

enum About {
    /// A job: those who report files need it not.
    Job,
    Link(Json),
    File {
        job: JobId,
        file: FileId,
        state: FileState,
        job_state: JobState,
        ended: Option<Box<AttemptEnd>>,
    },
}

async fn news_after(transaction: &mut dyn Transaction, sequence: i64, limit: usize) -> Result<NewsList> {
    let sql = "SELECT sequence, at_ms, file, detail, job, file_state, job_state FROM event WHERE sequence > $1 \
        ORDER BY sequence LIMIT $2";
    let parameters = [sequence.into(), Value::from(limit as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    let events = rows.iter_mut().map(read_event).collect::<Result<Vec<_>>>()?;
    let subjects = subjects(transaction, &events).await?;
    Ok(NewsList {
        last: events.last().map_or(sequence, |event| event.sequence),
        has_more: events.len() == limit,
        news: events.into_iter().filter_map(|event| subjects.news(event)).collect(),
    })
}

fn read_event(row: &mut Row) -> Result<EventRow> {
    let (sequence, at_ms) = (row.integer()?, row.integer()?);
    let file = row.optional_integer()?.map(FileId);
    let detail: Option<Json> = row.optional_json()?;
    let about = match (file, detail) {
        (Some(file), detail) => About::File {
            job: row.job_id()?,
            file,
            state: file_state(row)?,
            job_state: job_state(row)?,
            // What another release has written is left out.
            ended: detail.and_then(|detail| serde_json::from_value(detail).ok()),
        },
        (None, Some(detail)) => About::Link(detail),
        (None, None) => About::Job,
    };
    Ok(EventRow { sequence, at_ms, about })
}

/// The records of the events.
struct Subjects {
    files: HashMap<FileId, FileRecord>,
    jobs: HashMap<JobId, Arc<JobRecord>>,
}

async fn subjects(transaction: &mut dyn Transaction, events: &[EventRow]) -> Result<Subjects> {
    let (mut file_ids, mut job_ids) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        if let About::File { file, job, .. } = event.about {
            file_ids.insert(file);
            job_ids.insert(job);
        }
    }
    let ids: Vec<FileId> = file_ids.iter().copied().collect();
    let found = files_by_id(transaction, &ids).await?.into_iter();
    let mut files: HashMap<FileId, FileRecord> = found.map(|file| (file.record.id, file.record)).collect();
    let past = file_ids.iter().filter(|id| !files.contains_key(id));
    let sets: Vec<Vec<Value>> = past.map(|id| vec![(*id).into()]).collect();
    let sql = "SELECT record FROM file_history WHERE id = $1";
    for row in transaction.query_each(sql, &sets).await?.iter_mut().flatten() {
        let record: FileRecord = row.json()?;
        files.insert(record.id, record);
    }
    let ids: Vec<JobId> = job_ids.into_iter().collect();
    let found = jobs(transaction, &ids).await?.into_iter().flatten();
    let jobs = found.map(|job| (job.id, Arc::new(job))).collect();
    Ok(Subjects { files, jobs })
}

impl Subjects {
    fn news(&self, event: EventRow) -> Option<News> {
        let subject = match event.about {
            About::Job => return None,
            About::Link(decision) => Subject::Link(decision),
            About::File {
                job,
                file,
                state,
                job_state,
                ended,
            } => Subject::File(Box::new(FileNews {
                file: self.files.get(&file)?.clone(),
                job: Arc::clone(self.jobs.get(&job)?),
                state,
                job_state,
                ended: ended.map(|ended| *ended),
            })),
        };
        Some(News {
            sequence: event.sequence,
            at_ms: event.at_ms,
            subject,
        })
    }
}
