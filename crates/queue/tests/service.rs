//! The service with a copier that needs no storage: what it does with files, not how they are
//! copied.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::{Catalog, Claimed, FileOptions, Grant, JobOptions, Login, NewFile, NewJob, Owner, Problem};
use queue::{Copier, CopyResult, CopyTime, Failure, Roles, Service, Settings};
use schedule::optimizer::FailureClass;
use schedule::{FileState, JobId, JobKind, JobState};
use transfer::Progress;

/// How the copies of a source end. The rest of the URL does not matter.
#[derive(Default)]
struct Script {
    copies: Mutex<HashMap<String, usize>>,
    running: AtomicUsize,
    most: AtomicUsize,
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
    fn copy<'a>(&'a self, claimed: &'a Claimed, _roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let _count = Count(&self.running);
            let source = &claimed.file.source;
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
            match () {
                () if source.contains("missing") => failed(false),
                () if source.contains("second-time") && before == 0 => failed(true),
                () if source.contains("full-once") && before == 0 => CopyResult::Hold {
                    problem: problem(true),
                    after: Some(Duration::from_millis(300)),
                    failure: FAILURE,
                },
                () => CopyResult::Finished {
                    size_bytes: 5,
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
        retries: 2,
        retry_delay: Duration::from_millis(50),
        history: Duration::from_secs(3600),
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
        let copier: Arc<dyn Copier> = self.script.clone();
        Service::start(settings(worker), self.catalog.clone(), copier)
            .await
            .unwrap()
    }

    async fn submit(&self, number: u8, kind: JobKind, sources: &[&str]) -> JobId {
        self.submit_until(number, kind, sources, None).await
    }

    async fn submit_until(&self, number: u8, kind: JobKind, sources: &[&str], expires_ms: Option<i64>) -> JobId {
        let id = JobId([number; 16]);
        let file = |(place, source): (usize, &&str)| NewFile {
            index: if kind == JobKind::MultiSource { 0 } else { place as u32 },
            source: format!("davs://a:443/{source}"),
            destination: format!("davs://b:443/{number}/{place}"),
            source_storage: "davs://a:443".to_owned(),
            destination_storage: "davs://b:443".to_owned(),
            state: match kind {
                _ if source.contains("with-token") => FileState::TokenPreparation,
                JobKind::MultiSource | JobKind::Multihop if place > 0 => FileState::NotUsed,
                _ => FileState::Submitted,
            },
            size_bytes: None,
            activity: "default".to_owned(),
            options: FileOptions::default(),
        };
        let job = NewJob {
            id,
            kind,
            owner: Owner {
                user: "/CN=Jane".to_owned(),
                delegation_id: "1".to_owned(),
                vo: "vo".to_owned(),
                login: Login::Certificate,
            },
            submitted_ms: 1,
            priority: 3,
            expires_ms,
            options: JobOptions::default(),
            metadata: None,
            files: sources.iter().enumerate().map(file).collect(),
        };
        self.catalog.submit(job).await.unwrap();
        id
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
            .all(|file| file.size_bytes == Some(5) && file.way.as_deref() == Some("3rd pull"))
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
    assert_eq!(hold.reason, "SOURCE [5] it fails");
    bench.ends_as(job, JobState::Finished).await;
    let files = bench.catalog.files(job).await.unwrap();
    assert!(files.iter().all(|file| file.attempts == 0));
    assert_eq!(bench.script.copies_of("davs://a:443/full-once"), 2);
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
            assert!(begun.elapsed() < Duration::from_secs(4), "the copy goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert_eq!(bench.state(job).await, JobState::Canceled);
    }
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
    assert!(problem.reason.contains("copies on the link run"), "{}", problem.reason);
    service.stop().await;
}

#[tokio::test]
async fn files_of_a_lost_worker_are_copied_by_another() {
    let bench = Bench::new().await;
    let job = bench.submit(1, JobKind::Normal, &["f"]).await;
    let queue = bench.catalog.queues().await.unwrap().pop().unwrap();
    let grant = Grant {
        queue: queue.key,
        priority: queue.priority,
        count: 1,
    };
    // It has begun the copy, and its lease has ended.
    let claimed = bench
        .catalog
        .claim(&[grant], "dead", now_ms(), now_ms() - 1)
        .await
        .unwrap();
    assert!(bench.catalog.start(claimed[0].file.id, "dead", now_ms()).await.unwrap());
    let service = bench.service("w").await;
    bench.ends_as(job, JobState::Finished).await;
    assert_eq!(bench.script.copies_of("davs://a:443/f"), 1);
    service.stop().await;
}
