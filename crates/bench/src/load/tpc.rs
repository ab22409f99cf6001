//! `tpc`: many copies between two servers at once, which one of the two makes, with as many as
//! wanted under way all the time, and the rate of all of them together over time as the servers'
//! markers tell it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remote::{Client, Direction};
use tokio::task::JoinSet;
use types::Error;

use super::measure::{Sample, server_cpu};
use super::peak::Peaks;
use super::tally::{Case, Counted, Tally};
use super::third_party::{Files, Ordered, Pair};
use super::timeline::Timeline;
use crate::Ground;
use crate::ground::Target;
use crate::report::view::figure;
use crate::report::{Better, Curve, Failure, Measured, Parameters, Summary, Table, Value};

/// Copies that fail one after the other before a place among those under way is given up.
const MISSES_MAX: u32 = 3;
/// How often a long measurement reports its progress.
const TELL_PERIOD: Duration = Duration::from_secs(5);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Tpc {
    /// Between whom.
    pub pairs: Vec<Pair>,
    /// Which of both is asked: who fetches, or who sends.
    pub ways: Vec<Direction>,
    /// Numbers of copies that are under way at the same time.
    pub concurrency: Vec<u32>,
    /// Numbers of streams that each copy is asked to take; 0 leaves it to the server.
    pub streams: Vec<u32>,
    /// Size of each file, in bytes.
    pub size_bytes: u64,
    /// How many different files are copied.
    pub files: u32,
    /// For how long a sample begins new copies; each place makes at least one.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// One case of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    way: Direction,
    streams: u32,
    concurrency: u32,
}

impl Shape {
    fn case(self, pair: &Pair) -> Case {
        let mut label = pair.label(self.way);
        match self.streams {
            0 => label.push_str(", streams as the server likes"),
            1 => {}
            streams => label.push_str(&format!(", {streams} streams")),
        }
        let parameters = [
            ("concurrency", Value::from(self.concurrency)),
            ("streams", Value::from(self.streams)),
        ];
        Case {
            label,
            parameters: Parameters::from(parameters.map(|(name, value)| (name.to_owned(), value))),
            phase: "copy",
        }
    }
}

impl Tpc {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &way in &self.ways {
            for &streams in &self.streams {
                shapes.extend(self.concurrency.iter().map(|&concurrency| Shape {
                    way,
                    streams,
                    concurrency,
                }));
            }
        }
        shapes
    }
}

/// Measures all cases; the pairs take turns, sample by sample.
pub async fn run(ground: &Ground, tpc: &Tpc) -> Measured {
    let mut tables = Tables::new();
    let planned: usize = tpc.shapes().iter().map(|shape| able(tpc, *shape).count()).sum();
    ground.progress.plan(planned * tpc.repetitions as usize);
    measure(ground, tpc, &mut tables).await;
    let is_unable = tpc
        .pairs
        .iter()
        .any(|pair| tpc.ways.iter().any(|way| !pair.has_way(*way)));
    if is_unable {
        let words = "Servers of the XRootD protocol only fetch: there is no push from them.";
        tables.notes.push(words.to_owned());
    }
    tables.finish()
}

fn able(tpc: &Tpc, shape: Shape) -> impl Iterator<Item = (usize, &Pair)> {
    tpc.pairs
        .iter()
        .enumerate()
        .filter(move |(_, pair)| pair.has_way(shape.way))
}

async fn measure(ground: &Ground, tpc: &Tpc, tables: &mut Tables) -> Option<()> {
    let mut prepared = Vec::new();
    for pair in &tpc.pairs {
        let preparing = Files::prepare(ground, pair, tpc.files as usize, tpc.size_bytes, &mut tables.notes);
        prepared.push(ground.stop.or(preparing).await?);
    }
    for shape in tpc.shapes() {
        for repetition in 0..tpc.repetitions {
            for (number, pair) in able(tpc, shape) {
                if ground.stop.is_set() {
                    return None;
                }
                let case = shape.case(pair);
                if tables.is_hopeless(pair, &case) {
                    ground.progress.skip(1);
                    continue;
                }
                let run = format!("{} of {}", repetition + 1, tpc.repetitions);
                let label = format!("{}: {}, {} at once, {run}", pair.name(), case.label, shape.concurrency);
                ground.progress.begin(label);
                let words = match &prepared[number] {
                    Ok(files) => {
                        let level = level(ground, tpc.duration, pair, files, shape).await;
                        tables.take(pair, &case, shape, level)
                    }
                    Err(failure) => tables.throughput.fail(&pair.together(), &case, failure.clone()),
                };
                ground.progress.end(words);
            }
        }
    }
    Some(())
}

/// The result of one sample, complete or until it was stopped.
#[derive(Debug)]
struct Level {
    /// Until the last copy ended, or until the wish to stop.
    seconds: f64,
    moved_bytes: u64,
    /// How long each copy took that went well, in seconds.
    times: Vec<f64>,
    failures: Vec<Failure>,
    cpu_s: Option<f64>,
    peaks: Peaks,
    rates: Vec<(f64, f64)>,
    is_whole: bool,
}

/// What the places of a level share.
#[derive(Debug)]
struct Board {
    timeline: Timeline,
    duration: Duration,
    ended: Mutex<Ended>,
}

/// What has ended so far.
#[derive(Debug, Default)]
struct Ended {
    times: Vec<f64>,
    failures: Vec<Failure>,
    moved_bytes: u64,
    /// When the last one did.
    at_s: f64,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copied(&self, began_s: f64, bytes: u64) {
        let now = self.timeline.elapsed_s();
        let mut ended = self.lock();
        ended.times.push(now - began_s);
        ended.moved_bytes += bytes;
        ended.at_s = now;
    }

    fn failed(&self, phase: &str, error: &Error) {
        let now = self.timeline.elapsed_s();
        let mut ended = self.lock();
        ended.failures.push(Failure::of(phase, error));
        ended.at_s = now;
    }
}

/// One place among those under way: makes one copy after the other, and removes each.
struct Lane {
    client: Client,
    ordered: Ordered,
    board: Arc<Board>,
}

impl Lane {
    async fn run(self) {
        let mut misses = 0;
        let mut is_first = true;
        while misses < MISSES_MAX {
            match self.copy(is_first).await {
                true => misses = 0,
                false => misses += 1,
            }
            is_first = false;
            let removed = self.client.delete(&self.ordered.target).await;
            if let Err(error) = removed
                && misses == 0
            {
                self.board.failed("removal of a copy", &error);
            }
            if self.board.timeline.elapsed_s() >= self.board.duration.as_secs_f64() {
                break;
            }
        }
    }

    /// Makes one copy; returns whether it went well.
    async fn copy(&self, is_first: bool) -> bool {
        let began_s = self.board.timeline.elapsed_s();
        if let Err(error) = self.ordered.make(&self.client, &self.board.timeline).await {
            self.board.failed("copy", &error);
            return false;
        }
        self.board.copied(began_s, self.ordered.size_bytes());
        if !is_first {
            return true;
        }
        match self.ordered.check_size(&self.client).await {
            Ok(()) => true,
            Err(error) => {
                self.board.failed("looking at the copy", &error);
                false
            }
        }
    }
}

async fn level(ground: &Ground, duration: Duration, pair: &Pair, files: &Files, shape: Shape) -> Level {
    let board = Arc::new(Board {
        timeline: Timeline::start(),
        duration,
        ended: Mutex::default(),
    });
    let mut lanes = JoinSet::new();
    let both = pair.together();
    let before = server_cpu(&both);
    for number in 0..shape.concurrency {
        let target = ground.file(&files.directory, &format!("copy-{number}"));
        let source = &files.sources[number as usize % files.sources.len()];
        let lane = Lane {
            client: ground.new_client(),
            ordered: files.order(shape.way, source, &target, shape.streams),
            board: Arc::clone(&board),
        };
        lanes.spawn(lane.run());
    }
    let mut peaks = Peaks::of(pair);
    let gather = async {
        while let Some(joined) = lanes.join_next().await {
            if let Err(cause) = joined {
                // A fault of this program must be seen.
                std::panic::resume_unwind(cause.into_panic());
            }
        }
    };
    let watched = async {
        tokio::select! {
            () = gather => {}
            () = peaks.watch() => {}
            () = tell(ground, &board) => {}
        }
    };
    let is_whole = ground.stop.or(watched).await.is_some();
    // Copies that are under way lose their connections, and the servers give them up.
    lanes.shutdown().await;
    let cpu_s = before.and_then(|before| Some(server_cpu(&both)? - before));
    summed_up(&board, cpu_s, peaks, is_whole)
}

/// Tells now and then how far a level is.
async fn tell(ground: &Ground, board: &Board) {
    loop {
        tokio::time::sleep(TELL_PERIOD).await;
        let (copies, failures) = {
            let ended = board.lock();
            (ended.times.len(), ended.failures.len())
        };
        let rate = gbit(board.timeline.moved_bytes() as f64 / board.timeline.elapsed_s());
        let words = format!("{copies} copies so far, {failures} failures, {} Gbit/s", figure(rate));
        ground.progress.aside(words);
    }
}

fn summed_up(board: &Board, cpu_s: Option<f64>, peaks: Peaks, is_whole: bool) -> Level {
    let mut ended = std::mem::take(&mut *board.lock());
    if !is_whole {
        ended.at_s = board.timeline.elapsed_s();
        ended.moved_bytes = board.timeline.moved_bytes();
    }
    Level {
        seconds: ended.at_s,
        moved_bytes: ended.moved_bytes,
        times: ended.times,
        failures: ended.failures,
        cpu_s,
        peaks,
        rates: board.timeline.rates(),
        is_whole,
    }
}

fn gbit(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8e-9
}

/// All that is measured.
struct Tables {
    throughput: Tally,
    time: Table,
    memory: Table,
    curves: Vec<Curve>,
    notes: Vec<String>,
}

impl Tables {
    fn new() -> Self {
        let time = Table::new("Time of one copy, the median", "s", Better::Less);
        let memory = Table::new("Peak of resident memory", "MiB", Better::Less);
        Self {
            throughput: Tally::new("Throughput of copies", Counted::Bytes).against("concurrency", "", true),
            time: time.against("concurrency", "", true),
            memory: memory.against("concurrency", "", true),
            curves: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether this case brought nothing but failures: it is not tried again.
    fn is_hopeless(&self, pair: &Pair, case: &Case) -> bool {
        let is_it = |row: &&crate::report::Row| {
            row.target == pair.name() && row.label == case.label && row.parameters == case.parameters
        };
        let row = self.throughput.rate.rows.iter().find(is_it);
        row.is_some_and(|row| row.samples.is_empty() && !row.failures.is_empty())
    }

    /// Takes a sample. Returns what it came to, in words.
    fn take(&mut self, pair: &Pair, case: &Case, shape: Shape, level: Level) -> String {
        let (name, both) = (pair.name(), pair.together());
        let (copies, failed) = (level.times.len(), level.failures.len());
        self.add_curve(&name, case, shape, &level.rates);
        // Of a level that was interrupted, a figure is kept when its places had each made a copy.
        let is_early = !level.is_whole && copies < shape.concurrency as usize;
        let so_far = gbit(level.moved_bytes as f64 / level.seconds);
        let mut words = match copies {
            _ if is_early => format!("interrupted at {} Gbit/s, {copies} copies", figure(so_far)),
            0 => "no copy went well".to_owned(),
            _ => {
                self.add_memory(pair, case, &level.peaks);
                if let Some(summary) = Summary::of(&level.times) {
                    let row = self.time.row(&name, &case.label, &case.parameters);
                    row.add(summary.median);
                }
                let sample = Sample {
                    results: vec![Ok(level.moved_bytes)],
                    seconds: level.seconds,
                    server_cpu_s: level.cpu_s,
                };
                let rate = self.throughput.take(&both, case, &sample);
                format!("{rate}, {copies} copies")
            }
        };
        if let Some(first) = level.failures.first() {
            words.push_str(&format!(", {failed} failures, the first: {first}"));
        }
        for failure in level.failures {
            self.throughput.fail(&both, case, failure);
        }
        words
    }

    /// The first sample of a case is drawn.
    fn add_curve(&mut self, name: &str, case: &Case, shape: Shape, rates: &[(f64, f64)]) {
        let curve = Curve {
            title: format!("Rate over time, {} at once", shape.concurrency),
            target: name.to_owned(),
            label: case.label.clone(),
            unit: "Gbit/s".to_owned(),
            points: rates.iter().map(|(at, rate)| (*at, gbit(*rate))).collect(),
        };
        let is_same =
            |known: &Curve| known.title == curve.title && known.target == curve.target && known.label == curve.label;
        if !rates.is_empty() && !self.curves.iter().any(is_same) {
            self.curves.push(curve);
        }
    }

    fn add_memory(&mut self, pair: &Pair, case: &Case, peaks: &Peaks) {
        const MIB: f64 = (1 << 20) as f64;
        for (side, bytes) in peaks.by_side() {
            let label = format!("{}, {side}", case.label);
            let row = self.memory.row(&pair.name(), &label, &case.parameters);
            row.add(bytes as f64 / MIB);
        }
    }

    fn finish(mut self) -> Measured {
        self.notes.dedup();
        let mut tables = self.throughput.tables();
        tables.extend([self.time, self.memory]);
        tables.retain(|table| !table.rows.is_empty());
        Measured {
            tables,
            curves: self.curves,
            notes: self.notes,
        }
    }
}

/// The pairs of targets that stand one behind the other: from the first to the second, from the
/// third to the fourth. `None` when one is left over.
#[must_use]
pub fn pairs(targets: &[Target]) -> Option<Vec<Pair>> {
    let (pairs, rest) = targets.as_chunks::<2>();
    let pair = |[source, destination]: &[Target; 2]| Pair {
        source: source.clone(),
        destination: destination.clone(),
    };
    (rest.is_empty() && !pairs.is_empty()).then(|| pairs.iter().map(pair).collect())
}

#[cfg(test)]
mod tests;
