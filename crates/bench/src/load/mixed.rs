//! `mixed`: small requests beside large downloads and uploads. People notice a busy server first by
//! the wait for small requests, which no rate shows.

use std::time::Duration;

use remote::{Client, ClientOptions, GetOptions, PutOptions, Resource};
use tokio::time::{Instant, sleep};
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use super::bulk::{self, Bulk, Files, Way};
use super::data::{self, Content};
use super::measure::{Sample, together};
use super::tally::{Case, Counted, Tally};
use crate::ground::Target;
use crate::report::{Better, Failure, Measured, Parameters, Summary, Table, Value, view};
use crate::{Ground, Stop};

/// How long the transfers run before the first question, so that all of them have begun.
const LEAD: Duration = Duration::from_millis(300);
/// Between an answer and the next question: the questions are to measure the load, not to be it.
const PAUSE: Duration = Duration::from_millis(5);
/// Most storage that all uploads together take: each replaces the same file again and again, so it
/// may be twice that for a moment.
const UPLOADS_BYTES_MAX: u64 = 2 << 30;
/// The least that one of them has, however many there are.
const UPLOAD_BYTES_MIN: u64 = 16 << 20;
/// One in so many answers, those that came latest, are left out of the second table.
const LATE_ONE_IN: usize = 100;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Beside what is asked, one after the other.
    pub ways: Vec<Way>,
    /// Numbers of transfers, each on a connection of its own, that run beside the questions; 0 is a
    /// server at rest.
    pub transfers: Vec<u32>,
    /// Size of each file, in bytes; that of many uploads is smaller, see [`Mixed::upload_bytes`].
    pub size_bytes: u64,
    /// For how long each sample asks.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// Measures all cases; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, mixed: &Mixed) -> Measured {
    let mut tallies: Vec<Tallies> = mixed.ways.iter().map(|way| Tallies::new(*way)).collect();
    let samples = mixed.transfers.len() * ground.targets.len() * mixed.repetitions as usize;
    ground.progress.plan(samples * tallies.len());
    measure(ground, mixed, &mut tallies).await;
    Measured {
        tables: tallies.into_iter().flat_map(Tallies::tables).collect(),
        ..Measured::default()
    }
}

async fn measure(ground: &Ground, mixed: &Mixed, tallies: &mut [Tallies]) -> Option<()> {
    let content = Content::default();
    let bulk = mixed.as_bulk();
    let mut shelves = Vec::new();
    for target in &ground.targets {
        shelves.push(ground.stop.or(bulk::prepare(ground, &bulk, target, &content)).await?);
    }
    for tallies in tallies {
        for &transfers in &mixed.transfers {
            measure_case(ground, mixed, &shelves, &content, tallies, transfers).await?;
        }
    }
    Some(())
}

/// All samples beside so many transfers of one way.
async fn measure_case(
    ground: &Ground,
    mixed: &Mixed,
    shelves: &[Files],
    content: &Content,
    tallies: &mut Tallies,
    transfers: u32,
) -> Option<()> {
    for repetition in 0..mixed.repetitions {
        for (number, (target, shelf)) in ground.targets.iter().zip(shelves).enumerate() {
            let case = tallies.case(target, transfers);
            if tallies.has_failed(target, &case) {
                ground.progress.skip(1);
                continue;
            }
            let run = format!("{} of {}", repetition + 1, mixed.repetitions);
            let beside = tallies.way.words();
            ground.progress.begin(format!(
                "{}: {}, {beside} beside it: {transfers}, {run}",
                target.name, case.label
            ));
            // Targets may be one server over two protocols.
            let mark = format!("{number}-{transfers}-{repetition}");
            let words = match mixed.jobs(ground, tallies.way, transfers, shelf, &mark) {
                Err(failure) => tallies.fail(target, &case, failure),
                Ok((file, jobs)) => {
                    let sample = sample(ground, mixed, target, &file, jobs, content).await?;
                    tallies.take(target, &case, transfers, sample)
                }
            };
            ground.progress.end(words);
        }
    }
    Some(())
}

impl Way {
    /// What goes this way, in words and as the axis of the tables.
    fn words(self) -> &'static str {
        match self {
            Self::Get => "downloads",
            Self::Put => "uploads",
        }
    }
}

impl Mixed {
    /// What the files to read are made for.
    fn as_bulk(&self) -> Bulk {
        Bulk {
            ways: vec![Way::Get],
            // Who asks beside no transfer needs a file too.
            connections: vec![self.transfers.iter().copied().max().unwrap_or(0).max(1)],
            streams: vec![1],
            size_bytes: self.size_bytes,
            volume_bytes: 0,
            repetitions: self.repetitions,
        }
    }

    /// Size of each of so many uploads: together they take at most 2 GiB of the storage, unless
    /// they would be smaller than 16 MiB.
    #[must_use]
    pub fn upload_bytes(&self, uploads: u32) -> u64 {
        let share = UPLOADS_BYTES_MAX / u64::from(uploads).max(1);
        self.size_bytes.min(share.max(UPLOAD_BYTES_MIN))
    }

    /// The file that is asked about, and what runs beside the questions. The sample's mark is part
    /// of the names of uploads: an upload broken off at the end of a sample may still be open when
    /// the next one begins, and XRootD refuses other writers of an open file.
    fn jobs(
        &self,
        ground: &Ground,
        way: Way,
        transfers: u32,
        shelf: &Files,
        mark: &str,
    ) -> std::result::Result<(Resource, Vec<Transfer>), Failure> {
        let (files, _) = shelf.read.as_ref().map_err(Clone::clone)?;
        let transfer = |number: u32| {
            let (file, upload_bytes) = match way {
                Way::Get => (files[number as usize % files.len()].clone(), None),
                Way::Put => {
                    let file = ground.file(shelf.directory()?, &format!("put-{mark}-{number}"));
                    (file, Some(self.upload_bytes(transfers)))
                }
            };
            let client = ground.new_client();
            Ok(Transfer {
                client,
                file,
                upload_bytes,
            })
        };
        let transfers = (0..transfers)
            .map(transfer)
            .collect::<std::result::Result<_, Failure>>()?;
        Ok((files[0].clone(), transfers))
    }
}

/// What a worker of a sample comes back with.
#[derive(Clone, Debug, PartialEq)]
enum Brought {
    /// Bytes that a transfer moved.
    Bytes(u64),
    /// How long each answer took, in milliseconds.
    WaitsMs(Vec<f64>),
}

/// A file that is moved again and again.
struct Transfer {
    client: Client,
    file: Resource,
    /// How long it is, if it is uploaded.
    upload_bytes: Option<u64>,
}

/// One sample; `None` when the run is to end.
async fn sample(
    ground: &Ground,
    mixed: &Mixed,
    target: &Target,
    file: &Resource,
    transfers: Vec<Transfer>,
    content: &Content,
) -> Option<Sample<Brought>> {
    let uploads = transfers.iter().filter(|transfer| transfer.upload_bytes.is_some());
    let uploads: Vec<Resource> = uploads.map(|transfer| transfer.file.clone()).collect();
    let targets = transfers.iter().map(|transfer| (&transfer.client, &transfer.file));
    ground.stop.or(bulk::warm_up(targets)).await?;
    let over = Stop::default();
    let question_loop = QuestionLoop {
        options: ground.client_options().clone(),
        file: file.clone(),
        duration: mixed.duration,
        over: over.clone(),
    };
    let mut workers = vec![Worker::Ask(question_loop)];
    workers.extend(
        transfers
            .into_iter()
            .map(|transfer| Worker::Move(transfer, content.clone(), over.clone())),
    );
    let sample = together(target, &ground.stop, workers.into_iter().map(Worker::work).collect()).await;
    let client = ground.new_client();
    for file in &uploads {
        // They stay known, to be removed at the end too: the server may have the opening of one
        // that was broken off still before it.
        let _ = ground.stop.or(client.delete(file)).await;
    }
    sample
}

enum Worker {
    Move(Transfer, Content, Stop),
    Ask(QuestionLoop),
}

impl Worker {
    async fn work(self) -> Result<Brought> {
        match self {
            Self::Move(transfer, content, over) => transfer.repeat(&content, &over).await.map(Brought::Bytes),
            Self::Ask(question_loop) => question_loop.ask_apart().await.map(Brought::WaitsMs),
        }
    }
}

impl Transfer {
    /// Again and again until the questions are over; the last one is broken off then, because its
    /// rest would be beside nothing.
    async fn repeat(&self, content: &Content, over: &Stop) -> Result<u64> {
        let mut bytes = 0;
        while !over.is_set() {
            match self.upload_bytes {
                None => self.download(&mut bytes, over).await?,
                Some(size_bytes) => self.upload(&mut bytes, size_bytes, content, over).await?,
            }
        }
        Ok(bytes)
    }

    async fn download(&self, bytes: &mut u64, over: &Stop) -> Result<()> {
        let mut download = self.client.get(&self.file, &GetOptions::default()).await?;
        while !over.is_set()
            && let Some(batch) = download.next().await?
        {
            *bytes += batch.len() as u64;
        }
        Ok(())
    }

    async fn upload(&self, bytes: &mut u64, size_bytes: u64, content: &Content, over: &Stop) -> Result<()> {
        let options = PutOptions {
            size_bytes: Some(size_bytes),
            overwrite: true,
            ..PutOptions::default()
        };
        let mut outlet = self.client.put(&self.file, &options).await?;
        let mut left = ByteRange::new(0, size_bytes);
        while !left.is_empty() {
            if over.is_set() {
                return Ok(());
            }
            let sent = data::send_some(&mut outlet, left, content).await?;
            left.take_front(sent);
            *bytes += sent;
        }
        outlet.finish().await.map(drop)
    }
}

/// Asks small questions beside the transfers, one after the other.
struct QuestionLoop {
    options: ClientOptions,
    file: Resource,
    duration: Duration,
    /// Set when the questions are over, which ends the transfers; dropping this sets it
    /// too.
    over: Stop,
}

impl Drop for QuestionLoop {
    fn drop(&mut self) {
        self.over.set();
    }
}

impl QuestionLoop {
    /// Asks on a thread that does nothing else, with a connection of its own: beside the transfers
    /// of this client, their handling here would be a part of each wait.
    async fn ask_apart(self) -> Result<Vec<f64>> {
        let (options, file) = (self.options.clone(), self.file.clone());
        let (duration, over) = (self.duration, self.over.clone());
        let thread = execution::blocking(move || {
            let runtime = execution::single_thread_runtime();
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

/// Sends requests for as long as the sample takes, at least one. The last answer is waited for: it
/// is the longest wait of all.
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

/// The wait that all but one in a hundred answers keep, by nearest rank: the longest of fewer than
/// a hundred.
fn late(waits_ms: &[f64]) -> Option<f64> {
    let mut sorted = waits_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let left_out = sorted.len() / LATE_ONE_IN;
    sorted.get(sorted.len().checked_sub(1 + left_out)?).copied()
}

/// The tables of one way.
struct Tallies {
    way: Way,
    median: Table,
    late: Table,
    /// What the transfers came to meanwhile: a server could answer at once by moving nothing else.
    transfers: Tally,
}

impl Tallies {
    fn new(way: Way) -> Self {
        let axis = way.words();
        let of = match way {
            Way::Get => "",
            Way::Put => " beside uploads",
        };
        let table = |title: &str| {
            let title = format!("Wait for a small answer{of}: {title}");
            Table::new(&title, "ms", Better::Less).against(axis, "", false)
        };
        Self {
            way,
            median: table("median"),
            late: table("99th percentile"),
            transfers: Tally::new(&format!("Throughput of the {axis}"), Counted::Bytes).against(axis, "", false),
        }
    }

    fn case(&self, target: &Target, transfers: u32) -> Case {
        let question = match target.place.location.is_xrootd() {
            true => "stat",
            false => "HEAD",
        };
        Case {
            label: format!("{question} {}", target.protocol()),
            parameters: Parameters::from([(self.way.words().to_owned(), Value::from(transfers))]),
            phase: match self.way {
                Way::Get => "asking beside downloads",
                Way::Put => "asking beside uploads",
            },
        }
    }

    /// Takes a sample; one failure spoils it. Returns what it came to, in words.
    fn take(&mut self, target: &Target, case: &Case, transfers: u32, sample: Sample<Brought>) -> String {
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
        if transfers == 0 {
            return words;
        }
        let beside = Case {
            label: format!("{} {}", self.way.name(), target.protocol()),
            ..case.clone()
        };
        format!("{words}, {}", self.transfers.take(target, &beside, &moved))
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
        tables.extend(self.transfers.tables());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }
}

/// The waits of all answers, and the sample of the transfers.
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
    fn many_uploads_are_smaller() {
        let mixed = Mixed {
            ways: vec![Way::Put],
            transfers: Vec::new(),
            size_bytes: 256 << 20,
            duration: PAUSE,
            repetitions: 1,
        };
        let sizes = [0, 1, 8, 16, 64, 128, 4096].map(|uploads| mixed.upload_bytes(uploads) >> 20);
        assert_eq!(sizes, [256, 256, 256, 128, 32, 16, 16]);
        let small = Mixed { size_bytes: 5, ..mixed };
        assert_eq!(small.upload_bytes(4096), 5);
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
