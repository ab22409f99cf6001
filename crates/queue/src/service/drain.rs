//! Workers that take no new work.

use std::sync::atomic::Ordering;

use catalog::SettingKind;
use types::Result;

use super::{Inner, Service, now_ms};

impl Service {
    /// Lets a worker take no new work, or take it again. Another process learns of it when it
    /// renews its lease. A name is never used again, so an order ends with its worker.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn drain(&self, worker: &str, drains: bool) -> Result<()> {
        let (catalog, name) = (&self.0.catalog, setting_of(worker));
        match drains {
            true => {
                let internal = SettingKind::Internal;
                catalog.put_setting(internal, &name, &true, worker, now_ms()).await?;
            }
            false => {
                catalog
                    .delete_setting(SettingKind::Internal, &name, worker, now_ms())
                    .await?;
            }
        }
        self.0.take_drain().await
    }

    /// Whether a worker takes no new work.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn drains(&self, worker: &str) -> Result<bool> {
        self.0.drains(worker).await
    }
}

impl Inner {
    async fn drains(&self, worker: &str) -> Result<bool> {
        let order = self.catalog.setting(SettingKind::Internal, &setting_of(worker)).await?;
        Ok(order.unwrap_or_default())
    }

    /// Takes the order for this worker.
    pub(super) async fn take_drain(&self) -> Result<()> {
        let drains = self.drains(&self.settings.worker).await?;
        if self.is_draining.swap(drains, Ordering::Relaxed) && !drains {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Forgets the order for this worker, whose name is not used again.
    pub(super) async fn forget_drain(&self) {
        if self.is_draining.load(Ordering::Relaxed) {
            let name = setting_of(&self.settings.worker);
            // If this fails, an unused row stays.
            let _ = self
                .catalog
                .delete_setting(SettingKind::Internal, &name, &self.settings.worker, now_ms())
                .await;
        }
    }
}

fn setting_of(worker: &str) -> String {
    format!("drain {worker}")
}
