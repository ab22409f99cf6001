//! `mixed`: small questions beside large downloads. How long whoever asks for little waits while others take much is
//! what people notice of a busy server first, and no rate tells it.

use std::time::Duration;

use remote::{Client, ClientOptions, GetOptions, Resource};
use tokio::time::{Instant, sleep};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::bulk::{self, Bulk, Job, Way};
use super::data::Content;
use super::measure::{Sample, together};
use super::tally::{Case, Counted, Tally};
use crate::ground::Target;
use crate::report::{Better, Failure, Measured, Parameters, Summary, Table, Value, view};
use crate::{Ground, Stop};

/// The axis of all tables.
const AXIS: &str = "downloads";
/// How long the downloads run before the first question, so that all of them have begun.
const LEAD: Duration = Duration::from_millis(300);
/// Between an answer and the next question: the questions are to measure the load, not to be it.
const PAUSE: Duration = Duration::from_millis(5);
/// One in so many answers, those that came latest, are left out of the second table.
const LATE_ONE_IN: usize = 100;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Numbers of downloads, each on a connection of its own, that run beside the questions; 0 is a server at rest.
    pub downloads: Vec<u32>,
    /// Size of each file that is downloaded, in bytes.
    pub size_bytes: u64,
    /// For how long each sample asks.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// Measures all cases; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, mixed: &Mixed) -> Measured {
    let mut tallies = Tallies::default();
    let samples = mixed.downloads.len() * ground.targets.len() * mixed.repetitions as usize;
    ground.progress.plan(samples);
    measure(ground, mixed, &mut tallies).await;
    Measured {
        tables: tallies.tables(),
        ..Measured::default()
    }
}

async fn measure(ground: &Ground, mixed: &Mixed, tallies: &mut Tallies) -> Option<()> {
    let content = Content::default();
    let bulk = mixed.as_bulk();
    let mut shelves = Vec::new();
    for target in &ground.targets {
        let files = ground.stop.or(bulk::prepare(ground, &bulk, target, &content)).await?;
        shelves.push(files.read.map(|(files, _)| files));
    }
    for &downloads in &mixed.downloads {
        for repetition in 0..mixed.repetitions {
            for (target, files) in ground.targets.iter().zip(&shelves) {
                let case = case(target, downloads);
                if tallies.has_failed(target, &case) {
                    ground.progress.skip(1);
                    continue;
                }
                let run = format!("{} of {}", repetition + 1, mixed.repetitions);
                let label = format!(
                    "{}: {}, downloads beside it: {downloads}, {run}",
                    target.name, case.label
                );
                ground.progress.begin(label);
                let words = match files {
                    Err(failure) => tallies.fail(target, &case, failure.clone()),
                    Ok(files) => {
                        let sample = sample(ground, mixed, target, files, downloads).await?;
                        tallies.take(target, &case, downloads, sample)
                    }
                };
                ground.progress.end(words);
            }
        }
    }
    Some(())
}

impl Mixed {
    /// What the files are made for.
    fn as_bulk(&self) -> Bulk {
        Bulk {
            ways: vec![Way::Get],
            // Who asks beside no download needs a file too.
            connections: vec![self.downloads.iter().copied().max().unwrap_or(0).max(1)],
            streams: vec![1],
            size_bytes: self.size_bytes,
            volume_bytes: 0,
            repetitions: self.repetitions,
        }
    }
}

fn case(target: &Target, downloads: u32) -> Case {
    let question = match target.place.location.is_root() {
        true => "stat",
        false => "HEAD",
    };
    Case {
        label: format!("{question} {}", target.protocol()),
        parameters: Parameters::from([(AXIS.to_owned(), Value::from(downloads))]),
        phase: "asking beside downloads",
    }
}

/// What a worker of a sample comes back with.
#[derive(Clone, Debug, PartialEq)]
enum Brought {
    /// Bytes that a download moved.
    Bytes(u64),
    /// How long each answer took, in milliseconds.
    WaitsMs(Vec<f64>),
}

/// One sample; `None` when the run is to end.
async fn sample(
    ground: &Ground,
    mixed: &Mixed,
    target: &Target,
    files: &[Resource],
    downloads: u32,
) -> Option<Sample<Brought>> {
    let jobs: Vec<Job> = (0..downloads as usize)
        .map(|index| Job {
            client: ground.new_client(),
            files: vec![files[index % files.len()].clone()],
            range: None,
        })
        .collect();
    ground.stop.or(bulk::warm_up(&jobs)).await?;
    let over = Stop::default();
    let mut workers: Vec<Worker> = jobs.into_iter().map(|job| Worker::Take(job, over.clone())).collect();
    workers.push(Worker::Ask(Asker {
        options: ground.client_options().clone(),
        file: files[0].clone(),
        duration: mixed.duration,
        over,
    }));
    together(target, &ground.stop, workers.into_iter().map(Worker::work).collect()).await
}

enum Worker {
    Take(Job, Stop),
    Ask(Asker),
}

impl Worker {
    async fn work(self) -> Result<Brought> {
        match self {
            Self::Take(job, over) => take(&job, &over).await.map(Brought::Bytes),
            Self::Ask(asker) => asker.ask_apart().await.map(Brought::WaitsMs),
        }
    }
}

/// Downloads again and again until the questions are over; the last one is broken off then, because its rest would be
/// beside nothing.
async fn take(job: &Job, over: &Stop) -> Result<u64> {
    let mut bytes = 0;
    for file in job.files.iter().cycle() {
        if over.is_set() {
            break;
        }
        let mut download = job.client.get(file, &GetOptions::default()).await?;
        while let Some(batch) = download.next().await? {
            bytes += batch.len() as u64;
            if over.is_set() {
                return Ok(bytes);
            }
        }
    }
    Ok(bytes)
}

/// Who asks.
struct Asker {
    options: ClientOptions,
    file: Resource,
    duration: Duration,
    /// Set when the questions are over, which ends the downloads; an asker that is dropped sets it too.
    over: Stop,
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.over.set();
    }
}

impl Asker {
    /// Asks on a thread that does nothing else, with a connection of its own: beside the downloads of this client,
    /// their handling here would be a part of each wait.
    async fn ask_apart(self) -> Result<Vec<f64>> {
        let (options, file) = (self.options.clone(), self.file.clone());
        let (duration, over) = (self.duration, self.over.clone());
        let thread = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime
                .map_err(|cause| Error::new(ErrorCode::Internal, Side::Client, Phase::Connect).with_private(cause))?;
            let questions = async { ask(&Client::new(options), &file, duration).await };
            runtime.block_on(over.or(questions)).unwrap_or_else(|| Ok(Vec::new()))
        });
        match thread.await {
            Ok(waits) => waits,
            // A panic is a fault of this program, which must be seen.
            Err(cause) => std::panic::resume_unwind(cause.into_panic()),
        }
    }
}

/// Asks for as long as the sample takes, once at the least. A question that is under way when the time is over is
/// waited for: it is the longest wait of all.
async fn ask(client: &Client, file: &Resource, duration: Duration) -> Result<Vec<f64>> {
    // It makes the connection, which is not what is measured.
    client.head(file, &[]).await?;
    sleep(LEAD).await;
    let end = Instant::now() + duration;
    let mut waits_ms = Vec::new();
    while waits_ms.is_empty() || Instant::now() < end {
        let asked = std::time::Instant::now();
        client.head(file, &[]).await?;
        waits_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE).await;
    }
    Ok(waits_ms)
}

/// The wait that all but one in a hundred answers keep, by nearest rank: the longest of fewer than a hundred.
fn late(waits_ms: &[f64]) -> Option<f64> {
    let mut sorted = waits_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let left_out = sorted.len() / LATE_ONE_IN;
    sorted.get(sorted.len().checked_sub(1 + left_out)?).copied()
}

/// The tables of one run.
struct Tallies {
    median: Table,
    late: Table,
    /// What the downloads came to meanwhile: a server could answer at once by sending nothing else.
    downloads: Tally,
}

impl Default for Tallies {
    fn default() -> Self {
        let table = |title: &str| Table::new(title, "ms", Better::Less).against(AXIS, "", false);
        Self {
            median: table("Wait for a small answer: median"),
            late: table("Wait for a small answer: 99th percentile"),
            downloads: Tally::new("Throughput of the downloads", Counted::Bytes).against(AXIS, "", false),
        }
    }
}

impl Tallies {
    /// Takes a sample; one failure spoils it. Returns what it came to, in words.
    fn take(&mut self, target: &Target, case: &Case, downloads: u32, sample: Sample<Brought>) -> String {
        if let Some(error) = sample.error() {
            return self.fail(target, case, Failure::of(case.phase, error));
        }
        let (waits_ms, moved) = parted(sample);
        let (Some(middle), Some(late)) = (Summary::of(&waits_ms), late(&waits_ms)) else {
            let words = "no question was answered in the time";
            return self.fail(
                target,
                case,
                Failure::new(case.phase, words, "give more time with --during"),
            );
        };
        let add = |table: &mut Table, wait_ms| table.row(&target.name, &case.label, &case.parameters).add(wait_ms);
        add(&mut self.median, middle.median);
        add(&mut self.late, late);
        let words = format!(
            "median {} ms, 99th percentile {} ms",
            view::figure(middle.median),
            view::figure(late)
        );
        if downloads == 0 {
            return words;
        }
        let beside = Case {
            label: format!("GET {}", target.protocol()),
            ..case.clone()
        };
        format!("{words}, {}", self.downloads.take(target, &beside, &moved))
    }

    fn fail(&mut self, target: &Target, case: &Case, failure: Failure) -> String {
        let words = format!("failed: {failure}");
        self.median
            .row(&target.name, &case.label, &case.parameters)
            .fail(failure);
        words
    }

    fn has_failed(&self, target: &Target, case: &Case) -> bool {
        self.median.has_failed(&target.name, &case.label, &case.parameters)
    }

    fn tables(self) -> Vec<Table> {
        let mut tables = vec![self.median, self.late];
        tables.extend(self.downloads.tables());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }
}

/// The waits of all answers, and the sample of the downloads.
fn parted(sample: Sample<Brought>) -> (Vec<f64>, Sample<u64>) {
    let mut waits_ms = Vec::new();
    let mut results = Vec::new();
    for result in sample.results {
        match result {
            Ok(Brought::WaitsMs(waits)) => waits_ms.extend(waits),
            Ok(Brought::Bytes(bytes)) => results.push(Ok(bytes)),
            Err(error) => results.push(Err(error)),
        }
    }
    let moved = Sample {
        results,
        seconds: sample.seconds,
        server_cpu_s: sample.server_cpu_s,
    };
    (waits_ms, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_left_out_of_the_late_ones() {
        let waits = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(late(&waits(1000)), Some(990.0));
        assert_eq!(late(&waits(100)), Some(99.0));
        assert_eq!(late(&waits(99)), Some(99.0), "of fewer than a hundred the longest");
        assert_eq!(late(&waits(1)), Some(1.0));
        assert_eq!(late(&[]), None);
    }

    #[test]
    fn waits_and_bytes_are_told_apart() {
        let sample = Sample {
            results: vec![
                Ok(Brought::Bytes(3)),
                Ok(Brought::WaitsMs(vec![2.0, 1.0])),
                Ok(Brought::Bytes(4)),
            ],
            seconds: 2.0,
            server_cpu_s: Some(1.0),
        };
        let (waits_ms, moved) = parted(sample);
        assert_eq!(waits_ms, [2.0, 1.0]);
        assert_eq!(moved.done().sum::<u64>(), 7);
        assert_eq!((moved.seconds, moved.server_cpu_s), (2.0, Some(1.0)));
    }
}
