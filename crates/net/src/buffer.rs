//! Pooled buffers and batches of payload.
//!
//! Two sizes: large ones for payload (sixteen TLS records, about 256 KiB, which stays in the
//! processor's cache) and small ones for heads (one TLS record). A connection that waits holds
//! neither. Both lie where payload is copied from and to fast (see [`Room`](crate::room::Room)).
//! The pool is shared by the threads of one server or command ([`execution::shared()`]).

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::BUFFERS_KEPT_MAX;

use crate::room::Room;

/// Size of a small buffer: one record, rounded up to pages.
pub const SMALL_BYTES: usize = 20 * 1024;
/// Size of a large buffer: sixteen full records with their headers and tags, rounded up to pages.
pub const LARGE_BYTES: usize = 65 * 4096;

/// The buffers of one server or command that wait to be used again.
#[derive(Default)]
struct Shelves {
    small: Shelf,
    large: Shelf,
}

/// Buffers of one size.
#[derive(Default)]
struct Shelf {
    /// The latest at the end: what it holds is still in a cache.
    kept: Mutex<Vec<Room>>,
}

impl Shelf {
    fn take(&self) -> Option<Room> {
        self.lock().pop()
    }

    fn put_back(&self, bytes: Room) {
        let mut kept = self.lock();
        if kept.len() < BUFFERS_KEPT_MAX {
            kept.push(bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Room>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer from the pool; it goes back there when dropped.
pub struct Buffer {
    bytes: Room,
    shelves: Arc<Shelves>,
}

impl Buffer {
    /// A buffer for payload.
    #[must_use]
    pub fn large() -> Self {
        let shelves = execution::shared::<Shelves>();
        let bytes = shelves.large.take().unwrap_or_else(|| Room::new(LARGE_BYTES));
        Self { bytes, shelves }
    }

    /// A buffer for heads and small bodies.
    #[must_use]
    pub fn small() -> Self {
        let shelves = execution::shared::<Shelves>();
        let bytes = shelves.small.take().unwrap_or_else(|| Room::new(SMALL_BYTES));
        Self { bytes, shelves }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        match bytes.len() {
            LARGE_BYTES => self.shelves.large.put_back(bytes),
            _ => self.shelves.small.put_back(bytes),
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.bytes.len())
    }
}

/// Payload in the order in which it arrived: a buffer and the pieces of it that count.
#[derive(Debug)]
pub struct Batch {
    buffer: Buffer,
    pieces: VecDeque<Range<usize>>,
    length: usize,
}

impl Batch {
    /// A batch over `buffer`; pieces must lie within it and are kept in this order.
    #[must_use]
    pub fn new(buffer: Buffer, pieces: impl IntoIterator<Item = Range<usize>>) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        debug_assert!(pieces.iter().all(|piece| piece.end <= buffer.len()));
        let length = pieces.iter().map(ExactSizeIterator::len).sum();
        Self { buffer, pieces, length }
    }

    /// A batch of its own with a copy of `bytes`, at most [`LARGE_BYTES`] of them.
    #[must_use]
    pub fn copied(bytes: &[u8]) -> Self {
        Self::gathered(std::iter::once(bytes), bytes.len())
    }

    fn gathered<'a>(slices: impl Iterator<Item = &'a [u8]>, length: usize) -> Self {
        let mut buffer = if length <= SMALL_BYTES {
            Buffer::small()
        } else {
            Buffer::large()
        };
        let mut at = 0;
        for slice in slices {
            buffer[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Self::new(buffer, std::iter::once(0..length))
    }

    /// Payload bytes in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces of payload in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &self.buffer[piece.clone()])
    }

    /// Copies the payload behind what `whole` holds.
    pub fn append_to(&self, whole: &mut Vec<u8>) {
        for piece in self.slices() {
            whole.extend_from_slice(piece);
        }
    }

    /// The pieces as the operating system wants them for a vectored write.
    #[must_use]
    pub fn io_slices(&self) -> Vec<IoSlice<'_>> {
        self.slices().map(IoSlice::new).collect()
    }

    /// The first piece; `None` when the batch is used up.
    #[must_use]
    pub fn front(&self) -> Option<&[u8]> {
        self.pieces.front().map(|piece| &self.buffer[piece.clone()])
    }

    /// Drops the first `count` bytes (at most all).
    pub fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(piece) = self.pieces.front_mut() else { return };
            let step = count.min(piece.len());
            piece.start += step;
            count -= step;
            self.length -= step;
            if piece.start >= piece.end {
                self.pieces.pop_front();
            }
        }
    }

    /// Keeps the first `count` bytes.
    pub fn truncate(&mut self, count: usize) {
        while self.length > count {
            let Some(piece) = self.pieces.back_mut() else { return };
            let excess = (self.length - count).min(piece.len());
            piece.end -= excess;
            self.length -= excess;
            if piece.start >= piece.end {
                self.pieces.pop_back();
            }
        }
    }

    /// The first `count` bytes (at most all) and what is behind them, if anything. The shorter part
    /// is copied into a buffer of its own.
    #[must_use]
    pub fn split(mut self, count: usize) -> (Self, Option<Self>) {
        let count = count.min(self.length);
        let rest = self.length - count;
        if rest == 0 {
            return (self, None);
        }
        if rest <= count {
            let tail = Self::copied(&self.tail(count));
            self.truncate(count);
            return (self, Some(tail));
        }
        let mut left = count;
        let front = self.slices().map_while(|slice| {
            let step = left.min(slice.len());
            left -= step;
            (step > 0).then(|| &slice[..step])
        });
        let front = Self::gathered(front, count);
        self.advance(count);
        (front, Some(self))
    }

    /// The payload beyond the first `count` bytes, copied out.
    #[must_use]
    pub fn tail(&self, count: usize) -> Vec<u8> {
        let mut skip = count;
        let mut tail = Vec::with_capacity(self.length.saturating_sub(count));
        for slice in self.slices() {
            let cut = skip.min(slice.len());
            tail.extend_from_slice(&slice[cut..]);
            skip -= cut;
        }
        tail
    }

    /// Replaces the pieces by parts of them: `keep` is called with each piece and names, relative
    /// to it, the ranges that remain. This is how body framing is cut out without copying.
    ///
    /// # Errors
    /// Whatever `keep` returns; the batch is then useless.
    pub fn refine<E>(&mut self, mut keep: impl FnMut(&[u8], &mut Vec<Range<usize>>) -> Result<(), E>) -> Result<(), E> {
        let mut refined = VecDeque::with_capacity(self.pieces.len());
        let mut parts = Vec::new();
        for piece in &self.pieces {
            parts.clear();
            keep(&self.buffer[piece.clone()], &mut parts)?;
            refined.extend(
                parts
                    .iter()
                    .filter(|part| !part.is_empty())
                    .map(|part| piece.start + part.start..piece.start + part.end),
            );
        }
        self.length = refined.iter().map(ExactSizeIterator::len).sum();
        self.pieces = refined;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let mut buffer = Buffer::small();
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = index as u8;
        }
        Batch::new(buffer, [0..3, 10..10, 20..25])
    }

    fn bytes(batch: &Batch) -> Vec<u8> {
        batch.slices().flatten().copied().collect()
    }

    #[test]
    fn cutting_from_both_ends_keeps_the_middle() {
        let mut batch = batch();
        assert_eq!(batch.len(), 8);
        assert_eq!(batch.tail(2), [2, 20, 21, 22, 23, 24]);
        batch.advance(4);
        batch.truncate(2);
        assert_eq!(bytes(&batch), [21, 22]);
        batch.advance(9);
        assert!(batch.is_empty() && batch.front().is_none());
    }

    #[test]
    fn splitting_loses_nothing_wherever_the_cut_lies() {
        let whole = bytes(&batch());
        for cut in 0..=whole.len() + 1 {
            let (front, rest) = batch().split(cut);
            let cut = cut.min(whole.len());
            assert_eq!((front.len(), bytes(&front)), (cut, whole[..cut].to_vec()));
            let rest = rest.as_ref().map(bytes).unwrap_or_default();
            assert_eq!(rest, whole[cut..]);
        }
    }

    #[test]
    fn refining_keeps_the_named_parts_in_order() {
        let mut batch = batch();
        batch
            .refine(|piece, keep| {
                keep.push(0..1);
                keep.push(piece.len() - 1..piece.len());
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(bytes(&batch), [0, 2, 20, 24]);
    }
}
