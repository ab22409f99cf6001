//! Signs of life: the lease of this worker's files, and how far their copies are.

use std::sync::Arc;

use catalog::Moved;

use super::{Inner, now_ms};
use crate::limits::{LEASE, RENEWAL_PERIOD};

/// Renews the lease, and stops copies whose files are no longer ours.
pub(super) async fn run(inner: Arc<Inner>) {
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
        // If the catalog cannot be reached, the copies go on: their results are written later.
        let Ok(lost) = inner
            .catalog
            .renew(&inner.settings.worker, &moved, now_ms, lease_ms)
            .await
        else {
            continue;
        };
        let mut running = inner.running();
        lost.into_iter().for_each(|file| running.stop(file));
    }
}
