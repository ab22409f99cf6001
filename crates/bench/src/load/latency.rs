//! `latency`: throughput over long lines, against the round-trip time and the number of streams.
//!
//! A relay that delays ([`crate::relay`]) stands between this client and a server, or between the
//! two servers of a copy. It lets as much be under way as the socket buffers of this machine would
//! allow on a real line of that length, and what that comes to is stated beside each figure. A
//! sample begins without connections: what it costs over a long line to connect, to log in and to
//! open the file is a part of it.

mod buffers;
mod line;
mod moves;

use std::time::Duration;

use remote::Direction;

use super::measure::Sample;
use super::tally::{Case, Counted, Tally};
use super::third_party::{Files, Pair};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Better, Failure, Measured, Parameters, Row, Table, Value};
use buffers::Buffers;
use line::Measures;
use moves::Shelf;

/// The axis of all tables.
const AXIS: &str = "round-trip time";

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a server to this client: a file in as many ranges as there are streams.
    Get,
    /// From this client to a server: as many files as there are streams, which are as large
    /// together.
    Put,
    /// Between two servers, made by the one that fetches, or by the one that sends.
    Copy(Direction),
}

/// What may be under way in one direction of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// What the socket buffers of this machine allow.
    Buffers,
    /// So many bytes.
    Bytes(u64),
    /// As much as the relay can hold.
    Unlimited,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Which ways.
    pub ways: Vec<Way>,
    /// Between whom copies are made; downloads and uploads are measured with all targets.
    pub pairs: Vec<Pair>,
    /// Round-trip times that are added.
    pub rtts: Vec<Duration>,
    /// Numbers of streams, each a connection; 0 leaves it to the server that makes a copy.
    pub streams: Vec<u32>,
    /// What each sample moves, in bytes.
    pub size_bytes: u64,
    /// What may be under way.
    pub window: Window,
    /// Samples of each case.
    pub repetitions: u32,
}

/// Who is measured.
#[derive(Debug)]
enum Party<'a> {
    One(&'a Target, Box<std::result::Result<Shelf, Failure>>),
    Two(&'a Pair, Box<std::result::Result<Files, Failure>>),
}

impl Party<'_> {
    /// As tables name it, with the processes that count.
    fn target(&self) -> Target {
        match self {
            Self::One(target, _) => (*target).clone(),
            Self::Two(pair, _) => pair.together(),
        }
    }

    fn has_way(&self, way: Way) -> bool {
        match (self, way) {
            (Self::One(..), Way::Get | Way::Put) => true,
            (Self::Two(pair, _), Way::Copy(direction)) => pair.has_way(direction),
            _ => false,
        }
    }

    fn label(&self, way: Way) -> String {
        match (self, way) {
            (Self::Two(pair, _), Way::Copy(direction)) => pair.label(direction),
            (_, Way::Put) => format!("PUT {}", self.target().protocol()),
            _ => format!("GET {}", self.target().protocol()),
        }
    }
}

/// One case of all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    way: Way,
    streams: u32,
    rtt: Duration,
}

impl Shape {
    fn case(self, party: &Party<'_>) -> Case {
        let streams = match (self.streams, self.way) {
            (0, _) => "streams as the server likes".to_owned(),
            (1, _) => "1 stream".to_owned(),
            (streams, Way::Put) => format!("{streams} files at once"),
            (streams, _) => format!("{streams} streams"),
        };
        Case {
            label: format!("{}, {streams}", party.label(self.way)),
            parameters: self.parameters(),
            phase: match self.way {
                Way::Get => "GET",
                Way::Put => "PUT",
                Way::Copy(_) => "copy",
            },
        }
    }

    fn parameters(self) -> Parameters {
        let parameters = [
            (AXIS, Value::from(self.rtt.as_secs_f64() * 1e3)),
            ("streams", Value::from(self.streams)),
        ];
        Parameters::from(parameters.map(|(name, value)| (name.to_owned(), value)))
    }
}

impl Latency {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &way in &self.ways {
            // Only a server chooses by itself.
            let streams = self.streams.iter();
            for &streams in streams.filter(|streams| **streams > 0 || matches!(way, Way::Copy(_))) {
                shapes.extend(self.rtts.iter().map(|&rtt| Shape { way, streams, rtt }));
            }
        }
        shapes
    }

    fn window_bytes(&self) -> Option<u64> {
        match self.window {
            Window::Buffers => Buffers::here().map(|buffers| buffers.window_bytes()),
            Window::Bytes(bytes) => Some(bytes),
            Window::Unlimited => None,
        }
    }

    /// Who takes part, not yet looked at.
    async fn parties<'a>(&'a self, ground: &'a Ground, notes: &mut Vec<String>) -> Vec<Party<'a>> {
        let mut parties = Vec::new();
        let has = |wanted: Way| self.ways.contains(&wanted);
        if has(Way::Get) || has(Way::Put) {
            for target in &ground.targets {
                let shelf = Shelf::prepare(ground, target, self.size_bytes, has(Way::Get), has(Way::Put)).await;
                parties.push(Party::One(target, Box::new(shelf)));
            }
        }
        for pair in &self.pairs {
            let files = Files::prepare(ground, pair, 1, self.size_bytes, notes).await;
            parties.push(Party::Two(pair, Box::new(files)));
        }
        parties
    }
}

/// Measures all cases; the parties take turns, sample by sample.
pub async fn run(ground: &Ground, latency: &Latency) -> Measured {
    let mut notes = Vec::new();
    let window_bytes = latency.window_bytes();
    if let Some(buffers) = Buffers::here() {
        notes.push(buffers.words());
    }
    notes.push(match window_bytes {
        Some(bytes) => format!(
            "The relay lets {:.1} MiB of each direction of a connection be under way: with n streams, n times as much in \
             each round-trip time is what no server can exceed.",
            bytes as f64 / f64::from(1 << 20)
        ),
        None => "The relay lets any number of bytes be under way, as if socket buffers were without bounds.".to_owned(),
    });
    let mut throughput = Tally::new("Throughput over a long line", Counted::Bytes).against(AXIS, "ms", false);
    if let Some(parties) = ground.stop.or(latency.parties(ground, &mut notes)).await {
        measure(ground, latency, &parties, &mut throughput).await;
    }
    notes.dedup();
    let ceilings = ceilings(&throughput.rate, window_bytes);
    let mut tables = throughput.tables();
    tables.extend(ceilings);
    Measured {
        tables,
        curves: Vec::new(),
        notes,
    }
}

async fn measure(ground: &Ground, latency: &Latency, parties: &[Party<'_>], tally: &mut Tally) -> Option<()> {
    let shapes = latency.shapes();
    let able = |shape: &Shape| parties.iter().filter(|party| party.has_way(shape.way)).count();
    let planned: usize = shapes.iter().map(able).sum();
    ground.progress.plan(planned * latency.repetitions as usize);
    let window_bytes = latency.window_bytes();
    for shape in shapes {
        for repetition in 0..latency.repetitions {
            for party in parties.iter().filter(|party| party.has_way(shape.way)) {
                let (target, case) = (party.target(), shape.case(party));
                if tally.has_failed(&target, &case) {
                    ground.progress.skip(1);
                    continue;
                }
                let run = format!("{} of {}", repetition + 1, latency.repetitions);
                let rtt_ms = shape.rtt.as_millis();
                ground
                    .progress
                    .begin(format!("{}: {}, {rtt_ms} ms, {run}", target.name, case.label));
                let measures = Measures {
                    rtt: shape.rtt,
                    window_bytes,
                };
                let words = match sample(ground, party, shape, measures).await {
                    Ok(sample) => tally.take(&target, &case, &sample?),
                    Err(failure) => tally.fail(&target, &case, failure),
                };
                ground.progress.end(words);
            }
        }
    }
    Some(())
}

/// One sample; `None` within when the run is to end.
async fn sample(
    ground: &Ground,
    party: &Party<'_>,
    shape: Shape,
    measures: Measures,
) -> std::result::Result<Option<Sample<u64>>, Failure> {
    let streams = shape.streams;
    match (party, shape.way) {
        (Party::One(target, shelf), Way::Put) => {
            let shelf = (**shelf).as_ref().map_err(Clone::clone)?;
            moves::put(ground, target, shelf, streams, measures).await
        }
        (Party::One(target, shelf), _) => {
            let shelf = (**shelf).as_ref().map_err(Clone::clone)?;
            moves::get(ground, target, shelf, streams, measures).await
        }
        (Party::Two(pair, files), way) => {
            let files = (**files).as_ref().map_err(Clone::clone)?;
            let direction = match way {
                Way::Copy(direction) => direction,
                Way::Get | Way::Put => Direction::Pull,
            };
            moves::copy(ground, pair, files, direction, streams, measures).await
        }
    }
}

/// What the window allows in each case, and how much of that was reached. Without a window or a
/// distance there is no ceiling.
fn ceilings(throughput: &Table, window_bytes: Option<u64>) -> Vec<Table> {
    let ceiling = Table::new("What the window allows", "Gbit/s", Better::More);
    let reached = Table::new("Share of what the window allows", "%", Better::More);
    let [mut ceiling, mut reached] = [ceiling, reached].map(|table| table.against(AXIS, "ms", false));
    for row in &throughput.rows {
        let Some(allowed) = allowed_gbit(row, window_bytes) else {
            continue;
        };
        let streams = row.parameters.get("streams").and_then(Value::number).unwrap_or(1.0);
        let label = match streams {
            1.0 => "1 stream".to_owned(),
            streams => format!("{streams} streams"),
        };
        let stated = ceiling.row("any server", &label, &row.parameters);
        if stated.samples.is_empty() {
            stated.add(allowed);
        }
        let share = reached.row(&row.target, &row.label, &row.parameters);
        row.samples
            .iter()
            .for_each(|sample| share.add(sample / allowed * 100.0));
    }
    reached.rows.retain(|row| !row.samples.is_empty());
    let tables = [ceiling, reached].into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn allowed_gbit(row: &Row, window_bytes: Option<u64>) -> Option<f64> {
    let number = |name: &str| {
        row.parameters
            .get(name)
            .and_then(Value::number)
            .filter(|number| *number > 0.0)
    };
    let (rtt_ms, streams) = (number(AXIS)?, number("streams")?);
    Some(window_bytes? as f64 * streams * 8e-9 / (rtt_ms / 1e3))
}

#[cfg(test)]
mod tests;
