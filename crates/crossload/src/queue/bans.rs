//! Bans and grants in memory: each request asks for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{Ban, BanEffect, Catalog, Named, SettingKind, UserRight};
use door_queue::queue::UserBan;
use types::Result;

/// All bans and grants. Clones are the same.
#[derive(Clone)]
pub(super) struct KnownBans(Arc<Mutex<Bans>>);

#[derive(Default)]
struct Bans {
    storages: Arc<Vec<Ban>>,
    users: Arc<Vec<UserBan>>,
    grants: Arc<Vec<UserRight>>,
}

impl KnownBans {
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn read(catalog: &Catalog) -> Result<Self> {
        let this = Self(Arc::default());
        this.read_again(catalog).await?;
        Ok(this)
    }

    /// Takes what has changed.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn read_again(&self, catalog: &Catalog) -> Result<()> {
        let storages = Arc::new(values(catalog.settings(SettingKind::Ban).await?));
        let users = Arc::new(values(catalog.settings(SettingKind::UserBan).await?));
        let grants = Arc::new(values(catalog.settings(SettingKind::UserRight).await?));
        *self.lock() = Bans {
            storages,
            users,
            grants,
        };
        Ok(())
    }

    /// The bans of storages. Those that were to let files wait until now cancel.
    pub(super) fn storages(&self, now_ms: i64) -> Arc<Vec<Ban>> {
        let mut bans = self.lock();
        let is_over = |ban: &Ban| ban.effect != ban.effect_at(now_ms);
        if bans.storages.iter().any(is_over) {
            let all = Arc::make_mut(&mut bans.storages).iter_mut();
            all.filter(|ban| is_over(ban))
                .for_each(|ban| ban.effect = BanEffect::Cancel);
        }
        bans.storages.clone()
    }

    /// The bans of users.
    pub(super) fn users(&self) -> Arc<Vec<UserBan>> {
        self.lock().users.clone()
    }

    /// What operators have granted.
    pub(super) fn grants(&self) -> Arc<Vec<UserRight>> {
        self.lock().grants.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Bans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn values<T>(settings: Vec<Named<T>>) -> Vec<T> {
    settings.into_iter().map(|setting| setting.value).collect()
}
