//! Bans of the desk, on a database without copies.

use std::sync::Arc;
use std::time::Duration;

use catalog::{
    Audit, Ban, BanEffect, Catalog, Claimed, FileOptions, JobOptions, Login, NewFile, NewJob, Owner, SettingKind,
};
use config::Configuration;
use credentials::SealingKey;
use door_queue::queue::UserBan;
use net::tls::ClientTls;
use queue::{Capabilities, CleanUp, Copier, CopyBounds, CopyTime, Roles, Service, Settings, Tokens, Vault};
use schedule::scheduler::ShareUnit;
use schedule::{FileId, FileState, JobId, JobKind, JobState};
use transfer::Progress;

use super::super::super::bans::KnownBans;
use super::super::{Desk, now_ms};
use super::unfinished::finish;
use crate::server::assemble::peer_client;
use crate::server::trust_files::trust;

struct Never;

impl Copier for Never {
    fn copy<'a>(&'a self, _: &'a Claimed, _: Roles, _: &'a Progress) -> CopyTime<'a> {
        Box::pin(std::future::pending())
    }

    fn clean_up<'a>(&'a self, _: &'a Claimed, _: Roles, _: &'a Progress) -> CleanUp<'a> {
        Box::pin(std::future::ready(()))
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
        bounds: CopyBounds::default(),
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

async fn desk(catalog: &Catalog) -> Desk {
    let service = Service::start(settings(), catalog.clone(), Arc::new(Never));
    let configuration = Configuration::defaults();
    let (tls, _) = ClientTls::load(&trust(&configuration)).unwrap();
    let client = peer_client(&configuration, &tls);
    let vault = Vault::new(SealingKey::new(b"key"));
    let tokens = Tokens::new(
        catalog.clone(),
        vault.clone(),
        &client,
        Vec::new(),
        Arc::new(|_: &str, _: &types::Error, _| {}),
    );
    let capabilities = Arc::new(Capabilities::default());
    let desk = Desk::new(service.await.unwrap(), catalog.clone(), vault, tokens, capabilities);
    desk.await.unwrap()
}

fn entry() -> Audit {
    Audit {
        at_ms: 1,
        actor: "operator".to_owned(),
        action: "ban-se".to_owned(),
        detail: String::new(),
    }
}

#[tokio::test]
async fn a_ban_names_the_jobs_that_it_holds_or_cancels() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let desk = desk(&catalog).await;
    let (jane, banned) = ("/CN=Jane", "https://b:443");
    let mut several = job(2, jane, banned, FileState::Submitted);
    several.kind = JobKind::MultiSource;
    several.files.push(NewFile {
        source_storage: "https://c:443".to_owned(),
        state: FileState::NotUsed,
        ..several.files[0].clone()
    });
    let mut mixed = job(3, jane, banned, FileState::Submitted);
    mixed
        .files
        .extend(job(3, jane, "https://d:443", FileState::Submitted).files);
    let other = job(4, jane, "https://d:443", FileState::Submitted);
    for job in [job(1, jane, banned, FileState::Submitted), several, mixed, other] {
        catalog.submit(job).await.unwrap();
    }
    let concerned = [1, 2, 3].map(|number| JobId([number; 16]));
    for effect in [BanEffect::Wait, BanEffect::Cancel] {
        let named = desk.change_ban(ban(banned, effect), entry()).await.unwrap();
        assert_eq!(named, concerned, "{effect:?}");
    }
    let states = catalog.jobs(&concerned).await.unwrap().into_iter();
    let states: Vec<JobState> = states.map(|job| job.unwrap().state).collect();
    // Of the last job, the file that the ban does not concern goes on.
    assert_eq!(states, [JobState::Canceled, JobState::Canceled, JobState::Active]);
}

#[tokio::test]
async fn a_ban_lets_files_wait_no_longer_than_its_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let desk = desk(&catalog).await;
    let (jane, later_ms) = ("/CN=Jane", now_ms() + 3_600_000);
    let cases = [("https://b:443", now_ms()), ("https://c:443", later_ms)];
    for ((storage, cancels_ms), number) in cases.into_iter().zip(1..) {
        catalog
            .submit(job(number, jane, storage, FileState::Submitted))
            .await
            .unwrap();
        let ban = Ban {
            cancels_ms: Some(cancels_ms),
            ..ban(storage, BanEffect::WaitAs)
        };
        desk.change_ban(ban, entry()).await.unwrap();
    }
    let round = finish(&desk.service, &catalog, &desk.bans, now_ms() - 1000);
    round.await.unwrap();
    let jobs = catalog.jobs(&[JobId([1; 16]), JobId([2; 16])]).await.unwrap();
    let states: Vec<JobState> = jobs.into_iter().map(|job| job.unwrap().state).collect();
    assert_eq!(states, [JobState::Canceled, JobState::Submitted]);
    let effects: Vec<BanEffect> = desk.bans.storages(now_ms()).iter().map(|ban| ban.effect).collect();
    assert_eq!(
        effects,
        [BanEffect::Cancel, BanEffect::WaitAs],
        "new jobs are refused, too"
    );
    assert_eq!(desk.bans.storages(later_ms)[1].effect, BanEffect::Cancel);
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
        job(6, jane, "https://held:443", FileState::Submitted),
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
    assert_eq!(held, [4, 6].map(|number| JobId([number; 16])), "only what a ban holds");
}
