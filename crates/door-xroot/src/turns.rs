//! Who is writing what: one file is opened for writing by one client at a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::LogicalPath;

/// The files that are open for writing. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<HashSet<LogicalPath>>>);

/// The turn of one writer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    path: LogicalPath,
    turns: Turns,
}

impl Turns {
    /// Takes the turn for a file; `None` while somebody else has it.
    pub(crate) fn take(&self, path: &LogicalPath) -> Option<Turn> {
        self.open().insert(path.clone()).then(|| Turn {
            path: path.clone(),
            turns: self.clone(),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashSet<LogicalPath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.open().remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_writer_at_a_time() {
        let turns = Turns::default();
        let (file, other) = (LogicalPath::parse("/a").unwrap(), LogicalPath::parse("/b").unwrap());
        let turn = turns.take(&file).unwrap();
        assert!(turns.take(&file).is_none() && turns.take(&other).is_some());
        drop(turn);
        assert!(turns.take(&file).is_some());
    }
}
