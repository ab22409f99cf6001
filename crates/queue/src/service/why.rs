//! Why a file waits: the reasons of one moment, who is ahead, and when it may start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Claimed, FileRecord, JobRecord, Problem};
use schedule::scheduler::{Decision, Inputs};
use schedule::why::{Contender, Estimate, Waiting, WaitingFile, explain, with_words};
use schedule::{CredentialEnd, FileId, FileState, JobId, Reason};
use serde::Serialize;
use types::Result;

use super::counters::Counters;
use super::pace::Flow;
use super::rules::Rules;
use super::{Inner, Service};
use crate::clock::now_ms;
use crate::limits::{COUNTERS_AGE, POSITIONS_MAX, WHY_FILES_MAX};

/// Why a file is where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The file.
    pub file_id: FileId,
    /// Its job.
    pub job_id: JobId,
    /// Its state.
    pub state: FileState,
    /// The reasons, the most important first. There is at least one.
    #[serde(serialize_with = "with_words")]
    pub reasons: Vec<Reason>,
    /// Files ahead of it in its queue; `None` if it does not wait there.
    pub ahead: Option<u64>,
    /// Who has the slots that it waits for, most copies first.
    pub contenders: Vec<Contender>,
    /// When it may start and end.
    pub estimate: Option<Estimate>,
    /// When the credential that its copy needs expires, in milliseconds since 1970.
    pub credential_expires_ms: Option<i64>,
}

/// A file with what the catalog knows of its wait.
struct Asked {
    file: FileRecord,
    ahead: Option<u64>,
    credential: CredentialNews,
}

/// What is to be said of the credentials of a file.
#[derive(Default)]
struct CredentialNews {
    end: Option<CredentialEnd>,
    token_gaps: Vec<String>,
}

impl Service {
    /// Why a file waits, or did not go well; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_file(&self, id: FileId) -> Result<Option<Why>> {
        let Some(file) = self.0.catalog.file(id).await? else {
            return Ok(None);
        };
        Ok(self.why_files(vec![file]).await?.pop())
    }

    /// The same for the files of a job that have not ended, or if all have, for all; at most
    /// [`WHY_FILES_MAX`].
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_job(&self, id: JobId) -> Result<Vec<Why>> {
        let mut files = self.0.catalog.files(id).await?;
        if files.iter().any(|file| !file.state.is_terminal()) {
            files.retain(|file| !file.state.is_terminal());
        }
        files.truncate(WHY_FILES_MAX);
        self.why_files(files).await
    }

    /// Why each of these files is where it is, in their order.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_files(&self, files: Vec<FileRecord>) -> Result<Vec<Why>> {
        let mut asked = Vec::with_capacity(files.len());
        let (mut positions, mut jobs) = (Positions::default(), Jobs::default());
        for file in files {
            let ahead = positions.of(&self.0, &file).await?;
            let credential = jobs.credential_of(&self.0, &file).await?;
            asked.push(Asked {
                file,
                ahead,
                credential,
            });
        }
        let counters = self.0.counters_of(asked.iter().map(|asked| &asked.file)).await?;
        let explain = |inputs: &Inputs<'_>, decision: &Decision| {
            let each = asked.iter().map(|asked| self.0.why(asked, &counters, inputs, decision));
            each.collect()
        };
        Ok(self.0.explain(&counters, explain))
    }

    /// Gives files that wait their reason in words, with its code, so that lists show it. A failure
    /// of the last attempt stays while the file waits for the next one. One look for all of them.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn show_reasons(&self, files: &mut [FileRecord]) -> Result<()> {
        let waits = |file: &&mut FileRecord| is_waiting(file.state) && file.times.retry_ms.is_none();
        let mut waiting: Vec<&mut FileRecord> = files.iter_mut().filter(waits).take(WHY_FILES_MAX).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let counters = self.0.counters_of(waiting.iter().map(|file| &**file)).await?;
        let is_draining = self.0.is_draining();
        self.0.explain(&counters, |inputs, decision| {
            // Files of a queue wait for the same.
            let mut known: HashMap<usize, Option<Problem>> = HashMap::new();
            for file in &mut waiting {
                let queue = counters.position(file);
                let first = || {
                    let waiting = why_it_waits(inputs, decision, queue, file)?;
                    waiting_for_drain(waiting, is_draining).reasons.first().map(shown)
                };
                file.problem = match queue.filter(|_| file.state == FileState::Submitted) {
                    Some(queue) => known.entry(queue).or_insert_with(first).clone(),
                    None => first(),
                };
            }
        });
        Ok(())
    }
}

/// The job of the last file: those of a job are asked for together.
#[derive(Default)]
struct Jobs(Option<Arc<JobRecord>>);

impl Jobs {
    async fn credential_of(&mut self, inner: &Inner, file: &FileRecord) -> Result<CredentialNews> {
        if file.state.is_terminal() {
            return Ok(CredentialNews::default());
        }
        if self.0.as_ref().is_none_or(|job| job.id != file.job) {
            self.0 = inner.catalog.job(file.job).await?.map(Arc::new);
        }
        let Some(job) = self.0.clone() else {
            return Ok(CredentialNews::default());
        };
        let file = file.clone();
        let claimed = Claimed { file, job };
        Ok(CredentialNews {
            end: inner.copier.credential_end(&claimed).await,
            token_gaps: inner.copier.token_gaps(&claimed).await,
        })
    }
}

/// Positions of files that are asked for together: those of the first ones are read, further ones
/// of the same queue come after them.
#[derive(Default)]
struct Positions {
    read: usize,
    last: Option<(Flow, u64)>,
}

impl Positions {
    async fn of(&mut self, inner: &Inner, file: &FileRecord) -> Result<Option<u64>> {
        if file.state != FileState::Submitted || file.times.retry_ms.is_some() {
            return Ok(None);
        }
        let flow = Flow::of_file(file);
        let before = self.last.take().filter(|(last, _)| *last == flow);
        let position = match before {
            Some((_, before)) if self.read >= POSITIONS_MAX => Some(before + 1),
            _ => {
                self.read += 1;
                inner.catalog.position(file.id).await?
            }
        };
        self.last = position.map(|position| (flow, position));
        Ok(position)
    }
}

impl Inner {
    /// Counters that know the queues of these files.
    async fn counters_of(&self, mut files: impl Iterator<Item = &FileRecord>) -> Result<Arc<Counters>> {
        let counters = self.counters(COUNTERS_AGE).await?;
        let is_new = |file: &FileRecord| file.state == FileState::Submitted && counters.position(file).is_none();
        match files.any(is_new) {
            true => self.counters(Duration::ZERO).await,
            false => Ok(counters),
        }
    }

    /// Decides without consequences, and explains it.
    pub(super) fn explain<T>(&self, counters: &Counters, explain: impl FnOnce(&Inputs<'_>, &Decision) -> T) -> T {
        let (places, queues) = (self.places(), self.queues(counters));
        let mut scheduler = self.scheduler().clone();
        let outlook = self.outlook();
        let rules = Rules {
            outlook: &outlook,
            tuning: &self.tuning(),
        };
        let inputs = rules.inputs(now_ms(), &queues, places);
        let decision = scheduler.explain(&inputs);
        explain(&inputs, &decision)
    }

    fn why(&self, asked: &Asked, counters: &Counters, inputs: &Inputs<'_>, decision: &Decision) -> Why {
        let file = &asked.file;
        let known = waiting_file(file, asked.ahead.unwrap_or_default(), asked.credential.end);
        let pace = self.paces().pace(inputs.now_ms, &Flow::of_file(file));
        let queue = counters.position(file).unwrap_or(usize::MAX);
        let waiting = explain(inputs, decision, queue, &known, pace.as_ref());
        let waiting = waiting.map(|waiting| waiting_for_drain(waiting, self.is_draining()));
        let Waiting {
            mut reasons,
            contenders,
            estimate,
            ..
        } = waiting.unwrap_or_else(|| Waiting {
            reasons: vec![not_waiting(file)],
            ..Waiting::default()
        });
        let gaps = asked.credential.token_gaps.iter().cloned();
        reasons.extend(gaps.map(|message| Reason::TokenScope { message }));
        Why {
            file_id: file.id,
            job_id: file.job,
            state: file.state,
            reasons,
            ahead: asked.ahead,
            contenders,
            estimate,
            credential_expires_ms: asked.credential.end.map(|end| end.expires_ms),
        }
    }
}

fn is_waiting(state: FileState) -> bool {
    !state.is_terminal() && !matches!(state, FileState::Ready | FileState::Active | FileState::Archiving)
}

fn waiting_file(file: &FileRecord, ahead: u64, credential: Option<CredentialEnd>) -> WaitingFile {
    WaitingFile {
        state: file.state,
        ahead,
        retry_ms: file.times.retry_ms,
        last_error: file.problem.as_ref().map(|problem| problem.reason.clone()),
        credential,
    }
}

/// What a file does that a worker has, or that has ended.
fn not_waiting(file: &FileRecord) -> Reason {
    let message = || {
        file.problem
            .as_ref()
            .map_or(String::new(), |problem| problem.reason.clone())
    };
    match file.state {
        FileState::Active => Reason::Active {
            moved_bytes: file.moved_bytes,
            size_bytes: file.size_bytes.or(file.given_size_bytes),
        },
        FileState::Archiving => Reason::Archiving,
        FileState::Finished => Reason::Finished,
        FileState::Failed => Reason::Failed { message: message() },
        FileState::Canceled => Reason::Canceled { message: message() },
        _ => Reason::Starting,
    }
}

/// A worker that drains has no place for a copy.
pub(super) fn of_drain(reasons: &mut [Reason], is_draining: bool) {
    let full = reasons.iter_mut().filter(|reason| **reason == Reason::WorkerFull);
    full.filter(|_| is_draining)
        .for_each(|reason| *reason = Reason::WorkerDraining);
}

/// The same for a file: nothing says when there is a place.
fn waiting_for_drain(mut waiting: Waiting, is_draining: bool) -> Waiting {
    of_drain(&mut waiting.reasons, is_draining);
    if waiting.reasons.contains(&Reason::WorkerDraining) {
        waiting.estimate = None;
    }
    waiting
}

/// The reasons for which a file waits, for lists.
fn why_it_waits(inputs: &Inputs<'_>, decision: &Decision, queue: Option<usize>, file: &FileRecord) -> Option<Waiting> {
    // Whether it is among those that start now is known only with its position.
    let ahead = queue.map_or(0, |queue| inputs.queues[queue].waiting.saturating_sub(1));
    let known = waiting_file(file, ahead, None);
    explain(inputs, decision, queue.unwrap_or(usize::MAX), &known, None)
}

/// A reason as lists show it.
fn shown(reason: &Reason) -> Problem {
    Problem {
        code: reason.code().to_owned(),
        side: types::Side::Queue.name().to_owned(),
        phase: types::Phase::Queued.name().to_owned(),
        reason: format!("{reason} ({})", reason.code()),
        is_recoverable: true,
    }
}
