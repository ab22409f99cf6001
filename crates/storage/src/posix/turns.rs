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
pub(super) fn are_needed(magic: u64) -> bool {
    matches!(magic, TMPFS | EXT4 | XFS | BTRFS)
}

/// The lock that the writers of a file share.
pub(super) struct Turns(Option<Mutex<()>>);

impl Turns {
    pub(super) fn new(are_needed: bool) -> Self {
        Self(are_needed.then(Mutex::default))
    }

    /// Waits for the lock, which lasts as long as the returned guard.
    pub(super) fn take(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.0.as_ref()?;
        Some(turn.lock().unwrap_or_else(PoisonError::into_inner))
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
        for are_needed in [true, false] {
            let turns = Turns::new(are_needed);
            let (told, heard) = channel();
            thread::scope(|scope| {
                let mine = turns.take();
                scope.spawn(|| {
                    let _turn = turns.take();
                    told.send(()).unwrap();
                });
                let wait = match are_needed {
                    true => Duration::from_millis(50),
                    false => Duration::from_secs(60),
                };
                assert_eq!(heard.recv_timeout(wait).is_err(), are_needed);
                drop(mine);
                if are_needed {
                    heard.recv_timeout(Duration::from_secs(60)).unwrap();
                }
            });
        }
    }
}
