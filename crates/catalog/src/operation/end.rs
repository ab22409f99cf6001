//! What becomes of files that workers have.

use std::collections::BTreeSet;
use std::sync::Arc;

use schedule::{FileEvent, FileId, FileState};
use serde_json::Value as Json;
use types::{ErrorCode, Result};

use super::words::{queue_ids, word_id, word_ids, word_of};
use crate::Catalog;
use crate::attempt::{AttemptEnd, CopyFacts};
use crate::hop::{Hop, HopPart};
use crate::job::Problem;
use crate::store::{Transaction, damaged};
use crate::work::{Change, FileRow, HopMove, Work};

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The copy is complete, and on tape if it had to.
    Finished {
        /// The size of the file.
        size_bytes: u64,
        /// The way, as in FTS's messages.
        way: Option<String>,
    },
    /// The copy is complete; the file waits for tape.
    Archiving {
        /// The size of the file.
        size_bytes: u64,
        /// The way, as in FTS's messages.
        way: Option<String>,
    },
    /// The destination has the file whole from an earlier attempt, so nothing was copied.
    Found {
        /// The size of the file.
        size_bytes: u64,
        /// What the file keeps as its last problem: how it was found.
        note: Problem,
        /// Whether the file waits for tape.
        archives: bool,
    },
    /// The attempt failed, and counts.
    Failed {
        /// Why.
        problem: Problem,
        /// When to try again; `None`: never.
        retry_ms: Option<i64>,
        /// What the destination has instead.
        report: Option<Json>,
    },
    /// The file waits again, and the attempt does not count: its link is held.
    Held {
        /// Not before this time.
        until_ms: i64,
        /// Why.
        problem: Problem,
    },
    /// The destination has what an attempt may have left whose worker was lost. Storages remove
    /// that after a while, so the file waits, and the attempt does not count.
    Remains {
        /// Not before this time.
        until_ms: i64,
        /// What is there.
        problem: Problem,
        /// How often it was found so far.
        looks: u16,
    },
    /// The file goes on at another link, on its way by a hop. The attempt does not count.
    Hop(Hop),
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The file.
    pub file: FileId,
    /// Bytes copied.
    pub moved_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its course.
    pub facts: CopyFacts,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has this state now.
    Now(FileState),
    /// It is no longer the worker's: it was canceled, or the lease ended. Nothing has changed.
    NotOurs,
}

impl Catalog {
    /// Attempts ended. A file that waits for tape at its destination belongs to no worker: any may
    /// end it. The result has the order of the endings.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn end(&self, worker: &str, endings: Vec<Ending>, now_ms: i64) -> Result<Vec<Ended>> {
        let arguments = Arc::new((worker.to_owned(), endings));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (worker, endings) = &*arguments;
                end(transaction, worker, endings, now_ms).await
            })
        })
        .await
    }
}

async fn end(transaction: &mut dyn Transaction, worker: &str, endings: &[Ending], now_ms: i64) -> Result<Vec<Ended>> {
    let worker = word_id(transaction, worker).await?;
    let mut work = Work::new(transaction, now_ms);
    let ids: Vec<FileId> = endings.iter().map(|ending| ending.file).collect();
    let mut files = work.lock_files(&ids).await?;
    let mut results = Vec::with_capacity(endings.len());
    for (index, ending) in endings.iter().enumerate() {
        // A second ending of one file meets what the first has left.
        let is_repeated = ids[..index].contains(&ending.file);
        let file = files[index].take().filter(|file| !is_repeated && is_ours(file, worker));
        let next = file.as_ref().and_then(|file| next_state(file, &ending.outcome));
        results.push(match (file, next) {
            (Some(file), Some(next)) => {
                let mut change = change(&file, ending);
                change.hop = match &ending.outcome {
                    Outcome::Hop(hop) => Some(hop_move(&mut work, &file, hop).await?),
                    _ => None,
                };
                work.change(&file, next, change)?;
                Ended::Now(next)
            }
            _ => Ended::NotOurs,
        });
    }
    work.settle().await?;
    Ok(results)
}

fn is_ours(file: &FileRow, worker: i64) -> bool {
    file.state == FileState::Archiving || file.state.is_running() && file.worker == Some(worker)
}

fn next_state(file: &FileRow, outcome: &Outcome) -> Option<FileState> {
    let is_done = matches!(
        outcome,
        Outcome::Finished { .. } | Outcome::Archiving { .. } | Outcome::Found { .. }
    );
    // Its start may not have been reported.
    let state = match file.state {
        FileState::Ready if is_done => FileState::Active,
        state => state,
    };
    let event = match outcome {
        Outcome::Finished { .. } if state == FileState::Archiving => FileEvent::Archived,
        Outcome::Finished { .. } => FileEvent::Copied { archives: false },
        Outcome::Archiving { .. } => FileEvent::Copied { archives: true },
        Outcome::Found { archives, .. } => FileEvent::Copied { archives: *archives },
        Outcome::Failed { retry_ms, .. } => FileEvent::Failed {
            is_recoverable: retry_ms.is_some(),
            has_attempts: true,
            is_expired: false,
        },
        Outcome::Held { .. } | Outcome::Remains { .. } | Outcome::Hop(_) => FileEvent::Retry,
    };
    state.after(event).ok()
}

fn change(file: &FileRow, ending: &Ending) -> Change {
    let moved_bytes = Some(ending.moved_bytes);
    // The end of the wait for tape ends no attempt.
    let ends_attempt = file.state != FileState::Archiving && !matches!(ending.outcome, Outcome::Hop(_));
    let ended = ends_attempt.then(|| attempt_end(file, ending));
    match ending.outcome.clone() {
        Outcome::Finished { size_bytes, way } | Outcome::Archiving { size_bytes, way } => Change {
            size_bytes: Some(size_bytes),
            way,
            moved_bytes,
            ended,
            ..Change::default()
        },
        Outcome::Found { size_bytes, note, .. } => Change {
            size_bytes: Some(size_bytes),
            problem: Some(note),
            moved_bytes,
            ended,
            ..Change::default()
        },
        Outcome::Failed {
            problem,
            retry_ms,
            report,
        } => Change {
            due_ms: retry_ms,
            counts_attempt: true,
            problem: Some(problem),
            report,
            moved_bytes,
            ended,
            ..Change::default()
        },
        Outcome::Held { until_ms, problem } => held(until_ms, problem, moved_bytes),
        Outcome::Remains {
            until_ms,
            problem,
            looks,
        } => Change {
            interruption: Some(1 + i64::from(looks)),
            ..held(until_ms, problem, moved_bytes)
        },
        Outcome::Hop(_) => Change {
            moved_bytes,
            ..Change::default()
        },
    }
}

/// An attempt that does not count.
fn held(until_ms: i64, problem: Problem, moved_bytes: Option<u64>) -> Change {
    let reason = format!(
        "{} ({}, and the attempt does not count)",
        problem.reason,
        who_waits(&problem)
    );
    Change {
        due_ms: Some(until_ms),
        held: Some(Problem {
            reason,
            ..problem.clone()
        }),
        problem: Some(problem),
        moved_bytes,
        ..Change::default()
    }
}

/// A quota is of one user or organisation, and an existing file of its name; anything else is of
/// the storage.
fn who_waits(problem: &Problem) -> &'static str {
    let of_file = [ErrorCode::QuotaExceeded, ErrorCode::PeerExists];
    match of_file.iter().any(|code| problem.code == code.name()) {
        true => "the file waits",
        false => "the storage is held",
    }
}

/// The queue of the next part of a file's way by a hop.
async fn hop_move(work: &mut Work<'_>, file: &FileRow, hop: &Hop) -> Result<HopMove> {
    let home = file.home.unwrap_or(file.queue);
    let record = hop.clone();
    if hop.part == HopPart::GivenUp {
        let queue = home;
        return Ok(HopMove { queue, home, record });
    }
    let sql = "SELECT vo, activity, user_name FROM queue WHERE id = $1";
    let mut rows = work.transaction.query(sql, &[home.into()]).await?;
    let row = rows.first_mut().ok_or_else(|| damaged("a file has no queue"))?;
    let (vo, activity, user) = (row.integer()?, row.integer()?, row.integer()?);
    let [from, to] = hop.link();
    let words = word_ids(work.transaction, BTreeSet::from([from, to])).await?;
    let key = [word_of(&words, from)?, word_of(&words, to)?, vo, activity, user];
    let queues = queue_ids(work.transaction, BTreeSet::from([key])).await?;
    let queue = queues.get(&key).copied().ok_or_else(|| damaged("a queue is missing"))?;
    Ok(HopMove { queue, home, record })
}

fn attempt_end(file: &FileRow, ending: &Ending) -> AttemptEnd {
    let end = AttemptEnd {
        retry: file.attempts.try_into().unwrap_or(u16::MAX),
        moved_bytes: ending.moved_bytes,
        facts: ending.facts,
        ..AttemptEnd::default()
    };
    match ending.outcome.clone() {
        Outcome::Finished { size_bytes, way } | Outcome::Archiving { size_bytes, way } => AttemptEnd {
            size_bytes: Some(size_bytes),
            way,
            ..end
        },
        Outcome::Found { size_bytes, .. } => AttemptEnd {
            size_bytes: Some(size_bytes),
            ..end
        },
        Outcome::Failed { problem, .. } | Outcome::Held { problem, .. } | Outcome::Remains { problem, .. } => {
            AttemptEnd {
                problem: Some(problem),
                ..end
            }
        }
        Outcome::Hop(_) => end,
    }
}
