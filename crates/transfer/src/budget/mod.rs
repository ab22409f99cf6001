//! State that the copies of one owner share: running copies, extra streams, bytes moved, and the
//! number of streams that paid off with each server.
//!
//! The owner is a server, or one command of the client. All its copies get the same budget.

mod stream_history;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::CHOSEN_STREAMS_ADDED_MAX;

use stream_history::StreamHistory;

/// Which way payload goes, seen from the budget's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It is stored here.
    In,
    /// It is read here.
    Out,
    /// It goes from one server to another.
    Through,
}

/// The budget of one owner. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    processors: u32,
    running_copies: AtomicU32,
    extra_streams: AtomicU32,
    /// By [`Flow`].
    moved_bytes: [AtomicU64; 3],
    history: StreamHistory,
}

impl Budget {
    /// A budget for the processors that this process may use.
    #[must_use]
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::for_processors(u32::try_from(processors).unwrap_or(u32::MAX))
    }

    pub(crate) fn for_processors(processors: u32) -> Self {
        Self(Arc::new(Shared {
            processors,
            running_copies: AtomicU32::new(0),
            extra_streams: AtomicU32::new(0),
            moved_bytes: Default::default(),
            history: StreamHistory::default(),
        }))
    }

    /// Bytes moved under this budget.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        let all = self.0.moved_bytes.iter();
        all.map(|bytes| bytes.load(Ordering::Relaxed))
            .fold(0, u64::saturating_add)
    }

    /// Bytes moved this way under this budget. Transfers that run are counted as they go.
    #[must_use]
    pub fn flow_bytes(&self, flow: Flow) -> u64 {
        self.0.moved_bytes[flow as usize].load(Ordering::Relaxed)
    }

    /// Counts bytes that were moved outside of copies. Those of a copy are counted by its
    /// [`Progress`](crate::Progress).
    pub fn add_moved(&self, flow: Flow, bytes: u64) {
        self.0.moved_bytes[flow as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a copy as running until the guard is dropped.
    pub(crate) fn begin_copy(&self) -> RunningCopy {
        self.0.running_copies.fetch_add(1, Ordering::Relaxed);
        RunningCopy(self.clone())
    }

    /// The copies that run.
    pub(crate) fn running_copies(&self) -> u32 {
        self.0.running_copies.load(Ordering::Relaxed)
    }

    /// The fair share of `count` for each running copy.
    pub(crate) fn share_of(&self, count: u32) -> u32 {
        count / self.running_copies().max(1)
    }

    /// Processors per running copy; 0 if there are more copies than processors.
    pub(crate) fn processors_each(&self) -> u32 {
        self.share_of(self.0.processors)
    }

    /// Most streams from a near source: one per processor, or one in all.
    pub(crate) fn near_streams_max(&self, shares_processors: bool) -> u32 {
        if shares_processors { self.processors_each() } else { 1 }
    }

    /// Grants up to `wanted` streams beyond those that a copy began with; fewer if all copies
    /// together have too many.
    pub(crate) fn add_streams(&self, wanted: u32) -> Vec<ExtraStream> {
        let mut granted = 0;
        let grant = |used: u32| {
            granted = wanted.min(CHOSEN_STREAMS_ADDED_MAX.saturating_sub(used));
            Some(used + granted)
        };
        let _ = self
            .0
            .extra_streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant);
        (0..granted).map(|_| ExtraStream(self.clone())).collect()
    }

    /// The number of streams that paid off with each server.
    pub(crate) fn history(&self) -> &StreamHistory {
        &self.0.history
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

/// A copy in its data phase.
#[derive(Debug)]
pub(crate) struct RunningCopy(Budget);

impl Drop for RunningCopy {
    fn drop(&mut self) {
        self.0.0.running_copies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that [`Budget::add_streams`] granted; returned on drop.
#[derive(Debug)]
pub(crate) struct ExtraStream(Budget);

impl Drop for ExtraStream {
    fn drop(&mut self) {
        self.0.0.extra_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    #[test]
    fn more_copies_than_processors_are_noticed_while_they_run() {
        let budget = Budget::for_processors(4);
        let begin = || budget.begin_copy();
        let mut running: Vec<RunningCopy> = (0..4).map(|_| begin()).collect();
        assert_eq!((budget.processors_each(), budget.near_streams_max(true)), (1, 1));
        running.push(begin());
        assert_eq!(budget.processors_each(), 0);
        assert_eq!(budget.share_of(8), 1);
        running.truncate(1);
        assert_eq!((budget.processors_each(), budget.near_streams_max(true)), (4, 4));
        assert_eq!((budget.share_of(8), budget.near_streams_max(false)), (8, 1));
    }

    #[test]
    fn all_copies_together_get_no_more_streams_than_the_limit() {
        let budget = Budget::for_processors(4);
        let mut granted = budget.add_streams(CHOSEN_STREAMS_ADDED_MAX - 1);
        granted.extend(budget.add_streams(8));
        assert_eq!(granted.len(), CHOSEN_STREAMS_ADDED_MAX as usize);
        assert!(budget.add_streams(1).is_empty());
        granted.truncate(1);
        let after = budget.add_streams(CHOSEN_STREAMS_ADDED_MAX);
        assert_eq!(after.len(), CHOSEN_STREAMS_ADDED_MAX as usize - 1);
    }

    #[test]
    fn bytes_of_a_copy_are_counted_from_its_beginning_and_only_for_its_owner() {
        let (budget, other) = (Budget::for_processors(1), Budget::for_processors(1));
        let (copy, download) = (Progress::new(), Progress::counted_in(&budget, Flow::Out));
        copy.add_moved(1);
        copy.count_in(&budget);
        copy.add_moved(10);
        download.add_moved(100);
        budget.add_moved(Flow::In, 1000);
        copy.set_moved(5);
        assert_eq!((budget.moved_bytes(), other.moved_bytes()), (1110, 0));
        assert_eq!(copy.moved_bytes(), 5);
        let flows = [Flow::In, Flow::Out, Flow::Through].map(|flow| budget.flow_bytes(flow));
        assert_eq!(flows, [1000, 100, 10]);
    }
}
