//! Open files that are read.

use std::fs::File;
use std::io::{self, IoSliceMut};

use types::ByteRange;

use super::stat::Stat;

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Reads only what is in memory; `WouldBlock` if it would need the disk.
    CachedOnly,
    /// Waits as long as necessary.
    Wait,
}

/// An open file. Reads at any offset from any thread.
pub trait FileReader: Send + Sync {
    /// The file's properties when it was opened.
    fn stat(&self) -> &Stat;

    /// Reads from `offset` into the slices, one after another; returns the number of bytes, 0 at
    /// the end of the file. May return fewer than requested.
    ///
    /// # Errors
    /// `WouldBlock` with [`Patience::CachedOnly`] if it would need the disk; a file system that
    /// cannot tell simply reads. Otherwise the system's error.
    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize>;

    /// Whether [`Patience::CachedOnly`] makes a difference: whether the file system can tell what
    /// is in memory. A guess until the first read.
    fn tells_what_is_cached(&self) -> bool {
        true
    }

    /// Whether the file lies in memory, and nowhere else.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// The system's file, if there is one, for `sendfile`.
    fn as_file(&self) -> Option<&File> {
        None
    }

    /// Hints that this range will soon be read from front to back.
    fn advise_sequential(&self, _range: ByteRange) {}
}
