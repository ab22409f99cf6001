//! Which files are cached, how much they take, and which of them is evicted next.

use indexmap::IndexMap;

use crate::key::Key;
use crate::limits::EVICTION_SAMPLE;

/// What is remembered of a cached file: with its key about 60 bytes in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    bytes: u64,
    /// Seconds since the epoch.
    used_s: u32,
    /// Whether it was opened more than once.
    is_reused: bool,
}

/// All cached files.
#[derive(Debug, Default)]
pub(crate) struct Index {
    records: IndexMap<Key, Record>,
    total_bytes: u64,
}

impl Index {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(crate) fn files(&self) -> usize {
        self.records.len()
    }

    /// Notes that a file takes so many bytes altogether, unless it is known.
    pub(crate) fn adopt(&mut self, key: Key, bytes: u64, used_s: u32) {
        if let indexmap::map::Entry::Vacant(vacant) = self.records.entry(key) {
            vacant.insert(Record {
                bytes,
                used_s,
                is_reused: false,
            });
            self.total_bytes += bytes;
        }
    }

    /// Notes that a file was opened.
    pub(crate) fn note_use(&mut self, key: Key, now_s: u32) {
        let record = self.records.entry(key).or_default();
        record.is_reused = record.used_s != 0;
        record.used_s = now_s;
    }

    /// Notes that a file has grown.
    pub(crate) fn grow(&mut self, key: Key, bytes: u64) {
        self.records.entry(key).or_default().bytes += bytes;
        self.total_bytes += bytes;
    }

    /// Forgets a file; returns its bytes.
    pub(crate) fn remove(&mut self, key: Key) -> u64 {
        let bytes = self.records.swap_remove(&key).map_or(0, |record| record.bytes);
        self.total_bytes -= bytes;
        bytes
    }

    /// The file to evict next: of a sample, the one that was not used for longest. A file that was
    /// opened once counts as idle four times as long, so that a scan over many files does not push
    /// out those that are used again and again.
    pub(crate) fn victim(&self, now_s: u32, random: &mut fastrand::Rng) -> Option<Key> {
        let all = self.records.len();
        let positions = (0..EVICTION_SAMPLE.min(all)).map(|number| match all <= EVICTION_SAMPLE {
            true => number,
            false => random.usize(..all),
        });
        let idle = |record: &Record| {
            let idle_s = u64::from(now_s.saturating_sub(record.used_s)) + 1;
            if record.is_reused { idle_s } else { idle_s * 4 }
        };
        positions
            .filter_map(|position| self.records.get_index(position))
            .max_by_key(|(_, record)| idle(record))
            .map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key([number; 16])
    }

    #[test]
    fn the_total_follows_what_is_added_and_removed() {
        let mut index = Index::default();
        index.adopt(key(1), 10, 5);
        index.adopt(key(1), 99, 5);
        index.grow(key(1), 5);
        index.grow(key(2), 7);
        assert_eq!((index.total_bytes(), index.files()), (22, 2));
        assert_eq!([index.remove(key(1)), index.remove(key(1))], [15, 0]);
        assert_eq!(index.total_bytes(), 7);
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used_again() {
        let mut index = Index::default();
        for _ in 0..2 {
            index.note_use(key(1), 100);
        }
        index.note_use(key(2), 150);
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(index.victim(200, &mut random), Some(key(2)), "50 s, but only once");
        assert_eq!(index.victim(2000, &mut random), Some(key(2)));
        index.note_use(key(3), 2000);
        index.remove(key(2));
        assert_eq!(index.victim(2000, &mut random), Some(key(1)), "idle for long");
    }
}
