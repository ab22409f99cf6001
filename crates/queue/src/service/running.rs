//! The copies that run in this process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use schedule::FileId;
use schedule::optimizer::Link;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use transfer::Progress;

/// How far a copy is.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    pub(super) file: FileId,
    pub(super) link: Link,
    pub(super) moved_bytes: u64,
}

/// A copy that runs.
struct Copy {
    link: Link,
    progress: Arc<Progress>,
    /// Dropping it, or sending, ends the copy.
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// The copies that run, by file.
#[derive(Default)]
pub(super) struct Running {
    copies: HashMap<FileId, Copy>,
    /// Files whose results the catalog does not have yet.
    unwritten: HashSet<FileId>,
}

impl Running {
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Whether a file is copied here, or its result is on its way to the catalog.
    pub(super) fn has(&self, file: FileId) -> bool {
        self.copies.contains_key(&file) || self.unwritten.contains(&file)
    }

    /// A copy has a result, which goes into the catalog.
    pub(super) fn has_result(&mut self, file: FileId) {
        self.unwritten.insert(file);
    }

    /// The catalog has these results.
    pub(super) fn written(&mut self, files: impl Iterator<Item = FileId>) {
        for file in files {
            self.unwritten.remove(&file);
        }
    }

    pub(super) fn begin(
        &mut self,
        file: FileId,
        link: Link,
        progress: Arc<Progress>,
        stop: oneshot::Sender<()>,
        task: JoinHandle<()>,
    ) {
        let stop = Some(stop);
        let copy = Copy {
            link,
            progress,
            stop,
            task,
        };
        self.copies.insert(file, copy);
    }

    pub(super) fn end(&mut self, file: FileId) {
        self.copies.remove(&file);
    }

    /// Asks a copy to stop. It stays in the table until it has cleaned up.
    pub(super) fn stop(&mut self, file: FileId) {
        if let Some(stop) = self.copies.get_mut(&file).and_then(|copy| copy.stop.take()) {
            let _ = stop.send(());
        }
    }

    /// Asks all copies to stop.
    pub(super) fn stop_each(&mut self) {
        for stop in self.copies.values_mut().filter_map(|copy| copy.stop.take()) {
            let _ = stop.send(());
        }
    }

    /// Stops all copies; the tasks to wait for.
    pub(super) fn stop_all(&mut self) -> Vec<JoinHandle<()>> {
        let copies = std::mem::take(&mut self.copies).into_values();
        copies.map(|copy| copy.task).collect()
    }

    /// How far each copy is.
    pub(super) fn moving(&self) -> Vec<Moving> {
        let copies = self.copies.iter().map(|(file, copy)| Moving {
            file: *file,
            link: copy.link.clone(),
            moved_bytes: copy.progress.moved_bytes(),
        });
        copies.collect()
    }
}
