//! The progress of a third-party copy, for the file that stands for it and for stats of its name.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use storage::{Kind, Stat};
use transfer::Progress;
use types::Result;

/// The progress of a copy.
#[derive(Default)]
pub(crate) struct CopyProgress {
    /// Set when it begins.
    progress: OnceLock<Arc<Progress>>,
    /// Set when it ends.
    ending: OnceLock<Result<()>>,
}

impl CopyProgress {
    /// The copy begins; to be called once.
    pub(crate) fn begin(&self, progress: Arc<Progress>) {
        // A second call would change nothing.
        let _ = self.progress.set(progress);
    }

    /// The copy has ended; to be called once.
    pub(crate) fn end(&self, ending: Result<()>) {
        // A second call would change nothing.
        let _ = self.ending.set(ending);
    }

    /// How it ended; `None` before its end.
    pub(crate) fn ending(&self) -> Option<&Result<()>> {
        self.ending.get()
    }

    /// What a client sees of the file.
    pub(crate) fn stat(&self) -> Stat {
        Stat {
            kind: Kind::File,
            size_bytes: self.progress.get().map_or(0, |progress| progress.moved_bytes()),
            modified: SystemTime::now(),
            mode: 0o644,
            // It has none yet, and 0 would mean that the file is missing.
            inode: 1,
        }
    }

    /// The same until the copy ends: then the file is there, or never will be.
    pub(crate) fn pending(&self) -> Option<Stat> {
        self.ending().is_none().then(|| self.stat())
    }
}
