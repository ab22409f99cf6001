//! Closes replaced and removed files outside of the request.
//!
//! Closing the last descriptor of a file without a name frees its blocks, which takes long for a
//! large file. The file is therefore kept open across the rename or unlink and closed on a separate
//! thread.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::limits::LATE_CLOSES_MAX;

pub(crate) struct LateClose {
    queue: Option<SyncSender<OwnedFd>>,
}

impl LateClose {
    /// Starts the thread. It ends when this is dropped and all files are closed.
    pub(crate) fn start() -> Self {
        let (queue, files) = sync_channel::<OwnedFd>(LATE_CLOSES_MAX);
        let started = execution::start_thread("late-close", move || files.into_iter().for_each(drop));
        // Without the thread, files are closed at once: slower, but correct.
        Self {
            queue: started.ok().map(|_| queue),
        }
    }

    /// A queue that the test itself empties.
    #[cfg(test)]
    pub(crate) fn held_back() -> (Self, std::sync::mpsc::Receiver<OwnedFd>) {
        let (queue, files) = sync_channel(LATE_CLOSES_MAX);
        (Self { queue: Some(queue) }, files)
    }

    /// Closes the file soon, or at once when the queue is full.
    pub(crate) fn close(&self, file: OwnedFd) {
        if let Some(queue) = &self.queue {
            // If the queue is full, the error contains the file, which is dropped here.
            let _ = queue.try_send(file);
        }
    }
}
