//! Signs of life: the lease of this worker's files, and how far their copies are.

use std::sync::Arc;

use catalog::Moved;
use tokio::time::{Instant, timeout};
use types::{Error, ErrorCode, Phase, Side};

use super::faults::Work;
use super::{Inner, now_ms};
use crate::limits::{FENCE, LEASE, RENEWAL_PERIOD, RENEWAL_TIME};

/// The database does not answer.
fn silent() -> Error {
    Error::new(ErrorCode::CatalogUnavailable, Side::Queue, Phase::Queued)
}

/// Renews the lease, and stops copies whose files are no longer ours, or soon may be others'.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep(RENEWAL_PERIOD).await;
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
    }
}
