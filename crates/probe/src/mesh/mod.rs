//! The mesh: a small file is copied from each endpoint to each other, in each protocol and mode,
//! with each credential. A cell of the result tells how one such copy went, step by step.
//!
//! A [`plan`] says what is tried. A [`Mesh`] carries it out: the file is stored once at each
//! source; then, for each cell, it is copied, the destination is asked for size and checksum, and
//! the copy is removed. What was made is removed at the end ([`Mesh::clean_up`]), and what a killed
//! run left is removed by the next one. [`Stress`] makes many copies over the same links.

mod calendar;
mod cell;
mod clean;
mod commands;
mod endpoint;
mod file;
mod litter;
mod mark;
mod plan;
mod share;
mod software;
mod step;
mod stress;
mod through;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use history::{Cell, EndpointSeen, Instrument, Run};
use remote::Client;
use tokio::sync::OnceCell;
use transfer::Budget;
use types::{Error, Location};

pub use endpoint::{Credential, CredentialKind, Endpoint, Place, Protocol, Role};
pub use file::{EndpointFile, EndpointSection, MeshSection, directory_fault, mode};
pub use mark::Mark;
pub use plan::{Ends, Planned, Seat, Topology, Wanted, plan};
pub use stress::{Load, StopAt, Stress};
pub use through::{CopyEnd, OrderedCopy, Through};

pub(crate) use software::named;
pub(crate) use step::{milliseconds, without_tokens};

use crate::reproduce::Trust;
use crate::steps::Content;
use cell::Seeded;
use litter::Litter;
use share::Shares;

/// How a mesh is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The title of the results.
    pub title: String,
    /// Name and version of this program.
    pub program: String,
    /// Size of the files, in bytes.
    pub size_bytes: u64,
    /// Most copies under way.
    pub parallel: u32,
    /// Most copies under way with one endpoint.
    pub parallel_each: u32,
    /// Time limit of a copy.
    pub copy_timeout: Duration,
    /// Time limit of the upload to a source.
    pub upload_timeout: Duration,
    /// Time limit of other requests.
    pub request_timeout: Duration,
    /// Whether destinations are asked for checksums.
    pub checksums: bool,
    /// For the commands that reproduce a failure.
    pub trust: Trust,
    /// What its files are called.
    pub mark: Mark,
    /// No other run of this mesh is under way, so files of earlier ones are removed.
    pub sweeps: bool,
}

/// What is worth telling while a mesh runs.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A cell has ended.
    Ended(&'a Cell),
    /// Files that an earlier run left were removed.
    Swept {
        /// The name of the endpoint.
        endpoint: &'a str,
        /// How many.
        count: u64,
    },
    /// A file cannot be removed.
    Left {
        /// The name of the endpoint.
        endpoint: &'a str,
        /// The file.
        file: &'a Location,
        /// Why.
        error: &'a Error,
    },
}

/// A run of a mesh. It can be dropped or interrupted at any moment; what it has made is known to
/// [`Mesh::clean_up`].
pub struct Mesh<'a> {
    settings: Settings,
    endpoints: Vec<Endpoint>,
    plan: Vec<Planned>,
    client: Client,
    /// The queue that makes the copies; `None`: the client orders them itself.
    through: Option<Box<dyn Through + 'a>>,
    budget: Budget,
    content: Content,
    seeds: HashMap<Seat, OnceCell<Seeded>>,
    litter: Litter,
    /// What the endpoints say they run.
    software: Mutex<BTreeMap<usize, String>>,
    /// The cells, in the order of the plan; `None`: it has not ended yet.
    cells: Mutex<Vec<Option<Cell>>>,
    started: Instant,
    /// The same by the clock, in milliseconds since 1970.
    started_ms: u64,
    observe: Box<dyn Fn(News<'_>) + Send + Sync + 'a>,
}

impl<'a> Mesh<'a> {
    /// Prepares a run of a plan that was made for these endpoints. `observe` is called with what
    /// happens.
    #[must_use]
    pub fn new(
        settings: Settings,
        endpoints: Vec<Endpoint>,
        plan: Vec<Planned>,
        client: Client,
        observe: impl Fn(News<'_>) + Send + Sync + 'a,
    ) -> Self {
        let cell = |planned: &Planned| {
            let outcome = planned.fate.as_ref().err()?;
            Some(Cell::untried(planned.link.clone(), outcome.clone()))
        };
        let sources = plan
            .iter()
            .filter_map(|planned| Some(planned.fate.as_ref().ok()?.source));
        Self {
            content: match settings.checksums {
                true => Content::new(settings.size_bytes),
                false => Content::without_sums(settings.size_bytes),
            },
            seeds: sources.map(|seat| (seat, OnceCell::new())).collect(),
            cells: Mutex::new(plan.iter().map(cell).collect()),
            settings,
            endpoints,
            plan,
            client,
            through: None,
            budget: Budget::new(),
            litter: Litter::default(),
            software: Mutex::default(),
            started: Instant::now(),
            started_ms: milliseconds_since_1970(),
            observe: Box::new(observe),
        }
    }

    /// Has the copies made by a queue.
    #[must_use]
    pub fn through(self, queue: impl Through + 'a) -> Self {
        Self {
            through: Some(Box::new(queue)),
            ..self
        }
    }

    /// Tries all cells.
    pub async fn run(&self) {
        tokio::join!(self.sweep_former(), self.ask_software(), self.attempt_all());
    }

    async fn attempt_all(&self) {
        let copies = self.plan.iter().enumerate();
        let copies = copies.filter_map(|(index, planned)| Some((index, *planned.fate.as_ref().ok()?)));
        let mut shares = Shares::new(self.endpoints.len(), self.settings.parallel_each, copies);
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.parallel() {
                let Some((index, ends)) = shares.next() else { break };
                under_way.push(async move {
                    let cell = self.attempt(&format!("c{index:x}"), &self.plan[index], ends).await;
                    (index, ends, cell)
                });
            }
            let Some((index, ends, cell)) = under_way.next().await else {
                return;
            };
            shares.give_back(ends);
            (self.observe)(News::Ended(&cell));
            self.cells.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(cell);
        }
    }

    /// The results so far. A run in which cells are missing is not complete.
    #[must_use]
    pub fn results(&self) -> Run {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<Cell> = cells.iter().flatten().cloned().collect();
        Run {
            instrument: Instrument::Mesh,
            title: self.settings.title.clone(),
            started_ms: self.started_ms,
            ended_ms: self.now_ms(),
            program: self.settings.program.clone(),
            is_complete: ended.len() == cells.len(),
            ended_by: None,
            endpoints: self.seen(),
            cells: ended,
            figures: Vec::new(),
        }
    }

    /// Milliseconds since 1970, by the clock as it was at the begin: one that is set during the run
    /// changes no times between its parts.
    fn now_ms(&self) -> u64 {
        self.started_ms
            .saturating_add(step::milliseconds(self.started.elapsed()))
    }

    /// The endpoints with what they say of themselves.
    fn seen(&self) -> Vec<EndpointSeen> {
        let software = self.software();
        let seen = self.endpoints.iter().enumerate().map(|(index, endpoint)| EndpointSeen {
            software: software.get(&index).cloned(),
            ..endpoint.seen(self.started_ms)
        });
        seen.collect()
    }

    fn software(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        self.software.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parallel(&self) -> usize {
        self.settings.parallel as usize
    }

    fn place(&self, seat: Seat) -> &Place {
        &self.endpoints[seat.endpoint].places[seat.place]
    }

    fn credential(&self, seat: Seat) -> &Credential {
        &self.place(seat).credentials[seat.credential]
    }

    /// All ends of copies that are tried.
    fn seats(&self) -> impl Iterator<Item = Seat> {
        let ends = self.plan.iter().filter_map(|planned| planned.fate.as_ref().ok());
        ends.flat_map(|ends| [ends.source, ends.destination])
    }
}

impl std::fmt::Debug for Mesh<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Mesh({:?}, {} cells)", self.settings.title, self.plan.len())
    }
}

/// Milliseconds since 1970.
fn milliseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    step::milliseconds(since)
}
