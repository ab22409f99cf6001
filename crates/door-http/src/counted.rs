//! Counts payload that a request moves. The log gets the count even when the request is cut off.

use transfer::{Budget, Flow, Progress};

/// Adds the moved bytes to a field of the record when dropped.
pub(crate) struct Counted<'r> {
    pub(crate) progress: Progress,
    bytes: &'r mut u64,
}

impl<'r> Counted<'r> {
    /// Begins with no bytes moved. They are also counted in `budget`.
    pub(crate) fn new(bytes: &'r mut u64, budget: &Budget, flow: Flow) -> Self {
        Self {
            progress: Progress::counted_in(budget, flow),
            bytes,
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.bytes += self.progress.moved_bytes();
    }
}
