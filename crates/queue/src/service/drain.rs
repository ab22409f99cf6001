//! Workers that take no new work.

use std::sync::atomic::Ordering;

use catalog::Audit;
use types::Result;

use super::{Inner, Service};
use crate::clock::now_ms;

impl Service {
    /// Lets a worker take no new work, or take it again. Another process learns of it when it
    /// renews its lease. A name is never used again, so an order ends with its worker. `entry` goes
    /// into the audit list in the same transaction.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn drain(&self, worker: &str, drains: bool, entry: Audit) -> Result<()> {
        self.0.catalog.drain(worker, drains, entry).await?;
        if worker == self.0.settings.worker {
            self.0.drain_orders.fetch_add(1, Ordering::Relaxed);
            self.0.take_drain(drains);
        }
        Ok(())
    }

    /// Whether a worker takes no new work.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn drains(&self, worker: &str) -> Result<bool> {
        self.0.catalog.drains(worker).await
    }
}

impl Inner {
    /// How many orders have come through this process. What the catalog said before the last of
    /// them is older than it.
    pub(super) fn drain_orders(&self) -> u64 {
        self.drain_orders.load(Ordering::Relaxed)
    }

    /// Takes the order for this worker.
    pub(super) fn take_drain(&self, drains: bool) {
        if self.is_draining.swap(drains, Ordering::Relaxed) && !drains {
            self.wake.notify_one();
        }
    }

    /// Forgets the order for this worker, whose name is not used again.
    pub(super) async fn forget_drain(&self) {
        if self.is_draining.load(Ordering::Relaxed) {
            // If this fails, an unused row stays.
            let _ = self.catalog.forget_drain(&self.settings.worker, now_ms()).await;
        }
    }
}
