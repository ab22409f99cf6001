//! Serialises writes to a file where the file system locks the inode.
//!
//! Several streams of a transfer write to one file. Most file systems lock it while they copy data
//! into the page cache, and writers that wait for that lock spin: with two streams, for an eighth
//! of all processor time. Here they sleep instead.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TMPFS;

const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683e;

/// Whether a file system with this magic number takes one write to a file at a time. Others, such
/// as Lustre and GPFS, lock ranges.
pub(super) fn is_needed(magic: u64) -> bool {
    matches!(magic, TMPFS | EXT4 | XFS | BTRFS)
}

/// The lock that the writers of a file share.
pub(super) struct WriteLock(Option<Mutex<()>>);

impl WriteLock {
    pub(super) fn new(is_needed: bool) -> Self {
        Self(is_needed.then(Mutex::default))
    }

    /// Waits for the lock, which lasts as long as the returned guard.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = self.0.as_ref()?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn writers_wait_for_each_other_where_the_file_system_locks() {
        for is_needed in [true, false] {
            let write_lock = WriteLock::new(is_needed);
            let (told, heard) = channel();
            thread::scope(|scope| {
                let mine = write_lock.lock();
                scope.spawn(|| {
                    let _guard = write_lock.lock();
                    told.send(()).unwrap();
                });
                let wait = match is_needed {
                    true => Duration::from_millis(50),
                    false => Duration::from_secs(60),
                };
                assert_eq!(heard.recv_timeout(wait).is_err(), is_needed);
                drop(mine);
                if is_needed {
                    heard.recv_timeout(Duration::from_secs(60)).unwrap();
                }
            });
        }
    }
}
