//! The stress test: many copies over each link of a mesh, at a rate that grows and then stays,
//! until the time is over or a limit is reached.

mod schedule;
mod tally;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered};
use history::{Cell, Instrument, Run};
use remote::Resource;
use types::{ErrorCode, Result, Side};

pub use schedule::Load;

use super::plan::{Ends, Seat};
use super::share::Shares;
use super::{Mesh, News};
use tally::Tally;

/// How often destinations are asked for their room.
const ROOM_INTERVAL: Duration = Duration::from_secs(60);

/// When a stress test stops by itself, before its time is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopAt {
    /// No copy begins with which all that were begun would exceed so many bytes.
    pub bytes: Option<u64>,
    /// No copy begins after so many failures.
    pub failures: Option<u64>,
}

/// A stress test. It can be dropped or interrupted at any moment, as a [`Mesh`].
pub struct Stress<'a> {
    mesh: Mesh<'a>,
    load: Load,
    stop_at: StopAt,
    state: Mutex<State>,
}

/// How far it is.
#[derive(Default)]
struct State {
    /// The copies of each link, by its place in the plan.
    tallies: BTreeMap<usize, Tally>,
    /// Destinations without room, by endpoint and place, with what they say.
    full: BTreeMap<(usize, usize), String>,
    begun_bytes: u64,
    failures: u64,
    /// Why no further copy begins.
    stopped: Option<String>,
    /// Copies whose time came and that were not begun.
    late: u64,
    is_over: bool,
}

/// Whether a copy may begin.
enum Begin {
    Now,
    /// Its destination has no room.
    NoRoom,
    /// No further copy may.
    Never,
}

/// A copy that is due.
type Due = Reverse<(Duration, usize, u64)>;

impl<'a> Stress<'a> {
    /// Prepares a stress test of the links of a mesh.
    #[must_use]
    pub fn new(mesh: Mesh<'a>, load: Load, stop_at: StopAt) -> Self {
        let tried = mesh.plan.iter().enumerate().filter(|(_, planned)| planned.fate.is_ok());
        let tallies = tried.map(|(index, planned)| (index, Tally::new(planned.link.clone(), load.duration())));
        let state = State {
            tallies: tallies.collect(),
            ..State::default()
        };
        Self {
            load,
            stop_at,
            state: Mutex::new(state),
            mesh,
        }
    }

    /// Runs it to its end.
    pub async fn run(&self) {
        tokio::join!(self.mesh.sweep_former(), self.mesh.ask_software(), async {
            tokio::join!(self.mesh.seed_all(), self.look_for_room());
            tokio::select! {
                () = self.copy_all() => {}
                () = self.watch_room() => {}
            }
        });
        self.state().is_over = true;
    }

    /// As [`Mesh::clean_up`].
    pub async fn clean_up(&self, is_early: bool) {
        self.mesh.clean_up(is_early).await;
    }

    /// Why it stopped by itself before its time was over.
    #[must_use]
    pub fn stopped_by(&self) -> Option<String> {
        self.state().stopped.clone()
    }

    /// Copies that were not begun although their time had come: the endpoints did not keep up with
    /// the rate.
    #[must_use]
    pub fn late_copies(&self) -> u64 {
        self.state().late
    }

    /// The results so far. A test that stopped before its time is not complete.
    #[must_use]
    pub fn results(&self) -> Run {
        let state = self.state();
        let cell = |index: usize| {
            let planned = &self.mesh.plan[index];
            match &planned.fate {
                Err(outcome) => Cell::untried(planned.link.clone(), outcome.clone()),
                Ok(ends) => {
                    let (seat, why) = (ends.destination, state.stopped.as_deref());
                    let full = state.full.get(&(seat.endpoint, seat.place)).map(String::as_str);
                    state.tallies[&index].cell(full.or(why))
                }
            }
        };
        Run {
            instrument: Instrument::Stress,
            is_complete: state.is_over && state.stopped.is_none(),
            ended_by: state.stopped.clone(),
            cells: (0..self.mesh.plan.len()).map(cell).collect(),
            ..self.mesh.results()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The links that are tried, with their ends.
    fn links(&self) -> impl Iterator<Item = (usize, Ends)> {
        let planned = self.mesh.plan.iter().enumerate();
        planned.filter_map(|(index, planned)| Some((index, *planned.fate.as_ref().ok()?)))
    }

    async fn copy_all(&self) {
        let ends: BTreeMap<usize, Ends> = self.links().collect();
        let last = self.load.copies_of_link();
        let begins = |index: usize, number: u64| Reverse((self.load.begin(number, phase(index)), index, number));
        let mut due: BinaryHeap<Due> = ends.keys().map(|index| begins(*index, 0)).collect();
        if last == 0 {
            due.clear();
        }
        let mut numbers: BTreeMap<usize, u64> = BTreeMap::new();
        let settings = &self.mesh.settings;
        let mut shares = Shares::new(self.mesh.endpoints.len(), settings.parallel_each, std::iter::empty());
        let mut under_way = FuturesUnordered::new();
        let begin = Instant::now();
        loop {
            let now = begin.elapsed();
            while let Some(Reverse((_, index, number))) = due.peek().copied().filter(|Reverse((at, ..))| *at <= now) {
                due.pop();
                shares.add(index, ends[&index]);
                if number + 1 < last {
                    due.push(begins(index, number + 1));
                }
            }
            let goes_on = now < self.load.duration() && self.state().stopped.is_none();
            while goes_on && under_way.len() < self.mesh.parallel() {
                let Some((index, ends)) = shares.next() else { break };
                match self.begin(ends.destination) {
                    Begin::Now => {}
                    Begin::NoRoom => {
                        shares.give_back(ends);
                        continue;
                    }
                    Begin::Never => {
                        shares.give_back(ends);
                        break;
                    }
                }
                let number = numbers.entry(index).or_default();
                let what = format!("c{index:x}.{number:x}");
                *number += 1;
                under_way.push(async move {
                    let begun = begin.elapsed();
                    let cell = self.mesh.attempt(&what, &self.mesh.plan[index], ends).await;
                    (index, ends, cell, begun)
                });
            }
            let is_through = !goes_on || (due.is_empty() && shares.waiting() == 0);
            if under_way.is_empty() && is_through {
                break;
            }
            let next = due.peek().map_or(self.load.duration(), |Reverse((at, ..))| *at);
            let wakes = begin + next.min(self.load.duration()).max(now + Duration::from_millis(1));
            tokio::select! {
                Some((index, ends, cell, begun)) = under_way.next() => {
                    shares.give_back(ends);
                    self.note(index, cell, begun, begin.elapsed());
                }
                () = tokio::time::sleep_until(wakes.into()), if goes_on => {}
            }
        }
        self.state().late += shares.waiting();
    }

    /// Whether a copy may begin, which is counted then.
    fn begin(&self, destination: Seat) -> Begin {
        let size = self.mesh.settings.size_bytes;
        let mut state = self.state();
        let begun_bytes = state.begun_bytes.saturating_add(size);
        if self.stop_at.bytes.is_some_and(|most| begun_bytes > most) {
            state.stopped = Some("the limit of bytes is reached".to_owned());
            return Begin::Never;
        }
        if state.full.contains_key(&(destination.endpoint, destination.place)) {
            state.late += 1;
            return Begin::NoRoom;
        }
        state.begun_bytes = begun_bytes;
        Begin::Now
    }

    fn note(&self, index: usize, cell: Cell, begun: Duration, at: Duration) {
        (self.mesh.observe)(News::Ended(&cell));
        let mut state = self.state();
        state.failures += cell.copies_failed;
        if self.stop_at.failures.is_some_and(|most| state.failures >= most) && state.stopped.is_none() {
            state.stopped = Some("the limit of failures is reached".to_owned());
        }
        if let Some(tally) = state.tallies.get_mut(&index) {
            tally.add(cell, begun, at);
        }
    }

    /// Asks all destinations for their room again and again.
    async fn watch_room(&self) {
        loop {
            tokio::time::sleep(ROOM_INTERVAL).await;
            self.look_for_room().await;
        }
    }

    async fn look_for_room(&self) {
        let places: BTreeSet<(usize, usize)> = self
            .links()
            .map(|(_, ends)| (ends.destination.endpoint, ends.destination.place))
            .collect();
        stream::iter(&places)
            .for_each_concurrent(self.mesh.parallel(), |(endpoint, place)| self.look(*endpoint, *place))
            .await;
    }

    /// Looks whether a destination has room for the copies that it may have under way, and one
    /// more. One that does not say has.
    async fn look(&self, endpoint: usize, place: usize) {
        let settings = &self.mesh.settings;
        let at = &self.mesh.endpoints[endpoint].places[place];
        let Some(credential) = at.credentials.first() else {
            return;
        };
        let directory = Resource {
            location: at.location.clone(),
            access: credential.access.clone(),
            side: Side::Destination,
        };
        let free = tokio::time::timeout(settings.request_timeout, self.free_bytes(&directory)).await;
        let needed = settings
            .size_bytes
            .saturating_mul(u64::from(settings.parallel_each) + 1);
        let mut state = self.state();
        match free.ok().flatten().filter(|free| *free < needed) {
            Some(free) => {
                let words = format!("the destination has no room: {free} bytes are free");
                state.full.insert((endpoint, place), words);
            }
            None => {
                state.full.remove(&(endpoint, place));
            }
        }
    }

    /// What new files can take, if the server says so. A directory that is made with its first file
    /// has the room of the one above it.
    async fn free_bytes(&self, directory: &Resource) -> Option<u64> {
        let mut asked = directory.clone();
        loop {
            match self.said_free_bytes(&asked).await {
                Err(error) if error.code() == ErrorCode::PeerNotFound => asked = asked.parent()?,
                said => return said.ok().flatten(),
            }
        }
    }

    async fn said_free_bytes(&self, directory: &Resource) -> Result<Option<u64>> {
        if let Ok(space) = self.mesh.client.space(directory).await {
            return Ok(Some(space.free_bytes));
        }
        Ok(self.mesh.client.stat(directory).await?.quota_available_bytes)
    }
}

impl std::fmt::Debug for Stress<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Stress({:?}, {:?})", self.mesh, self.load)
    }
}

/// The phase of a link: multiples of the golden ratio are spread evenly, however many there are.
#[expect(clippy::cast_precision_loss, reason = "far fewer links")]
fn phase(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_749_895).fract()
}
