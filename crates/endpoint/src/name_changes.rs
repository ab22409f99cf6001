//! Names that were stored or removed, for a cluster that remembers where files are.
//!
//! A notice is given when a change has ended, whether it succeeded or not: its receiver looks at
//! the name. Doors report no change twice, because the notice is part of [`Changing`], which each
//! change of a name has.
//!
//! [`Changing`]: crate::Changing

use std::sync::Arc;

use tokio::sync::broadcast;
use types::LogicalPath;

use crate::limits::NAME_CHANGES_MAX;

/// The names that change. Clones share the receivers.
#[derive(Clone, Debug)]
pub struct NameChanges(broadcast::Sender<LogicalPath>);

impl Default for NameChanges {
    fn default() -> Self {
        Self(broadcast::Sender::new(NAME_CHANGES_MAX))
    }
}

impl NameChanges {
    /// The names whose changes end from now on. A receiver that falls behind by more than
    /// [`NAME_CHANGES_MAX`] names learns that it has missed some.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<LogicalPath> {
        self.0.subscribe()
    }

    /// Gives notice of a change when the returned value is dropped; `None` without receivers.
    pub(crate) fn notice(&self, path: &LogicalPath) -> Option<Arc<Notice>> {
        (self.0.receiver_count() > 0).then(|| {
            Arc::new(Notice {
                path: path.clone(),
                changes: self.clone(),
            })
        })
    }

    /// Reports a name that has changed.
    pub fn report(&self, path: LogicalPath) {
        // It fails only without receivers.
        let _ = self.0.send(path);
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
