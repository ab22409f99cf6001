//! Signs of life: the lease of this worker's files, and how far their copies are.

use std::sync::Arc;

use catalog::Moved;
use tokio::time::{Instant, timeout};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::{Inner, Service, now_ms};
use crate::limits::{FENCE, LEASE, RENEWAL_PERIOD, RENEWAL_TIME};

/// The database does not answer.
fn silent() -> Error {
    Error::new(ErrorCode::CatalogUnavailable, Side::Queue, Phase::Queued)
}

/// Renews the lease, and stops copies whose files are no longer ours, or soon may be others'.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut renewed = Instant::now();
    let mut settings_version = None;
    loop {
        let moving = inner.running().moving().into_iter();
        let moved: Vec<Moved> = moving
            .map(|copy| Moved {
                file: copy.file,
                moved_bytes: copy.moved_bytes,
            })
            .collect();
        let now_ms = now_ms();
        let lease_ms = now_ms + i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        let began = Instant::now();
        let renewal = inner.catalog.renew(&inner.settings.worker, &moved, now_ms, lease_ms);
        let outcome = timeout(RENEWAL_TIME, renewal).await.unwrap_or_else(|_| Err(silent()));
        inner.note(Work::Renew, &outcome);
        match outcome {
            Ok(lost) => {
                // Others see the lease of this moment or a later one.
                renewed = began;
                let mut running = inner.running();
                lost.into_iter().for_each(|file| running.stop(file));
            }
            // Others may take the files soon. Until then the copies go on: their results are
            // written when the database answers again.
            Err(_) if inner.catalog.is_shared() && renewed.elapsed() >= FENCE => inner.running().stop_each(),
            Err(_) => {}
        }
        // After the lease, and in bounded time: nothing may keep this worker from its fence.
        let _ = timeout(RENEWAL_TIME, inner.take_orders(&mut settings_version)).await;
        tokio::time::sleep(RENEWAL_PERIOD).await;
    }
}

impl Inner {
    /// Takes what operators have changed through another process: settings, and whether this worker
    /// drains.
    async fn take_orders(self: &Arc<Self>, settings_version: &mut Option<i64>) -> Result<()> {
        self.take_drain().await?;
        let version = self.catalog.settings_version().await?;
        if settings_version.replace(version).is_some_and(|known| known != version) {
            Service(self.clone()).take_settings().await?;
        }
        Ok(())
    }
}
