//! What is done to a queue, in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Error, HollowStorage, Postgres, Queue, QueueOptions, Result};

use super::api::{Address, Client};
use super::{ASKED_JOBS, CONNECTIONS, COPIES, Database, Figure, Figures, JOB_FILES, LARGE_JOB_FILES, Sizes, rate};
use crate::server::Lab;
use crate::workload::MIB;
use crate::{interrupt, progress};

/// Part of the files that come in jobs as clients make them; the rest is to be there soon.
const SUBMITTED_PART: u64 = 5;
/// The first files, which find an empty storage and cold caches, do not count.
const WARM_UP: Duration = Duration::from_secs(2);
/// How often each question is asked.
const QUESTIONS: usize = 30;
const IDLE_SETTLE: Duration = Duration::from_secs(3);
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Directories on each of two levels, in which files lie by their name as with Rucio: hardly two
/// files of a job share one.
const DIRECTORIES: u64 = 256;
/// What must happen happens in this time.
const EVENT_TIME_MAX: Duration = Duration::from_secs(120);
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Files that may be under way or unrecorded when those that went through are counted.
const UNDER_WAY_MAX: u64 = 2_000;

/// Takes a database through the whole course.
pub(super) fn take(lab: &mut Lab, database: Database, sizes: Sizes) -> Figures {
    let mut figures = Figures::default();
    match course(lab, database, sizes, &mut figures) {
        Ok(()) => {}
        Err(Error::Missing(reason)) if database == Database::Postgres => {
            progress(&format!("  PostgreSQL is left out: {reason}"));
        }
        Err(error) => figures.failure = Some(error.to_string()),
    }
    figures
}

fn course(lab: &mut Lab, database: Database, sizes: Sizes, figures: &mut Figures) -> Result<()> {
    let postgres = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(Postgres::start()?),
    };
    let url = |name: &str| postgres.as_ref().map(|server| server.database(name)).transpose();
    let mut run = Run::start(lab, COPIES, url("through")?)?;
    run.fill(sizes.files, figures)?;
    run.ask(figures)?;
    run.go(sizes.through_time, figures)?;
    drop(run);
    let mut run = Run::start(lab, sizes.active_copies, url("active")?)?;
    run.idle(figures)?;
    run.open(sizes.active_copies, figures)
}

/// A running queue with its storage.
struct Run {
    queue: Queue,
    storage: HollowStorage,
    address: Address,
    /// All jobs in the order of their submission.
    jobs: Vec<String>,
    /// Those of [`JOB_FILES`], which come first.
    small_jobs: usize,
    submitted: u64,
}

impl Run {
    fn start(lab: &mut Lab, copies: usize, database: Option<String>) -> Result<Self> {
        let storage = HollowStorage::start()?;
        let database = database.map(|url| format!("database = {url:?}\n")).unwrap_or_default();
        let (name, directory) = lab.place("queue");
        let queue = Queue::start(QueueOptions {
            name,
            directory,
            port: 0,
            certificate: Some(lab.host_certificate()),
            ca_file: lab.ca_file(),
            trust_directory: lab.trust_directory(),
            voms_directory: None,
            queue: format!(
                "anonymous = true\ncopies = {copies}\nstorage_copies = {copies}\nlink_copies = {copies}\n\
                 link_copies_minimum = {copies}\n{database}"
            ),
            more: String::new(),
        })?;
        let address = Address::new(queue.port(), &lab.ca_file())?;
        Ok(Self {
            queue,
            storage,
            address,
            jobs: Vec::new(),
            small_jobs: 0,
            submitted: 0,
        })
    }

    /// A job of files that no job before had.
    fn job(&self, number: u64, files: u64) -> Vec<u8> {
        let url = self.storage.url();
        let file = |index: u64| {
            let place = number * LARGE_JOB_FILES + index;
            let (upper, lower) = (place % DIRECTORIES, place / DIRECTORIES % DIRECTORIES);
            let path = format!("bench/{upper:02x}/{lower:02x}/job{number}.file{index}");
            json!({
                "sources": [format!("{url}/source/{path}")],
                "destinations": [format!("{url}/destination/{path}")],
                "filesize": 1 << 20,
                "checksum": "ADLER32:00000001",
                "activity": "Production Input",
                "metadata": {"scope": "bench", "name": format!("file{index}"), "request_type": "transfer"},
            })
        };
        let files: Vec<Value> = (0..files).map(file).collect();
        json!({"files": files, "params": {"overwrite": false, "verify_checksum": "none", "retry": 0}})
            .to_string()
            .into_bytes()
    }

    /// Submits `jobs` jobs on all connections. Returns the seconds that it took.
    fn submit(&mut self, jobs: u64, files: u64) -> Result<f64> {
        let first = self.submitted;
        let next = AtomicU64::new(0);
        let ids = Mutex::new(Vec::new());
        let began = Instant::now();
        let one = || -> Result<()> {
            let mut client = self.address.connect()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= jobs || interrupt::is_set().is_some() {
                    return Ok(());
                }
                let answer = client.ask("POST", "/jobs", &self.job(first + number, files))?;
                let id = answer["job_id"].as_str().unwrap_or_default().to_owned();
                ids.lock().map_err(|_| gone())?.push(id);
            }
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
            let ends = clients.into_iter().map(|client| client.join().map_err(|_| gone())?);
            ends.collect::<Result<()>>()
        })?;
        let seconds = began.elapsed().as_secs_f64();
        self.submitted += jobs;
        self.jobs.extend(ids.into_inner().map_err(|_| gone())?);
        Ok(seconds)
    }

    /// Fills the queue. Its first copies stay open meanwhile.
    fn fill(&mut self, files: u64, figures: &mut Figures) -> Result<()> {
        let jobs = files / SUBMITTED_PART / JOB_FILES;
        let small = jobs * JOB_FILES;
        let cpu_seconds = self.queue.process().cpu_seconds()?;
        let seconds = self.submit(jobs, JOB_FILES)?;
        let used = self.queue.process().cpu_seconds()? - cpu_seconds;
        self.small_jobs = self.jobs.len();
        let (first, second) = rate(small, seconds);
        figures.set(Figure::Submission, first, second);
        figures.set(Figure::SubmissionCost, used / small as f64 * 1e3, small as f64);
        progress(&format!("  {first:.0} files/s are submitted"));
        let rest = (files - small) / LARGE_JOB_FILES;
        let began = Instant::now();
        self.submit(rest, LARGE_JOB_FILES)?;
        progress(&format!(
            "  the queue is full after {:.0} s more",
            began.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// Asks about jobs in the midst of the queue, and about a large one.
    fn ask(&mut self, figures: &mut Figures) -> Result<()> {
        let mut client = self.address.connect()?;
        let middle = self.jobs.len() / 2;
        let some = &self.jobs[middle..][..ASKED_JOBS.min(self.jobs.len() - middle)];
        let (first, second) = times(&mut client, &format!("/jobs/{}", some.join(",")))?;
        figures.set(Figure::Status, first, second);
        let all = format!("/jobs/{}/files", self.jobs[self.jobs.len() - 1]);
        let (first, second) = times(&mut client, &all)?;
        figures.set(Figure::Files, first, second);
        let files = client.ask("GET", &format!("/jobs/{}/files", self.jobs[middle]), b"")?;
        let why = format!("/v1/files/{}/why", files[0]["file_id"]);
        match times(&mut client, &why) {
            Ok((first, second)) => figures.set(Figure::Why, first, second),
            // The rest of the course does not depend on it.
            Err(error) => progress(&format!("  no figure for why a file waits: {error}")),
        }
        Ok(())
    }

    /// Lets files go through for some time.
    fn go(&mut self, time: Duration, figures: &mut Figures) -> Result<()> {
        self.storage.hold(false);
        thread::sleep(WARM_UP);
        let (before, began) = (self.storage.copied(), Instant::now());
        let cpu_seconds = self.queue.process().cpu_seconds()?;
        while began.elapsed() < time && interrupt::is_set().is_none() {
            thread::sleep(LOOK_PERIOD);
        }
        let (copied, seconds) = (self.storage.copied(), began.elapsed().as_secs_f64());
        let used = self.queue.process().cpu_seconds()? - cpu_seconds;
        let files = copied - before;
        let (first, second) = rate(files, seconds);
        progress(&format!("  {first:.0} files/s go through"));
        self.expect_finished(copied)?;
        figures.set(Figure::Through, first, second);
        figures.set(Figure::ThroughCost, used / files.max(1) as f64 * 1e3, files as f64);
        let memory = self.queue.process().memory()?;
        figures.set(
            Figure::Full,
            memory.peak_bytes as f64 / MIB,
            memory.resident_bytes as f64 / MIB,
        );
        Ok(())
    }

    /// The files of the first jobs, which go first, are recorded as finished.
    fn expect_finished(&self, copied: u64) -> Result<()> {
        let jobs = copied.saturating_sub(UNDER_WAY_MAX) / JOB_FILES;
        // Those of several connections are in order but for a few.
        let jobs = usize::try_from(jobs).unwrap_or(usize::MAX).saturating_sub(CONNECTIONS);
        let jobs = jobs.min(self.small_jobs);
        let mut client = self.address.connect()?;
        for some in self.jobs[..jobs].chunks(ASKED_JOBS) {
            let path = format!("/jobs/{}", some.join(","));
            let found = wait("jobs to be finished", || {
                let answer = client.ask("GET", &path, b"")?;
                let jobs = answer.as_array().cloned().unwrap_or_else(|| vec![answer]);
                let states = jobs.iter().map(|job| job["job_state"].as_str().unwrap_or_default());
                let left: Vec<&str> = states.filter(|state| *state != "FINISHED").collect();
                if left.contains(&"FAILED") {
                    return Err(Error::Failed(format!("a job failed: {}", jobs[0])));
                }
                Ok(left.is_empty())
            });
            found?;
        }
        Ok(())
    }

    /// Processor time without work.
    fn idle(&mut self, figures: &mut Figures) -> Result<()> {
        thread::sleep(IDLE_SETTLE);
        let (before, began) = (self.queue.process().cpu_seconds()?, Instant::now());
        thread::sleep(IDLE_TIME);
        let used = self.queue.process().cpu_seconds()? - before;
        let resident = self.queue.process().memory()?.resident_bytes as f64 / MIB;
        figures.set(Figure::Idle, used / began.elapsed().as_secs_f64() * 100.0, resident);
        Ok(())
    }

    /// As many copies as may be are open at once.
    fn open(&mut self, copies: usize, figures: &mut Figures) -> Result<()> {
        let jobs = copies as u64 / LARGE_JOB_FILES + 1;
        self.submit(jobs, LARGE_JOB_FILES)?;
        let began = Instant::now();
        let storage = &self.storage;
        wait("copies to be open", || Ok(storage.open() >= copies))?;
        progress(&format!(
            "  {copies} copies are open after {:.0} s",
            began.elapsed().as_secs_f64()
        ));
        // Some markers of each.
        thread::sleep(IDLE_TIME);
        let cpu_seconds = self.queue.process().cpu_seconds()?;
        thread::sleep(IDLE_TIME);
        let used = (self.queue.process().cpu_seconds()? - cpu_seconds) / IDLE_TIME.as_secs_f64();
        progress(&format!("  and take {:.0} % of a core", used * 100.0));
        let memory = self.queue.process().memory()?;
        figures.set(
            Figure::Active,
            memory.peak_bytes as f64 / MIB,
            memory.resident_bytes as f64 / MIB,
        );
        Ok(())
    }
}

fn gone() -> Error {
    Error::Failed("a client panicked".to_owned())
}

/// Median and longest of the times that a question takes, in milliseconds.
fn times(client: &mut Client, path: &str) -> Result<(f64, f64)> {
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let began = Instant::now();
        client.ask("GET", path, b"")?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[QUESTIONS / 2], times[QUESTIONS - 1]))
}

/// Waits for an event that can only be looked for.
fn wait(what: &str, mut has_happened: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !has_happened()? {
        if interrupt::is_set().is_some() || began.elapsed() > EVENT_TIME_MAX {
            return Err(Error::Failed(format!("waited in vain for {what}")));
        }
        thread::sleep(LOOK_PERIOD);
    }
    Ok(())
}
