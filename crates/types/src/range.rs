//! A half-open range of bytes, used wherever part of a file is named.

/// Bytes `start..end` of a file; `end` is exclusive. It may be empty, never inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The range from `start` to just before `end`; an inverted pair gives an empty range at
    /// `start`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// The whole of a file of `size_bytes`.
    #[must_use]
    pub fn whole(size_bytes: u64) -> Self {
        Self {
            start: 0,
            end: size_bytes,
        }
    }

    /// Number of bytes in the range.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Splits off the first `count` bytes (or all, if fewer) and returns them.
    pub fn take_front(&mut self, count: u64) -> ByteRange {
        let middle = self.start + count.min(self.len());
        let front = ByteRange::new(self.start, middle);
        self.start = middle;
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_is_cut_off_and_never_exceeds_the_range() {
        let mut range = ByteRange::new(10, 25);
        assert_eq!(range.take_front(10), ByteRange::new(10, 20));
        assert_eq!(range.take_front(10), ByteRange::new(20, 25));
        assert!(range.is_empty());
        assert_eq!(ByteRange::new(9, 3).len(), 0);
    }
}
