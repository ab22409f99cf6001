//! The service with a copier that needs no storage: what it does with files, not how they are
//! copied.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::{
    Audit, Ban, BanEffect, Catalog, Claimed, FileOptions, Grant, JobOptions, JobSecrets, LinkSettings, Login, NewFile,
    NewJob, Owner, Problem, SealedSecret, SecretKind, SettingKind, StorageSettings, VoSettings,
};
use queue::limits::{PREPARED_MAX, PREPARED_PAGES_MAX};
use queue::{
    CleanUp, Copier, CopyBounds, CopyResult, CopyTime, ExpiryLookup, Failure, Roles, Service, Settings, TokenGaps, Why,
};
use schedule::optimizer::FailureClass;
use schedule::scheduler::ShareUnit;
use schedule::{CredentialEnd, CredentialKind, FileId, FileState, JobId, JobKind, JobState, Reason};
use transfer::Progress;

/// How the copies of a source end. The rest of the URL does not matter.
#[derive(Default)]
struct Script {
    copies: Mutex<HashMap<String, usize>>,
    /// Virtual organisation and source of each copy, in the order of their starts.
    starts: Mutex<Vec<(String, String)>>,
    running: AtomicUsize,
    most: AtomicUsize,
    /// Copies that have given a result.
    ended: AtomicUsize,
    /// What operators said of the last copy.
    roles: Mutex<Roles>,
    /// Sources of the copies after which was cleaned up.
    cleaned: Mutex<Vec<String>>,
}

struct Count<'a>(&'a AtomicUsize);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Script {
    fn copies_of(&self, source: &str) -> usize {
        self.copies.lock().unwrap().get(source).copied().unwrap_or_default()
    }
}

const FAILURE: Failure = Failure {
    class: FailureClass::File,
    end: None,
};

fn problem(is_recoverable: bool) -> Problem {
    Problem {
        code: "peer_failed".to_owned(),
        side: "source".to_owned(),
        phase: "open".to_owned(),
        reason: "SOURCE [5] it fails".to_owned(),
        is_recoverable,
    }
}

impl Copier for Script {
    fn credential_end<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        let expires = claimed.file.source.contains("expires");
        let end = || CredentialEnd {
            credential: CredentialKind::SourceToken,
            expires_ms: now_ms() + 590_000,
        };
        Box::pin(std::future::ready(expires.then(end)))
    }

    fn token_gaps<'a>(&'a self, claimed: &'a Claimed) -> TokenGaps<'a> {
        let is_narrow = claimed.file.source.contains("expires");
        let gaps = is_narrow.then(|| "the token may not do".to_owned());
        Box::pin(std::future::ready(gaps.into_iter().collect()))
    }

    fn clean_up<'a>(&'a self, claimed: &'a Claimed, _: Roles, _: &'a Progress) -> CleanUp<'a> {
        Box::pin(async { self.cleaned.lock().unwrap().push(claimed.file.source.clone()) })
    }

    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let _count = Count(&self.running);
            let source = &claimed.file.source;
            let start = (claimed.file.vo.clone(), source.clone());
            self.starts.lock().unwrap().push(start);
            *self.roles.lock().unwrap() = roles;
            let before = {
                let mut copies = self.copies.lock().unwrap();
                let count = copies.entry(source.clone()).or_default();
                *count += 1;
                *count - 1
            };
            tokio::task::yield_now().await;
            progress.set_moved(5);
            let failed = |is_recoverable| CopyResult::Failed {
                problem: problem(is_recoverable),
                report: None,
                failure: FAILURE,
            };
            if source.contains("never-ends") {
                std::future::pending::<()>().await;
            }
            self.ended.fetch_add(1, Ordering::SeqCst);
            match () {
                () if source.contains("left-part") && claimed.file.lost_part_looks == 0 => CopyResult::Remains {
                    problem: problem(true),
                    until_ms: now_ms() + 300,
                    looks: 1,
                },
                () if source.contains("whole") && claimed.file.is_interrupted => CopyResult::Found {
                    size_bytes: 7,
                    note: problem(true),
                },
                () if source.contains("missing") => failed(false),
                () if source.contains("second-time") && before == 0 => failed(true),
                () if source.contains("full-for-long") => CopyResult::Hold {
                    problem: problem(true),
                    after: Some(Duration::from_secs(60)),
                    failure: FAILURE,
                },
                () if source.contains("quota-for-long") => CopyResult::Hold {
                    problem: Problem {
                        code: "quota_exceeded".to_owned(),
                        ..problem(true)
                    },
                    after: Some(Duration::from_secs(60)),
                    failure: FAILURE,
                },
                () if source.contains("full-once") && before == 0 => CopyResult::Hold {
                    problem: problem(true),
                    after: Some(Duration::from_millis(300)),
                    failure: FAILURE,
                },
                () => CopyResult::Finished {
                    size_bytes: match source.contains("large") {
                        true => 10_000_000_000,
                        false => 1_000_000_000,
                    },
                    way: Some("3rd pull".to_owned()),
                },
            }
        })
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis().try_into().unwrap()
}

struct Bench {
    _directory: tempfile::TempDir,
    catalog: Catalog,
    script: Arc<Script>,
}

fn settings(worker: &str) -> Settings {
    Settings {
        worker: worker.to_owned(),
        copies: 100,
        storage_copies: 4,
        link_copies: 3,
        link_copies_minimum: 2,
        share_unit: ShareUnit::SlotTime,
        retries: 2,
        retry_delay: Duration::from_millis(50),
        bounds: CopyBounds::default(),
        history: Duration::from_secs(3600),
        lease: Duration::from_secs(60),
        hops: Vec::new(),
        roles: Vec::new(),
    }
}

fn drain_entry() -> Audit {
    Audit {
        at_ms: now_ms(),
        actor: "operator".to_owned(),
        action: "drain".to_owned(),
        detail: String::new(),
    }
}

/// A job of files from one storage to another.
fn job(number: u8, kind: JobKind, from: &str, to: &str, sources: &[&str]) -> NewJob {
    let file = |(place, source): (usize, &&str)| NewFile {
        index: if kind == JobKind::MultiSource { 0 } else { place as u32 },
        source: format!("{from}/{source}"),
        destination: format!("{to}/{number}/{place}"),
        source_storage: from.to_owned(),
        destination_storage: to.to_owned(),
        state: match kind {
            _ if source.contains("with-token") => FileState::TokenPreparation,
            JobKind::MultiSource | JobKind::Multihop if place > 0 => FileState::NotUsed,
            _ => FileState::Submitted,
        },
        size_bytes: None,
        activity: "default".to_owned(),
        options: FileOptions::default(),
    };
    NewJob {
        id: JobId([number; 16]),
        kind,
        owner: owner("vo"),
        submitted_ms: 1,
        priority: 3,
        expires_ms: None,
        options: JobOptions::default(),
        metadata: None,
        files: sources.iter().enumerate().map(file).collect(),
    }
}

fn owner(vo: &str) -> Owner {
    Owner {
        user: "/CN=Jane".to_owned(),
        delegation_id: "1".to_owned(),
        vo: vo.to_owned(),
        login: Login::Certificate,
    }
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        Self {
            _directory: directory,
            catalog,
            script: Arc::default(),
        }
    }

    async fn service(&self, worker: &str) -> Service {
        self.service_with(settings(worker)).await
    }

    async fn service_with(&self, settings: Settings) -> Service {
        let copier: Arc<dyn Copier> = self.script.clone();
        Service::start(settings, self.catalog.clone(), copier).await.unwrap()
    }

    async fn set(&self, kind: SettingKind, name: &str, value: &impl serde::Serialize) {
        let put = self.catalog.put_setting(kind, name, value, "operator", 1);
        put.await.unwrap();
    }

    /// Why a file waits, as soon as one of the reasons has this code.
    async fn why(&self, service: &Service, job: JobId, place: usize, code: &str) -> Why {
        let begun = Instant::now();
        let mut changes = self.catalog.changes();
        loop {
            let why = service.why_job(job).await.unwrap().swap_remove(place);
            if why.reasons.iter().any(|reason| reason.code() == code) {
                return why;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{why:?} has no {code}");
            let _ = tokio::time::timeout(Duration::from_millis(200), changes.wait()).await;
        }
    }

    async fn submit(&self, number: u8, kind: JobKind, sources: &[&str]) -> JobId {
        self.submit_until(number, kind, sources, None).await
    }

    async fn submit_until(&self, number: u8, kind: JobKind, sources: &[&str], expires_ms: Option<i64>) -> JobId {
        let job = NewJob {
            expires_ms,
            ..job(number, kind, "davs://a:443", "davs://b:443", sources)
        };
        self.catalog.submit(job).await.unwrap();
        JobId([number; 16])
    }

    async fn state(&self, job: JobId) -> JobState {
        self.catalog.job(job).await.unwrap().unwrap().state
    }

    async fn ends_as(&self, job: JobId, state: JobState) {
        let begun = Instant::now();
        let mut changes = self.catalog.changes();
        loop {
            let now = self.state(job).await;
            if now == state {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{now:?} is not {state:?}");
            let _ = tokio::time::timeout(Duration::from_millis(200), changes.wait()).await;
        }
    }
}

#[tokio::test]
async fn files_are_copied_within_the_limits() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = bench.submit(1, JobKind::Normal, &names).await;
    bench.ends_as(job, JobState::Finished).await;
    let most = bench.script.most.load(Ordering::SeqCst);
    assert!(most <= 3, "{most} copies on a link for 3");
    let files = bench.catalog.files(job).await.unwrap();
    assert!(
        files
            .iter()
            .all(|file| file.size_bytes == Some(1_000_000_000) && file.way.as_deref() == Some("3rd pull"))
    );
    service.stop().await;
}

#[tokio::test]
async fn files_with_tokens_do_not_wait_for_ever() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let job = bench.submit(1, JobKind::Normal, &["with-token"]).await;
    bench.ends_as(job, JobState::Finished).await;
    service.stop().await;
}

/// Submits a job whose token ends soon and is not renewed.
async fn submit_with_ending_token(bench: &Bench, number: u8, files: usize) {
    let names: Vec<String> = (0..files).map(|file| format!("with-token-{file}")).collect();
    let sources: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut job = job(number, JobKind::Normal, "davs://a:443", "davs://b:443", &sources);
    for file in &mut job.files {
        file.options.source_token = Some("ending".to_owned());
    }
    let secrets = JobSecrets {
        stored: vec![SealedSecret {
            kind: SecretKind::Token,
            name: "ending".to_owned(),
            sealed: vec![1],
            // Longer than the test, and shorter than copies want.
            expires_ms: Some(now_ms() + 50_000),
            owner: String::new(),
            renews_ms: Some(1),
            lease_ms: None,
            renewed_by: Some("grant".to_owned()),
        }],
        grants: Vec::new(),
    };
    bench.catalog.submit_with_secrets(job, secrets, None).await.unwrap();
}

#[tokio::test]
async fn files_whose_tokens_are_not_renewed_delay_no_others() {
    let bench = Bench::new().await;
    let in_one_sweep = PREPARED_MAX * PREPARED_PAGES_MAX;
    submit_with_ending_token(&bench, 1, in_one_sweep + 1).await;
    let other = bench.submit(2, JobKind::Normal, &["with-token"]).await;
    let service = bench.service("w").await;
    bench.ends_as(other, JobState::Finished).await;
    service.stop().await;
}

#[tokio::test]
async fn what_fails_is_tried_again_only_if_that_can_help() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let passing = bench.submit(1, JobKind::Normal, &["second-time"]).await;
    let lasting = bench.submit(2, JobKind::Normal, &["missing"]).await;
    let mixed = bench.submit(3, JobKind::Normal, &["missing-2", "there"]).await;
    bench.ends_as(passing, JobState::Finished).await;
    bench.ends_as(lasting, JobState::Failed).await;
    bench.ends_as(mixed, JobState::FinishedDirty).await;
    assert_eq!(bench.script.copies_of("davs://a:443/second-time"), 2);
    assert_eq!(bench.script.copies_of("davs://a:443/missing"), 1);
    let file = &bench.catalog.files(passing).await.unwrap()[0];
    assert_eq!(file.attempts, 1);
    assert_eq!(bench.catalog.attempts(file.id).await.unwrap().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_full_destination_holds_its_link_and_burns_no_attempt() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let job = bench.submit(1, JobKind::Normal, &["full-once", "other"]).await;
    let hold = loop {
        let link = service.links().await.unwrap().pop();
        if let Some(hold) = link.and_then(|link| link.hold) {
            break hold;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(
        hold.reason.starts_with("SOURCE [5] Input/output error"),
        "{}",
        hold.reason
    );
    assert_eq!(hold.detail, "SOURCE [5] it fails");
    bench.ends_as(job, JobState::Finished).await;
    let files = bench.catalog.files(job).await.unwrap();
    assert!(files.iter().all(|file| file.attempts == 0));
    assert_eq!(bench.script.copies_of("davs://a:443/full-once"), 2);
    service.stop().await;
}

#[tokio::test]
async fn a_used_up_quota_delays_its_file_and_no_other() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let over = bench.submit(1, JobKind::Normal, &["quota-for-long"]).await;
    let delayed = async || bench.catalog.files(over).await.unwrap()[0].times.retry_ms.is_some();
    while !delayed().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = bench.submit(2, JobKind::Normal, &["other"]).await;
    bench.ends_as(other, JobState::Finished).await;
    let file = bench.catalog.files(over).await.unwrap().remove(0);
    assert_eq!(
        (file.attempts, file.problem.unwrap().code.as_str()),
        (0, "quota_exceeded")
    );
    let log = bench.catalog.attempts(file.id).await.unwrap();
    let words = &log.last().unwrap().problem.reason;
    assert!(
        words.ends_with("(the file waits, and the attempt does not count)"),
        "{words}"
    );
    let link = service.links().await.unwrap().pop().unwrap();
    assert_eq!((link.delayed, link.hold), (1, None));
    service.stop().await;
}

#[tokio::test]
async fn replicas_and_hops_follow_each_other() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let replicas = bench
        .submit(1, JobKind::MultiSource, &["missing", "there", "spare"])
        .await;
    let chain = bench.submit(2, JobKind::Multihop, &["one", "two"]).await;
    let broken = bench.submit(3, JobKind::Multihop, &["missing-hop", "never-used"]).await;
    bench.ends_as(replicas, JobState::Finished).await;
    bench.ends_as(chain, JobState::Finished).await;
    bench.ends_as(broken, JobState::Failed).await;
    assert_eq!(bench.script.copies_of("davs://a:443/spare"), 0);
    assert_eq!(bench.script.copies_of("davs://a:443/never-used"), 0);
    let files = bench.catalog.files(broken).await.unwrap();
    assert_eq!(files[1].state, FileState::Canceled);
    // None of them is tried again, although that could help: as in FTS.
    let replicas = bench.submit(4, JobKind::MultiSource, &["second-time", "other"]).await;
    let chain = bench
        .submit(5, JobKind::Multihop, &["second-time-hop", "never-used"])
        .await;
    bench.ends_as(replicas, JobState::Finished).await;
    bench.ends_as(chain, JobState::Failed).await;
    for (source, copies) in [
        ("second-time", 1),
        ("other", 1),
        ("second-time-hop", 1),
        ("never-used", 0),
    ] {
        let found = bench.script.copies_of(&format!("davs://a:443/{source}"));
        assert_eq!(found, copies, "{source}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_cancelled_copy_ends_within_two_seconds_at_any_worker() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    for (number, by_service) in [(1, true), (2, false)] {
        let job = bench.submit(number, JobKind::Normal, &["never-ends"]).await;
        while bench.script.running.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let begun = Instant::now();
        match by_service {
            true => drop(service.cancel_jobs(&[job], "Job canceled by the user").await.unwrap()),
            // As another worker does it.
            false => drop(
                bench
                    .catalog
                    .cancel_jobs(&[job], "Job canceled by the user", now_ms())
                    .await
                    .unwrap(),
            ),
        }
        while service.copies() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "the copy goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(bench.state(job).await, JobState::Canceled);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_worker_that_drains_takes_no_new_file() {
    let bench = Bench::new().await;
    let (first, second) = (bench.service("w1").await, bench.service("w2").await);
    let workers_of = async |number: u8| {
        let names: Vec<String> = (0..12).map(|file| format!("f{number}-{file}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let job = bench.submit(number, JobKind::Normal, &names).await;
        bench.ends_as(job, JobState::Finished).await;
        let files = bench.catalog.files(job).await.unwrap();
        let mut workers: Vec<String> = files.into_iter().filter_map(|file| file.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    };
    first.drain("w1", true, drain_entry()).await.unwrap();
    assert!(second.drains("w1").await.unwrap() && !second.drains("w2").await.unwrap());
    assert_eq!(workers_of(1).await, ["w2"]);
    // The other process learns of its own drain with the next sign of life.
    first.drain("w2", true, drain_entry()).await.unwrap();
    first.drain("w1", false, drain_entry()).await.unwrap();
    let mut number = 1;
    while workers_of(number + 1).await != ["w1"] {
        number += 1;
        assert!(number < 200, "the other worker does not drain");
    }
    second.stop().await;
    assert!(!first.drains("w2").await.unwrap(), "its name is not used again");
    first.stop().await;
}

#[tokio::test]
async fn settings_of_another_process_are_taken() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let files: Vec<String> = (0..10).map(|file| format!("never-ends-{file}")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    bench.submit(1, JobKind::Normal, &files).await;
    let pause = LinkSettings {
        name: "pause".to_owned(),
        source: "*".to_owned(),
        destination: "*".to_owned(),
        is_paused: true,
        ..LinkSettings::default()
    };
    // The service has seen the settings as they were.
    tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let (at, kind) = (now_ms(), SettingKind::Link);
            bench
                .catalog
                .put_setting(kind, "pause", &pause, "root", at)
                .await
                .unwrap();
            if service.links().await.unwrap().iter().all(|link| link.is_paused) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the setting is not taken");
    service.stop().await;
}

#[tokio::test]
async fn what_operators_say_of_links_and_organisations_reaches_jobs_and_copies() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let of_vo = VoSettings {
        retry: Some(7),
        max_time_queue: Some(2),
        ..VoSettings::default()
    };
    bench.set(SettingKind::Vo, "*", &of_vo).await;
    let of_link = LinkSettings {
        name: "a to b".to_owned(),
        source: "davs://a".to_owned(),
        destination: "*".to_owned(),
        streams: Some(4),
        no_delegation: true,
        optimizer_mode: Some(0),
        max_active: Some(9),
        ..LinkSettings::default()
    };
    bench.set(SettingKind::Link, "a to b", &of_link).await;
    service.take_settings().await.unwrap();
    let mut silent = job(1, JobKind::Normal, "davs://a:443", "davs://b:443", &["one"]);
    let mut own = silent.clone();
    (own.options.retries, own.expires_ms) = (Some(1), Some(5));
    for job in [&mut silent, &mut own] {
        service.fill_in(job);
    }
    let expires_ms = silent.submitted_ms + 2 * 3_600_000;
    assert_eq!((silent.options.retries, silent.expires_ms), (Some(7), Some(expires_ms)));
    assert_eq!((own.options.retries, own.expires_ms), (Some(1), Some(5)));
    let link = service.why_link("https://a:443", "https://b:443").await.unwrap();
    assert_eq!(
        (link.limit_first, link.limit_max),
        (9, 9),
        "the optimizer changes nothing"
    );
    let copied = bench.submit(2, JobKind::Normal, &["one"]).await;
    bench.ends_as(copied, JobState::Finished).await;
    let roles = bench.script.roles.lock().unwrap().clone();
    assert_eq!((roles.streams, roles.never_delegates), (Some(4), true));
    service.stop().await;
}

#[tokio::test]
async fn rate_limits_reach_copies_also_those_that_run() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let rates = |mib| StorageSettings {
        inbound_max_throughput: mib,
        outbound_max_throughput: Some(7.0),
        ..StorageSettings::default()
    };
    bench.set(SettingKind::Storage, "davs://b", &rates(Some(2.0))).await;
    service.take_settings().await.unwrap();
    bench.submit(1, JobKind::Normal, &["never-ends"]).await;
    let begun = Instant::now();
    while bench.script.running.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held = bench.script.roles.lock().unwrap().rates.clone();
    let of_copy = || held.iter().filter_map(transfer::RateLimit::bytes_s).collect::<Vec<_>>();
    assert_eq!(
        of_copy(),
        [2 << 20],
        "b is the destination: its outbound rate is not meant"
    );
    bench.set(SettingKind::Storage, "davs://b", &rates(None)).await;
    service.take_settings().await.unwrap();
    assert!(of_copy().is_empty());
    bench.set(SettingKind::Storage, "*", &rates(Some(3.0))).await;
    service.take_settings().await.unwrap();
    assert_eq!(of_copy(), [7 << 20, 3 << 20]);
    service.stop().await;
}

#[tokio::test]
async fn two_workers_share_the_files_and_run_none_twice() {
    let bench = Bench::new().await;
    let (first, second) = (bench.service("w1").await, bench.service("w2").await);
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = bench.submit(1, JobKind::Normal, &names).await;
    bench.ends_as(job, JobState::Finished).await;
    for name in names {
        assert_eq!(bench.script.copies_of(&format!("davs://a:443/{name}")), 1, "{name}");
    }
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn what_waits_too_long_is_given_up_and_says_what_it_waited_for() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    // The first ones take all places of the link and never end.
    bench
        .submit(1, JobKind::Normal, &["never-ends-1", "never-ends-2", "never-ends-3"])
        .await;
    let late = bench
        .submit_until(2, JobKind::Normal, &["late"], Some(now_ms() + 1500))
        .await;
    bench.ends_as(late, JobState::Failed).await;
    let file = &bench.catalog.files(late).await.unwrap()[0];
    let problem = file.problem.clone().unwrap();
    assert_eq!(problem.code, "queue_expired");
    assert!(
        problem.reason.contains("limit of the link reached"),
        "{}",
        problem.reason
    );
    service.stop().await;
}

#[tokio::test]
async fn files_of_a_lost_worker_are_copied_by_another() {
    let bench = Bench::new().await;
    let job = bench.submit(1, JobKind::Normal, &["f", "whole", "left-part"]).await;
    let queue = bench.catalog.queues().await.unwrap().pop().unwrap();
    let grant = Grant {
        queue: queue.key,
        priority: queue.priority,
        count: 3,
    };
    // It has begun the copies, and its lease has ended.
    let claimed = bench
        .catalog
        .claim(&[grant], "dead", now_ms(), now_ms() - 1)
        .await
        .unwrap();
    let files: Vec<FileId> = claimed.iter().map(|claimed| claimed.file.id).collect();
    assert_eq!(bench.catalog.start(&files, "dead", now_ms()).await.unwrap(), files);
    let service = bench.service("w").await;
    bench.ends_as(job, JobState::Finished).await;
    assert_eq!(bench.script.copies_of("davs://a:443/f"), 1);
    let files = bench.catalog.files(job).await.unwrap();
    let lost = files[0].problem.as_ref().unwrap();
    assert!(
        lost.reason.contains("the worker that copied it was lost"),
        "{}",
        lost.reason
    );
    // The second was whole at its destination, and its record says so.
    let found = (files[1].size_bytes, files[1].problem.clone(), files[1].way.clone());
    assert_eq!(found, (Some(7), Some(problem(true)), None));
    // The third waited while its destination had a part of it, and no attempt was counted.
    assert_eq!(bench.script.copies_of("davs://a:443/left-part"), 2);
    assert_eq!((files[2].attempts, files[2].lost_part_looks), (0, 1));
    service.stop().await;
}

#[tokio::test]
async fn a_service_whose_threads_are_busy_keeps_its_lease() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    bench.submit(1, JobKind::Normal, &["never-ends"]).await;
    while bench.script.running.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let catalog = bench.catalog.clone();
    let others = std::thread::spawn(move || {
        let lease_ms = async || catalog.due(now_ms(), i64::MAX).await.unwrap().leases[0].lease_ms;
        let runtime = execution::single_thread_runtime().unwrap();
        runtime.block_on(async {
            let (begun, mut last_ms) = (Instant::now(), lease_ms().await);
            // The first may have been under way before.
            for _ in 0..3 {
                while lease_ms().await == last_ms {
                    assert!(begun.elapsed() < Duration::from_secs(60), "no sign of life");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                last_ms = lease_ms().await;
            }
        });
    });
    // This keeps the only thread of the service's runtime busy.
    others.join().unwrap();
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_stops_records_its_results_and_hands_its_files_on() {
    let bench = Bench::new().await;
    let service = bench.service("w1").await;
    let mut names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    names.insert(0, "never-ends".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = bench.submit(1, JobKind::Normal, &names).await;
    while bench.script.ended.load(Ordering::SeqCst) < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service.stop().await;
    let cleaned = bench.script.cleaned.lock().unwrap().clone();
    assert!(cleaned.contains(&"davs://a:443/never-ends".to_owned()), "{cleaned:?}");
    let files = bench.catalog.files(job).await.unwrap();
    let of = |state| files.iter().filter(|file| file.state == state).count();
    assert_eq!(of(FileState::Finished), bench.script.ended.load(Ordering::SeqCst));
    assert!(of(FileState::Active) > 0);
    // Others need not wait for the end of its lease, only until storages have ended its copies.
    let left = bench.catalog.due(now_ms(), i64::MAX).await.unwrap().leases;
    assert_eq!((left.len(), left[0].length), (1, Duration::from_secs(10)));
}

#[tokio::test]
async fn an_urgent_link_does_not_starve_behind_busy_ones() {
    let bench = Bench::new().await;
    let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for number in 1..=10 {
        let source = format!("davs://x{number}:443");
        let busy = job(number, JobKind::Normal, &source, "davs://d:443", &names);
        bench.catalog.submit(busy).await.unwrap();
    }
    let urgent = NewJob {
        priority: 5,
        ..job(11, JobKind::Normal, "davs://a:443", "davs://d:443", &names[..20])
    };
    bench.catalog.submit(urgent).await.unwrap();
    let service = bench.service("w").await;
    bench.ends_as(JobId([11; 16]), JobState::Finished).await;
    service.stop().await;
    let starts = bench.script.starts.lock().unwrap();
    let last = starts
        .iter()
        .rposition(|(_, source)| source.starts_with("davs://a:443"));
    // Its weight is 16 beside ten times 4: its 20 files are among the first 70 of 620.
    assert!(
        last.unwrap() < 140,
        "its last file was copy {last:?} of {}",
        starts.len()
    );
}

#[tokio::test]
async fn shares_of_three_to_one_give_three_to_one() {
    let bench = Bench::new().await;
    for (vo, share) in [("cms", 3.0), ("atlas", 1.0)] {
        let settings = VoSettings {
            share: Some(share),
            ..VoSettings::default()
        };
        bench.set(SettingKind::Vo, vo, &settings).await;
    }
    let names: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (number, vo) in [(1, "cms"), (2, "atlas")] {
        let of_vo = NewJob {
            owner: owner(vo),
            ..job(number, JobKind::Normal, "davs://a:443", "davs://b:443", &names)
        };
        bench.catalog.submit(of_vo).await.unwrap();
    }
    let service = bench.service("w").await;
    bench.ends_as(JobId([1; 16]), JobState::Finished).await;
    service.stop().await;
    let starts = bench.script.starts.lock().unwrap();
    let of_cms = starts[..100].iter().filter(|(vo, _)| vo == "cms").count();
    assert!((70..=80).contains(&of_cms), "{of_cms} of 100 instead of 75");
}

#[tokio::test]
async fn equal_shares_by_bytes_give_small_files_more_turns() {
    let bench = Bench::new().await;
    for (number, vo) in [(1, "small"), (2, "large")] {
        let names: Vec<String> = (0..120).map(|file| format!("{vo}-{file}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let of_vo = NewJob {
            owner: owner(vo),
            ..job(number, JobKind::Normal, "davs://a:443", "davs://b:443", &names)
        };
        bench.catalog.submit(of_vo).await.unwrap();
    }
    let by_bytes = Settings {
        share_unit: ShareUnit::Bytes,
        ..settings("w")
    };
    let service = bench.service_with(by_bytes).await;
    bench.ends_as(JobId([1; 16]), JobState::Finished).await;
    service.stop().await;
    let starts = bench.script.starts.lock().unwrap();
    let of_large = starts[..110].iter().filter(|(vo, _)| vo == "large").count();
    let order: String = starts[..110].iter().map(|(vo, _)| &vo[..1]).collect();
    assert!((5..=20).contains(&of_large), "{of_large} of 110 instead of 10: {order}");
}

#[tokio::test]
async fn a_storage_has_one_limit_under_all_schemes() {
    let bench = Bench::new().await;
    let two = StorageSettings {
        inbound_max_active: Some(2),
        ..StorageSettings::default()
    };
    bench.set(SettingKind::Storage, "davs://b", &two).await;
    for (number, destination) in [(1, "davs://b:443"), (2, "https://b:443")] {
        let names = ["one", "two", "three", "four"];
        let source = format!("davs://a{number}:443");
        let of_scheme = job(number, JobKind::Normal, &source, destination, &names);
        bench.catalog.submit(of_scheme).await.unwrap();
    }
    let service = bench.service("w").await;
    bench.ends_as(JobId([1; 16]), JobState::Finished).await;
    bench.ends_as(JobId([2; 16]), JobState::Finished).await;
    service.stop().await;
    let most = bench.script.most.load(Ordering::SeqCst);
    assert_eq!(most, 2);
}

#[tokio::test]
async fn a_worker_that_stops_in_order_is_listed_no_more() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    bench.submit(1, JobKind::Normal, &["one"]).await;
    bench.ends_as(JobId([1; 16]), JobState::Finished).await;
    let known = bench.catalog.workers(0).await.unwrap();
    assert_eq!(known.len(), 1, "{known:?}");
    service.stop().await;
    let known = bench.catalog.workers(0).await.unwrap();
    assert!(known.is_empty(), "{known:?}");
}

const BUSY: [&str; 4] = ["never-ends-1", "never-ends-2", "late", "later"];

#[tokio::test]
async fn a_full_link_is_named_with_those_who_use_it() {
    let bench = Bench::new().await;
    let service = bench
        .service_with(Settings {
            link_copies: 2,
            ..settings("w")
        })
        .await;
    let job = bench.submit(1, JobKind::Normal, &BUSY).await;
    while bench.script.running.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let why = bench.why(&service, job, 3, "link_full").await;
    assert_eq!(why.state, FileState::Submitted);
    assert_eq!(why.ahead, Some(1));
    assert_eq!(why.contenders.len(), 1);
    assert_eq!(why.contenders[0].destination, "https://b:443");
    let estimate = why.estimate.expect("two files have started");
    assert!(
        estimate.start_ms > now_ms() && estimate.end_ms.is_none(),
        "{estimate:?}"
    );
    let json = serde_json::to_value(&why.reasons[0]).unwrap();
    assert_eq!((&json["code"], &json["limit"]), (&"link_full".into(), &2.into()));
    let mut files = bench.catalog.files(job).await.unwrap();
    service.show_reasons(&mut files).await.unwrap();
    let reason = |index: usize| files[index].problem.as_ref().map(|problem| problem.reason.as_str());
    assert_eq!(reason(0), None);
    assert_eq!(
        reason(3),
        Some("limit of the link reached: 2 of 2 copies (link_full)"),
        "lists show it as well"
    );
    service.stop().await;
}

#[tokio::test]
async fn limits_of_storages_workers_and_organisations_are_named() {
    let limit = |inbound, outbound| StorageSettings {
        inbound_max_active: inbound,
        outbound_max_active: outbound,
        ..StorageSettings::default()
    };
    let vo = VoSettings {
        max_active: Some(1),
        ..VoSettings::default()
    };
    for code in [
        "destination_full",
        "source_full",
        "vo_full",
        "worker_full",
        "worker_draining",
    ] {
        let bench = Bench::new().await;
        let mut settings = settings("w");
        match code {
            "destination_full" => bench.set(SettingKind::Storage, "davs://b", &limit(Some(0), None)).await,
            "source_full" => bench.set(SettingKind::Storage, "*", &limit(None, Some(1))).await,
            "vo_full" => bench.set(SettingKind::Vo, "vo", &vo).await,
            "worker_full" => settings.copies = 1,
            _ => {}
        }
        let service = bench.service_with(settings).await;
        if code == "worker_draining" {
            service.drain("w", true, drain_entry()).await.unwrap();
        }
        let job = bench.submit(1, JobKind::Normal, &BUSY).await;
        let why = bench.why(&service, job, 3, code).await;
        if code == "worker_draining" {
            assert_eq!(why.estimate, None);
            assert!(!why.reasons.contains(&Reason::WorkerFull), "{why:?}");
            // Its links do not wait for a copy that ends either.
            let of_links = service.link_reasons().await.unwrap();
            assert!(
                of_links.values().all(|reasons| reasons[0] == Reason::WorkerDraining),
                "{of_links:?}"
            );
            let link = service.why_link("davs://a:443", "davs://b:443").await.unwrap();
            assert_eq!(
                (of_links.len(), &link.vos[0].reasons[0]),
                (1, &Reason::WorkerDraining),
                "{link:?}"
            );
            service.stop().await;
            continue;
        }
        assert_eq!(why.reasons[0].code(), code);
        if code == "destination_full" {
            assert_eq!(why.reasons[0].to_string(), "the inbound limit of b is 0");
            let of_links = service.link_reasons().await.unwrap();
            let codes: Vec<&str> = of_links.values().map(|reasons| reasons[0].code()).collect();
            assert_eq!(codes, [code]);
            assert_eq!(bench.script.running.load(Ordering::SeqCst), 0);
        }
        service.stop().await;
    }
}

#[tokio::test]
async fn what_stands_still_is_named() {
    let bench = Bench::new().await;
    let link = LinkSettings {
        name: "a to b".to_owned(),
        source: "davs://a".to_owned(),
        destination: "https://b:443".to_owned(),
        is_paused: true,
        ..LinkSettings::default()
    };
    bench.set(SettingKind::Link, "a to b", &link).await;
    let service = bench.service("w").await;
    let job = bench
        .submit(1, JobKind::MultiSource, &["one", "spare", "expires"])
        .await;
    let why = bench.why(&service, job, 0, "link_paused").await;
    assert_eq!((why.reasons.len(), why.estimate), (1, None));
    bench.why(&service, job, 1, "not_used").await;
    let why = bench.why(&service, job, 2, "credential").await;
    // Of the first file of a job: this one has no credential that expires.
    assert_eq!(service.credential_notice(job).await.unwrap(), None);
    let short = bench.submit(9, JobKind::Normal, &["expires"]).await;
    let notice = service.credential_notice(short).await.unwrap().unwrap();
    assert!(
        notice.contains("its token for the source expires in 9 minutes"),
        "{notice}"
    );
    assert!(notice.starts_with("file "), "{notice}");
    assert!(why.credential_expires_ms.is_some());
    let last = why.reasons.last().unwrap();
    assert_eq!(
        (last.code(), last.to_string().as_str()),
        ("token_scope", "the token may not do")
    );
    let ban = Ban {
        storage: "davs://b".to_owned(),
        vo: String::new(),
        effect: BanEffect::Wait,
        message: "disks".to_owned(),
        by: "Jane".to_owned(),
        since_ms: 1,
        cancels_ms: None,
    };
    bench.set(SettingKind::Ban, "b", &ban).await;
    service.take_settings().await.unwrap();
    let why = bench.why(&service, job, 0, "banned").await;
    assert_eq!(why.reasons[0].to_string(), "davs://b is banned by Jane: disks");
    bench.catalog.hold("davs://b", None, now_ms()).await.unwrap();
    let why = bench.why(&service, job, 0, "banned").await;
    assert_eq!(why.state, FileState::OnHold);
    let link = service.why_link("https://a:443", "https://b:443").await.unwrap();
    assert!(link.is_paused && link.bans.len() == 1 && link.vos[0].files.banned == 2);
    // The optimizer looks at no link that is paused.
    assert!(link.limit != Some(0) && link.limit_first == 2, "{link:?}");
    service.stop().await;
}

#[tokio::test]
async fn retries_and_held_links_are_named() {
    let bench = Bench::new().await;
    let service = bench
        .service_with(Settings {
            retry_delay: Duration::from_secs(60),
            ..settings("w")
        })
        .await;
    let job = bench.submit(1, JobKind::Normal, &["second-time"]).await;
    let why = bench.why(&service, job, 0, "retry").await;
    assert!(
        why.reasons[0]
            .to_string()
            .ends_with("the last one failed: SOURCE [5] it fails")
    );
    assert!(
        why.estimate
            .is_none_or(|estimate| estimate.start_ms > now_ms() + 50_000)
    );
    let held = bench.submit(2, JobKind::Normal, &["full-for-long"]).await;
    let why = bench.why(&service, held, 0, "link_held").await;
    let words = why.reasons[0].to_string();
    assert!(
        words.starts_with("https://a:443 is full or down: SOURCE [5] Input/output error"),
        "{words}"
    );
    // What the storage said of one file is not for the owners of others.
    assert!(!words.contains("it fails"), "{words}");
    let link = service.why_link("davs://a:443", "davs://b:443").await.unwrap();
    assert!(!link.is_idle());
    assert!(
        service
            .why_link("https://a:443", "https://c:443")
            .await
            .unwrap()
            .is_idle()
    );
    assert_eq!(link.held.unwrap().storage, "https://a:443");
    service.stop().await;
}

#[tokio::test]
async fn a_write_that_failed_is_a_fault_until_one_goes_well() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let failed = |code| Err::<(), _>(types::Error::new(code, types::Side::Queue, types::Phase::Queued));
    service.note_stored(&failed(types::ErrorCode::JobExists));
    assert!(service.faults().borrow().is_empty(), "the request was at fault");
    service.note_stored(&failed(types::ErrorCode::CatalogFull));
    assert!(service.faults().borrow().contains_key(&queue::Work::Store));
    service.probe().await;
    assert!(service.faults().borrow().is_empty(), "there is space again");
    service.stop().await;
}

#[tokio::test]
async fn an_organisation_has_a_limit_of_links() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let many = |number: u8, links: usize, host: &str| {
        let sources: Vec<String> = (0..links).map(|file| format!("never-ends-{file}")).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let mut job = job(number, JobKind::Normal, "davs://a:443", "davs://b:443", &sources);
        for (place, file) in job.files.iter_mut().enumerate() {
            file.destination_storage = format!("davs://{host}{place}:443");
        }
        job
    };
    let (most, of_job) = (queue::limits::VO_LINKS_MAX, queue::limits::JOB_LINKS_MAX);
    service.check_links(&many(1, of_job, "b")).await.unwrap();
    let refused = service.check_links(&many(1, of_job + 1, "b")).await.unwrap_err();
    assert_eq!(refused.code().name(), "bad_request", "{refused}");
    let mut of_another = many(1, most - 1, "b");
    of_another.owner.user = "/CN=John".to_owned();
    // The service takes a large submission that began long ago for one that broke off.
    of_another.submitted_ms = now_ms();
    bench.catalog.submit(of_another).await.unwrap();
    let mut changes = bench.catalog.changes();
    let begun = Instant::now();
    // The counters may be a moment old.
    while service.check_links(&many(2, 2, "new")).await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "further links are taken");
        let _ = tokio::time::timeout(Duration::from_millis(200), changes.wait()).await;
    }
    let refused = service.check_links(&many(2, 2, "new")).await.unwrap_err();
    assert_eq!(refused.code().name(), "share_used_up", "{refused}");
    service.check_links(&many(2, 1, "new")).await.unwrap();
    service.check_links(&many(2, 9, "b")).await.unwrap();
    let mut other = many(2, 2, "new");
    other.owner = owner("other");
    service.check_links(&other).await.unwrap();
    service.stop().await;
}
