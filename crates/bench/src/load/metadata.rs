//! `metadata`: a fixed set of files that is hammered with questions, over each protocol in its own
//! ways, and the listing of the directory that holds them.

use std::sync::Arc;
use std::time::Duration;

use http_wire::Method;
use remote::{Client, Resource};
use tokio::time::Instant;
use types::Result;

use super::data::{self, Content};
use super::measure::{self, together};
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Measured, Parameters, Value};

/// Connections on which the files are made.
const MAKERS: usize = 16;
/// Questions that one call asks together where a protocol can. More than are under way at the same
/// time, so that the pause between two calls counts for nothing.
const TOGETHER: usize = 512;
/// Size of the files: one byte, because not every storage takes empty ones.
const FILE_BYTES: u64 = 1;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// How many files there are.
    pub files: u32,
    /// Numbers of connections that ask.
    pub connections: Vec<u32>,
    /// How long a sample takes.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
    /// Ask about the files that are in the target itself, and make none.
    pub existing: bool,
}

/// How is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// HEAD, one at a time on each connection.
    Head,
    /// PROPFIND of depth 0, one at a time on each connection.
    Propfind,
    /// stat, one at a time on each connection.
    Stat,
    /// stat, many under way on each connection.
    Pipelined,
    /// The whole directory.
    List,
}

impl Question {
    fn of(target: &Target) -> &'static [Self] {
        match target.place.location.is_xrootd() {
            true => &[Self::Stat, Self::Pipelined, Self::List],
            false => &[Self::Head, Self::Propfind, Self::List],
        }
    }

    fn label(self, target: &Target) -> String {
        let protocol = target.protocol();
        match self {
            Self::Head => format!("HEAD {protocol}"),
            Self::Propfind => format!("PROPFIND depth 0 {protocol}"),
            Self::Stat => format!("stat {protocol}"),
            Self::Pipelined => format!("stat {protocol}, pipelined"),
            Self::List if target.place.location.is_xrootd() => format!("dirlist {protocol}"),
            Self::List => format!("PROPFIND depth 1 {protocol}"),
        }
    }

    fn phase(self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            Self::Propfind => "PROPFIND of depth 0",
            Self::Stat | Self::Pipelined => "stat",
            Self::List => "listing the directory",
        }
    }
}

/// The set of a target.
struct Set {
    directory: Resource,
    files: Arc<Vec<Resource>>,
    /// Whether it speaks WebDAV; a plain web server is asked with HEAD alone.
    is_dav: bool,
}

/// One case of all: a question, and on how many connections it is asked.
#[derive(Clone, Copy, Debug)]
struct Shape {
    question: Question,
    connections: u32,
}

impl Metadata {
    fn shapes(&self, target: &Target) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &question in Question::of(target) {
            // A listing is one answer: connections would only measure several readers at once.
            let connections = if question == Question::List {
                &[1][..]
            } else {
                &self.connections
            };
            shapes.extend(connections.iter().map(|&connections| Shape { question, connections }));
        }
        shapes
    }
}

/// Measures all questions; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, metadata: &Metadata) -> Measured {
    let mut tallies = Tallies {
        asked: Tally::new("Requests", Counted::Requests).against("connections", "", true),
        listed: Tally::new("Entries of a directory that is listed", Counted::Requests),
    };
    let planned: usize = ground.targets.iter().map(|target| metadata.shapes(target).len()).sum();
    ground.progress.plan(planned * metadata.repetitions as usize);
    let mut notes = Vec::new();
    measure(ground, metadata, &mut tallies, &mut notes).await;
    let mut tables = tallies.asked.tables();
    tables.extend(tallies.listed.tables());
    Measured {
        tables,
        curves: Vec::new(),
        notes,
    }
}

struct Tallies {
    asked: Tally,
    listed: Tally,
}

async fn measure(ground: &Ground, metadata: &Metadata, tallies: &mut Tallies, notes: &mut Vec<String>) -> Option<()> {
    let mut sets = Vec::new();
    for target in &ground.targets {
        let set = ground.stop.or(prepare(ground, metadata, target)).await?;
        if set.as_ref().is_ok_and(|set| !set.is_dav) {
            let name = &target.name;
            notes.push(format!(
                "{name} offers no WebDAV: it is asked with HEAD alone, and its directory is not listed."
            ));
        }
        sets.push(set);
    }
    let most = ground
        .targets
        .iter()
        .map(|target| metadata.shapes(target).len())
        .max()?;
    // Questions of two protocols that come at the same place in their lists take turns too.
    for place in 0..most {
        for repetition in 0..metadata.repetitions {
            for (target, set) in ground.targets.iter().zip(&sets) {
                if let Some(&shape) = metadata.shapes(target).get(place) {
                    let run = format!("{} of {}", repetition + 1, metadata.repetitions);
                    sample(ground, metadata, target, set, shape, &run, tallies).await?;
                }
            }
        }
    }
    Some(())
}

/// Takes one sample; `None` when the run is to end.
async fn sample(
    ground: &Ground,
    metadata: &Metadata,
    target: &Target,
    set: &std::result::Result<Set, Failure>,
    shape: Shape,
    run: &str,
    tallies: &mut Tallies,
) -> Option<()> {
    let question = shape.question;
    let case = Case {
        label: question.label(target),
        parameters: Parameters::from([("connections".to_owned(), Value::from(shape.connections))]),
        phase: question.phase(),
    };
    let tally = match question {
        Question::List => &mut tallies.listed,
        _ => &mut tallies.asked,
    };
    let needs_dav = matches!(question, Question::Propfind | Question::List);
    let is_left_out = set.as_ref().is_ok_and(|set| needs_dav && !set.is_dav);
    if is_left_out || tally.has_failed(target, &case) {
        ground.progress.skip(1);
        return Some(());
    }
    ground.progress.begin(format!(
        "{}: {}, {}, {run}",
        target.name,
        case.label,
        connections(shape.connections)
    ));
    let words = match set {
        Err(failure) => tally.fail(target, &case, failure.clone()),
        Ok(set) => {
            let workers = ask(ground, metadata, set, shape).await?;
            tally.take(target, &case, &together(target, &ground.stop, workers).await?)
        }
    };
    ground.progress.end(words);
    Some(())
}

fn connections(count: u32) -> String {
    match count {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    }
}

/// The workers of one sample, each with its connection made.
async fn ask(
    ground: &Ground,
    metadata: &Metadata,
    set: &Set,
    shape: Shape,
) -> Option<Vec<impl Future<Output = Result<u64>> + Send + 'static>> {
    let mut clients = Vec::new();
    for _ in 0..shape.connections {
        let client = ground.new_client();
        // A fault here happens again in the sample, which reports it.
        let _ = ground.stop.or(client.stat(&set.files[0])).await?;
        clients.push(client);
    }
    let end = Instant::now() + metadata.duration;
    let count = clients.len();
    let worker = |(index, client): (usize, Client)| {
        let (files, directory) = (Arc::clone(&set.files), set.directory.clone());
        // Everybody begins elsewhere, as clients of a site do.
        let first = index * files.len() / count;
        async move { hammer(shape.question, &client, &files, &directory, first, end).await }
    };
    Some(clients.into_iter().enumerate().map(worker).collect())
}

/// Asks until the time is over. Returns how many answers came.
async fn hammer(
    question: Question,
    client: &Client,
    files: &[Resource],
    directory: &Resource,
    first: usize,
    end: Instant,
) -> Result<u64> {
    let mut answers = 0;
    let mut next = first;
    while Instant::now() < end {
        let file = &files[next];
        let mut step = 1;
        answers += match question {
            Question::Head => client.head(file, &[]).await.map(|_| 1)?,
            Question::Propfind | Question::Stat => client.stat(file).await.map(|_| 1)?,
            Question::Pipelined => {
                step = TOGETHER.min(files.len() - next);
                client.stat_many(&files[next..next + step]).await?.len() as u64
            }
            Question::List => list(client, directory).await?,
        };
        next = (next + step) % files.len();
    }
    Ok(answers)
}

async fn list(client: &Client, directory: &Resource) -> Result<u64> {
    let mut listing = client.list(directory).await?;
    let mut entries = 0;
    while let Some(batch) = listing.next().await? {
        entries += batch.len() as u64;
    }
    Ok(entries)
}

async fn prepare(ground: &Ground, metadata: &Metadata, target: &Target) -> std::result::Result<Set, Failure> {
    let directory = match metadata.existing {
        true => target.place.clone(),
        false => ground.directory(target, "metadata").await.map_err(|error| {
            let advice = "give a directory that can be written to, or --existing with one that has files";
            Failure::of("making a directory for the run", &error).advised(advice)
        })?,
    };
    let files = match metadata.existing {
        true => found(ground, metadata, target).await?,
        false => make(ground, metadata, target, &directory).await?,
    };
    Ok(Set {
        is_dav: directory.location.is_xrootd() || is_dav(ground, &directory).await,
        directory,
        files: Arc::new(files),
    })
}

async fn is_dav(ground: &Ground, directory: &Resource) -> bool {
    let offers = ground.new_client().options(directory).await;
    offers.is_ok_and(|offers| offers.methods.contains(&Method::Propfind))
}

/// The files that are there already.
async fn found(ground: &Ground, metadata: &Metadata, target: &Target) -> std::result::Result<Vec<Resource>, Failure> {
    let phase = "listing the directory";
    let failed = |error: types::Error| Failure::of(phase, &error);
    let client = ground.new_client();
    let mut listing = client.list(&target.place).await.map_err(failed)?;
    let mut files = Vec::new();
    while let Some(batch) = listing.next().await.map_err(failed)? {
        let plain = batch.iter().filter(|entry| !entry.is_directory);
        files.extend(plain.map(|entry| target.at(target.place.location.child(entry.name()))));
        if files.len() >= metadata.files as usize {
            break;
        }
    }
    files.truncate(metadata.files as usize);
    match files.is_empty() {
        true => Err(Failure::new(
            phase,
            "there is no file in it",
            "name a directory that holds files",
        )),
        false => Ok(files),
    }
}

async fn make(
    ground: &Ground,
    metadata: &Metadata,
    target: &Target,
    directory: &Resource,
) -> std::result::Result<Vec<Resource>, Failure> {
    let count = metadata.files as usize;
    ground.progress.aside(format!("{}: making {count} files", target.name));
    let files: Vec<Resource> = (0..count)
        .map(|index| ground.file(directory, &format!("file-{index:06}")))
        .collect();
    let content = Content::default();
    let share = count.div_ceil(MAKERS).max(1);
    let makers = files.chunks(share).map(|part| {
        let (client, part, content) = (ground.new_client(), part.to_vec(), content.clone());
        async move {
            for file in &part {
                data::upload(&client, file, FILE_BYTES, true, &content).await?;
            }
            Ok(())
        }
    });
    // It is within a wait for the wish to end already; this one only joins the tasks.
    let made: Option<measure::Sample<()>> = together(target, &ground.stop, makers.collect()).await;
    match made.as_ref().and_then(measure::Sample::error) {
        Some(error) => Err(Failure::of("making the files", error)),
        None => Ok(files),
    }
}
