//! Questions about a request, and what their answers mean for its files.

use ::remote::StageState;
use catalog::{Advance, Claimed, Ended, SettingKind, StageMember, StorageSettings};
use schedule::storage::{authority, host};
use schedule::{FileEvent, FileId};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::super::Inner;
use super::super::batch::{Batch, Question, Verdict, verdict};
use super::super::words::{staging, staging_problem};
use super::paths;
use crate::clock::{milliseconds, now_ms};
use crate::limits::{RETRY_DELAY_MAX, TAPE_REFUSALS_MAX};

/// The answer to a question.
pub(super) enum Answer {
    /// How far the files are, in their order.
    States(Vec<StageState>),
    /// Heard.
    Done,
}

/// Puts a question to the tape system, with the credentials of the first file that has some.
pub(super) async fn put(inner: &Inner, request: &str, question: &Question) -> Result<Answer> {
    let members = question.members();
    let (whose, paths) = (whose(inner, members).await?, paths(members));
    let systems = &inner.systems;
    match question {
        Question::States(_) => systems.states(&whose, request, &paths).await.map(Answer::States),
        Question::Cancel { is_rest, .. } => {
            let canceled = systems.cancel(&whose, request, &paths, *is_rest).await;
            canceled.map(|()| Answer::Done)
        }
        Question::Release(_) if skips_eviction(inner, &whose.file.source_storage).await? => Ok(Answer::Done),
        Question::Release(_) => systems.release(&whose, request, &paths).await.map(|()| Answer::Done),
    }
}

/// Whether operators have said that files stay on a storage's disks after their copies.
async fn skips_eviction(inner: &Inner, storage: &str) -> Result<bool> {
    let all = inner.catalog.settings::<StorageSettings>(SettingKind::Storage).await?;
    let of = |name: &str| all.iter().find(|own| authority(&own.name) == name);
    let names = [authority(storage), host(storage), "*"].into_iter();
    let mut set = names.filter_map(of).filter_map(|own| own.value.skip_eviction);
    Ok(set.next() == Some(true))
}

/// The first of these files that is still known.
async fn whose(inner: &Inner, members: &[StageMember]) -> Result<Claimed> {
    for member in members {
        if let Some(claimed) = claimed(inner, member.file).await? {
            return Ok(claimed);
        }
    }
    let gone = Error::new(ErrorCode::NotFound, Side::Queue, Phase::Staging);
    Err(gone.with_detail("the files of the request are no longer known"))
}

/// Whose files a request has; empty if they are no longer known.
pub(super) async fn user(inner: &Inner, members: &[StageMember]) -> Result<String> {
    match whose(inner, members).await {
        Ok(claimed) => Ok(claimed.job.owner.unique_name()),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

async fn claimed(inner: &Inner, file: FileId) -> Result<Option<Claimed>> {
    let Some(file) = inner.catalog.file(file).await? else {
        return Ok(None);
    };
    let job = inner.catalog.job(file.job).await?;
    Ok(job.map(|job| Claimed { file, job: job.into() }))
}

/// Files whose time is over fail.
pub(super) async fn give_up(inner: &Inner, batch: &mut Batch, late: &[StageMember]) -> Result<()> {
    let verdicts: Vec<(StageMember, Verdict)> = late.iter().map(|member| (member.clone(), Verdict::Expired)).collect();
    settle(inner, batch, verdicts).await
}

/// Takes the answer to a question about states.
///
/// # Errors
/// Those of the catalog.
pub(super) async fn take_states(
    inner: &Inner,
    batch: &mut Batch,
    members: &[StageMember],
    answer: Result<Answer>,
) -> Result<()> {
    let verdicts = match answer {
        Ok(Answer::States(states)) => {
            batch.refusals = 0;
            let each = members.iter().zip(states);
            each.filter_map(|(member, state)| Some((member.clone(), verdict(member, state)?)))
                .collect()
        }
        Ok(Answer::Done) => Vec::new(),
        // Its storage is left alone for a while; the files' own time goes on.
        Err(error) if error.retry() => Vec::new(),
        Err(error) => {
            batch.refusals += 1;
            let is_unknown = error.code() == ErrorCode::PeerNotFound;
            if !is_unknown && batch.refusals < TAPE_REFUSALS_MAX {
                return Ok(());
            }
            let words = error.public();
            let failed = |member: &StageMember| (member.clone(), Verdict::Failed(words.clone()));
            members.iter().map(failed).collect()
        }
    };
    settle(inner, batch, verdicts).await
}

/// Writes verdicts into the catalog and the batch.
async fn settle(inner: &Inner, batch: &mut Batch, verdicts: Vec<(StageMember, Verdict)>) -> Result<()> {
    let mut events = Vec::with_capacity(verdicts.len());
    for (member, verdict) in &verdicts {
        events.push(event(inner, member, verdict).await?);
    }
    if events.is_empty() {
        return Ok(());
    }
    let ended = inner.catalog.advance(events, now_ms()).await?;
    for ((member, verdict), ended) in verdicts.into_iter().zip(ended) {
        let state = match ended {
            Ended::Now(state) => Some(state),
            Ended::NotOurs => None,
        };
        batch.settle(member.file, &verdict, state);
    }
    Ok(())
}

/// The event that a verdict is.
async fn event(inner: &Inner, member: &StageMember, verdict: &Verdict) -> Result<Advance> {
    let file = member.file;
    Ok(match verdict {
        Verdict::Staged { is_last_step } => {
            let is_last_step = *is_last_step;
            Advance::new(file, FileEvent::Staged { is_last_step })
        }
        Verdict::Expired => {
            let error = staging(ErrorCode::StagingExpired, format!("{} is not on disk yet", member.path));
            failed(file, &error, None)
        }
        Verdict::Failed(words) => {
            let error = staging(ErrorCode::StagingFailed, words);
            let retry_ms = match claimed(inner, file).await? {
                Some(claimed) => retry_ms(inner, &claimed),
                None => None,
            };
            failed(file, &error, retry_ms)
        }
    })
}

/// A file fails, or is asked for again at a time.
pub(super) fn failed(file: FileId, error: &Error, retry_ms: Option<i64>) -> Advance {
    let event = FileEvent::Failed {
        is_recoverable: retry_ms.is_some(),
        has_attempts: retry_ms.is_some(),
        is_expired: false,
    };
    Advance {
        problem: Some(staging_problem(error)),
        due_ms: retry_ms,
        ..Advance::new(file, event)
    }
}

/// When a file is asked for again that tape did not bring; `None`: its job has no attempts left.
fn retry_ms(inner: &Inner, claimed: &Claimed) -> Option<i64> {
    let (settings, options) = (&inner.settings, &claimed.job.options);
    let retries = options.retries.unwrap_or(settings.retries);
    let delay = options.retry_delay_s.map_or(settings.retry_delay, |seconds| {
        std::time::Duration::from_secs(seconds.into())
    });
    let may = claimed.file.attempts < retries;
    may.then(|| now_ms() + milliseconds(delay.min(RETRY_DELAY_MAX)))
}
