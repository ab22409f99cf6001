//! Who is writing what: one file is opened for writing by one client at a time. What is being written shows in a stat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use storage::{Stat, Upload};
use types::LogicalPath;

/// The files that are open for writing, with the uploads of those that have no name yet. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Table>>);

/// The upload, where there is one that can be shown, by the name that it will get.
type Table = HashMap<LogicalPath, Option<Weak<dyn Upload>>>;

/// The turn of one writer, until it is dropped.
pub(crate) struct Turn {
    path: LogicalPath,
    turns: Turns,
}

impl Turns {
    /// Takes the turn for a file; `None` while somebody else has it.
    pub(crate) fn take(&self, path: &LogicalPath) -> Option<Turn> {
        let mut table = self.open();
        if table.contains_key(path) {
            return None;
        }
        table.insert(path.clone(), None);
        Some(Turn {
            path: path.clone(),
            turns: self.clone(),
        })
    }

    /// What a file is that is being uploaded under this name, as far as it has come.
    pub(crate) fn pending(&self, path: &LogicalPath) -> Option<Stat> {
        let upload = self.open().get(path)?.as_ref()?.upgrade()?;
        // An upload that has ended at this moment is not pending any more.
        Some(upload.reader().ok()?.stat().clone())
    }

    fn open(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Shows others the file that is being written.
    pub(crate) fn show(&self, upload: &Arc<dyn Upload>) {
        if let Some(shown) = self.turns.open().get_mut(&self.path) {
            *shown = Some(Arc::downgrade(upload));
        }
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
