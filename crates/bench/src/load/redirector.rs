//! `redirector`: what a redirector costs its clients: small files that are read and written through
//! it and directly, and names that do not exist. A target that is no redirector is measured in the
//! same way, for comparison.

use std::sync::Arc;
use std::time::Duration;

use remote::{Client, GetOptions, Resource};
use tokio::time::Instant;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::data::{self, Content};
use super::measure::together;
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Measured, Parameters, Value};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Redirected {
    /// How many files there are.
    pub files: u32,
    /// The size of each.
    pub size_bytes: u64,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// How long a sample takes.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Reads whole files, which are known.
    Read,
    /// Stores new files.
    Store,
    /// Asks for names that do not exist, each once.
    Miss,
}

impl Act {
    const ALL: [Self; 3] = [Self::Read, Self::Store, Self::Miss];

    fn label(self, target: &Target) -> String {
        let protocol = target.protocol();
        match self {
            Self::Read => format!("small files read, {protocol}"),
            Self::Store => format!("small files stored, {protocol}"),
            Self::Miss => format!("names that do not exist, {protocol}"),
        }
    }

    fn phase(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Store => "storing",
            Self::Miss => "asking for a name that does not exist",
        }
    }
}

/// The files of a target.
struct Set {
    directory: Resource,
    files: Arc<Vec<Resource>>,
}

/// Measures; the targets take turns, sample by sample.
pub async fn run(ground: &Ground, load: &Redirected) -> Measured {
    let mut tally = Tally::new("Requests", Counted::Requests).against("clients", "", true);
    let cases = Act::ALL.len() * load.clients.len();
    ground
        .progress
        .plan(cases * ground.targets.len() * load.repetitions as usize);
    measure(ground, load, &mut tally).await;
    Measured {
        tables: tally.tables(),
        curves: Vec::new(),
        notes: Vec::new(),
    }
}

async fn measure(ground: &Ground, load: &Redirected, tally: &mut Tally) -> Option<()> {
    let mut sets = Vec::new();
    for target in &ground.targets {
        sets.push(ground.stop.or(prepare(ground, load, target)).await?);
    }
    for act in Act::ALL {
        for &clients in &load.clients {
            for repetition in 0..load.repetitions {
                for (target, set) in ground.targets.iter().zip(&sets) {
                    let shape = Shape {
                        act,
                        clients,
                        repetition,
                    };
                    sample(ground, load, target, set, shape, tally).await?;
                }
            }
        }
    }
    Some(())
}

/// One sample of all.
#[derive(Clone, Copy)]
struct Shape {
    act: Act,
    clients: u32,
    repetition: u32,
}

/// Takes one sample; `None` when the run is to end.
async fn sample(
    ground: &Ground,
    load: &Redirected,
    target: &Target,
    set: &std::result::Result<Set, Failure>,
    shape: Shape,
    tally: &mut Tally,
) -> Option<()> {
    let case = Case {
        label: shape.act.label(target),
        parameters: Parameters::from([("clients".to_owned(), Value::from(shape.clients))]),
        phase: shape.act.phase(),
    };
    if tally.has_failed(target, &case) {
        ground.progress.skip(1);
        return Some(());
    }
    let run = format!("{} of {}", shape.repetition + 1, load.repetitions);
    ground.progress.begin(format!("{}: {}, {run}", target.name, case.label));
    let words = match set {
        Err(failure) => tally.fail(target, &case, failure.clone()),
        Ok(set) => {
            let workers = workers(ground, load, set, shape).await?;
            tally.take(target, &case, &together(target, &ground.stop, workers).await?)
        }
    };
    ground.progress.end(words);
    Some(())
}

/// The workers of one sample, each with its connections made.
async fn workers(
    ground: &Ground,
    load: &Redirected,
    set: &Set,
    shape: Shape,
) -> Option<Vec<impl Future<Output = Result<u64>> + Send + 'static>> {
    let mut clients = Vec::new();
    for _ in 0..shape.clients {
        let client = ground.new_client();
        // A fault here happens again in the sample, which reports it.
        let _ = ground.stop.or(read(&client, &set.files[0])).await?;
        clients.push(client);
    }
    let end = Instant::now() + load.duration;
    let (count, size_bytes) = (clients.len(), load.size_bytes);
    let mut workers = Vec::with_capacity(count);
    for (index, client) in clients.into_iter().enumerate() {
        let files = Arc::clone(&set.files);
        let first = index * files.len() / count;
        let mark = format!("{:?}-{}-{}-{index}", shape.act, shape.clients, shape.repetition);
        let named = Named {
            // Its files are removed with those of the run.
            fresh: (0..FRESH_MAX)
                .filter(|_| shape.act == Act::Store)
                .map(|number| ground.file(&set.directory, &format!("{mark}-{number}")))
                .collect(),
            directory: set.directory.clone(),
            mark,
            size_bytes,
        };
        workers.push(async move {
            match shape.act {
                Act::Read => read_all(&client, &files, first, end).await,
                Act::Store => store_all(&client, &named, end).await,
                Act::Miss => miss_all(&client, &named, end).await,
            }
        });
    }
    Some(workers)
}

/// Most files that one client stores in a sample, which ends early then.
const FRESH_MAX: usize = 100;

/// Names of one worker in one sample.
struct Named {
    fresh: Vec<Resource>,
    directory: Resource,
    mark: String,
    size_bytes: u64,
}

async fn read_all(client: &Client, files: &[Resource], first: usize, end: Instant) -> Result<u64> {
    let mut done = 0;
    while Instant::now() < end {
        read(client, &files[(first + done as usize) % files.len()]).await?;
        done += 1;
    }
    Ok(done)
}

async fn store_all(client: &Client, named: &Named, end: Instant) -> Result<u64> {
    let content = Content::default();
    let mut done = 0;
    for file in &named.fresh {
        if Instant::now() >= end {
            break;
        }
        data::upload(client, file, named.size_bytes, true, &content).await?;
        done += 1;
    }
    Ok(done)
}

async fn miss_all(client: &Client, named: &Named, end: Instant) -> Result<u64> {
    let mut done = 0;
    while Instant::now() < end {
        let name = format!("none-{}-{done}", named.mark);
        let missing = Resource {
            location: named.directory.location.child(&name),
            ..named.directory.clone()
        };
        match client.stat(&missing).await {
            Err(error) if error.code() == ErrorCode::PeerNotFound => done += 1,
            Err(error) => return Err(error),
            Ok(_) => {
                let error = Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Open);
                return Err(error.with_detail("it has a file that was never stored"));
            }
        }
    }
    Ok(done)
}

async fn read(client: &Client, file: &Resource) -> Result<()> {
    let mut download = client.get(file, &GetOptions::default()).await?;
    while download.next().await?.is_some() {}
    Ok(())
}

async fn prepare(ground: &Ground, load: &Redirected, target: &Target) -> std::result::Result<Set, Failure> {
    let made = ground.directory(target, "redirector").await;
    let directory = made.map_err(|error| {
        let failure = Failure::of("making a directory for the run", &error);
        failure.advised("give a directory that can be written to")
    })?;
    ground
        .progress
        .aside(format!("{}: making {} files", target.name, load.files));
    let (client, content) = (ground.new_client(), Content::default());
    let mut files = Vec::new();
    for number in 0..load.files {
        let file = ground.file(&directory, &format!("file-{number:06}"));
        let stored = data::upload(&client, &file, load.size_bytes, true, &content).await;
        stored.map_err(|error| Failure::of("making the files", &error))?;
        files.push(file);
    }
    Ok(Set {
        directory,
        files: Arc::new(files),
    })
}
