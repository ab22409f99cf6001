//! Events of files that no worker has: tokens, tape, expiry, lost workers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use schedule::{FileEvent, FileId, FileState};
use types::Result;

use super::end::Ended;
use super::list::Conditions;
use super::read::{SELECT_FILE, jobs_by_number, read_file};
use super::tape::StorageUser;
use super::words::word_ids;
use crate::Catalog;
use crate::job::{FileRecord, JobRecord, Problem};
use crate::limits::LISTED_MAX;
use crate::store::{Transaction, Value};
use crate::work::{Change, FileRow, Work};

/// Something happened to a file that no worker has, or whose worker is lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// The file.
    pub file: FileId,
    /// What happened. [`FileEvent::Failed`] counts as an attempt.
    pub event: FileEvent,
    /// Why.
    pub problem: Option<Problem>,
    /// The file then waits until this time.
    pub due_ms: Option<i64>,
    /// The request at the tape system, with [`FileEvent::StagingAsked`].
    pub request: Option<String>,
    /// The worker that must still have the file; needed for files that run.
    pub worker: Option<String>,
}

impl Advance {
    /// An event without further data.
    #[must_use]
    pub fn new(file: FileId, event: FileEvent) -> Self {
        Self {
            file,
            event,
            problem: None,
            due_ms: None,
            request: None,
            worker: None,
        }
    }
}

/// A file that waits for something else than its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingFile {
    /// The file.
    pub file: FileRecord,
    /// Its job.
    pub job: Arc<JobRecord>,
    /// The request at the tape system.
    pub request: Option<String>,
}

impl Catalog {
    /// Applies events. Where one is impossible in the state of its file, nothing changes
    /// ([`Ended::NotOurs`]). The result has the order of the events.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn advance(&self, events: Vec<Advance>, now_ms: i64) -> Result<Vec<Ended>> {
        let events = Arc::new(events);
        self.write(move |transaction| {
            let events = Arc::clone(&events);
            Box::pin(async move { advance(transaction, &events, now_ms).await })
        })
        .await
    }

    /// Files in a state of waiting for tokens, tape before the copy, or tape after it, by
    /// identifier. `whose`: only those of this user at this storage, which is the source, or with
    /// [`FileState::Archiving`] the destination. `after` continues a listing. Files whose retry is
    /// due later are left out.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn waiting_files(
        &self,
        state: FileState,
        whose: Option<&StorageUser>,
        after: FileId,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<WaitingFile>> {
        let whose = Arc::new(whose.cloned());
        self.read(move |transaction| {
            let whose = Arc::clone(&whose);
            Box::pin(async move {
                let mut conditions = Conditions::default();
                conditions.states("f.state", std::iter::once(state.number()));
                // Lets the databases use the index of these states.
                let indexed = match state {
                    FileState::OnHold | FileState::OnHoldStaging => "f.state IN (5, 6)",
                    _ => "f.state IN (1, 2, 3, 10)",
                };
                conditions.add(indexed.to_owned());
                let side = if state == FileState::Archiving {
                    "q.destination"
                } else {
                    "q.source"
                };
                if let Some(whose) = &*whose {
                    conditions.word(side, Some(&whose.storage));
                    conditions.word("q.user_name", Some(&whose.user));
                }
                let (after, now) = (conditions.parameter(after), conditions.parameter(now_ms));
                conditions.add(format!("f.id > {after} AND (f.due_ms IS NULL OR f.due_ms <= {now})"));
                waiting_files(transaction, conditions, limit.min(LISTED_MAX)).await
            })
        })
        .await
    }
}

async fn waiting_files(
    transaction: &mut dyn Transaction,
    mut conditions: Conditions,
    limit: usize,
) -> Result<Vec<WaitingFile>> {
    let clause = conditions.clause();
    let limit = conditions.parameter(limit as i64);
    let sql = format!("{SELECT_FILE}{clause} ORDER BY f.id LIMIT {limit}");
    let mut rows = transaction.query(&sql, &conditions.parameters).await?;
    let files = rows.iter_mut().map(read_file).collect::<Result<Vec<_>>>()?;
    let numbers: BTreeSet<i64> = files.iter().map(|file| file.job).collect();
    let jobs: HashMap<i64, Arc<JobRecord>> = jobs_by_number(transaction, &numbers)
        .await?
        .into_iter()
        .map(|job| (job.number, Arc::new(job.record)))
        .collect();
    let sets: Vec<Vec<Value>> = files.iter().map(|file| vec![file.record.id.into()]).collect();
    let requests = transaction
        .query_each("SELECT request FROM file WHERE id = $1", &sets)
        .await?;
    let mut waiting = Vec::with_capacity(files.len());
    for (file, mut rows) in files.into_iter().zip(requests) {
        let request = rows.first_mut().map_or(Ok(None), |row| row.optional_text())?;
        if let Some(job) = jobs.get(&file.job) {
            waiting.push(WaitingFile {
                file: file.record,
                job: Arc::clone(job),
                request,
            });
        }
    }
    Ok(waiting)
}

/// Applies events within a transaction, as [`Catalog::advance`].
pub(super) async fn advance(transaction: &mut dyn Transaction, events: &[Advance], now_ms: i64) -> Result<Vec<Ended>> {
    let names: BTreeSet<&str> = events.iter().filter_map(|event| event.worker.as_deref()).collect();
    let workers = word_ids(transaction, names).await?;
    let mut work = Work::new(transaction, now_ms);
    let ids: Vec<FileId> = events.iter().map(|event| event.file).collect();
    let files = work.lock_files(&ids).await?;
    let mut results = Vec::with_capacity(events.len());
    let mut changed = BTreeSet::new();
    for (file, event) in files.into_iter().zip(events) {
        let worker = event.worker.as_ref().and_then(|name| workers.get(name).copied());
        let file = file.filter(|file| is_free(file, worker) && !changed.contains(&file.id));
        let next = file.as_ref().and_then(|file| file.state.after(event.event).ok());
        results.push(match (file, next) {
            (Some(file), Some(next)) => {
                changed.insert(file.id);
                work.change(&file, next, change(&file, event))?;
                Ended::Now(next)
            }
            _ => Ended::NotOurs,
        });
    }
    work.settle().await?;
    Ok(results)
}

/// A file that runs is only changed for the worker that has it.
fn is_free(file: &FileRow, worker: Option<i64>) -> bool {
    match worker {
        Some(_) => file.worker == worker,
        None => !file.state.is_running(),
    }
}

fn change(file: &FileRow, event: &Advance) -> Change {
    Change {
        interruption: (event.event == FileEvent::WorkerLost && file.state == FileState::Active).then_some(1),
        due_ms: event.due_ms,
        problem: event.problem.clone(),
        counts_attempt: matches!(event.event, FileEvent::Failed { .. }),
        request: event.request.clone(),
        ..Change::default()
    }
}
