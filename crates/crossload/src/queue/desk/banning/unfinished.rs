//! What bans were to do when their worker was killed, or the database failed: it is done later, by
//! each worker that lives or starts.

use std::sync::Arc;

use catalog::{Ban, BanEffect, Catalog};
use queue::Service;
use schedule::storage::names;
use schedule::{FileId, FileState};
use types::Result;

use super::super::super::bans::KnownBans;
use super::super::{Desk, now_ms};
use super::{STORAGE_BANNED, USER_BANNED, jobs_of};
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

/// Cancels what bans since then concern and is still there, and releases what no ban holds.
async fn finish(service: &Service, catalog: &Catalog, bans: &KnownBans, since_ms: i64) -> Result<()> {
    for ban in bans.storages().iter() {
        if ban.effect == BanEffect::Cancel && ban.since_ms >= since_ms {
            let vo = Some(ban.vo.as_str()).filter(|vo| !vo.is_empty());
            service.cancel_storage(&ban.storage, vo, STORAGE_BANNED).await?;
        }
    }
    for ban in bans.users().iter().filter(|ban| ban.since_ms >= since_ms) {
        let jobs = jobs_of(catalog, ban).await?;
        service.cancel_jobs(&jobs, USER_BANNED).await?;
    }
    for state in [FileState::OnHold, FileState::OnHoldStaging] {
        release(catalog, bans, state).await?;
    }
    Ok(())
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
        let storages = bans.storages();
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
            super::hold_again(catalog, &storages).await?;
        }
        if page.len() < limit {
            return Ok(());
        }
    }
}

/// Whether files of this virtual organisation wait at a storage because of a ban.
fn holds(ban: &Ban, storage: &str, vo: &str) -> bool {
    let is_for = matches!(ban.vo.as_str(), "" | "*") || ban.vo == vo;
    is_for && ban.effect != BanEffect::Cancel && names(&ban.storage, storage).is_some()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use catalog::{Claimed, FileOptions, JobOptions, Login, NewFile, NewJob, Owner, SettingKind};
    use door_queue::queue::UserBan;
    use queue::{Copier, CopyTime, Roles, Settings};
    use schedule::scheduler::ShareUnit;
    use schedule::{JobId, JobKind, JobState};
    use transfer::Progress;

    use super::*;

    struct Never;

    impl Copier for Never {
        fn copy<'a>(&'a self, _: &'a Claimed, _: Roles, _: &'a Progress) -> CopyTime<'a> {
            Box::pin(std::future::pending())
        }
    }

    fn settings() -> Settings {
        Settings {
            worker: "w".to_owned(),
            copies: 0,
            storage_copies: 1,
            link_copies: 1,
            link_copies_minimum: 1,
            share_unit: ShareUnit::SlotTime,
            retries: 0,
            retry_delay: Duration::from_secs(1),
            history: Duration::from_secs(3600),
            lease: Duration::from_secs(60),
            hops: Vec::new(),
            roles: Vec::new(),
        }
    }

    fn job(number: u8, user: &str, destination: &str, state: FileState) -> NewJob {
        NewJob {
            id: JobId([number; 16]),
            kind: JobKind::Normal,
            owner: Owner {
                user: user.to_owned(),
                delegation_id: number.to_string(),
                vo: "vo".to_owned(),
                login: Login::Certificate,
            },
            submitted_ms: 1,
            priority: 3,
            expires_ms: None,
            options: JobOptions::default(),
            metadata: None,
            files: vec![NewFile {
                index: 0,
                source: "https://a:443/f".to_owned(),
                destination: format!("{destination}/f"),
                source_storage: "https://a:443".to_owned(),
                destination_storage: destination.to_owned(),
                state,
                size_bytes: None,
                activity: "default".to_owned(),
                options: FileOptions::default(),
            }],
        }
    }

    fn ban(storage: &str, effect: BanEffect) -> Ban {
        Ban {
            storage: storage.to_owned(),
            vo: String::new(),
            effect,
            message: String::new(),
            by: "operator".to_owned(),
            since_ms: 1,
            cancels_ms: None,
        }
    }

    #[tokio::test]
    async fn what_a_killed_worker_has_begun_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        let (jane, gone) = ("/CN=Jane", "/CN=Gone");
        for job in [
            job(1, jane, "https://canceled:443", FileState::Submitted),
            job(2, gone, "https://b:443", FileState::Submitted),
            job(3, jane, "https://b:443", FileState::OnHold),
            job(4, jane, "https://held:443", FileState::OnHold),
            job(5, jane, "https://b:443", FileState::Submitted),
        ] {
            catalog.submit(job).await.unwrap();
        }
        // Bans that are stored, and nothing that they do is done; and one that has ended.
        for ban in [
            ban("davs://canceled", BanEffect::Cancel),
            ban("https://held:443", BanEffect::WaitAs),
        ] {
            let put = catalog.put_setting(SettingKind::Ban, &ban.storage, &ban, "operator", 1);
            put.await.unwrap();
        }
        let user = UserBan {
            user: gone.to_owned(),
            at_any_issuer: true,
            message: String::new(),
            by: "operator".to_owned(),
            since_ms: 1,
        };
        let put = catalog.put_setting(SettingKind::UserBan, gone, &user, "operator", 1);
        put.await.unwrap();
        let service = Service::start(settings(), catalog.clone(), Arc::new(Never))
            .await
            .unwrap();
        let bans = KnownBans::read(&catalog).await.unwrap();

        finish(&service, &catalog, &bans, 2).await.unwrap();
        let state = async |number| catalog.job(JobId([number; 16])).await.unwrap().unwrap().state;
        assert_eq!(state(1).await, JobState::Submitted, "an old ban was looked at before");
        finish(&service, &catalog, &bans, i64::MIN).await.unwrap();
        assert_eq!(state(1).await, JobState::Canceled);
        assert_eq!(state(2).await, JobState::Canceled);
        assert_eq!(state(5).await, JobState::Submitted);
        let held = catalog.waiting_files(FileState::OnHold, None, FileId(0), 10, now_ms());
        let held: Vec<JobId> = held.await.unwrap().iter().map(|waiting| waiting.file.job).collect();
        assert_eq!(held, [JobId([4; 16])], "only what a ban holds");
    }
}
