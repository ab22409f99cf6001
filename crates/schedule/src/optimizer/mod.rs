//! How many copies run at once on each link, and why.
//!
//! **What it sees.** Every few seconds the service reports, for each link, the bytes that running
//! copies have moved (from their markers), the copies that run and the files that wait. It need
//! not wait for files to end, so it reacts within seconds, however large they are.
//!
//! **What it looks for.** The smallest number of copies with (nearly) the full goodput. Fewer
//! waste bandwidth; more waste memory and connections at the storages and beyond some number make
//! disks seek and goodput fall.
//!
//! **How a link grows.** A new link begins with two copies. While twice as many copies move
//! nearly twice as many bytes, it doubles with each sample. When they do not, it goes back to
//! where goodput stopped to follow: its *limit*. Small files need no rule of their own: their
//! copies mostly wait for round trips, so more copies bring more bytes up to a high number. If
//! the sizes of files change, goodput no longer compares, and the search begins anew.
//!
//! **Shared storages.** Five links into one storage would each take bytes from the others and
//! call it growth. So the sum over all links of a storage, in and out, is judged in the same way,
//! and gets its own limit. Links share it so that each gets the same goodput, according to its
//! weight (weighted max-min): a distant link gets more copies. A link that cannot use its share
//! leaves it to others. If growth helps one link of a storage and not another, the second has a
//! limit of its own.
//!
//! **Staying right.** Now and then an eighth more or less is tried for a few samples, one trial
//! at a time on a storage. More is kept if goodput gained at least half as much, less if goodput
//! hardly fell. When goodput changes by itself, a trial begins at once. Trials without result
//! become rarer.
//!
//! **Errors, by their side.** A storage that asks for less (overload), and links that stall, lose
//! 30 % at once, and the number that caused it is avoided for a while; a delay the server asked
//! for is kept. A storage that cannot be reached gets one copy at a time as a probe, 10 to 30 s
//! apart, on one of its links; then links return to half of their copies, and double. A full
//! storage, missing files, wrong checksums, refused credentials and wrong settings say nothing
//! about concurrency and change nothing.
//!
//! The state is a plain value: no clock, no file. Each change is a [`Decision`] with its reason.

mod allocate;
mod breaker;
mod climb;
mod events;
mod input;
pub mod limits;
mod measure;
mod share;

use std::collections::{BTreeMap, BTreeSet};

pub use input::{Decision, End, FailureClass, Inputs, Link, LinkBounds, LinkSample, Outcome, StorageBounds};

use breaker::Breaker;
use climb::Climb;

/// The numbers of copies of all links, and what they were learned from.
#[derive(Clone, Debug, Default)]
pub struct Optimizer {
    links: BTreeMap<Link, LinkState>,
    sides: BTreeMap<Side, SideState>,
    breakers: BTreeMap<String, Breaker>,
    sampled_ms: Option<i64>,
}

/// One direction of a storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Side {
    storage: String,
    end: End,
}

#[derive(Clone, Debug, Default)]
struct LinkState {
    bounds: LinkBounds,
    target: u32,
    active: u32,
    waiting: u32,
    bytes_moved: u64,
    /// Of the last sample, in bytes/s.
    goodput: f64,
    /// Smoothed goodput and copies, for the rate of a copy.
    smooth_goodput: f64,
    smooth_copies: f64,
    /// Logarithm of the mean size of files, and how many it is from.
    size: Sizes,
    before: Before,
    /// Goodput of the other links of both sides before the present trial.
    others: [f64; 2],
    climb: Climb,
    breaker: Breaker,
    stalls: u32,
    stalls_since_ms: i64,
    busy_ms: i64,
    /// When copies were last seen running; 0 if never.
    ran_ms: i64,
    /// The storage whose limit it shares, if that keeps it below its own.
    shared: Option<Side>,
}

/// The sample before the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    copies: f64,
    goodput: f64,
    /// Copies of the last sample.
    next_copies: f64,
    /// Goodput gained relative to copies when these grew last.
    gain: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    mean_ln: f64,
    settled_ln: f64,
    count: u32,
}

#[derive(Clone, Debug, Default)]
struct SideState {
    bounds: StorageBounds,
    climb: Climb,
    is_binding: bool,
    links: BTreeSet<Link>,
    totals: Totals,
}

/// Sums over the links of a side, at the last sample.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Links with running copies.
    active: usize,
    copies: u32,
    goodput: f64,
    /// Links that try another number.
    trials: usize,
    /// Links with running or waiting copies.
    with_work: usize,
}

impl Totals {
    fn add(&mut self, state: &LinkState) {
        self.active += usize::from(state.active > 0);
        self.copies = self.copies.saturating_add(state.active);
        self.goodput += state.goodput;
        self.trials += usize::from(state.climb.is_trying());
        self.with_work += usize::from(state.active > 0 || state.waiting > 0);
    }
}

impl Link {
    fn sides(&self) -> [Side; 2] {
        [
            Side {
                storage: self.source.clone(),
                end: End::Source,
            },
            Side {
                storage: self.destination.clone(),
                end: End::Destination,
            },
        ]
    }

    fn storage(&self, end: End) -> &str {
        match end {
            End::Source => &self.source,
            End::Destination => &self.destination,
        }
    }

    fn is_of(&self, side: &Side) -> bool {
        self.storage(side.end) == side.storage
    }
}

impl LinkState {
    fn is_hungry(&self) -> bool {
        self.waiting > 0
    }

    fn rate(&self) -> f64 {
        if self.smooth_copies < 0.5 {
            return 0.0;
        }
        self.smooth_goodput / self.smooth_copies
    }
}

impl SideState {
    /// Copies that may run, learned and configured.
    fn copies_max(&self) -> Option<f64> {
        let configured = self.bounds.max.map(f64::from);
        match (self.climb.limit, configured) {
            (Some(learned), Some(configured)) => Some(learned.min(configured)),
            (learned, configured) => learned.or(configured),
        }
    }
}

impl Optimizer {
    /// Sets the limits of a link, from now on. They are forgotten with the link, some time after
    /// its last file ([`limits::LINK_IDLE_MS`]). Returns false if there are too many links.
    pub fn set_link_bounds(&mut self, link: &Link, bounds: LinkBounds) -> bool {
        let Some(state) = self.link_state(link) else {
            return false;
        };
        state.bounds = bounds;
        true
    }

    /// Sets the limits of one direction of a storage: [`End::Destination`] is into it. They are
    /// forgotten with its last link.
    pub fn set_storage_bounds(&mut self, storage: &str, end: End, bounds: StorageBounds) {
        let side = Side {
            storage: storage.to_owned(),
            end,
        };
        self.sides.entry(side).or_default().bounds = bounds;
    }

    /// Copies that may run at once on `link`. Those that run already are not stopped when it
    /// falls.
    pub fn target(&self, link: &Link) -> u32 {
        self.links
            .get(link)
            .map_or(limits::INITIAL_COPIES, |state| state.target)
    }

    /// Bytes per second on `link`, at the last sample.
    pub fn goodput(&self, link: &Link) -> f64 {
        self.links.get(link).map_or(0.0, |state| state.goodput)
    }

    /// Copies that a storage sustains in one direction, if that has been found out.
    pub fn storage_limit(&self, storage: &str, end: End) -> Option<u32> {
        let side = Side {
            storage: storage.to_owned(),
            end,
        };
        let copies = self.sides.get(&side)?.climb.limit?;
        Some(copies.round() as u32)
    }

    /// Whether a storage counts as down.
    pub fn is_down(&self, storage: &str) -> bool {
        self.breakers.get(storage).is_some_and(Breaker::is_open)
    }

    /// The state of a link, made when it is new; `None` if there are too many.
    fn link_state(&mut self, link: &Link) -> Option<&mut LinkState> {
        if !self.links.contains_key(link) {
            if self.links.len() >= limits::LINKS_MAX {
                return None;
            }
            for side in link.sides() {
                self.sides.entry(side).or_default().links.insert(link.clone());
            }
            let mut state = LinkState::default();
            "too few copies yet to raise it".clone_into(&mut state.climb.why);
            state.climb.appetite = 2.0;
            self.links.insert(link.clone(), state);
        }
        self.links.get_mut(link)
    }
}
