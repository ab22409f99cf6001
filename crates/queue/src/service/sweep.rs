//! What time brings: retries that are due, files that have waited too long, workers that are gone,
//! and what goes into the history or is forgotten.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Advance, ExpiredFile, Lost, LostFile, Problem};
use schedule::{FileEvent, FileId, FileState};
use tokio::time::Instant;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::liveness::{Liveness, Orphans};
use super::{Inner, Service, now_ms};
use crate::copy::problem;
use crate::limits;
use crate::limits::{
    EVENTS_KEPT, PREPARED_MAX, RETIRE_PAUSE, RETIRED_MAX, SECRETS_DELETED_MAX, SECRETS_PERIOD, SWEEP_PERIOD,
};

/// What one round knows of those before.
#[derive(Default)]
struct Memory {
    liveness: Liveness,
    orphans: Orphans,
    looked: Option<Look>,
}

/// Sweeps until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut memory = Memory::default();
    let mut secrets_due = Instant::now() + SECRETS_PERIOD;
    loop {
        // The next round tries again what fails.
        let swept = sweep(&inner, &mut memory).await;
        inner.note(Work::Sweep, &swept);
        inner.note(Work::History, &retire(&inner).await);
        if Instant::now() >= secrets_due {
            let _ = forget_secrets(&inner).await;
            secrets_due = Instant::now() + SECRETS_PERIOD;
        }
        tokio::time::sleep(SWEEP_PERIOD).await;
    }
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

/// When files with tokens were looked for.
struct Look {
    change: u64,
    at: Instant,
}

/// Files whose tokens are ready: all, because tokens are used as they came. None is looked for
/// while the catalog has not changed; the notice of a change can be lost, though.
async fn with_tokens(inner: &Inner, looked: &mut Option<Look>) -> Result<Vec<Advance>> {
    let (change, at) = (inner.catalog.change(), Instant::now());
    let is_known = |last: &Look| last.change == change && at.duration_since(last.at) < limits::TOKENS_PERIOD;
    if looked.as_ref().is_some_and(is_known) {
        return Ok(Vec::new());
    }
    let state = FileState::TokenPreparation;
    let files = inner
        .catalog
        .waiting_files(state, None, FileId(0), PREPARED_MAX, now_ms());
    let prepared = files.await?.into_iter().map(|waiting| {
        let is_on_tape = waiting.job.options.bring_online_s.is_some();
        Advance::new(waiting.file.id, FileEvent::TokensReady { is_on_tape })
    });
    // What is found changes the catalog, so the next round looks again.
    *looked = Some(Look { change, at });
    Ok(prepared.collect())
}

async fn sweep(inner: &Arc<Inner>, memory: &mut Memory) -> Result<()> {
    let leases = inner.catalog.leases().await?;
    let silent = memory.liveness.silent(
        leases,
        &inner.settings.worker,
        inner.catalog.is_shared(),
        Instant::now(),
    );
    let left = match silent.is_empty() {
        true => Lost::default(),
        false => inner.catalog.lose_workers(silent, now_ms()).await?,
    };
    let mut events: Vec<Advance> = left.files.into_iter().map(lost).collect();
    let owned = inner.catalog.files_of_worker(&inner.settings.worker).await?;
    let found = memory
        .orphans
        .found(owned, |file| inner.running().has(file), Instant::now());
    events.extend(found.into_iter().map(|file| {
        let worker = inner.settings.worker.clone();
        lost(LostFile { file, worker })
    }));
    let due = inner.catalog.due(now_ms()).await?;
    for expired in due.expired {
        events.push(give_up(inner, expired).await?);
    }
    events.extend(with_tokens(inner, &mut memory.looked).await?);
    if !events.is_empty() {
        inner.catalog.advance(events, now_ms()).await?;
    }
    if due.requeued + left.requeued > 0 {
        inner.wake.notify_one();
    }
    Ok(())
}

/// A file whose worker was lost is copied again: what the lost copy has written is overwritten or
/// removed by the next attempt.
fn lost(file: LostFile) -> Advance {
    Advance {
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
    while inner.catalog.prune_events(before(EVENTS_KEPT)).await? > 0 {
        tokio::time::sleep(RETIRE_PAUSE).await;
    }
    Ok(())
}
