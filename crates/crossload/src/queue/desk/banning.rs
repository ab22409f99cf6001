//! Bans of storages and users, and what they do to jobs.

#[cfg(test)]
mod tests;
mod unfinished;

use std::collections::BTreeMap;

use catalog::{Audit, Ban, BanEffect, Catalog, JobFilter, STORAGE_BANNED, SettingKind};
use door_queue::queue::UserBan;
use schedule::JobId;
use schedule::storage::authority;
use types::Result;

use super::{Desk, now_ms};

/// Why jobs of a banned user are canceled.
const USER_BANNED: &str = "User banned";

impl Desk {
    pub(super) async fn change_ban(&self, ban: Ban, entry: Audit) -> Result<Vec<JobId>> {
        let stored = ban.clone();
        let changed = self.change_bans(move |bans| {
            bans.retain(|_, other| !is_ban_of(other, &stored.storage, &stored.vo));
            bans.insert(ban_name(&stored.storage, &stored.vo), stored.clone());
            Some(entry.clone())
        });
        changed.await?;
        let vo = Some(ban.vo.as_str()).filter(|vo| !vo.is_empty());
        let swept = match ban.effect {
            BanEffect::Cancel => self.service.cancel_storage(&ban.storage, vo, STORAGE_BANNED).await?,
            BanEffect::Wait | BanEffect::WaitAs => self.catalog.hold(&ban.storage, vo, now_ms()).await?,
        };
        self.bans.read_again(&self.catalog).await?;
        Ok(swept.jobs.into_iter().collect())
    }

    pub(super) async fn end_ban(&self, storage: &str, vo: &str, entry: Audit) -> Result<bool> {
        let of = [storage.to_owned(), vo.to_owned()];
        let changed = self.change_bans(move |bans| {
            let count = bans.len();
            bans.retain(|_, ban| !is_ban_of(ban, &of[0], &of[1]));
            (bans.len() < count).then(|| entry.clone())
        });
        if !changed.await? {
            return Ok(false);
        }
        let whose = Some(vo).filter(|vo| !vo.is_empty());
        self.catalog.release(storage, whose, now_ms()).await?;
        self.bans.read_again(&self.catalog).await?;
        // Files that another ban holds as well were released with the rest.
        hold_again(&self.catalog, &self.bans.storages(now_ms())).await?;
        Ok(true)
    }

    /// Changes the bans of storages, unless `change` gives no entry for the list of changes;
    /// whether it did.
    async fn change_bans<F>(&self, change: F) -> Result<bool>
    where
        F: Fn(&mut BTreeMap<String, Ban>) -> Option<Audit> + Send + Sync + 'static,
    {
        let change = move |bans: &mut BTreeMap<String, Ban>| change(bans).map(|entry| vec![entry]).ok_or(());
        let changed = self.catalog.change_settings(SettingKind::Ban, now_ms(), change).await?;
        if changed.is_ok() {
            self.service.take_settings().await?;
        }
        Ok(changed.is_ok())
    }

    pub(super) async fn change_user_ban(&self, ban: UserBan, entry: Audit) -> Result<Vec<JobId>> {
        let kind = SettingKind::UserBan;
        self.put(kind, &ban.user, Some(ban.clone()), entry).await?;
        self.bans.read_again(&self.catalog).await?;
        let jobs = jobs_of(&self.catalog, &ban).await?;
        self.service.cancel_jobs(&jobs, USER_BANNED).await?;
        Ok(jobs)
    }
}

/// Holds the files that these bans hold.
async fn hold_again(catalog: &Catalog, bans: &[Ban]) -> Result<()> {
    for ban in bans.iter().filter(|ban| ban.effect != BanEffect::Cancel) {
        let vo = Some(ban.vo.as_str()).filter(|vo| !vo.is_empty());
        catalog.hold(&ban.storage, vo, now_ms()).await?;
    }
    Ok(())
}

/// The jobs of a user that have not ended.
async fn jobs_of(catalog: &Catalog, ban: &UserBan) -> Result<Vec<JobId>> {
    // A token's subject ends before its issuer, and may itself have such a sign.
    let subjects = ban.user.match_indices('@').map(|(end, _)| &ban.user[..end]);
    let mut ids = Vec::new();
    for user in subjects.chain([ban.user.as_str()]) {
        let filter = JobFilter {
            user: Some(user.to_owned()),
            since_ms: Some(i64::MAX),
            limit: catalog::limits::LISTED_MAX,
            ..JobFilter::default()
        };
        let found = catalog.list_jobs(&filter).await?.into_iter();
        ids.extend(found.filter(|job| ban.includes(&job.owner)).map(|job| job.id));
    }
    Ok(ids)
}

fn ban_name(storage: &str, vo: &str) -> String {
    format!("{storage} {vo}")
}

/// Whether it is the ban of this storage, under whatever scheme, for this virtual organisation.
fn is_ban_of(ban: &Ban, storage: &str, vo: &str) -> bool {
    authority(&ban.storage) == authority(storage) && ban.vo == vo
}
