//! `bulk`: large files from and to a server, on several connections at once, each file in several
//! streams.

use remote::{Client, Resource};
use types::{ByteRange, Result};

use super::data::{self, Content};
use super::measure::{Sample, together};
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Measured, Parameters, Value};

/// Files that are made for reading: connections share them, so that many connections need no more
/// space.
const FILES: usize = 4;
/// Most files of a connection in one sample, however small they are.
const ROUNDS_MAX: u64 = 1024;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the server.
    Get,
    /// To the server, to new files.
    Put,
}

impl Way {
    /// As labels name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Which ways.
    pub ways: Vec<Way>,
    /// Numbers of connections that carry a file each.
    pub connections: Vec<u32>,
    /// Numbers of ranges, on connections of their own, in which each file is read.
    pub streams: Vec<u32>,
    /// Size of each file, in bytes.
    pub size_bytes: u64,
    /// Least bytes of a sample; a connection takes several files one after another for it.
    pub volume_bytes: u64,
    /// Samples of each case.
    pub repetitions: u32,
}

/// One case of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) way: Way,
    pub(super) connections: u32,
    pub(super) streams: u32,
}

/// The files of a target.
pub(super) struct Files {
    directory: Option<Resource>,
    /// Those to read, and their size.
    pub(super) read: std::result::Result<(Vec<Resource>, u64), Failure>,
}

impl Files {
    /// Where files can be written to.
    pub(super) fn directory(&self) -> std::result::Result<&Resource, Failure> {
        let advice = "give a directory that can be written to";
        let no_place = || Failure::new("making a directory for the run", "it could not be made", advice);
        self.directory.as_ref().ok_or_else(no_place)
    }
}

impl Bulk {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &way in &self.ways {
            for &streams in self.streams.iter().filter(|streams| way == Way::Get || **streams == 1) {
                shapes.extend(self.connections.iter().map(|&connections| Shape {
                    way,
                    connections,
                    streams,
                }));
            }
        }
        shapes
    }

    fn case(&self, target: &Target, shape: Shape) -> Case {
        let mut label = format!("{} {}", shape.way.name(), target.protocol());
        if shape.streams > 1 {
            label.push_str(&format!(", {} streams", shape.streams));
        }
        let parameters = [
            ("connections", Value::from(shape.connections)),
            ("streams", Value::from(shape.streams)),
        ];
        Case {
            label,
            parameters: Parameters::from(parameters.map(|(name, value)| (name.to_owned(), value))),
            phase: shape.way.name(),
        }
    }

    /// How many files of this size each connection takes in one sample.
    fn rounds(&self, connections: u32, size_bytes: u64) -> u64 {
        let share = u64::from(connections).saturating_mul(size_bytes).max(1);
        self.volume_bytes.div_ceil(share).clamp(1, ROUNDS_MAX)
    }
}

/// Measures all cases; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, bulk: &Bulk) -> Measured {
    let mut tally = Tally::new("Throughput", Counted::Bytes).against("connections", "", true);
    let shapes = bulk.shapes();
    ground
        .progress
        .plan(shapes.len() * ground.targets.len() * bulk.repetitions as usize);
    measure(ground, bulk, &shapes, &mut tally).await;
    let mut notes = Vec::new();
    if bulk.ways.contains(&Way::Put) && bulk.streams.iter().any(|streams| *streams > 1) {
        notes.push("Uploads have one stream: neither protocol's client can send one file in several.".to_owned());
    }
    Measured {
        tables: tally.tables(),
        curves: Vec::new(),
        notes,
    }
}

async fn measure(ground: &Ground, bulk: &Bulk, shapes: &[Shape], tally: &mut Tally) -> Option<()> {
    let content = Content::default();
    let mut files = Vec::new();
    for target in &ground.targets {
        files.push(ground.stop.or(prepare(ground, bulk, target, &content)).await?);
    }
    for &shape in shapes {
        for repetition in 0..bulk.repetitions {
            for (target, files) in ground.targets.iter().zip(&files) {
                let case = bulk.case(target, shape);
                if tally.has_failed(target, &case) {
                    ground.progress.skip(1);
                    continue;
                }
                let run = format!("{} of {}", repetition + 1, bulk.repetitions);
                let connections = match shape.connections {
                    1 => "1 connection".to_owned(),
                    many => format!("{many} connections"),
                };
                ground
                    .progress
                    .begin(format!("{}: {}, {connections}, {run}", target.name, case.label));
                let words = match sample(ground, bulk, target, files, shape, &content).await {
                    Ok(sample) => tally.take(target, &case, &sample?),
                    Err(failure) => tally.fail(target, &case, failure),
                };
                ground.progress.end(words);
            }
        }
    }
    Some(())
}

/// Makes what will be read.
pub(super) async fn prepare(ground: &Ground, bulk: &Bulk, target: &Target, content: &Content) -> Files {
    let made = match ground.directory(target, "bulk").await {
        Ok(directory) => Ok(directory),
        Err(error) => Err(Failure::of("making a directory for the run", &error)),
    };
    let directory = made.as_ref().ok().cloned();
    let read = match (&target.file, made) {
        _ if !bulk.ways.contains(&Way::Get) => Ok((Vec::new(), bulk.size_bytes)),
        (Some(file), _) => existing(ground, file).await,
        (None, Err(failure)) => Err(failure.advised("give --file URL to read a file that is there")),
        (None, Ok(directory)) => upload(ground, bulk, target, &directory, content).await,
    };
    Files { directory, read }
}

async fn existing(ground: &Ground, file: &Resource) -> std::result::Result<(Vec<Resource>, u64), Failure> {
    let facts = ground.new_client().head(file, &[]).await;
    let facts = facts.map_err(|error| Failure::of("looking at the file to read", &error))?;
    match facts.size_bytes.filter(|size_bytes| *size_bytes > 0) {
        Some(size_bytes) => Ok((vec![file.clone()], size_bytes)),
        None => {
            let advice = "name a file with content in --file";
            Err(Failure::new(
                "looking at the file to read",
                "it is empty, or its size is not told",
                advice,
            ))
        }
    }
}

async fn upload(
    ground: &Ground,
    bulk: &Bulk,
    target: &Target,
    directory: &Resource,
    content: &Content,
) -> std::result::Result<(Vec<Resource>, u64), Failure> {
    let most = bulk.connections.iter().max().map_or(1, |most| *most as usize);
    let client = ground.new_client();
    let mut files = Vec::new();
    for index in 0..FILES.min(most) {
        ground.progress.aside(format!("{}: making a file to read", target.name));
        let file = ground.file(directory, &format!("read-{index}"));
        let stored = data::upload(&client, &file, bulk.size_bytes, true, content).await;
        stored.map_err(|error| {
            Failure::of("upload of the file to read", &error).advised("give --file URL to read a file that is there")
        })?;
        files.push(file);
    }
    Ok((files, bulk.size_bytes))
}

/// One sample; `None` within when the run is to end.
async fn sample(
    ground: &Ground,
    bulk: &Bulk,
    target: &Target,
    files: &Files,
    shape: Shape,
    content: &Content,
) -> std::result::Result<Option<Sample<u64>>, Failure> {
    match shape.way {
        Way::Get => {
            let (files, size_bytes) = files.read.as_ref().map_err(Clone::clone)?;
            let jobs = readers(&|| ground.new_client(), bulk, shape, files, *size_bytes);
            let Some(()) = ground
                .stop
                .or(warm_up(jobs.iter().filter_map(ConnectionLoad::first)))
                .await
            else {
                return Ok(None);
            };
            Ok(together(target, &ground.stop, jobs.into_iter().map(read).collect()).await)
        }
        Way::Put => {
            let directory = files.directory()?;
            let jobs = writers(ground, bulk, shape, directory);
            let Some(()) = ground
                .stop
                .or(warm_up(jobs.iter().filter_map(ConnectionLoad::first)))
                .await
            else {
                return Ok(None);
            };
            let workers = jobs
                .iter()
                .map(|job| write(job.clone(), bulk.size_bytes, content.clone()))
                .collect();
            let sample = together(target, &ground.stop, workers).await;
            for job in &jobs {
                ground.make_room(&job.client, &job.files).await;
            }
            Ok(sample)
        }
    }
}

/// What one connection does.
#[derive(Clone)]
pub(super) struct ConnectionLoad {
    pub(super) client: Client,
    /// The files that it takes, one after the other.
    pub(super) files: Vec<Resource>,
    /// The part of each that it reads.
    pub(super) range: Option<ByteRange>,
}

impl ConnectionLoad {
    /// What it begins with.
    pub(super) fn first(&self) -> Option<(&Client, &Resource)> {
        Some((&self.client, self.files.first()?))
    }
}

pub(super) fn readers(
    new_client: &dyn Fn() -> Client,
    bulk: &Bulk,
    shape: Shape,
    files: &[Resource],
    size_bytes: u64,
) -> Vec<ConnectionLoad> {
    let rounds = bulk.rounds(shape.connections, size_bytes);
    let mut jobs = Vec::new();
    for connection in 0..u64::from(shape.connections) {
        let turn = |round: u64| files[((connection + round) % files.len() as u64) as usize].clone();
        let files: Vec<Resource> = (0..rounds).map(turn).collect();
        jobs.extend(
            parts(size_bytes, shape.streams)
                .into_iter()
                .map(|range| ConnectionLoad {
                    client: new_client(),
                    files: files.clone(),
                    range,
                }),
        );
    }
    jobs
}

/// A file in `streams` parts, one of all of it included.
pub(crate) fn parts(size_bytes: u64, streams: u32) -> Vec<Option<ByteRange>> {
    let streams = u64::from(streams).min(size_bytes).max(1);
    if streams == 1 {
        return vec![None];
    }
    let edge = |part: u64| (u128::from(size_bytes) * u128::from(part) / u128::from(streams)) as u64;
    (0..streams)
        .map(|part| Some(ByteRange::new(edge(part), edge(part + 1))))
        .collect()
}

fn writers(ground: &Ground, bulk: &Bulk, shape: Shape, directory: &Resource) -> Vec<ConnectionLoad> {
    let rounds = bulk.rounds(shape.connections, bulk.size_bytes);
    let job = |connection: u32| ConnectionLoad {
        client: ground.new_client(),
        files: (0..rounds)
            .map(|round| ground.file(directory, &format!("put-{connection}-{round}")))
            .collect(),
        range: None,
    };
    (0..shape.connections).map(job).collect()
}

/// Lets each client make its connection, which is not what is measured. That there is no such file
/// yet is no matter.
pub(super) async fn warm_up<'a>(targets: impl IntoIterator<Item = (&'a Client, &'a Resource)>) {
    for (client, file) in targets {
        let _ = client.head(file, &[]).await;
    }
}

pub(super) async fn read(job: ConnectionLoad) -> Result<u64> {
    let mut bytes = 0;
    for file in &job.files {
        bytes += data::download(&job.client, file, job.range).await?;
    }
    Ok(bytes)
}

pub(super) async fn write(job: ConnectionLoad, size_bytes: u64, content: Content) -> Result<u64> {
    for file in &job.files {
        data::upload(&job.client, file, size_bytes, true, &content).await?;
    }
    Ok(size_bytes * job.files.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk() -> Bulk {
        Bulk {
            ways: vec![Way::Get, Way::Put],
            connections: vec![1, 16],
            streams: vec![1, 4],
            size_bytes: 1 << 20,
            volume_bytes: 64 << 20,
            repetitions: 3,
        }
    }

    #[test]
    fn uploads_have_one_stream() {
        let shapes = bulk().shapes();
        let of = |way: Way| shapes.iter().filter(|shape| shape.way == way).count();
        assert_eq!((of(Way::Get), of(Way::Put)), (4, 2));
    }

    #[test]
    fn every_sample_moves_the_volume_and_each_connection_a_file_at_least() {
        let bulk = bulk();
        assert_eq!(bulk.rounds(1, 1 << 20), 64);
        assert_eq!(bulk.rounds(16, 1 << 20), 4);
        assert_eq!(bulk.rounds(1000, 1 << 20), 1);
        assert_eq!(bulk.rounds(1, 3 << 20), 22);
        assert_eq!(bulk.rounds(1, 7), ROUNDS_MAX);
    }

    #[test]
    fn parts_cover_a_file_without_gaps() {
        for (size, streams) in [(10, 3), (2, 5), (1 << 40, 16)] {
            let parts: Vec<ByteRange> = parts(size, streams).into_iter().flatten().collect();
            assert_eq!(parts.first().map(|part| part.start), Some(0));
            assert_eq!(parts.last().map(|part| part.end), Some(size));
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
        }
        assert_eq!(parts(1, 4), [None]);
    }
}
