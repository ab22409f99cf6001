//! Names that were stored or removed, for a cluster that remembers where files are.
//!
//! A notice is given when a change has ended, whether it succeeded or not: its receiver looks at
//! the name. Doors report no change twice, because the notice is part of [`Changing`], which each
//! change of a name has.
//!
//! Files that go without a door are reported by their next reader: see
//! [`NameChanges::report_missing`].
//!
//! [`Changing`]: crate::Changing

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use types::LogicalPath;

use crate::limits::{MISSING_FILES_A_SECOND, NAME_CHANGES_MAX};

/// The names that change. Clones share the receivers.
#[derive(Clone, Debug)]
pub struct NameChanges {
    changed: broadcast::Sender<LogicalPath>,
    missing: broadcast::Sender<LogicalPath>,
    this_second: Arc<Mutex<Second>>,
}

/// Missing files that were reported since it began.
#[derive(Debug)]
struct Second {
    began: Instant,
    count: usize,
}

impl Default for NameChanges {
    fn default() -> Self {
        Self {
            changed: broadcast::Sender::new(NAME_CHANGES_MAX),
            missing: broadcast::Sender::new(MISSING_FILES_A_SECOND),
            this_second: Arc::new(Mutex::new(Second {
                began: Instant::now(),
                count: 0,
            })),
        }
    }
}

impl NameChanges {
    /// The names whose changes end from now on. A receiver that falls behind by more than
    /// [`NAME_CHANGES_MAX`] names learns that it has missed some.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<LogicalPath> {
        self.changed.subscribe()
    }

    /// The names that are reported by [`NameChanges::report_missing`] from now on.
    #[must_use]
    pub fn subscribe_missing(&self) -> broadcast::Receiver<LogicalPath> {
        self.missing.subscribe()
    }

    /// Gives notice of a change when the returned value is dropped; `None` without receivers.
    pub(crate) fn notice(&self, path: &LogicalPath) -> Option<Arc<Notice>> {
        (self.changed.receiver_count() > 0).then(|| {
            Arc::new(Notice {
                path: path.clone(),
                changes: self.clone(),
            })
        })
    }

    /// Reports a name that has changed.
    pub fn report(&self, path: LogicalPath) {
        // It fails only without receivers.
        let _ = self.changed.send(path);
    }

    /// Reports a file that is not here although a redirector sent a client for it: it was removed
    /// without a door. A receiver looks at the name and tells no more than that: any client that
    /// may read can make such a report. At most [`MISSING_FILES_A_SECOND`] are passed on; the next
    /// client that misses a file reports it again.
    pub fn report_missing(&self, path: &LogicalPath) {
        if self.missing.receiver_count() > 0 && self.takes_missing(Instant::now()) {
            let _ = self.missing.send(path.clone());
        }
    }

    fn takes_missing(&self, now: Instant) -> bool {
        let mut second = self.this_second.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(second.began) >= Duration::from_secs(1) {
            *second = Second { began: now, count: 0 };
        }
        second.count += 1;
        second.count <= MISSING_FILES_A_SECOND
    }
}

/// A change that has not ended.
#[derive(Debug)]
pub(crate) struct Notice {
    path: LogicalPath,
    changes: NameChanges,
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.changes.report(self.path.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_bounded_in_each_second() {
        let changes = NameChanges::default();
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        assert!((0..MISSING_FILES_A_SECOND).all(|_| changes.takes_missing(at(0))));
        assert!(!changes.takes_missing(at(100)));
        assert!(changes.takes_missing(at(1500)));
        // Without a receiver, none is counted.
        (0..2 * MISSING_FILES_A_SECOND).for_each(|_| changes.report_missing(&LogicalPath::root()));
        assert!(changes.takes_missing(at(1600)));
    }
}
