//! The messages of a service whose copier needs no storage.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catalog::{Catalog, Claimed, FileOptions, JobOptions, Login, NewFile, NewJob, Owner, Problem};
use queue::messages::{Feed, FeedSettings, Kind};
use queue::{CleanUp, Copier, CopyBounds, CopyResult, CopyTime, Failure, Roles, Service, Settings};
use schedule::optimizer::FailureClass;
use schedule::{FileState, JobId, JobKind};
use serde_json::{Value, json};
use transfer::Progress;

/// The name of the source says how its copies end.
#[derive(Default)]
struct Script {
    copies: AtomicUsize,
}

impl Copier for Script {
    fn clean_up<'a>(&'a self, _: &'a Claimed, _: Roles, _: &'a Progress) -> CleanUp<'a> {
        Box::pin(std::future::ready(()))
    }

    fn copy<'a>(&'a self, claimed: &'a Claimed, _roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let source = &claimed.file.source;
            let is_first = self.copies.fetch_add(1, Ordering::SeqCst) == 0;
            progress.set_moved(5);
            let problem = Problem {
                code: "peer_failed".to_owned(),
                side: "source".to_owned(),
                phase: "open".to_owned(),
                reason: "SOURCE [5] it fails".to_owned(),
                is_recoverable: true,
            };
            let failure = Failure {
                class: FailureClass::File,
                end: None,
            };
            if source.contains("never-ends") {
                std::future::pending::<()>().await;
            }
            match is_first {
                true if source.contains("second-time") => CopyResult::Failed {
                    problem,
                    report: None,
                    failure,
                },
                true if source.contains("full-once") => CopyResult::Hold {
                    problem,
                    after: Some(Duration::from_millis(300)),
                    failure,
                },
                _ => CopyResult::Finished {
                    size_bytes: 5,
                    way: Some("3rd pull".to_owned()),
                },
            }
        })
    }
}

struct Bench {
    catalog: Catalog,
    service: Service,
}

impl Bench {
    async fn new(directory: &Path) -> Self {
        let catalog = Catalog::open_sqlite(&directory.join("queue.db")).await.unwrap();
        let settings = Settings {
            worker: "w".to_owned(),
            copies: 100,
            storage_copies: 4,
            link_copies: 3,
            link_copies_minimum: 2,
            retries: 2,
            retry_delay: Duration::from_millis(50),
            share_unit: schedule::scheduler::ShareUnit::SlotTime,
            bounds: CopyBounds::default(),
            history: Duration::from_secs(3600),
            lease: Duration::from_secs(60),
            hops: Vec::new(),
            roles: Vec::new(),
        };
        let copier: Arc<dyn Copier> = Arc::new(Script::default());
        let service = Service::start(settings, catalog.clone(), copier).await.unwrap();
        Self { catalog, service }
    }

    async fn submit(&self, number: u8, source: &str) -> JobId {
        let file = NewFile {
            index: 0,
            source: format!("davs://a:443/{source}"),
            destination: format!("davs://b:443/{number}"),
            source_storage: "davs://a:443".to_owned(),
            destination_storage: "davs://b:443".to_owned(),
            state: FileState::Submitted,
            size_bytes: None,
            activity: "default".to_owned(),
            options: FileOptions::default(),
        };
        let job = NewJob {
            id: JobId([number; 16]),
            kind: JobKind::Normal,
            owner: Owner {
                user: "/CN=Jane".to_owned(),
                delegation_id: "1".to_owned(),
                vo: "vo".to_owned(),
                login: Login::Certificate,
            },
            submitted_ms: 1,
            priority: 3,
            expires_ms: None,
            options: JobOptions::default(),
            metadata: None,
            files: vec![file],
        };
        self.catalog.submit(job).await.unwrap();
        JobId([number; 16])
    }

    async fn reaches(&self, job: JobId, state: FileState) {
        let begun = Instant::now();
        let mut changes = self.catalog.changes();
        loop {
            let now = self.catalog.files(job).await.unwrap()[0].state;
            if now == state {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{now:?} is not {state:?}");
            let _ = tokio::time::timeout(Duration::from_millis(200), changes.wait()).await;
        }
    }
}

/// The messages so far: kind and body.
async fn messages(bench: &Bench) -> Vec<(Kind, Value)> {
    let settings = FeedSettings {
        endpoint: "fts.example".to_owned(),
        retries: 2,
    };
    let batch = Feed::new(bench.catalog.clone(), settings).after(0, 1000).await.unwrap();
    let read = |message: queue::messages::Message| (message.kind, serde_json::from_str(&message.body).unwrap());
    batch.messages.into_iter().map(read).collect()
}

#[tokio::test]
async fn each_attempt_has_a_message_when_it_begins_and_one_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::new(directory.path()).await;
    let job = bench.submit(1, "second-time").await;
    bench.reaches(job, FileState::Finished).await;
    let messages = messages(&bench).await;
    let of = |kind: Kind| {
        messages
            .iter()
            .filter(move |message| message.0 == kind)
            .map(|message| &message.1)
    };
    let starts: Vec<&Value> = of(Kind::Start).collect();
    let ends: Vec<&Value> = of(Kind::Complete).collect();
    assert_eq!((starts.len(), ends.len()), (2, 2));
    for (end, (word, retry, bytes)) in ends.iter().zip([("Error", 0, 5), ("Ok", 1, 5)]) {
        assert_eq!(end["t_final_transfer_state"], word);
        assert_eq!((&end["retry"], &end["retry_max"]), (&json!(retry), &json!(2)));
        assert_eq!(
            (&end["tr_bt_transfered"], &end["t_timeout"]),
            (&json!(bytes), &json!(600))
        );
        assert!(end["tr_timestamp_complete"].as_i64() >= end["tr_timestamp_start"].as_i64());
    }
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["transfer_id"], end["tr_id"], "the same attempt");
        assert_eq!(start["timestamp"], end["tr_timestamp_start"]);
    }
    assert_eq!(
        (&ends[0]["t__error_message"], &ends[1]["transfer_type"]),
        (&json!("SOURCE [5] it fails"), &json!("3rd pull"))
    );
    let states: Vec<&str> = of(Kind::State)
        .filter_map(|state| state["file_state"].as_str())
        .collect();
    assert_eq!(states, ["READY", "ACTIVE", "SUBMITTED", "READY", "ACTIVE", "FINISHED"]);
    bench.service.stop().await;
}

#[tokio::test]
async fn a_full_destination_and_a_canceled_copy_are_told_as_fts_tells_them() {
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::new(directory.path()).await;
    let held = bench.submit(1, "full-once").await;
    bench.reaches(held, FileState::Finished).await;
    let endless = bench.submit(2, "never-ends").await;
    bench.reaches(endless, FileState::Active).await;
    bench.service.cancel_jobs(&[endless], "no more").await.unwrap();
    let messages = messages(&bench).await;
    let ends = messages.iter().filter(|message| message.0 == Kind::Complete);
    let words: Vec<&Value> = ends.map(|message| &message.1["t_final_transfer_state"]).collect();
    assert_eq!(words, ["Ok", "Abort"], "a hold ends no attempt");
    bench.service.stop().await;
}
