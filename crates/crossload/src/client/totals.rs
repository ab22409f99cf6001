//! Totals of one command over all of its files.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transfer::Progress;

/// How long copies run before the time left is shown: an earlier rate says nothing.
const LEFT_SHOWN_AFTER: Duration = Duration::from_secs(2);

/// What has become of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Files that were copied, or would be.
    pub(crate) files: u64,
    pub(crate) failed: u64,
    /// Files that are at the destination already.
    pub(crate) skipped: u64,
    /// Those of them that were skipped by size and time, since no checksum could be compared.
    pub(crate) skipped_unverified: u64,
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
    /// Files listed so far.
    pub(crate) found_files: u64,
    /// Bytes of them that were copied or may be; those of unknown size count 0.
    pub(crate) found_bytes: u64,
    /// Whether all have been listed.
    pub(crate) is_search_over: bool,
    /// Bytes moved, those of files that are being copied too.
    pub(crate) moved_bytes: u64,
    pub(crate) elapsed: Duration,
    /// The time since the first copy began.
    pub(crate) copying: Duration,
    /// Bytes that are expected to be moved yet.
    rest_bytes: u64,
}

impl Snapshot {
    /// The mean rate since the first copy began, in bytes per second.
    pub(crate) fn bytes_per_s(&self) -> u64 {
        (self.moved_bytes as f64 / self.copying.as_secs_f64().max(1e-3)) as u64
    }

    /// The time left at the mean rate, once all files are known.
    pub(crate) fn left(&self) -> Option<Duration> {
        let rate = self.bytes_per_s();
        let is_known = self.is_search_over && rate > 0 && self.copying >= LEFT_SHOWN_AFTER;
        is_known.then(|| Duration::from_secs(self.rest_bytes / rate))
    }

    /// The number of files that need no more work.
    pub(crate) fn ended_files(&self) -> u64 {
        self.count.files + self.count.skipped + self.count.failed
    }
}

/// The totals, and the copies that run.
pub(crate) struct Totals {
    started: Instant,
    state: Mutex<State>,
}

/// Sums of bytes stop at the largest number: they are of what servers say.
#[derive(Default)]
struct State {
    count: Count,
    found_files: u64,
    found_bytes: u64,
    /// Of the found bytes, those of files that were compared and are to be copied.
    chosen_bytes: u64,
    skipped_bytes: u64,
    /// Directories and arguments that are known, and not listed to their end.
    unlisted: u64,
    first_copy: Option<Instant>,
    running: HashMap<u64, Progress>,
    begun: u64,
}

impl State {
    /// Of the files that were not compared yet, as large a part is expected to be copied as of the
    /// others.
    fn rest_bytes(&self, moved_bytes: u64) -> u64 {
        let chosen_left = self.chosen_bytes.saturating_sub(moved_bytes);
        let undecided = self.found_bytes.saturating_sub(self.chosen_bytes);
        let decided = self.chosen_bytes.saturating_add(self.skipped_bytes);
        let share = match decided {
            0 => 1.0,
            _ => self.chosen_bytes as f64 / decided as f64,
        };
        chosen_left.saturating_add((undecided as f64 * share) as u64)
    }

    fn forget(&mut self, bytes: Option<u64>, is_chosen: bool) {
        let bytes = bytes.unwrap_or(0);
        self.found_bytes = self.found_bytes.saturating_sub(bytes);
        if is_chosen {
            self.chosen_bytes = self.chosen_bytes.saturating_sub(bytes);
        }
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::new(State {
                // The arguments themselves.
                unlisted: 1,
                ..State::default()
            }),
        }
    }
}

impl Totals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a file that was listed.
    pub(crate) fn count_found(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.found_files += 1;
        state.found_bytes = state.found_bytes.saturating_add(bytes.unwrap_or(0));
    }

    /// So many listed files, with these bytes, are not passed on after all.
    pub(crate) fn uncount_found(&self, files: u64, bytes: u64) {
        let mut state = self.state();
        state.found_files = state.found_files.saturating_sub(files);
        state.found_bytes = state.found_bytes.saturating_sub(bytes);
    }

    /// So many directories or arguments are to be listed.
    pub(crate) fn expect_listings(&self, count: u64) {
        self.state().unlisted += count;
    }

    /// One of the expected listings; it is over when the guard is dropped.
    pub(crate) fn listing(&self) -> ExpectedListing<'_> {
        ExpectedListing(self)
    }

    /// All files have been listed, or nothing more is.
    pub(crate) fn end_search(&self) {
        self.state().unlisted = 0;
    }

    /// A file was compared, and is to be copied.
    pub(crate) fn choose(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.chosen_bytes = state.chosen_bytes.saturating_add(bytes.unwrap_or(0));
    }

    /// Counts a file that is not copied, because it is there. `is_chosen`: it was to be copied.
    pub(crate) fn skip(&self, bytes: Option<u64>, is_chosen: bool) {
        let mut state = self.state();
        state.count.skipped += 1;
        state.skipped_bytes = state.skipped_bytes.saturating_add(bytes.unwrap_or(0));
        state.forget(bytes, is_chosen);
    }

    /// The rate and the time left are not about a file that has failed.
    pub(crate) fn forget_failed(&self, bytes: Option<u64>, is_chosen: bool) {
        self.state().forget(bytes, is_chosen);
    }

    /// Changes the counts.
    pub(crate) fn add(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.state().count);
    }

    /// Includes a copy while the guard lives.
    pub(crate) fn begin(&self, progress: &Progress) -> RunningCopy<'_> {
        let mut state = self.state();
        state.first_copy.get_or_insert_with(Instant::now);
        state.begun += 1;
        let number = state.begun;
        state.running.insert(number, progress.clone());
        RunningCopy { totals: self, number }
    }

    /// How far the command is.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let running = state.running.values().map(Progress::moved_bytes);
        let moved_bytes = running.fold(state.count.bytes, u64::saturating_add);
        Snapshot {
            count: state.count,
            found_files: state.found_files,
            found_bytes: state.found_bytes,
            is_search_over: state.unlisted == 0,
            moved_bytes,
            elapsed: self.started.elapsed(),
            copying: state.first_copy.map(|first| first.elapsed()).unwrap_or_default(),
            rest_bytes: state.rest_bytes(moved_bytes),
        }
    }
}

/// A directory or an argument that is being listed.
pub(crate) struct ExpectedListing<'a>(&'a Totals);

impl Drop for ExpectedListing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.unlisted = state.unlisted.saturating_sub(1);
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
        state.count.bytes = state.count.bytes.saturating_add(bytes);
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
        first.add_moved(40);
        copied.done(100);
        drop(failed);
        let end = totals.snapshot();
        assert_eq!((end.moved_bytes, end.found_bytes, end.found_files), (100, 100, 2));
        assert_eq!((end.count.files, end.count.bytes), (1, 100));
        totals.count_found(Some(50));
        totals.skip(Some(50), false);
        assert_eq!(totals.snapshot().found_bytes, 100);
    }

    #[test]
    fn sizes_that_servers_make_up_end_nothing() {
        let totals = Totals::default();
        let most = Some(u64::MAX);
        for _ in 0..2 {
            totals.count_found(most);
            totals.choose(most);
            totals.skip(most, false);
            let progress = Progress::new();
            progress.add_moved(u64::MAX);
            let copy = totals.begin(&progress);
            assert_eq!(totals.snapshot().moved_bytes, u64::MAX);
            copy.done(u64::MAX);
        }
        let end = totals.snapshot();
        assert_eq!((end.count.bytes, end.moved_bytes), (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_search_is_over_when_each_directory_was_listed() {
        let totals = Totals::default();
        let is_over = || totals.snapshot().is_search_over;
        let arguments = totals.listing();
        totals.expect_listings(1);
        drop(arguments);
        let top = totals.listing();
        assert!(!is_over(), "the top is not listed yet");
        totals.expect_listings(2);
        drop(top);
        drop(totals.listing());
        assert!(!is_over(), "one of its directories is not");
        drop(totals.listing());
        assert!(is_over());
    }

    #[test]
    fn the_time_left_is_shown_once_it_can_be_estimated() {
        let snapshot = |is_search_over, copying_s, moved_bytes, rest_bytes| Snapshot {
            count: Count::default(),
            found_files: 1,
            found_bytes: 100,
            is_search_over,
            moved_bytes,
            elapsed: Duration::from_secs(100),
            copying: Duration::from_secs(copying_s),
            rest_bytes,
        };
        let left = |snapshot: Snapshot| snapshot.left().map(|left| left.as_secs());
        assert_eq!(left(snapshot(true, 10, 100, 50)), Some(5), "not by the time before");
        assert_eq!(left(snapshot(false, 10, 100, 50)), None, "more may be found");
        assert_eq!(left(snapshot(true, 1, 100, 50)), None, "too early");
        assert_eq!(left(snapshot(true, 10, 0, 50)), None, "nothing was moved");
    }

    #[test]
    fn of_undecided_files_as_much_is_expected_to_be_copied_as_of_others() {
        let totals = Totals::default();
        for _ in 0..10 {
            totals.count_found(Some(100));
        }
        assert_eq!(totals.snapshot().rest_bytes, 1000);
        totals.choose(Some(100));
        (0..3).for_each(|_| totals.skip(Some(100), false));
        assert_eq!(totals.snapshot().rest_bytes, 100 + 600 / 4);
        totals.forget_failed(Some(100), true);
        assert_eq!(totals.snapshot().rest_bytes, 0, "none of three was copied");
    }
}
