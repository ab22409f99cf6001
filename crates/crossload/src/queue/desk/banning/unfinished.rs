//! What bans were to do when their worker was killed, or the database failed: it is done later, by
//! each worker that lives or starts.

use std::sync::Arc;

use catalog::{Ban, BanEffect, Catalog, STORAGE_BANNED};
use queue::Service;
use schedule::storage::names;
use schedule::{FileId, FileState};
use types::Result;

use super::super::super::bans::KnownBans;
use super::super::{Desk, now_ms};
use super::{USER_BANNED, hold_again, jobs_of};
use crate::limits::{BAN_FINISH_OVERLAP_MS, BAN_FINISH_PERIOD};

impl Desk {
    /// Finishes what bans have begun: at once all of them, later those that are new.
    pub(in crate::queue) fn finish_bans(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut since_ms = i64::MIN;
            while let Some(desk) = this.upgrade() {
                let begun_ms = now_ms();
                // What fails is tried again in the next round.
                if finish(&desk.service, &desk.catalog, &desk.bans, since_ms).await.is_ok() {
                    since_ms = begun_ms.saturating_sub(BAN_FINISH_OVERLAP_MS);
                }
                drop(desk);
                tokio::time::sleep(BAN_FINISH_PERIOD).await;
            }
        });
    }
}

/// Cancels or holds what bans since then concern and is still there, and releases what no ban
/// holds.
pub(super) async fn finish(service: &Service, catalog: &Catalog, bans: &KnownBans, since_ms: i64) -> Result<()> {
    let mut recent = bans.storages(now_ms()).to_vec();
    recent.retain(|ban| began_ms(ban) >= since_ms);
    for ban in recent.iter().filter(|ban| ban.effect == BanEffect::Cancel) {
        let vo = Some(ban.vo.as_str()).filter(|vo| !vo.is_empty());
        service.cancel_storage(&ban.storage, vo, STORAGE_BANNED).await?;
    }
    hold_again(catalog, &recent).await?;
    for ban in bans.users().iter().filter(|ban| ban.since_ms >= since_ms) {
        let jobs = jobs_of(catalog, ban).await?;
        service.cancel_jobs(&jobs, USER_BANNED).await?;
    }
    for state in [FileState::OnHold, FileState::OnHoldStaging] {
        release(catalog, bans, state).await?;
    }
    Ok(())
}

/// When a ban began to do what it does.
fn began_ms(ban: &Ban) -> i64 {
    match ban.effect {
        BanEffect::Cancel => ban.cancels_ms.unwrap_or(ban.since_ms),
        BanEffect::Wait | BanEffect::WaitAs => ban.since_ms,
    }
}

/// Releases the files in this state that a ban has held which is no more.
async fn release(catalog: &Catalog, bans: &KnownBans, state: FileState) -> Result<()> {
    let limit = catalog::limits::LISTED_MAX;
    let mut after = FileId(0);
    loop {
        let page = catalog.waiting_files(state, None, after, limit, now_ms()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.file.id;
        // A ban is older than what it holds, so each of them is known now.
        bans.read_again(catalog).await?;
        let storages = bans.storages(now_ms());
        let is_held = |storage: &str, vo: &str| storages.iter().any(|ban| holds(ban, storage, vo));
        let free = page.iter().map(|waiting| &waiting.file).filter(|file| {
            let ends = [&file.source_storage, &file.destination_storage];
            !ends.iter().any(|storage| is_held(storage, &file.vo))
        });
        let mut links: Vec<[&str; 2]> = free
            .map(|file| [file.source_storage.as_str(), file.vo.as_str()])
            .collect();
        links.sort_unstable();
        links.dedup();
        for [storage, vo] in &links {
            catalog.release(storage, Some(vo), now_ms()).await?;
        }
        if !links.is_empty() {
            hold_again(catalog, &storages).await?;
        }
        if page.len() < limit {
            return Ok(());
        }
    }
}

/// Whether files of this virtual organisation wait at a storage because of a ban.
fn holds(ban: &Ban, storage: &str, vo: &str) -> bool {
    ban.is_for(vo) && ban.effect != BanEffect::Cancel && names(&ban.storage, storage).is_some()
}
