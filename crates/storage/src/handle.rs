//! Handles for open files, as doors and the engine use them: asynchronous, whatever the back end.
//!
//! A call takes its buffer and returns it. So nothing is copied, and the work of a call whose
//! future is dropped still owns its memory.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;

use net::{Batch, Outgoing};
use types::{ByteRange, ErrorCode, Phase, Result};

use crate::api::{CommitFacts, Stat};
use crate::blocking_handle::SystemFile;
use crate::fault::fault;
use crate::hash::{HashSlice, Hasher};
use crate::store::{Answer, Held};

/// A range of a file, and its position in the outgoing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPart {
    /// Bytes of payload before it in the buffer.
    pub at: usize,
    /// The range to read.
    pub range: ByteRange,
}

/// A file that is open for reading, at any offset and by several callers at once. It stays the same
/// file if its name is overwritten.
///
/// All calls fail with `storage_failed` when the file cannot be read. An implementation needs
/// [`ReadHandle::stat`] and [`ReadHandle::read_batch`]; it overrides the other ways to read where
/// they save it a copy.
pub trait ReadHandle: Send + Sync {
    /// The file's properties when it was opened.
    fn stat(&self) -> &Stat;

    /// Reads the beginning of a non-empty range, as much as is available at once. The batch is
    /// empty at the end of the file.
    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch>;

    /// Reads at most `want` bytes (up to the capacity of `room`) from `offset` on, as many as are
    /// available at once. Returns the buffer and the number of bytes; 0 at the end of the file.
    fn read(&self, mut room: Outgoing, want: usize, offset: u64) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let range = ByteRange::new(offset, offset.saturating_add(want as u64));
            let mut batch = self.read_batch(range).await?;
            let filled = room.fill_from(&mut batch);
            Ok((room, filled))
        })
    }

    /// Reads whole ranges into the buffer, in the order of their positions. Returns the buffer and
    /// the number of bytes read: fewer than requested only at the end of the file.
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
                    place(&mut room, at, &batch);
                    at += batch.len();
                    filled += batch.len();
                    left.take_front(batch.len() as u64);
                }
            }
            Ok((room, filled))
        })
    }

    /// Reads one slice for checksums. Returns the hasher, and whether it has seen everything.
    ///
    /// Fails with `source_changed` when the length of the file has changed.
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

    /// Checks that the content is still what it was when the file was opened, judging by its size
    /// and modification time.
    ///
    /// Fails with `source_changed`.
    fn check_unchanged(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Whether [`ReadHandle::check_unchanged`] needs no other server, which costs a round trip.
    fn checks_locally(&self) -> bool {
        true
    }

    /// Begins to read a range from front to back. A store that reads over a network fails here
    /// rather than after the range was promised to a client.
    fn begin(&self, _range: ByteRange) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Checks that the client may read the content, where opening the file has only looked at it: a
    /// cache asks before it gives what another client has fetched. An answer of at most `age` ago
    /// may be used again.
    ///
    /// Fails as reading does.
    fn check_readable(&self, _age: Duration) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// How long ago the origin was asked about the file, if the cache has all of this range.
    fn cached_age(&self, _range: ByteRange) -> Answer<'_, Option<Duration>> {
        Box::pin(async { Ok(None) })
    }

    /// The host and port of the server that has sent the bytes so far, if the server of the store
    /// has redirected there.
    fn redirected_to(&self) -> Option<String> {
        None
    }

    /// Hints that this range will soon be read from front to back.
    fn advise_sequential(&self, _range: ByteRange) {}

    /// The operating system's file, if the kernel can send it itself. Otherwise the file is read
    /// into batches.
    fn as_file(&self) -> Option<SystemFile<'_>> {
        None
    }
}

/// Copies a batch into the buffer, after `at` bytes of payload.
pub fn place(room: &mut Outgoing, at: usize, batch: &Batch) {
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

/// Counts the memory that stores hold for one client.
pub trait HoldMemory: Send + Sync {
    /// Counts so many bytes until the answer is dropped.
    ///
    /// # Errors
    /// `overloaded` and `share_used_up`: there is no more.
    fn hold(&self, bytes: u64) -> Result<Held>;
}

/// In which order the bytes of an upload have to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    /// In any.
    Any,
    /// In blocks of so many bytes; the last one is shorter. Each comes in order from its beginning,
    /// by one writer at a time.
    Blocks(u64),
    /// In the order of the file.
    FrontToBack,
}

/// A running upload, written at any offset and by several callers at once. If it is dropped without
/// [`WriteHandle::commit`], it is aborted and its data removed.
///
/// The calls do the same as those in [`Upload`](crate::Upload), with the same errors. A call holds
/// `held` until its work ends, even if its future is dropped.
pub trait WriteHandle: Send + Sync {
    /// Writes a batch from `offset` on.
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()>;

    /// In which order writes have to come.
    fn order(&self) -> WriteOrder {
        WriteOrder::Any
    }

    /// Forgets what was written of the block that begins at `start`, where the order is by blocks:
    /// it will come again.
    fn discard_block(&self, _start: u64) {}

    /// Whether what was written can be read ([`WriteHandle::reader`]) and written again.
    fn is_readable(&self) -> bool {
        true
    }

    /// Whether a file that it replaces is untouched before the commit. Other servers may write over
    /// it as the data comes.
    fn keeps_replaced(&self) -> bool {
        true
    }

    /// The properties of the data so far. Does not wait: a store answers from memory.
    ///
    /// # Errors
    /// `storage_failed`.
    fn stat(&self) -> Result<Stat>;

    /// Makes the file durable and renames it to its final name, replacing an old file in one step.
    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat>;

    /// Opens the data so far for reading. `not_implemented` for a store that cannot do it.
    fn reader(&self) -> Answer<'_, Arc<dyn ReadHandle>> {
        Box::pin(async { Err(fault(ErrorCode::NotImplemented, Phase::Transfer).with_detail(NO_READING)) })
    }

    /// Lets the system copy a file that is its own ([`ReadHandle::as_file`]) into an upload without
    /// data, sharing blocks where it can. Returns whether it did; otherwise nothing was written.
    ///
    /// Fails as [`WriteHandle::write`]; `source_changed`.
    fn copy_system_file<'a>(&'a self, _source: &'a Arc<dyn ReadHandle>) -> Answer<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    /// Resumes an interrupted upload of the content that `mark` identifies; returns how many bytes
    /// from the start exist.
    fn resume<'a>(&'a self, _mark: &'a str) -> Answer<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    /// From now on writes arrive in any order, and only the first `bytes` bytes have no gaps.
    fn limit_resume(&self, _bytes: u64) {}

    /// From now on what the upload holds of bytes that came before their turn is counted there. A
    /// store that takes bytes in any order holds none.
    fn count_memory(&self, _memory: Arc<dyn HoldMemory>) {}

    /// Truncates the data to this length, or extends it with zero bytes.
    fn set_length(&self, _size_bytes: u64, _held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async { Err(fault(ErrorCode::NotImplemented, Phase::Transfer).with_detail(NO_LENGTH)) })
    }

    /// Makes the data so far durable, for a file that is changed in place.
    fn sync(&self, _held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Why a store refuses what it does not support.
const NO_READING: &str = "this store cannot read an upload back";
const NO_LENGTH: &str = "this store cannot change the length of an upload";
