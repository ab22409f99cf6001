//! The loops for tape with a tape system that needs no network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use catalog::{
    Advance, Catalog, Claimed, FileOptions, FileRecord, JobOptions, Login, NewFile, NewJob, Owner, SettingKind,
    StorageSettings,
};
use queue::tape::{Pace, StageFile, Staging, Tape, TapeSettings, TapeSystems, TapeTime};
use remote::{ArchiveState, Locality, StageState};
use schedule::{FileEvent, FileId, FileState, JobId, JobKind};
use types::{Error, ErrorCode, PeerStatus, Phase, Side};

const HOUR_S: u32 = 3600;
/// Files that one request may name.
const ROBOT_FILES_MAX: usize = 4;

/// A tape system.
#[derive(Default)]
struct Robot {
    /// The requests, with their paths.
    requests: Vec<Vec<String>>,
    /// What is said of a path; by default it waits.
    states: BTreeMap<String, StageState>,
    places: BTreeMap<String, ArchiveState>,
    canceled: Vec<String>,
    released: Vec<String>,
    /// How often it was asked anything.
    asked: usize,
    /// The error of every answer.
    failure: Option<Error>,
}

#[derive(Default)]
struct Robots(Mutex<Robot>);

impl Robots {
    fn lock(&self) -> MutexGuard<'_, Robot> {
        self.0.lock().unwrap()
    }

    fn ready(&self) -> types::Result<MutexGuard<'_, Robot>> {
        let mut robot = self.lock();
        robot.asked += 1;
        match &robot.failure {
            Some(error) => Err(error.clone()),
            None => Ok(robot),
        }
    }
}

fn now<'a, T: Send + 'a>(answer: types::Result<T>) -> TapeTime<'a, T> {
    Box::pin(std::future::ready(answer))
}

/// The refusal of a tape system that answers others.
fn refused(whose: &Claimed, user: &str, code: ErrorCode, status: u16) -> types::Result<()> {
    let refused = Error::new(code, Side::Source, Phase::Staging);
    match whose.job.owner.user == user {
        true => Err(refused.with_peer(Some(PeerStatus::Http(status)), "not for this user")),
        false => Ok(()),
    }
}

impl TapeSystems for Robots {
    fn stage<'a>(&'a self, whose: &'a Claimed, files: &'a [StageFile]) -> TapeTime<'a, Staging> {
        if whose.file.source_storage.contains("silent") {
            self.lock().asked += 1;
            return Box::pin(std::future::pending());
        }
        now(self.ready().and_then(|mut robot| {
            if whose.file.source.contains("no-tape") {
                return Ok(Staging::NoTape);
            }
            refused(whose, "/CN=Zed", ErrorCode::OutcomeUnknown, 500)?;
            let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
            if paths.len() > ROBOT_FILES_MAX {
                return Ok(Staging::TooMany(ROBOT_FILES_MAX));
            }
            if paths.iter().any(|path| path.contains("malformed")) {
                let refused = Error::new(ErrorCode::PeerFailed, Side::Source, Phase::Staging);
                return Err(refused.with_peer(Some(PeerStatus::Http(400)), "bad path ?sig=5f01"));
            }
            robot.requests.push(paths);
            Ok(Staging::Asked(format!("r{}", robot.requests.len())))
        }))
    }

    fn states<'a>(
        &'a self,
        whose: &'a Claimed,
        request: &'a str,
        paths: &'a [String],
    ) -> TapeTime<'a, Vec<StageState>> {
        now(self.ready().and_then(|robot| {
            refused(whose, "/CN=Abe", ErrorCode::Overloaded, 503)?;
            assert!(request.starts_with('r'));
            let state = |path: &String| robot.states.get(path).cloned().unwrap_or(StageState::Waiting);
            Ok(paths.iter().map(state).collect())
        }))
    }

    fn cancel<'a>(&'a self, _: &'a Claimed, _: &'a str, paths: &'a [String], _is_rest: bool) -> TapeTime<'a, ()> {
        now(self.ready().map(|mut robot| robot.canceled.extend_from_slice(paths)))
    }

    fn release<'a>(&'a self, _: &'a Claimed, _: &'a str, paths: &'a [String]) -> TapeTime<'a, ()> {
        now(self.ready().map(|mut robot| robot.released.extend_from_slice(paths)))
    }

    fn located<'a>(&'a self, whose: &'a Claimed, paths: &'a [String]) -> TapeTime<'a, Option<Vec<ArchiveState>>> {
        if whose.file.destination_storage.contains("silent") {
            self.lock().asked += 1;
            return Box::pin(std::future::pending());
        }
        now(self.ready().and_then(|robot| {
            refused(whose, "/CN=Abe", ErrorCode::Overloaded, 429)?;
            let disk = ArchiveState::At(Locality::Disk);
            let place = |path: &String| robot.places.get(path).cloned().unwrap_or(disk.clone());
            Ok(Some(paths.iter().map(place).collect()))
        }))
    }
}

struct Bench {
    directory: tempfile::TempDir,
    catalog: Catalog,
    robots: Arc<Robots>,
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        Self {
            directory,
            catalog,
            robots: Arc::default(),
        }
    }

    fn tape(&self) -> Tape {
        let pace = Pace {
            shortest: Duration::from_millis(20),
            longest: Duration::from_millis(100),
        };
        let settings = TapeSettings {
            pace,
            retries: 1,
            retry_delay: Duration::from_millis(10),
        };
        let systems: Arc<dyn TapeSystems> = self.robots.clone();
        Tape::start(settings, self.catalog.clone(), systems)
    }

    async fn submit(&self, number: u8, names: &[&str], options: JobOptions) -> JobId {
        let id = JobId([number; 16]);
        let file = |(place, name): (usize, &&str)| NewFile {
            index: place as u32,
            source: format!("davs://a:443/{name}"),
            destination: match name.contains("only") {
                true => format!("davs://a:443/{name}"),
                false => format!("davs://b:443/{name}"),
            },
            source_storage: storage("a", name),
            destination_storage: storage("b", name),
            state: match options.bring_online_s {
                Some(_) => FileState::Staging,
                None => FileState::Submitted,
            },
            size_bytes: None,
            activity: "default".to_owned(),
            options: FileOptions::default(),
        };
        let job = NewJob {
            id,
            kind: JobKind::Normal,
            owner: Owner {
                user: match names[0] {
                    "of-zed" => "/CN=Zed".to_owned(),
                    name if name.contains("silent") || name == "of-abe" => "/CN=Abe".to_owned(),
                    _ => "/CN=Jane".to_owned(),
                },
                delegation_id: "1".to_owned(),
                vo: "vo".to_owned(),
                login: Login::Certificate,
            },
            submitted_ms: 1,
            priority: 3,
            expires_ms: None,
            metadata: None,
            files: names.iter().enumerate().map(file).collect(),
            options,
        };
        self.catalog.submit(job).await.unwrap();
        id
    }

    async fn files(&self, job: JobId) -> Vec<FileRecord> {
        self.catalog.files(job).await.unwrap()
    }

    async fn states(&self, job: JobId) -> Vec<FileState> {
        self.files(job).await.iter().map(|file| file.state).collect()
    }

    async fn become_(&self, job: JobId, states: &[FileState]) {
        let mut found = Vec::new();
        eventually(async || {
            found = self.states(job).await;
            found == states
        })
        .await
        .unwrap_or_else(|()| panic!("not {states:?}"));
    }

    /// Waits until the tape system was asked twice more.
    async fn is_asked_twice(&self) {
        let before = self.robots.lock().asked;
        let twice = eventually(async || self.robots.lock().asked >= before + 2);
        twice.await.unwrap();
    }

    /// Leads the file through its copy.
    async fn copy(&self, file: &FileRecord, archives: bool) {
        assert_eq!(self.copy_each(archives).await, [file.id]);
    }

    /// Leads a file of each queue through its copy.
    async fn copy_each(&self, archives: bool) -> Vec<FileId> {
        let grants: Vec<catalog::Grant> = self.catalog.queues().await.unwrap().into_iter().map(grant).collect();
        let claimed = self.catalog.claim(&grants, "w", 1, i64::MAX).await.unwrap();
        let files: Vec<FileId> = claimed.iter().map(|claimed| claimed.file.id).collect();
        for event in [FileEvent::Started, FileEvent::Copied { archives }] {
            let event = |file: &FileId| Advance {
                worker: Some("w".to_owned()),
                ..Advance::new(*file, event)
            };
            let events = files.iter().map(event).collect();
            self.catalog.advance(events, now_ms()).await.unwrap();
        }
        files
    }
}

/// Files of these names have a storage of their own, which sorts before the others.
fn storage(usual: &str, name: &str) -> String {
    match name.contains("silent") {
        true => format!("davs://0-{name}-{usual}:443"),
        false => format!("davs://{usual}:443"),
    }
}

fn grant(count: catalog::QueueCount) -> catalog::Grant {
    catalog::Grant {
        queue: count.key,
        priority: count.priority,
        count: 1,
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    since.as_millis().try_into().unwrap()
}

async fn eventually(mut is_so: impl AsyncFnMut() -> bool) -> Result<(), ()> {
    let begun = Instant::now();
    while !is_so().await {
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn from_tape(bring_online_s: u32) -> JobOptions {
    JobOptions {
        bring_online_s: Some(bring_online_s),
        pin_lifetime_s: Some(60),
        ..JobOptions::default()
    }
}

#[tokio::test]
async fn a_storage_that_decides_itself_is_not_asked_to_release() {
    let bench = Bench::new().await;
    let settings = StorageSettings {
        skip_eviction: Some(true),
        ..StorageSettings::default()
    };
    let put = bench
        .catalog
        .put_setting(SettingKind::Storage, "davs://a", &settings, "operator", 1);
    put.await.unwrap();
    let _tape = bench.tape();
    let job = bench.submit(1, &["one"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::StagingStarted]).await;
    bench.robots.lock().states.insert("/one".to_owned(), StageState::OnDisk);
    bench.become_(job, &[FileState::Submitted]).await;
    let file = bench.files(job).await.remove(0);
    bench.copy(&file, false).await;
    eventually(async || bench.catalog.stage_requests().await.unwrap().is_empty())
        .await
        .unwrap();
    assert!(bench.robots.lock().released.is_empty());
}

#[tokio::test]
async fn files_are_asked_for_together_polled_and_released_after_their_copy() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let job = bench.submit(1, &["one", "two", "only"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::StagingStarted; 3]).await;
    assert_eq!(bench.robots.lock().requests, [["/one", "/two", "/only"]]);
    for path in ["/one", "/only"] {
        bench.robots.lock().states.insert(path.to_owned(), StageState::OnDisk);
    }
    let expected = [FileState::Submitted, FileState::StagingStarted, FileState::Finished];
    bench.become_(job, &expected).await;
    let file = bench.files(job).await.remove(0);
    assert!(file.times.staging_finished_ms.is_some());
    assert!(bench.robots.lock().released.is_empty());
    bench.copy(&file, false).await;
    eventually(async || bench.robots.lock().released == ["/one"])
        .await
        .unwrap();
    bench.robots.lock().states.insert("/two".to_owned(), StageState::OnDisk);
    bench
        .become_(job, &[FileState::Finished, FileState::Submitted, FileState::Finished])
        .await;
    let file = bench.files(job).await.remove(1);
    bench.copy(&file, false).await;
    eventually(async || bench.catalog.stage_requests().await.unwrap().is_empty())
        .await
        .unwrap();
    // What is only brought online stays there.
    assert_eq!(bench.robots.lock().released, ["/one", "/two"]);
    assert!(bench.robots.lock().canceled.is_empty());
}

#[tokio::test]
async fn after_a_crash_a_request_is_polled_and_not_made_again() {
    let bench = Bench::new().await;
    let tape = bench.tape();
    let job = bench.submit(1, &["one", "two"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::StagingStarted; 2]).await;
    drop(tape);
    // Meanwhile one is canceled and the other comes online.
    let second = bench.files(job).await.remove(1);
    bench
        .catalog
        .cancel_files(job, &[second.id], "no", now_ms())
        .await
        .unwrap();
    bench.robots.lock().states.insert("/one".to_owned(), StageState::OnDisk);
    let Bench {
        directory,
        catalog,
        robots,
    } = bench;
    catalog.close().await;
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let bench = Bench {
        directory,
        catalog,
        robots,
    };
    let _tape = bench.tape();
    bench.become_(job, &[FileState::Submitted, FileState::Canceled]).await;
    eventually(async || bench.robots.lock().canceled == ["/two"])
        .await
        .unwrap();
    assert_eq!(bench.robots.lock().requests.len(), 1);
}

#[tokio::test]
async fn what_is_canceled_is_canceled_at_the_tape_system() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let job = bench.submit(1, &["one", "two"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::StagingStarted; 2]).await;
    // The request is followed.
    bench.is_asked_twice().await;
    bench.catalog.cancel_jobs(&[job], "no", now_ms()).await.unwrap();
    eventually(async || bench.robots.lock().canceled.len() == 2)
        .await
        .unwrap();
    eventually(async || bench.catalog.stage_requests().await.unwrap().is_empty())
        .await
        .unwrap();
}

#[tokio::test]
async fn what_tape_cannot_bring_is_asked_for_again_and_then_fails_in_its_words() {
    let bench = Bench::new().await;
    let torn = StageState::Failed("the tape is torn: https://tape/one?X-Amz-Signature=5f01".to_owned());
    bench.robots.lock().states.insert("/one".to_owned(), torn);
    let _tape = bench.tape();
    let job = bench.submit(1, &["one"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::Failed]).await;
    let file = bench.files(job).await.remove(0);
    let problem = file.problem.unwrap();
    assert_eq!((problem.code.as_str(), file.attempts), ("staging_failed", 2));
    assert!(problem.reason.starts_with("STAGING [5] "), "{}", problem.reason);
    let words = "the tape is torn: https://tape/one?X-Amz-Signature=hidden";
    assert!(problem.reason.contains(words), "{}", problem.reason);
    assert_eq!(bench.robots.lock().requests.len(), 2, "one retry");
}

#[tokio::test]
async fn a_file_that_does_not_come_in_time_fails_as_in_fts() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let job = bench.submit(1, &["one"], from_tape(1)).await;
    bench.become_(job, &[FileState::Failed]).await;
    let problem = bench.files(job).await.remove(0).problem.unwrap();
    let expected = "STAGING [110] bring-online timeout has been exceeded";
    assert!(problem.reason.starts_with(expected), "{}", problem.reason);
    eventually(async || bench.robots.lock().canceled == ["/one"])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_storage_without_tape_delays_nothing() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let job = bench.submit(1, &["no-tape", "no-tape-only"], from_tape(HOUR_S)).await;
    bench.become_(job, &[FileState::Submitted, FileState::Finished]).await;
    assert!(bench.robots.lock().requests.is_empty());
}

#[tokio::test]
async fn a_file_that_the_tape_system_refuses_does_not_take_others_with_it() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let names = ["a", "b", "malformed", "c", "d"];
    let job = bench.submit(1, &names, from_tape(HOUR_S)).await;
    let mut expected = [FileState::StagingStarted; 5];
    expected[2] = FileState::Failed;
    bench.become_(job, &expected).await;
    let problem = bench.files(job).await.remove(2).problem.unwrap();
    assert!(problem.reason.starts_with("STAGING [") && problem.reason.contains("bad path ?sig=hidden"));
}

#[tokio::test]
async fn a_refusal_for_one_user_stops_no_other() {
    let bench = Bench::new().await;
    let refused = bench.submit(1, &["of-zed"], from_tape(u32::MAX)).await;
    let job = bench.submit(2, &["one"], from_tape(u32::MAX)).await;
    let _tape = bench.tape();
    bench.become_(job, &[FileState::StagingStarted]).await;
    assert_eq!(bench.states(refused).await, [FileState::Staging]);
}

#[tokio::test]
async fn a_refused_question_of_one_user_stops_no_other() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let refused = bench.submit(1, &["of-abe"], from_tape(u32::MAX)).await;
    bench.become_(refused, &[FileState::StagingStarted]).await;
    let job = bench.submit(2, &["one"], from_tape(u32::MAX)).await;
    bench.become_(job, &[FileState::StagingStarted]).await;
    bench.is_asked_twice().await;
    for path in ["/one", "/of-abe"] {
        bench.robots.lock().states.insert(path.to_owned(), StageState::OnDisk);
    }
    bench.become_(job, &[FileState::Submitted]).await;
    assert_eq!(bench.states(refused).await, [FileState::StagingStarted]);
}

/// Names of storages that never answer, more than there are places for calls of one user.
fn silent() -> Vec<String> {
    (0..60).map(|number| format!("silent-{number:02}")).collect()
}

#[tokio::test]
async fn sources_that_do_not_answer_stop_no_other() {
    let bench = Bench::new().await;
    let silent = silent();
    let names: Vec<&str> = silent.iter().map(String::as_str).collect();
    bench.submit(1, &names, from_tape(u32::MAX)).await;
    let _tape = bench.tape();
    eventually(async || bench.robots.lock().asked >= 16).await.unwrap();
    let job = bench.submit(2, &["one"], from_tape(u32::MAX)).await;
    bench.become_(job, &[FileState::StagingStarted]).await;
}

#[tokio::test]
async fn destinations_that_do_not_answer_or_refuse_a_user_stop_no_other() {
    let bench = Bench::new().await;
    let silent = silent();
    let names: Vec<&str> = silent.iter().map(String::as_str).collect();
    bench.submit(1, &names, to_tape(u32::MAX)).await;
    let refused = bench.submit(2, &["of-abe"], to_tape(u32::MAX)).await;
    let job = bench.submit(3, &["one"], to_tape(u32::MAX)).await;
    assert_eq!(bench.copy_each(true).await.len(), silent.len() + 2);
    let _tape = bench.tape();
    eventually(async || bench.robots.lock().asked >= 16).await.unwrap();
    let there = ArchiveState::At(Locality::DiskAndTape);
    bench.robots.lock().places.insert("/one".to_owned(), there);
    bench.become_(job, &[FileState::Finished]).await;
    assert_eq!(bench.states(refused).await, [FileState::Archiving]);
}

#[tokio::test]
async fn a_tape_system_that_is_down_is_asked_again_later() {
    let bench = Bench::new().await;
    let down = Error::new(ErrorCode::PeerUnreachable, Side::Source, Phase::Connect);
    bench.robots.lock().failure = Some(down.clone());
    let _tape = bench.tape();
    let job = bench.submit(1, &["one"], from_tape(u32::MAX)).await;
    bench.is_asked_twice().await;
    assert_eq!(bench.states(job).await, [FileState::Staging]);
    bench.robots.lock().failure = None;
    bench.become_(job, &[FileState::StagingStarted]).await;
    // Also between the question and the answer.
    bench.robots.lock().failure = Some(down);
    bench.is_asked_twice().await;
    assert_eq!(bench.states(job).await, [FileState::StagingStarted]);
    bench.robots.lock().failure = None;
    bench.robots.lock().states.insert("/one".to_owned(), StageState::OnDisk);
    bench.become_(job, &[FileState::Submitted]).await;
    assert_eq!(bench.files(job).await[0].attempts, 0);
}

fn to_tape(archive_timeout_s: u32) -> JobOptions {
    JobOptions {
        archive_timeout_s: Some(archive_timeout_s),
        ..JobOptions::default()
    }
}

#[tokio::test]
async fn a_copied_file_is_finished_when_it_is_on_tape() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let job = bench.submit(1, &["one"], to_tape(HOUR_S)).await;
    let file = bench.files(job).await.remove(0);
    bench.copy(&file, true).await;
    bench.become_(job, &[FileState::Archiving]).await;
    bench.is_asked_twice().await;
    bench.robots.lock().failure = Some(Error::new(
        ErrorCode::PeerUnreachable,
        Side::Destination,
        Phase::Connect,
    ));
    bench.is_asked_twice().await;
    assert_eq!(bench.states(job).await, [FileState::Archiving]);
    bench.robots.lock().failure = None;
    let there = ArchiveState::At(Locality::DiskAndTape);
    bench.robots.lock().places.insert("/one".to_owned(), there);
    bench.become_(job, &[FileState::Finished]).await;
    assert!(bench.files(job).await[0].times.archiving_finished_ms.is_some());
}

#[tokio::test]
async fn a_copied_file_that_does_not_reach_tape_fails_as_in_fts() {
    let bench = Bench::new().await;
    let _tape = bench.tape();
    let cases = [
        (None, "ARCHIVING [110] archiving timeout has been exceeded"),
        (Some(ArchiveState::At(Locality::Lost)), "ARCHIVING [5] "),
        (Some(ArchiveState::Refused("no such file".to_owned())), "ARCHIVING [5] "),
    ];
    for (number, (place, expected)) in (1..).zip(cases) {
        let name = format!("f{number}");
        if let Some(place) = place {
            bench.robots.lock().places.insert(format!("/{name}"), place);
        }
        let job = bench.submit(number, &[&name], to_tape(1)).await;
        let file = bench.files(job).await.remove(0);
        bench.copy(&file, true).await;
        bench.become_(job, &[FileState::Failed]).await;
        let problem = bench.files(job).await.remove(0).problem.unwrap();
        assert!(problem.reason.starts_with(expected), "{}", problem.reason);
    }
}
