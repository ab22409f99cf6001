//! Whether small commits are so quick that handing them to a thread of their own costs more than
//! they take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::lane::waits_of_this_thread;

/// A commit that waits for longer does not belong on a worker.
const SLOW: Duration = Duration::from_millis(1);
/// Quick commits in a row that the pool must have seen before commits run where they are called.
const ROW: u32 = 16;
/// The longest such row.
const ROW_MAX: u32 = 1024;

/// What was measured of the commits of one store.
#[derive(Debug)]
pub(crate) struct CommitGauge {
    /// Quick commits since the last slow one.
    quick: AtomicU32,
    /// How many it takes; more each time that the disk becomes slow.
    row: AtomicU32,
    /// Commits that run or wait for a thread.
    running: AtomicUsize,
}

/// A small commit, until it is done or given up.
pub(crate) struct Commit {
    gauge: Arc<CommitGauge>,
    /// Whether it may run where it was called: the disk is quick, and no other commit runs. With
    /// many at once the pool moves more: its threads may wait for the lock of the directory, and a
    /// worker stops with all its connections.
    pub(crate) runs_here: bool,
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.gauge.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Commit {
    /// Runs it and notes how long it took. That it only lost the processor says nothing about the
    /// disk.
    pub(crate) fn measured<T>(self, commit: impl FnOnce() -> T) -> T {
        let waits_before = waits_of_this_thread();
        let started = Instant::now();
        let result = commit();
        if started.elapsed() <= SLOW {
            self.gauge.note_quick();
        } else if waits_before.is_none() || waits_of_this_thread() != waits_before {
            self.gauge.note_slow();
        }
        result
    }
}

impl Default for CommitGauge {
    fn default() -> Self {
        Self {
            quick: AtomicU32::new(0),
            row: AtomicU32::new(ROW),
            running: AtomicUsize::new(0),
        }
    }
}

impl CommitGauge {
    /// A commit begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Commit {
        let others = self.running.fetch_add(1, Ordering::Relaxed);
        Commit {
            gauge: Arc::clone(self),
            runs_here: others == 0 && self.is_quick(),
        }
    }

    fn is_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= self.row.load(Ordering::Relaxed)
    }

    fn note_quick(&self) {
        let row = self.row.load(Ordering::Relaxed);
        if self.quick.load(Ordering::Relaxed) < row {
            self.quick.fetch_add(1, Ordering::Relaxed);
        } else if row > ROW {
            // Forgiven a step at a time.
            self.row.store(row - 1, Ordering::Relaxed);
        }
    }

    fn note_slow(&self) {
        let row = self.row.load(Ordering::Relaxed);
        self.row.store(row.saturating_mul(2).min(ROW_MAX), Ordering::Relaxed);
        self.quick.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_quick_commits_is_needed_and_a_longer_one_after_a_slow_one() {
        let gauge = Arc::new(CommitGauge::default());
        let quick = |count| {
            for _ in 0..count {
                assert!(!gauge.is_quick());
                gauge.note_quick();
            }
        };
        quick(ROW);
        assert!(gauge.is_quick());
        gauge.begin().measured(|| std::thread::sleep(SLOW * 2));
        quick(ROW * 2);
        assert!(gauge.is_quick());
        for _ in 0..ROW {
            gauge.note_quick();
        }
        gauge.note_slow();
        quick(ROW * 2);
        assert!(gauge.is_quick(), "the first slow one is forgiven");
    }

    #[test]
    fn a_commit_beside_others_goes_to_the_pool() {
        let gauge = Arc::new(CommitGauge::default());
        for _ in 0..ROW {
            gauge.note_quick();
        }
        let first = gauge.begin();
        assert!(first.runs_here && !gauge.begin().runs_here);
        drop(first);
        assert!(gauge.begin().runs_here);
    }

    #[test]
    fn a_commit_that_lost_the_processor_is_not_slow() {
        let gauge = Arc::new(CommitGauge::default());
        for _ in 0..ROW {
            gauge.note_quick();
        }
        gauge.begin().measured(|| {
            let started = Instant::now();
            while started.elapsed() < SLOW * 2 {
                std::hint::black_box(0);
            }
        });
        assert!(gauge.is_quick());
    }
}
