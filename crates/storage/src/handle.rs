//! Open files as doors and the engine hold them: asynchronous, whatever is behind them.
//!
//! A call takes its buffer and gives it back. So nothing is copied, and a call whose future is
//! dropped still has the memory that it works on.

use std::io::IoSliceMut;
use std::sync::Arc;

use net::{Batch, Outgoing};
use types::{ByteRange, ErrorCode, Phase, Result};

use crate::api::{CommitFacts, Stat};
use crate::blocking_handle::SystemFile;
use crate::fault::fault;
use crate::hash::{HashSlice, Hasher};
use crate::store::{Answer, Held};

/// A range of a file, and its place in the room that it is read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPart {
    /// Bytes of payload in front of it in the room.
    pub at: usize,
    /// What is read.
    pub range: ByteRange,
}

/// A file that is open for reading, at any offset and by several callers at once. It stays the same
/// file when its name is overwritten.
///
/// All calls fail with `storage_failed` when the file cannot be read. An implementation needs
/// [`ReadHandle::stat`] and [`ReadHandle::read_batch`]; it overrides the other ways to read where
/// they save it a copy.
pub trait ReadHandle: Send + Sync {
    /// The file as it was when it was opened.
    fn stat(&self) -> &Stat;

    /// Reads the beginning of a range that is not empty, as much as comes at once. The batch is
    /// empty at the end of the file.
    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch>;

    /// Reads at most `want` bytes (up to the room's capacity) from `offset` into the room, as many
    /// as come at once. Returns the room and how many bytes it holds; 0 at the end of the file.
    fn read(&self, mut room: Outgoing, want: usize, offset: u64) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let range = ByteRange::new(offset, offset.saturating_add(want as u64));
            let mut batch = self.read_batch(range).await?;
            let filled = room.fill_from(&mut batch);
            Ok((room, filled))
        })
    }

    /// Reads whole ranges into the room, in the order of their places there. Returns the room and
    /// how many bytes were read: fewer than asked for only where the file ends.
    fn read_parts(&self, mut room: Outgoing, parts: Vec<RoomPart>) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let mut filled = 0;
            for RoomPart {
                mut at,
                range: mut left,
            } in parts
            {
                while !left.is_empty() {
                    let batch = self.read_batch(left).await?;
                    if batch.is_empty() {
                        return Ok((room, filled));
                    }
                    put(&mut room, at, &batch);
                    at += batch.len();
                    filled += batch.len();
                    left.take_front(batch.len() as u64);
                }
            }
            Ok((room, filled))
        })
    }

    /// Reads one slice for checksums. Returns the hasher, and whether it has seen all.
    ///
    /// Fails with `source_changed` when the file has changed its length.
    fn hash(&self, mut slice: HashSlice) -> Answer<'_, (Hasher, bool)> {
        Box::pin(async move {
            while let Some(range) = slice.left() {
                let batch = self.read_batch(range).await?;
                if batch.is_empty() {
                    return slice.at_end_of(self.stat());
                }
                batch.slices().for_each(|bytes| slice.hasher.update(bytes));
            }
            Ok(slice.done())
        })
    }

    /// Says that this range will be read from front to back soon. Only a hint.
    fn advise_sequential(&self, _range: ByteRange) {}

    /// The open file of the operating system, if there is one that the kernel can send itself.
    /// Without one, the file is read into batches.
    fn as_file(&self) -> Option<SystemFile<'_>> {
        None
    }
}

/// Copies a batch into the room, behind `at` bytes of payload.
fn put(room: &mut Outgoing, at: usize, batch: &Batch) {
    let mut slots = room.slots(at + batch.len());
    let mut rest = slots.as_mut_slice();
    IoSliceMut::advance_slices(&mut rest, at);
    for mut piece in batch.slices() {
        while let Some(slot) = rest.first_mut().filter(|_| !piece.is_empty()) {
            let step = piece.len().min(slot.len());
            slot[..step].copy_from_slice(&piece[..step]);
            piece = &piece[step..];
            IoSliceMut::advance_slices(&mut rest, step);
        }
    }
}

/// A file on its way in, written at any offset and by several callers at once. Dropped without
/// [`WriteHandle::commit`], it is given up, and what was written is removed.
///
/// The calls do what those of the same name in [`Upload`](crate::Upload) do, with the same errors.
/// A call keeps `held` until its work ends, even if its future is dropped.
pub trait WriteHandle: Send + Sync {
    /// Writes a batch from `offset` on.
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()>;

    /// The file as written so far. Does not wait: a store answers from what it knows.
    ///
    /// # Errors
    /// `storage_failed`.
    fn stat(&self) -> Result<Stat>;

    /// Makes the file durable and gives it its name, replacing an old file in one step.
    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat>;

    /// Opens what was written so far for reading. `not_implemented` for a store that cannot.
    fn reader(&self) -> Answer<'_, Arc<dyn ReadHandle>> {
        Box::pin(async { Err(fault(ErrorCode::NotImplemented, Phase::Transfer).with_detail(NO_READING)) })
    }

    /// Resumes an interrupted upload of the content that `mark` identifies: returns how many bytes
    /// are there from the front on.
    fn take_up<'a>(&'a self, _mark: &'a str) -> Answer<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    /// From now on writes come in any order, and only the first `bytes` bytes have no gaps.
    fn keep_front(&self, _bytes: u64) {}

    /// Cuts what was written to this length, or extends it with zero bytes.
    fn set_length(&self, _size_bytes: u64, _held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async { Err(fault(ErrorCode::NotImplemented, Phase::Transfer).with_detail(NO_LENGTH)) })
    }

    /// Makes durable what was written so far to a file that is changed where it lies.
    fn sync(&self, _held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Why a store refuses what it cannot do.
const NO_READING: &str = "this store cannot read an upload back";
const NO_LENGTH: &str = "this store cannot change the length of an upload";
