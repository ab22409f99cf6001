//! Checksums that the server reports of a file that was replaced.
//!
//! XRootD keeps a checksum with the time of its file in whole seconds: a file that replaces another
//! in the same second keeps that of the old one for good. Reading a new file back shows it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use types::{Checksum, LogicalPath};

use crate::limits::STALE_CHECKSUMS_MAX;

/// Wrong checksums that the server reported, the latest last.
#[derive(Debug, Default)]
pub(crate) struct StaleChecksums(Mutex<VecDeque<(LogicalPath, Checksum)>>);

impl StaleChecksums {
    /// Notes that the file does not have this checksum, although the server says so.
    pub(crate) fn note(&self, path: &LogicalPath, checksum: &Checksum) {
        let mut list = self.list();
        list.retain(|(known, _)| known != path);
        if list.len() == STALE_CHECKSUMS_MAX {
            list.pop_front();
        }
        list.push_back((path.clone(), checksum.clone()));
    }

    /// Leaves those out that are known to be wrong: the caller computes them. This also costs a
    /// later file a read that has this checksum, and is right for it, too.
    pub(crate) fn leave_out(&self, path: &LogicalPath, told: &mut Vec<Checksum>) {
        let list = self.list();
        told.retain(|sum| !list.iter().any(|(known, stale)| known == path && stale == sum));
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<(LogicalPath, Checksum)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
