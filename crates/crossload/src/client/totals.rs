//! Totals of one command over all of its files.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transfer::Progress;

/// What has become of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Files that were copied, or would be.
    pub(crate) files: u64,
    pub(crate) failed: u64,
    /// Files that are at the destination already.
    pub(crate) skipped: u64,
    /// Entries of trees that are neither files nor directories.
    pub(crate) left_out: u64,
    /// Entries of the destination that were deleted, or would be.
    pub(crate) deleted: u64,
    /// Copied files for which no checksum was compared, although it was asked for.
    pub(crate) unverified: u64,
    /// Bytes of the copied files.
    pub(crate) bytes: u64,
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) count: Count,
    /// Files found so far.
    pub(crate) found_files: u64,
    /// Bytes of them; those of unknown size count 0.
    pub(crate) found_bytes: u64,
    /// Whether all have been found.
    pub(crate) is_search_over: bool,
    /// Bytes moved, those of files that are being copied too.
    pub(crate) moved_bytes: u64,
    pub(crate) elapsed: Duration,
}

impl Snapshot {
    /// The mean rate, in bytes per second.
    pub(crate) fn bytes_per_s(&self) -> u64 {
        (self.moved_bytes as f64 / self.elapsed.as_secs_f64().max(1e-3)) as u64
    }

    /// The time left at the mean rate, if all files are known.
    pub(crate) fn left(&self) -> Option<Duration> {
        let rate = self.bytes_per_s();
        let rest = self.found_bytes.saturating_sub(self.moved_bytes);
        (self.is_search_over && rate > 0).then(|| Duration::from_secs(rest / rate))
    }
}

/// The totals, and the copies that run.
pub(crate) struct Totals {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: Count,
    found_files: u64,
    found_bytes: u64,
    is_search_over: bool,
    running: HashMap<u64, Progress>,
    begun: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Totals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a file that was found.
    pub(crate) fn count_found(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.found_files += 1;
        state.found_bytes += bytes.unwrap_or(0);
    }

    /// All files have been found.
    pub(crate) fn end_search(&self) {
        self.state().is_search_over = true;
    }

    /// Counts a file that is not copied, because it is there.
    pub(crate) fn skip(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.count.skipped += 1;
        // The rate and the time left are about what is copied.
        state.found_bytes = state.found_bytes.saturating_sub(bytes.unwrap_or(0));
    }

    /// Changes the counts.
    pub(crate) fn add(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.state().count);
    }

    /// Includes a copy while the guard lives.
    pub(crate) fn begin(&self, progress: &Progress) -> RunningCopy<'_> {
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        state.running.insert(number, progress.clone());
        RunningCopy { totals: self, number }
    }

    /// How far the command is.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let running: u64 = state.running.values().map(Progress::moved_bytes).sum();
        Snapshot {
            count: state.count,
            found_files: state.found_files,
            found_bytes: state.found_bytes,
            is_search_over: state.is_search_over,
            moved_bytes: state.count.bytes + running,
            elapsed: self.started.elapsed(),
        }
    }
}

/// A copy that runs.
pub(crate) struct RunningCopy<'a> {
    totals: &'a Totals,
    number: u64,
}

impl RunningCopy<'_> {
    /// It has succeeded.
    pub(crate) fn done(self, bytes: u64) {
        let mut state = self.totals.state();
        state.running.remove(&self.number);
        state.count.files += 1;
        state.count.bytes += bytes;
    }
}

impl Drop for RunningCopy<'_> {
    fn drop(&mut self) {
        self.totals.state().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_running_copies_count_once() {
        let totals = Totals::default();
        let (first, second) = (Progress::new(), Progress::new());
        let (copied, failed) = (totals.begin(&first), totals.begin(&second));
        totals.count_found(Some(100));
        totals.count_found(None);
        first.add_moved(60);
        second.add_moved(7);
        assert_eq!(totals.snapshot().moved_bytes, 67);
        assert_eq!(totals.snapshot().left(), None, "more may be found");
        first.add_moved(40);
        copied.done(100);
        drop(failed);
        totals.end_search();
        let end = totals.snapshot();
        assert_eq!((end.moved_bytes, end.found_bytes, end.found_files), (100, 100, 2));
        assert_eq!((end.count.files, end.count.bytes), (1, 100));
        totals.count_found(Some(50));
        totals.skip(Some(50));
        assert_eq!(totals.snapshot().found_bytes, 100);
        assert!(end.left().is_some());
    }
}
