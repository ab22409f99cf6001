//! What time brings: retries that are due, files that have waited too long, workers that are gone,
//! and jobs that go into the history.

use std::sync::Arc;

use tokio::time::Instant;
use types::Result;

use super::{Inner, now_ms};
use crate::limits::{RETIRE_PERIOD, RETIRED_MAX, SWEEP_PERIOD};

/// Sweeps until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut retires = Instant::now();
    loop {
        tokio::time::sleep(SWEEP_PERIOD).await;
        // The next round tries again what fails.
        let _ = inner.catalog.due(now_ms()).await;
        if retires <= Instant::now() {
            let _ = retire(&inner).await;
            retires = Instant::now() + RETIRE_PERIOD;
        }
    }
}

async fn retire(inner: &Inner) -> Result<()> {
    let history_ms = i64::try_from(inner.settings.history.as_millis()).unwrap_or(i64::MAX);
    inner.catalog.retire(now_ms(), RETIRED_MAX).await?;
    inner
        .catalog
        .prune_history(now_ms().saturating_sub(history_ms), RETIRED_MAX)
        .await?;
    Ok(())
}
