//! How far to read ahead for a sequential reader: pure.

use std::collections::VecDeque;
use std::time::Duration;

use types::ByteRange;

use crate::limits::{DOWNLOADS_KEPT_MAX, READ_ENDS_KEPT_MAX, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN};

/// Most of the time of a window that may go by until its first byte comes: one part in this many.
const WAITING_SHARE_MAX: u32 = 8;

/// The read-ahead of one open file, and what it knows of its readers.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: u64,
    /// The last reads ended here. Several readers may be under way.
    ends: [u64; READ_ENDS_KEPT_MAX],
    next: usize,
    /// The last ranges that readers have said they will read from front to back.
    announced: VecDeque<ByteRange>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bytes: WINDOW_BYTES_MIN,
            ends: [0; READ_ENDS_KEPT_MAX],
            next: 0,
            announced: VecDeque::new(),
        }
    }
}

impl Window {
    /// A reader has said that it will read this range from front to back.
    pub(crate) fn announce(&mut self, range: ByteRange) {
        if self.announced.len() == DOWNLOADS_KEPT_MAX {
            self.announced.pop_front();
        }
        self.announced.push_back(range);
    }

    /// A range was read.
    pub(crate) fn note_read(&mut self, range: ByteRange) {
        match self.ends.iter_mut().find(|end| **end == range.start) {
            Some(end) => *end = range.end,
            None => {
                self.ends[self.next] = range.end;
                self.next = (self.next + 1) % READ_ENDS_KEPT_MAX;
            }
        }
    }

    /// What to ask the server for when `range` is to be read; `None`: no more than this range,
    /// since the reader seeks. The file has `size_bytes`. A file is expected to be read from its
    /// start to its end until a reader shows that it does not.
    pub(crate) fn extent(&mut self, range: ByteRange, size_bytes: u64) -> Option<ByteRange> {
        let holds = |announced: &&ByteRange| (announced.start..announced.end).contains(&range.start);
        if let Some(announced) = self.announced.iter().rev().find(holds) {
            return Some(ByteRange::new(
                range.start,
                announced.end.max(range.end).min(size_bytes),
            ));
        }
        if !self.ends.contains(&range.start) {
            self.bytes = (self.bytes / 2).max(WINDOW_BYTES_MIN);
            return None;
        }
        let end = range.end.max(range.start.saturating_add(self.bytes));
        Some(ByteRange::new(range.start, end.min(size_bytes)))
    }

    /// A window was read to its end. Its first byte came after `waited`, its last one after
    /// `total`. It grows as long as waiting takes a share of the time that matters, so with the
    /// round trip and the rate.
    pub(crate) fn note_window(&mut self, waited: Duration, total: Duration) {
        if waited.saturating_mul(WAITING_SHARE_MAX) > total {
            self.bytes = (self.bytes * 2).min(WINDOW_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;
    const SIZE: u64 = 1024 * MIB;

    fn at(start: u64, length: u64) -> ByteRange {
        ByteRange::new(start, start + length)
    }

    #[test]
    fn the_window_grows_with_the_round_trip_and_stops_at_a_seek() {
        let mut window = Window::default();
        assert_eq!(window.extent(at(0, 4096), SIZE), Some(at(0, MIB)), "from the start");
        window.note_read(at(0, MIB));
        assert_eq!(window.extent(at(MIB, 4096), SIZE), Some(at(MIB, MIB)));
        // 100 ms of 150: it pays to ask for more.
        for _ in 0..20 {
            window.note_window(Duration::from_millis(100), Duration::from_millis(150));
        }
        assert_eq!(window.extent(at(MIB, 4096), SIZE), Some(at(MIB, WINDOW_BYTES_MAX)));
        // 1 ms of 150 does not matter.
        let mut near = Window::default();
        near.note_window(Duration::from_millis(1), Duration::from_millis(150));
        near.note_read(at(0, MIB));
        assert_eq!(near.extent(at(MIB, 4096), SIZE), Some(at(MIB, MIB)));
        assert_eq!(window.extent(at(500 * MIB, 4096), SIZE), None, "a seek");
        assert_eq!(window.extent(at(MIB, 1), SIZE), Some(at(MIB, WINDOW_BYTES_MAX / 2)));
    }

    #[test]
    fn an_announced_range_is_asked_for_as_a_whole_and_nothing_behind_the_end() {
        let mut window = Window::default();
        window.announce(at(10 * MIB, 100 * MIB));
        assert_eq!(window.extent(at(20 * MIB, 4096), SIZE), Some(at(20 * MIB, 90 * MIB)));
        window.note_read(at(0, SIZE - 5));
        assert_eq!(window.extent(at(SIZE - 5, 5), SIZE), Some(at(SIZE - 5, 5)));
    }

    #[test]
    fn readers_of_blocks_at_the_same_time_get_no_more_than_their_blocks() {
        let mut window = Window::default();
        let blocks = 0..DOWNLOADS_KEPT_MAX as u64;
        blocks.clone().for_each(|block| window.announce(at(block * MIB, MIB)));
        window.note_read(at(0, MIB));
        for block in blocks {
            assert_eq!(window.extent(at(block * MIB, 4096), SIZE), Some(at(block * MIB, MIB)));
        }
    }

    #[test]
    fn several_readers_of_one_file_are_sequential_each() {
        let mut window = Window::default();
        for turn in 0..20 {
            for reader in 0..READ_ENDS_KEPT_MAX as u64 {
                window.note_read(at(reader * 100 * MIB + turn * MIB, MIB));
            }
        }
        for reader in 0..READ_ENDS_KEPT_MAX as u64 {
            assert!(window.extent(at(reader * 100 * MIB + 20 * MIB, 1), SIZE).is_some());
        }
    }
}
