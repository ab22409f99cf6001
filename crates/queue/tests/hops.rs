//! Files that go by a hop, with a copier that needs no storage: which links their copies count for,
//! and what is removed at the hop when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::{
    Ban, BanEffect, Catalog, Claimed, FileOptions, Hop, HopPart, JobOptions, Login, NewFile, NewJob, Owner, Problem,
    SettingKind, StorageSettings,
};
use queue::{
    CleanUp, Copier, CopyBounds, CopyResult, CopyTime, Failure, HopRemoval, HopSite, Roles, Service, Settings,
};
use schedule::optimizer::FailureClass;
use schedule::scheduler::ShareUnit;
use schedule::{FileState, JobId, JobKind, JobState};
use transfer::Progress;
use types::{Error, ErrorCode, Phase, Side};

const FROM: &str = "https://a:443";
const TO: &str = "root://b:1094";
const URLS: [&str; 2] = ["davs://h:443/hop", "root://h:1094//hop"];

/// What the copier did, and what is at the hop.
#[derive(Default)]
struct Script {
    there: Mutex<BTreeMap<String, u32>>,
    running: Mutex<BTreeMap<String, Copies>>,
}

/// The copies of one link.
#[derive(Clone, Copy, Default)]
struct Copies {
    now: usize,
    most: usize,
    all: usize,
}

impl Script {
    fn begin(&self, link: &str) {
        let mut running = self.running.lock().unwrap();
        let copies = running.entry(link.to_owned()).or_default();
        copies.now += 1;
        copies.all += 1;
        copies.most = copies.most.max(copies.now);
    }

    fn end(&self, link: &str) {
        self.running.lock().unwrap().get_mut(link).unwrap().now -= 1;
    }

    fn most(&self, link: &str) -> usize {
        self.running.lock().unwrap().get(link).map_or(0, |copies| copies.most)
    }

    fn starts(&self, link: &str) -> usize {
        self.running.lock().unwrap().get(link).map_or(0, |copies| copies.all)
    }

    fn files_at_hop(&self) -> usize {
        self.there.lock().unwrap().len()
    }

    fn result(&self, claimed: &Claimed, roles: Roles) -> CopyResult {
        let fails = claimed.file.source.contains("fails");
        match &claimed.file.hop {
            None => match roles.hop {
                Some(hop) => CopyResult::Hop {
                    hop,
                    copied_bytes: None,
                },
                None => CopyResult::Finished {
                    size_bytes: 5,
                    way: Some("streamed".to_owned()),
                },
            },
            Some(hop) if hop.part == HopPart::Incoming => {
                let name = hop.incoming.url.rsplit('/').next().unwrap().to_owned();
                self.there.lock().unwrap().insert(name, 1);
                let hop = Hop {
                    part: HopPart::Outgoing,
                    size_bytes: Some(5),
                    ..hop.clone()
                };
                CopyResult::Hop {
                    hop: Box::new(hop),
                    copied_bytes: Some(5),
                }
            }
            Some(_) if fails => CopyResult::Failed {
                problem: problem(),
                report: None,
                failure: Failure {
                    class: FailureClass::File,
                    end: None,
                },
            },
            Some(_) if claimed.file.source.contains("full") => CopyResult::Hold {
                problem: problem(),
                after: Some(Duration::from_secs(600)),
                failure: Failure {
                    class: FailureClass::File,
                    end: None,
                },
            },
            Some(_) => CopyResult::Finished {
                size_bytes: 5,
                way: Some("3rd pull".to_owned()),
            },
        }
    }
}

fn problem() -> Problem {
    Problem {
        code: "peer_failed".to_owned(),
        side: "destination".to_owned(),
        phase: "open".to_owned(),
        reason: "DESTINATION [5] it fails".to_owned(),
        is_recoverable: false,
    }
}

impl Copier for Script {
    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, _progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let link = format!("{} {}", claimed.file.source_storage, claimed.file.destination_storage);
            self.begin(&link);
            tokio::task::yield_now().await;
            let is_last = claimed
                .file
                .hop
                .as_ref()
                .is_some_and(|hop| hop.part == HopPart::Outgoing);
            if is_last && claimed.file.source.contains("never-ends") {
                std::future::pending::<()>().await;
            }
            self.end(&link);
            self.result(claimed, roles)
        })
    }

    fn clean_up<'a>(&'a self, _: &'a Claimed, _: Roles, _: &'a Progress) -> CleanUp<'a> {
        Box::pin(std::future::ready(()))
    }

    fn remove_hop<'a>(&'a self, _claimed: &'a Claimed, url: &'a str) -> HopRemoval<'a> {
        let name = url.rsplit('/').next().unwrap();
        let removed = self.there.lock().unwrap().remove(name);
        let missing = || Error::new(ErrorCode::PeerNotFound, Side::Destination, Phase::Open);
        Box::pin(std::future::ready(removed.map(drop).ok_or_else(missing)))
    }
}

struct Bench {
    _directory: tempfile::TempDir,
    catalog: Catalog,
    script: Arc<Script>,
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
        self.service_by(worker, &[URLS]).await
    }

    /// A service with these hops.
    async fn service_by(&self, worker: &str, hops: &[[&str; 2]]) -> Service {
        let site = |urls: &[&str; 2]| HopSite::new(&urls.map(str::to_owned), Vec::new(), Vec::new()).unwrap();
        let settings = Settings {
            worker: worker.to_owned(),
            copies: 100,
            storage_copies: 50,
            link_copies: 20,
            link_copies_minimum: 2,
            share_unit: ShareUnit::SlotTime,
            retries: 2,
            retry_delay: Duration::from_millis(50),
            bounds: CopyBounds::default(),
            history: Duration::from_secs(3600),
            lease: Duration::from_secs(60),
            hops: hops.iter().map(site).collect(),
            roles: Vec::new(),
        };
        Service::start(settings, self.catalog.clone(), self.script.clone())
            .await
            .unwrap()
    }

    async fn limit(&self, storage: &str, settings: StorageSettings) {
        let kind = SettingKind::Storage;
        self.catalog
            .put_setting(kind, storage, &settings, "test", 1)
            .await
            .unwrap();
    }

    async fn submit(&self, number: u8, sources: &[String]) -> JobId {
        self.submit_by(number, sources, &[]).await
    }

    /// Submits a job that names its hops.
    async fn submit_by(&self, number: u8, sources: &[String], hops: &[&str]) -> JobId {
        let id = JobId([number; 16]);
        let mut job = job(id, sources);
        job.options.hops = hops.iter().map(|name| (*name).to_owned()).collect();
        self.catalog.submit(job).await.unwrap();
        id
    }

    async fn ban(&self, storage: &str) {
        let ban = Ban {
            storage: storage.to_owned(),
            vo: String::new(),
            effect: BanEffect::Wait,
            message: "disks".to_owned(),
            by: "Jane".to_owned(),
            since_ms: 1,
            cancels_ms: None,
        };
        let host = storage.rsplit('/').next().unwrap();
        self.catalog
            .put_setting(SettingKind::Ban, host, &ban, "test", 1)
            .await
            .unwrap();
    }

    /// Waits until something holds, as the catalog changes.
    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        let mut changes = self.catalog.changes();
        while !holds().await {
            assert!(begun.elapsed() < Duration::from_secs(60), "not in time: {what}");
            let _ = tokio::time::timeout(Duration::from_millis(100), changes.wait()).await;
        }
    }

    async fn ends_as(&self, job: JobId, state: JobState) {
        self.until(&format!("{state:?}"), async || {
            self.catalog.job(job).await.unwrap().unwrap().state == state
        })
        .await;
    }

    async fn hop_is_empty(&self) {
        self.until("nothing is left at the hop", async || self.script.files_at_hop() == 0)
            .await;
    }
}

fn job(id: JobId, sources: &[String]) -> NewJob {
    let file = |(place, source): (usize, &String)| NewFile {
        index: place as u32,
        source: format!("{FROM}/{source}"),
        destination: format!("{TO}//{place}"),
        source_storage: FROM.to_owned(),
        destination_storage: TO.to_owned(),
        state: FileState::Submitted,
        size_bytes: None,
        activity: "default".to_owned(),
        options: FileOptions::default(),
    };
    NewJob {
        id,
        kind: JobKind::Normal,
        owner: Owner {
            user: "/CN=ann".to_owned(),
            delegation_id: String::new(),
            vo: "vo".to_owned(),
            login: Login::Anonymous,
        },
        submitted_ms: 1,
        priority: 3,
        expires_ms: None,
        options: JobOptions::default(),
        metadata: None,
        files: sources.iter().enumerate().map(file).collect(),
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("f{number}")).collect()
}

#[tokio::test]
async fn both_copies_count_for_the_limits_of_their_links() {
    let bench = Bench::new().await;
    let limited = StorageSettings {
        inbound_max_active: Some(2),
        outbound_max_active: Some(3),
        ..StorageSettings::default()
    };
    for storage in ["https://h:443", "root://h:1094"] {
        bench.limit(storage, limited.clone()).await;
    }
    let service = bench.service("w").await;
    let job = bench.submit(1, &names(30)).await;
    bench.ends_as(job, JobState::Finished).await;
    let to_hop = bench.script.most("https://a:443 davs://h:443");
    let from_hop = bench.script.most("root://h:1094 root://b:1094");
    assert!((1..=2).contains(&to_hop), "{to_hop} copies to the hop for 2");
    assert!((1..=3).contains(&from_hop), "{from_hop} copies from the hop for 3");
    bench.hop_is_empty().await;
    for file in bench.catalog.files(job).await.unwrap() {
        assert_eq!((file.attempts, file.storages()), (0, [FROM, TO]));
        assert_eq!((&*file.source_storage, &*file.destination_storage), (FROM, TO));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_names_hops_goes_by_the_first_of_them_that_may_be_used() {
    let bench = Bench::new().await;
    let other = ["davs://g:443/hop", "root://g:1094//hop"];
    let service = bench.service_by("w", &[URLS, other]).await;
    let by = |hop: &str| bench.script.starts(&format!("https://a:443 davs://{hop}:443"));
    let run = async |number, hops: &[&str]| {
        let job = bench.submit_by(number, &names(1), hops).await;
        bench.ends_as(job, JobState::Finished).await;
        [by("h"), by("g")]
    };
    assert_eq!(run(1, &[]).await, [1, 0], "the first of all");
    assert_eq!(run(2, &["root://g"]).await, [1, 1]);
    assert_eq!(run(3, &["davs://g:443", "davs://h:443"]).await, [1, 2]);
    bench.ban("davs://g").await;
    service.take_settings().await.unwrap();
    assert_eq!(run(4, &["davs://g:443", "davs://h:443"]).await, [2, 2]);
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_names_no_hop_of_the_queue_goes_by_none() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let job = bench.submit_by(1, &names(1), &["davs://unknown:443"]).await;
    bench.ends_as(job, JobState::Finished).await;
    assert_eq!(bench.script.starts("https://a:443 davs://h:443"), 0);
    service.stop().await;
}

#[tokio::test]
async fn a_file_that_fails_or_is_canceled_leaves_nothing_at_the_hop() {
    let bench = Bench::new().await;
    let service = bench.service("w").await;
    let failing = bench.submit(1, &["fails".to_owned()]).await;
    bench.ends_as(failing, JobState::Failed).await;
    bench.hop_is_empty().await;
    let running = bench.submit(2, &["never-ends".to_owned()]).await;
    bench
        .until("it is on its second half", async || {
            let file = bench.catalog.files(running).await.unwrap().remove(0);
            file.state == FileState::Active && file.hop.is_some_and(|hop| hop.part == HopPart::Outgoing)
        })
        .await;
    assert_eq!(bench.script.files_at_hop(), 1);
    service.cancel_jobs(&[running], "by the user").await.unwrap();
    bench.hop_is_empty().await;
    service.stop().await;
}

#[tokio::test]
async fn a_file_that_waits_at_the_hop_says_for_which_link_and_outlives_its_worker() {
    let bench = Bench::new().await;
    bench
        .limit(
            "root://h:1094",
            StorageSettings {
                outbound_max_active: Some(0),
                ..StorageSettings::default()
            },
        )
        .await;
    let first = bench.service("w1").await;
    let job = bench.submit(1, &names(1)).await;
    bench
        .until("it is at the hop", async || bench.script.files_at_hop() == 1)
        .await;
    bench
        .until("it waits for its second half", async || {
            let why = first.why_job(job).await.unwrap().remove(0);
            let first = &why.reasons[0];
            first.code() == "source_full" && first.to_string().contains("root://h:1094")
        })
        .await;
    first.stop().await;
    let second = bench.service("w2").await;
    bench.limit("root://h:1094", StorageSettings::default()).await;
    second.take_settings().await.unwrap();
    bench.ends_as(job, JobState::Finished).await;
    bench.hop_is_empty().await;
    let to_hop = bench.script.starts("https://a:443 davs://h:443");
    assert_eq!(to_hop, 1, "the first half is not made twice");
    second.stop().await;
}

#[tokio::test]
async fn a_destination_that_takes_nothing_does_not_fill_the_hop() {
    let bench = Bench::new().await;
    let limited = StorageSettings {
        inbound_max_active: Some(1),
        ..StorageSettings::default()
    };
    bench.limit("https://h:443", limited).await;
    let service = bench.service("w").await;
    let sources: Vec<String> = (0..40).map(|number| format!("full{number}")).collect();
    let job = bench.submit(1, &sources).await;
    bench
        .until("each file waits", async || {
            let files = bench.catalog.files(job).await.unwrap();
            files.iter().all(|file| file.problem.is_some())
        })
        .await;
    let kept = bench.script.files_at_hop();
    assert!((1..20).contains(&kept), "{kept} of 40 are at the hop");
    service.cancel_jobs(&[job], "by the user").await.unwrap();
    bench.hop_is_empty().await;
    service.stop().await;
}
