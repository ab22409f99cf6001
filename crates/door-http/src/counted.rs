//! How much payload a request has moved, which the log is told also when the request is cut off.

use transfer::{Budget, Progress};

/// Adds what was moved to a number of the record when it is dropped.
pub(crate) struct Counted<'r> {
    pub(crate) progress: Progress,
    bytes: &'r mut u64,
}

impl<'r> Counted<'r> {
    /// Begins with nothing moved. What moves is counted in `budget` too.
    pub(crate) fn new(bytes: &'r mut u64, budget: &Budget) -> Self {
        Self {
            progress: Progress::counted_in(budget),
            bytes,
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.bytes += self.progress.moved_bytes();
    }
}
