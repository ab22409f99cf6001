//! `vector`: many small pieces of one file in each request, as programs that analyse data read
//! them, over HTTP (requests for several ranges) and the XRootD protocol (vector reads).

mod pattern;

use std::sync::Arc;
use std::time::{Duration, Instant};

use remote::{Ranges, Resource};
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use super::data::{self, Content};
use super::measure::{Sample, together};
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Measured, Parameters, Value};
pub use pattern::Pattern;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Vector {
    /// What is read.
    pub pattern: Pattern,
    /// Numbers of connections. Each connection reads the whole pattern, one request after the
    /// other.
    pub connections: Vec<u32>,
    /// For how long a sample begins new requests; each connection makes at least one.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// The file of a target.
struct Shelf {
    file: Resource,
    /// With what its pieces are compared; a file that others made is not known.
    content: Option<Content>,
}

/// What one connection read.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    bytes: u64,
    requests: u64,
}

/// Measures all cases; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, vector: &Vector) -> Measured {
    let mut tallies = Tallies {
        bytes: Tally::new("Vector reads", Counted::Pieces).against("connections", "", true),
        requests: Tally::new("Requests of vector reads", Counted::Requests).against("connections", "", true),
    };
    let samples = vector.connections.len() * ground.targets.len();
    ground.progress.plan(samples * vector.repetitions as usize);
    measure(ground, vector, &mut tallies).await;
    let mut notes = vec![vector.pattern.words()];
    let unknown: Vec<&str> = ground
        .targets
        .iter()
        .filter(|target| target.file.is_some())
        .map(|target| target.name.as_str())
        .collect();
    notes.push(match unknown.as_slice() {
        [] => "Every byte was compared with what had been stored.".to_owned(),
        names => format!(
            "What came from {} was counted and not compared: its content is not known.",
            names.join(", ")
        ),
    });
    let mut tables = tallies.bytes.tables();
    tables.extend(tallies.requests.tables());
    Measured {
        tables,
        curves: Vec::new(),
        notes,
    }
}

async fn measure(ground: &Ground, vector: &Vector, tallies: &mut Tallies) -> Option<()> {
    let mut shelves = Vec::new();
    for target in &ground.targets {
        shelves.push(ground.stop.or(prepare(ground, vector, target)).await?);
    }
    for &connections in &vector.connections {
        for repetition in 0..vector.repetitions {
            for (target, shelf) in ground.targets.iter().zip(&shelves) {
                let case = case(target, vector, connections);
                if tallies.bytes.has_failed(target, &case) {
                    ground.progress.skip(1);
                    continue;
                }
                let run = format!("{} of {}", repetition + 1, vector.repetitions);
                let label = format!("{}: {}, {connections} connections, {run}", target.name, case.label);
                ground.progress.begin(label);
                let words = match shelf {
                    Ok(shelf) => match sample(ground, vector, target, shelf, connections).await? {
                        Ok(sample) => tallies.take(target, &case, sample),
                        Err(error) => tallies
                            .bytes
                            .fail(target, &case, Failure::of("opening the file", &error)),
                    },
                    Err(failure) => tallies.bytes.fail(target, &case, failure.clone()),
                };
                ground.progress.end(words);
            }
        }
    }
    Some(())
}

fn case(target: &Target, vector: &Vector, connections: u32) -> Case {
    let requests = vector.pattern.requests();
    let pieces: usize = requests.iter().map(Vec::len).sum();
    let parameters = [
        ("connections", Value::from(connections)),
        (
            "pieces in a request, on average",
            Value::from((pieces as f64 / requests.len() as f64).round()),
        ),
    ];
    Case {
        label: format!("vector reads {}", target.protocol()),
        parameters: Parameters::from(parameters.map(|(name, value)| (name.to_owned(), value))),
        phase: "vector read",
    }
}

/// Tables of bytes and of requests.
struct Tallies {
    bytes: Tally,
    requests: Tally,
}

impl Tallies {
    fn take(&mut self, target: &Target, case: &Case, sample: Sample<Read>) -> String {
        let requests: Vec<Result<u64>> = sample.done().map(|read| Ok(read.requests)).collect();
        let is_whole = sample.error().is_none();
        let counted = |results| Sample {
            results,
            seconds: sample.seconds,
            server_cpu_s: sample.server_cpu_s,
        };
        let requests = counted(requests);
        let bytes = Sample {
            results: sample.results.into_iter().map(|read| Ok(read?.bytes)).collect(),
            ..counted(Vec::new())
        };
        if is_whole {
            self.requests.take(target, case, &requests);
        }
        self.bytes.take(target, case, &bytes)
    }
}

/// Makes the file, unless the target names one of its own, which must be large enough.
async fn prepare(ground: &Ground, vector: &Vector, target: &Target) -> std::result::Result<Shelf, Failure> {
    let needed_bytes = vector.pattern.end();
    if let Some(file) = &target.file {
        let looking = "looking at the file to read";
        let facts = ground.new_client().head(file, &[]).await;
        let size_bytes = facts.map_err(|error| Failure::of(looking, &error))?.size_bytes;
        if size_bytes.is_some_and(|size_bytes| size_bytes < needed_bytes) {
            let words = format!("the pattern needs a file of {needed_bytes} bytes, and this one is shorter");
            return Err(Failure::new(looking, words, "give a smaller --size, or another --file"));
        }
        return Ok(Shelf {
            file: file.clone(),
            content: None,
        });
    }
    let advice = "give --file URL to read a file that is there";
    let directory = ground.directory(target, "vector").await;
    let directory = directory.map_err(|error| Failure::of("making a directory for the run", &error).advised(advice))?;
    let file = ground.file(&directory, "pieces");
    ground.progress.aside(format!("{}: making a file to read", target.name));
    let content = Content::default();
    let stored = data::upload(&ground.new_client(), &file, needed_bytes, true, &content).await;
    stored.map_err(|error| Failure::of("upload of the file to read", &error).advised(advice))?;
    Ok(Shelf {
        file,
        content: Some(content),
    })
}

/// One sample; `None` when the run is to end, an error when the file cannot be opened.
async fn sample(
    ground: &Ground,
    vector: &Vector,
    target: &Target,
    shelf: &Shelf,
    connections: u32,
) -> Option<Result<Sample<Read>>> {
    let requests: Arc<[Vec<ByteRange>]> = vector.pattern.requests().into();
    let mut workers = Vec::new();
    for number in 0..u64::from(connections) {
        let opened = match ground.stop.or(ground.new_client().open_ranges(&shelf.file)).await? {
            Ok(opened) => opened,
            Err(error) => return Some(Err(error)),
        };
        workers.push(Reader {
            opened,
            requests: Arc::clone(&requests),
            // Otherwise all of them would want the same pieces at the same time.
            first: (number * requests.len() as u64 / u64::from(connections)) as usize,
            duration: vector.duration,
            content: shelf.content.clone(),
        });
    }
    let workers = workers.into_iter().map(Reader::run).collect();
    together(target, &ground.stop, workers).await.map(Ok)
}

/// One connection.
struct Reader {
    opened: Ranges,
    requests: Arc<[Vec<ByteRange>]>,
    first: usize,
    duration: Duration,
    content: Option<Content>,
}

impl Reader {
    async fn run(mut self) -> Result<Read> {
        let began = Instant::now();
        let (mut read, mut expected) = (Read::default(), Vec::new());
        let requests = Arc::clone(&self.requests);
        for request in requests.iter().cycle().skip(self.first) {
            let pieces = self.opened.read(request).await?;
            if let Some(content) = &self.content {
                compare(content, request, &pieces, &mut expected)?;
            }
            read.bytes += request.iter().map(ByteRange::len).sum::<u64>();
            read.requests += 1;
            if began.elapsed() >= self.duration {
                break;
            }
        }
        self.opened.close().await;
        Ok(read)
    }
}

/// Whether the pieces are what was stored there.
fn compare(content: &Content, request: &[ByteRange], pieces: &[Vec<u8>], expected: &mut Vec<u8>) -> Result<()> {
    for (range, piece) in request.iter().zip(pieces) {
        expected.resize(piece.len(), 0);
        content.fill(range.start, expected);
        if piece.len() as u64 != range.len() || piece != expected {
            let error = Error::new(ErrorCode::ChecksumMismatch, Side::Active, Phase::Transfer);
            let detail = format!(
                "other bytes came for {} to {} than were stored there",
                range.start, range.end
            );
            return Err(error.with_detail(detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_another_place_is_noticed() {
        let content = Content::default();
        let request = [ByteRange::new(1 << 20, (1 << 20) + 5000), ByteRange::new(7, 9)];
        let piece = |start: u64, length: usize| {
            let mut bytes = vec![0; length];
            content.fill(start, &mut bytes);
            bytes
        };
        let good = [piece(1 << 20, 5000), piece(7, 2)];
        assert!(compare(&content, &request, &good, &mut Vec::new()).is_ok());
        for wrong in [
            [piece(1 << 19, 5000), piece(7, 2)],
            [piece(1 << 20, 5000), piece(8, 2)],
            [piece(1 << 20, 4999), piece(7, 2)],
        ] {
            let error = compare(&content, &request, &wrong, &mut Vec::new()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ChecksumMismatch);
        }
    }
}
