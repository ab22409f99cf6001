//! What time brings: retries that are due, files that have waited too long, workers that are gone,
//! and what goes into the history or is forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Advance, ExpiredFile, Lost, LostFile, Problem, WaitingFile};
use schedule::{FileEvent, FileId, FileState};
use tokio::time::Instant;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::liveness::Liveness;
use super::{Inner, Service};
use crate::clock::{milliseconds, now_ms};
use crate::copy::problem;
use crate::limits::{
    EVENTS_KEPT, LONG_CHANGE_SILENCE, PREPARED_MAX, PREPARED_PAGES_MAX, RETIRE_PAUSE, RETIRED_MAX, SECRETS_DELETED_MAX,
    SECRETS_PERIOD, SWEEP_PERIOD, TOKEN_LEFT_MIN, UNREAD_EVENTS_KEPT,
};

/// Sweeps until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut liveness = Liveness::default();
    let mut secrets_due = Instant::now() + SECRETS_PERIOD;
    loop {
        // The next round tries again what fails.
        let swept = sweep(&inner, &mut liveness).await;
        inner.note(Work::Sweep, &swept);
        inner.note(Work::History, &retire(&inner).await);
        if Instant::now() >= secrets_due {
            let _ = forget_secrets(&inner).await;
            secrets_due = Instant::now() + SECRETS_PERIOD;
        }
        tokio::time::sleep(SWEEP_PERIOD).await;
    }
}

/// Goes on with changes of large jobs whose processes have ended.
async fn resume_changes(inner: &Inner) -> Result<()> {
    let before_ms = now_ms().saturating_sub(milliseconds(LONG_CHANGE_SILENCE));
    for change in inner.catalog.stalled_changes(before_ms).await? {
        while !inner.catalog.resume_change(change, now_ms()).await? {}
    }
    Ok(())
}

/// Deletes credentials that no job uses any more.
async fn forget_secrets(inner: &Inner) -> Result<()> {
    while inner
        .catalog
        .delete_unused_secrets(now_ms(), SECRETS_DELETED_MAX)
        .await?
        > 0
    {
        tokio::time::sleep(RETIRE_PAUSE).await;
    }
    Ok(())
}

async fn sweep(inner: &Arc<Inner>, liveness: &mut Liveness) -> Result<()> {
    let due = inner.catalog.due(now_ms()).await?;
    let is_shared = inner.catalog.is_shared();
    let silent = liveness.silent(due.leases, &inner.settings.worker, is_shared, Instant::now());
    let left = match silent.is_empty() {
        true => Lost::default(),
        false => inner.catalog.lose_workers(silent, now_ms()).await?,
    };
    let mut events: Vec<Advance> = left.files.into_iter().map(lost).collect();
    for expired in due.expired {
        events.push(give_up(inner, expired).await?);
    }
    events.extend(prepared(inner).await?);
    if !events.is_empty() {
        inner.catalog.advance(events, now_ms()).await?;
    }
    if due.requeued + left.requeued > 0 {
        inner.wake.notify_one();
    }
    resume_changes(inner).await
}

/// Files whose tokens can be used. Others wait until their tokens, which end at once, are renewed.
async fn prepared(inner: &Inner) -> Result<Vec<Advance>> {
    let mut events = Vec::new();
    let mut after = FileId(0);
    let now_ms = now_ms();
    let until_ms = now_ms + i64::try_from(TOKEN_LEFT_MIN.as_millis()).unwrap_or(i64::MAX);
    for _ in 0..PREPARED_PAGES_MAX {
        let state = FileState::TokenPreparation;
        let page = inner
            .catalog
            .waiting_files(state, None, after, PREPARED_MAX, now_ms)
            .await?;
        let Some(last) = page.last() else { break };
        after = last.file.id;
        let names = |waiting: &WaitingFile| {
            let options = &waiting.file.options;
            [options.source_token.clone(), options.destination_token.clone()]
                .into_iter()
                .flatten()
        };
        let all: BTreeSet<String> = page.iter().flat_map(names).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let unready = inner.catalog.unready_tokens(&all, now_ms, until_ms).await?;
        let ready = page
            .iter()
            .filter(|waiting| !names(waiting).any(|name| unready.contains(&name)));
        events.extend(ready.map(|waiting| {
            let options = &waiting.job.options;
            let is_on_tape = options.bring_online_s.is_some() || options.pin_lifetime_s.is_some();
            Advance::new(waiting.file.id, FileEvent::TokensReady { is_on_tape })
        }));
        if page.len() < PREPARED_MAX {
            break;
        }
    }
    Ok(events)
}

/// A file whose worker was lost is queued again. The next attempt first looks at what the lost one
/// has written.
fn lost(file: LostFile) -> Advance {
    let error = Error::new(ErrorCode::OutcomeUnknown, Side::Queue, Phase::Transfer);
    let words = "the worker that copied it was lost; the next attempt looks at what the destination has";
    Advance {
        problem: Some(problem(&error.with_detail(words))),
        worker: Some(file.worker),
        ..Advance::new(file.file, FileEvent::WorkerLost)
    }
}

/// A file whose time is over fails, and its reason says what it waited for.
async fn give_up(inner: &Arc<Inner>, expired: ExpiredFile) -> Result<Advance> {
    let why = Service(inner.clone()).why_file(expired.file).await?;
    let reasons = why.map(|why| why.reasons).unwrap_or_default();
    let words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let error = Error::new(ErrorCode::QueueExpired, Side::Queue, Phase::Queued).with_detail(words.join("; "));
    let event = FileEvent::Failed {
        is_recoverable: false,
        has_attempts: false,
        is_expired: true,
    };
    let problem: Problem = problem(&error);
    Ok(Advance {
        problem: Some(problem),
        ..Advance::new(expired.file, event)
    })
}

/// Moves what has ended into the history, and forgets what is old, piece by piece: others use the
/// catalog in between.
async fn retire(inner: &Inner) -> Result<()> {
    let before = |kept: Duration| now_ms().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
    while inner.catalog.retire(now_ms(), RETIRED_MAX).await? > 0 {
        tokio::time::sleep(RETIRE_PAUSE).await;
    }
    let history = inner.settings.history;
    while inner.catalog.prune_history(before(history), RETIRED_MAX).await? > 0 {
        tokio::time::sleep(RETIRE_PAUSE).await;
    }
    let (kept, unread) = (before(EVENTS_KEPT), before(UNREAD_EVENTS_KEPT));
    while inner.catalog.prune_events(kept, unread).await? > 0 {
        tokio::time::sleep(RETIRE_PAUSE).await;
    }
    Ok(())
}
