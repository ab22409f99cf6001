//! What may take long and is in no hurry: what goes into the history or is forgotten, and large
//! changes whose processes have ended. It goes piece by piece: others use the catalog in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use types::Result;

use super::Inner;
use super::faults::Work;
use crate::clock::{milliseconds, now_ms};
use crate::limits::{
    EVENTS_KEPT, LONG_CHANGE_SILENCE, RETIRE_PAUSE, RETIRED_MAX, SECRETS_DELETED_MAX, SECRETS_PERIOD, SWEEP_PERIOD,
    UNREAD_EVENTS_KEPT,
};

/// Moves and forgets until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut secrets_due = Instant::now() + SECRETS_PERIOD;
    loop {
        // The next round tries again what fails.
        inner.note(Work::History, &retire(&inner).await);
        if Instant::now() >= secrets_due {
            let _ = forget_secrets(&inner).await;
            secrets_due = Instant::now() + SECRETS_PERIOD;
        }
        tokio::time::sleep(SWEEP_PERIOD).await;
    }
}

/// Goes on with changes of large jobs whose processes have ended, until the service stops. Such a
/// job waits for that, so it does not wait for the history of others.
pub(super) async fn resume_changes(inner: Arc<Inner>) {
    loop {
        inner.note(Work::Changes, &resume(&inner).await);
        tokio::time::sleep(SWEEP_PERIOD).await;
    }
}

async fn resume(inner: &Inner) -> Result<()> {
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

async fn retire(inner: &Inner) -> Result<()> {
    let before = |kept: Duration| now_ms().saturating_sub(milliseconds(kept));
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
