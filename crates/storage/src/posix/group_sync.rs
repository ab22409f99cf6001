//! Group commit: uploads that are committed in one directory at the same time share its flushes.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use rustix::fs;
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use crate::fault::fault;

/// File system and inode.
type Key = (u64, u64);

/// One flush, shared by all changes that were made before it began.
#[derive(Default)]
struct Flush(OnceLock<Result<(), Errno>>);

#[derive(Default)]
struct Directory {
    is_flushing: bool,
    /// The flush after the running one.
    next: Arc<Flush>,
}

/// The directories that are being flushed.
#[derive(Default)]
pub(super) struct GroupSync {
    directories: Mutex<HashMap<Key, Directory>>,
    news: Condvar,
}

impl GroupSync {
    /// Makes the current names in a directory durable.
    pub(super) fn sync(&self, directory: impl AsFd) -> Result<(), Errno> {
        let raw = fs::fstat(&directory)?;
        self.sync_known((raw.st_dev, raw.st_ino), directory)
    }

    /// The same for a directory whose file system and inode are known.
    pub(super) fn sync_known(&self, identity: Key, directory: impl AsFd) -> Result<(), Errno> {
        self.flush(identity, || fs::fsync(&directory))
    }

    fn flush(&self, key: Key, fsync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let flush = Arc::clone(&directories.entry(key).or_default().next);
        loop {
            if let Some(result) = flush.0.get() {
                return *result;
            }
            let directory = directories.entry(key).or_default();
            if !directory.is_flushing {
                directory.is_flushing = true;
                directory.next = Arc::default();
                break;
            }
            directories = self.news.wait(directories).unwrap_or_else(PoisonError::into_inner);
        }
        drop(directories);
        let result = fsync();
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = flush.0.set(result);
        if let Some(directory) = directories.get_mut(&key) {
            directory.is_flushing = false;
            if Arc::strong_count(&directory.next) == 1 {
                directories.remove(&key);
            }
        }
        drop(directories);
        self.news.notify_all();
        result
    }
}

/// Makes a change of names durable. A failure says that the change itself has been made.
pub(super) fn sync_names(group: &GroupSync, directory: impl AsFd, path: &LogicalPath) -> Result<()> {
    group.sync(directory).map_err(|errno| name_not_durable(errno, path))
}

pub(super) fn name_not_durable(errno: Errno, path: &LogicalPath) -> Error {
    let why = "the file is complete and in its place, but its name may not survive a power failure";
    fault(ErrorCode::StorageFailed, Phase::Commit)
        .with_detail(why)
        .with_subject(path)
        .with_private(errno)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn callers_during_a_flush_share_the_next_one() {
        const WAITING: usize = 20;
        let group = GroupSync::default();
        let flushes = AtomicUsize::new(0);
        let (begun, has_begun) = channel();
        let (open, gate) = channel::<()>();
        let count = || {
            flushes.fetch_add(1, Ordering::Relaxed);
            Err(Errno::IO)
        };
        std::thread::scope(|scope| {
            let group = &group;
            let first = scope.spawn(move || {
                group.flush((1, 1), || {
                    begun.send(()).unwrap();
                    gate.recv().unwrap();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            let others: Vec<_> = (0..WAITING)
                .map(|_| scope.spawn(|| group.flush((1, 1), count)))
                .collect();
            let waiting = || Arc::strong_count(&group.directories.lock().unwrap()[&(1, 1)].next) - 1;
            while waiting() < WAITING {
                std::thread::yield_now();
            }
            assert_eq!(
                group.flush((1, 2), || Ok(())),
                Ok(()),
                "another directory does not wait"
            );
            open.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Ok(()));
            for other in others {
                assert_eq!(
                    other.join().unwrap(),
                    Err(Errno::IO),
                    "each learns how its own flush ended"
                );
            }
        });
        assert_eq!(flushes.load(Ordering::Relaxed), 1);
        assert!(group.directories.lock().unwrap().is_empty());
    }
}
