//! The sizes of the parts of an object.

use types::ByteRange;

use crate::limits::{COLLECTED_PARTS_OF_A_SIZE, PART_BYTES_MAX, PART_BYTES_MIN, PART_BYTES_USUAL, PARTS_MAX};

/// Parts are multiples of this, so that their borders lie between records of our buffers.
const PART_BYTES_STEP: u64 = 1024 * 1024;

/// Bytes of each part but the last one of an object of this size: the usual size, and more for an
/// object that would otherwise have over [`PARTS_MAX`] parts.
#[must_use]
pub fn part_bytes(object_bytes: u64) -> u64 {
    let least = object_bytes.div_ceil(PARTS_MAX).next_multiple_of(PART_BYTES_STEP);
    least.clamp(PART_BYTES_USUAL, PART_BYTES_MAX)
}

/// Bytes of a part, counted from 0, of an object whose size is unknown: each is held in memory
/// before it is sent, because S3 wants its length first. The least that S3 takes, and twice as much
/// after each [`COLLECTED_PARTS_OF_A_SIZE`], so that the parts suffice for 300 GiB.
#[must_use]
pub fn collected_part_bytes(index: u64) -> u64 {
    PART_BYTES_MIN << (index.min(PARTS_MAX - 1) / COLLECTED_PARTS_OF_A_SIZE)
}

/// An object as a row of parts of one size; the last one has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Bytes of the object.
    pub object_bytes: u64,
    /// Bytes of each part but the last one.
    pub part_bytes: u64,
}

impl Parts {
    /// The parts of an object of this size.
    #[must_use]
    pub fn of(object_bytes: u64) -> Self {
        Self {
            object_bytes,
            part_bytes: part_bytes(object_bytes),
        }
    }

    /// How many there are; an empty object has one.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.object_bytes.div_ceil(self.part_bytes).max(1)
    }

    /// The bytes of a part, which are counted from 0.
    #[must_use]
    pub fn range(&self, index: u64) -> ByteRange {
        let start = (index * self.part_bytes).min(self.object_bytes);
        ByteRange::new(start, (start + self.part_bytes).min(self.object_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_object_has_more_than_ten_thousand_parts() {
        const TIB: u64 = 1 << 40;
        let edge = PART_BYTES_USUAL * PARTS_MAX;
        for size in [0, 1, PART_BYTES_USUAL, edge - 1, edge, edge + 1, 5 * TIB, 48 * TIB] {
            let parts = Parts::of(size);
            assert!(parts.count() <= PARTS_MAX, "{size}: {parts:?}");
            let last = parts.range(parts.count() - 1);
            assert_eq!(last.end, size, "{parts:?}");
            assert!(parts.part_bytes <= PART_BYTES_MAX);
        }
        assert_eq!(part_bytes(edge), PART_BYTES_USUAL);
        assert_eq!(part_bytes(edge + 1), PART_BYTES_USUAL + PART_BYTES_STEP);
    }

    #[test]
    fn parts_in_memory_are_small_until_there_are_many() {
        let sizes: Vec<u64> = (0..PARTS_MAX).map(collected_part_bytes).collect();
        assert!(
            sizes[..2000].iter().all(|size| *size == PART_BYTES_MIN),
            "10 GB with 5 MiB"
        );
        assert_eq!(sizes.iter().sum::<u64>(), 2000 * 31 * PART_BYTES_MIN);
        assert_eq!(collected_part_bytes(u64::MAX), 16 * PART_BYTES_MIN);
    }

    #[test]
    fn parts_follow_each_other() {
        let parts = Parts {
            object_bytes: 25,
            part_bytes: 10,
        };
        let ranges: Vec<_> = (0..parts.count()).map(|index| parts.range(index)).collect();
        assert_eq!(
            ranges,
            [ByteRange::new(0, 10), ByteRange::new(10, 20), ByteRange::new(20, 25)]
        );
    }
}
