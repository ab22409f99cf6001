//! Checksums of files that cannot keep them: in an export that is only read, on a file system without attributes, or of another
//! owner where the server has no rights over it. They are remembered until the process ends, so that a file which everybody asks for
//! is read for its checksum once and not each time.
//!
//! What is remembered is bound to the very file and its times of change. That of its inode is among them: unlike an attribute, a
//! record here does not go with the file when it is deleted, and the next one may get its number, its size and its date.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use crate::limits::CHECKSUMS_REMEMBERED_MAX;
use rustix::fs;
use types::Checksum;

use super::resolve::plain_stat;
use crate::api::{Kind, Stat};

/// A file, as it is until somebody changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, u64),
    /// The same of the inode.
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

/// The records of a store: at most [`CHECKSUMS_REMEMBERED_MAX`] files, those that were asked for last.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    generations: Mutex<Generations>,
}

/// When the young ones are half of what is allowed, they become the old ones, and what was old is forgotten.
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

impl Remembered {
    /// Remembers checksums of a file that was as `seen` when they were computed. One that has changed since is left alone.
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

    /// Adds to `kept` what is remembered of a file beside it.
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
    fn what_nobody_asks_for_is_forgotten_first_and_never_are_there_too_many() {
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
