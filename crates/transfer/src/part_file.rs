//! A file of a destination that takes data in any order, until it is committed.

use net::Batch;
use remote::Stored;
use storage::{Answer, Hasher, WriteOrder};
use types::{Checksum, ChecksumAlgorithm};

/// A file that takes data in any order.
pub trait PartFile: Send + Sync {
    /// Writes a batch at `offset`.
    ///
    /// # Errors
    /// It cannot be stored.
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()>;

    /// In which order data have to come.
    fn order(&self) -> WriteOrder {
        WriteOrder::Any
    }

    /// Whether [`PartFile::reread`] works.
    fn is_readable(&self) -> bool {
        true
    }

    /// Forgets what was stored of the block that begins at `start`: it will come again.
    fn discard_block(&self, _start: u64) {}

    /// Resumes the part of an interrupted copy of the same content, which `mark` identifies.
    /// Returns the number of bytes that are there from the beginning. Called before the first
    /// write.
    ///
    /// # Errors
    /// The part cannot be examined.
    fn resume<'a>(&'a self, _mark: &'a str) -> Answer<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    /// From now on writes come in any order, and only the first `bytes` bytes are without gaps.
    /// [`PartFile::resume`] must not return more.
    fn limit_resume(&self, _bytes: u64) {}

    /// Feeds the first `bytes` bytes to a hasher.
    ///
    /// # Errors
    /// They cannot be read.
    fn reread_front(&self, bytes: u64, hasher: Hasher) -> Answer<'_, Hasher>;

    /// Computes checksums of the whole file, where it can be read.
    ///
    /// # Errors
    /// It cannot be read.
    fn reread<'a>(&'a self, algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>>;

    /// Commits the file. `checksums` are those of its data.
    ///
    /// # Errors
    /// The name is refused, or the file cannot be stored. An old file of this name is then
    /// unchanged.
    fn commit(&self, size_bytes: u64, checksums: Vec<Checksum>) -> Answer<'_, Stored>;
}
