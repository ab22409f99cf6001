//! A cache for checksums that cannot be stored with their file: in a read-only export, on a file
//! system without attributes, or for another owner's file when the server has no rights over it.
//! Entries last until the process ends, so that a popular file is read for its checksum only once.
//!
//! Each entry is bound to the file and its timestamps, including that of its inode. Unlike an
//! attribute, an entry does not disappear with its file, and a new file may get the same inode
//! number, size and date.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use crate::limits::CHECKSUMS_REMEMBERED_MAX;
use rustix::fs;
use types::Checksum;

use super::resolve::plain_stat;
use crate::api::{Kind, Stat};

/// A file in its current state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, u64),
    /// The same for the inode.
    changed: (i64, u64),
}

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        reason = "the widths of these fields differ between machines"
    )]
    fn of(raw: &fs::Stat) -> Self {
        Self {
            device: raw.st_dev as u64,
            inode: raw.st_ino as u64,
            size_bytes: raw.st_size as u64,
            modified: (raw.st_mtime as i64, raw.st_mtime_nsec as u64),
            changed: (raw.st_ctime as i64, raw.st_ctime_nsec as u64),
        }
    }
}

type Records = HashMap<Identity, Vec<Checksum>>;

/// The entries of a store: at most [`CHECKSUMS_REMEMBERED_MAX`] files, the most recently used.
#[derive(Debug, Default)]
pub(super) struct ChecksumCache {
    generations: Mutex<Generations>,
}

/// When the young generation reaches half of the limit, it becomes the old one, and the previous
/// old one is dropped.
#[derive(Debug, Default)]
struct Generations {
    young: Records,
    old: Records,
}

impl Generations {
    fn record(&mut self, identity: Identity) -> &mut Vec<Checksum> {
        let aged = self.old.remove(&identity).unwrap_or_default();
        if self.young.len() >= CHECKSUMS_REMEMBERED_MAX / 2 && !self.young.contains_key(&identity) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(identity).or_insert(aged)
    }

    fn known(&mut self, identity: &Identity) -> Option<Vec<Checksum>> {
        if let Some(checksums) = self.young.get(identity) {
            return Some(checksums.clone());
        }
        self.old
            .contains_key(identity)
            .then(|| self.record(identity.clone()).clone())
    }
}

impl ChecksumCache {
    /// Caches checksums of a file that was in state `seen` when they were computed. Ignored if it
    /// has changed since.
    pub(super) fn add(&self, file: impl AsFd, seen: &Stat, checksums: &[Checksum]) {
        let Ok(raw) = fs::fstat(file) else { return };
        if checksums.is_empty() || !plain_stat(&raw, Kind::File).same_content(seen) {
            return;
        }
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let record = generations.record(Identity::of(&raw));
        record.retain(|old| checksums.iter().all(|new| new.algorithm() != old.algorithm()));
        record.extend_from_slice(checksums);
    }

    /// Adds cached checksums of a file to `kept`.
    pub(super) fn complete(&self, file: impl AsFd, kept: &mut Vec<Checksum>) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.is_empty() && generations.old.is_empty() {
            return;
        }
        let Ok(raw) = fs::fstat(file) else { return };
        for checksum in generations.known(&Identity::of(&raw)).unwrap_or_default() {
            if kept.iter().all(|have| have.algorithm() != checksum.algorithm()) {
                kept.push(checksum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity {
            device: 1,
            inode,
            size_bytes: 2,
            modified: (3, 4),
            changed: (5, 6),
        }
    }

    #[test]
    fn the_least_recently_used_is_dropped_and_the_limit_holds() {
        let mut generations = Generations::default();
        generations.record(identity(0)).push(Checksum::adler32(7));
        let asked = Some(vec![Checksum::adler32(7)]);
        for inode in 1..=2 * CHECKSUMS_REMEMBERED_MAX as u64 {
            generations.record(identity(inode)).push(Checksum::adler32(1));
            assert!(generations.young.len() + generations.old.len() <= CHECKSUMS_REMEMBERED_MAX);
            if inode % 1000 == 0 {
                assert_eq!(generations.known(&identity(0)), asked, "{inode}");
            }
        }
        assert_eq!(generations.known(&identity(1)), None);
        let last = identity(2 * CHECKSUMS_REMEMBERED_MAX as u64);
        assert!(generations.known(&last).is_some());
    }
}
