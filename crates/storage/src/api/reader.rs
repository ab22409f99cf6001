//! Open files that are read.

use std::fs::File;
use std::io::{self, IoSliceMut};

use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

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

    /// The file's properties now. As when it was opened, if the content of an open file never
    /// changes in this store.
    ///
    /// # Errors
    /// The system's error.
    fn stat_now(&self) -> io::Result<Stat> {
        Ok(self.stat().clone())
    }

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

/// Checks that the content of an open file is still what it was when the file was opened, judging
/// by its size and modification time.
///
/// # Errors
/// `source_changed`; `storage_failed` if the system does not say.
pub(crate) fn check_unchanged(reader: &dyn FileReader) -> Result<()> {
    let now = reader
        .stat_now()
        .map_err(|cause| crate::fault::from_io(&cause, Phase::Transfer).at_side(Side::Source))?;
    match now.same_content(reader.stat()) {
        true => Ok(()),
        false => Err(Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Transfer)),
    }
}
