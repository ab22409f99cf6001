//! New files, from their creation to the commit.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::SystemTime;

use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::reader::{FileReader, Patience, check_unchanged};
use super::stat::Stat;

/// What happens if the name of a new file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The old file is replaced at commit, atomically.
    Allow,
    /// The upload is refused: at its creation, and again, atomically, at commit.
    Refuse,
}

/// What becomes of a file that an upload replaces until its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldFile {
    /// What the store does: another server may overwrite it as the bytes come, also under the other
    /// names that it has.
    #[default]
    ByStore,
    /// It stays; [`Self::ByStore`] where the client may not make another name beside it.
    StaysIfAllowed,
    /// It stays: it may be the source under another name.
    Stays,
}

/// How to create a new file.
#[derive(Clone, Debug)]
pub struct UploadOptions {
    /// The announced size in bytes. Space for it is reserved at once, and more data is refused.
    pub size_bytes: Option<u64>,
    /// What to do if the name exists.
    pub overwrite: Overwrite,
    /// What becomes of the old file until the commit.
    pub old_file: OldFile,
    /// Whether to create missing parent directories.
    pub create_parents: bool,
    /// Algorithms whose values will be given at commit.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Whether the bytes may be wanted in blocks
    /// ([`WriteOrder::Blocks`](crate::WriteOrder::Blocks)), with the Adler-32 of all of them at
    /// commit.
    pub in_blocks: bool,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self {
            size_bytes: None,
            overwrite: Overwrite::Allow,
            old_file: OldFile::ByStore,
            create_parents: false,
            checksums: Vec::new(),
            in_blocks: false,
        }
    }
}

/// What the uploader knows at the end.
#[derive(Clone, Debug, Default)]
pub struct CommitFacts {
    /// Size of the whole file in bytes; compared with the stored size.
    pub size_bytes: u64,
    /// Verified checksums of the whole file, to be stored with it.
    pub checksums: Vec<Checksum>,
    /// Modification time to set; otherwise the time of the commit.
    pub modified: Option<SystemTime>,
    /// Permission bits (`0o777` and below), set before the file gets its name, so that no other
    /// file can get them. The upload succeeds even if the file system refuses them.
    pub mode: Option<u32>,
}

/// A running upload. Writes at any offset from any thread. Aborted if dropped uncommitted.
///
/// An error about the number of bytes names [`Side::Source`], where they come from: a store does
/// not know whether that is a peer or the client. A door that receives a body corrects it.
pub trait Upload: Send + Sync {
    /// Writes all slices, one after another, from `offset` on.
    ///
    /// # Errors
    /// `no_space`, `quota_exceeded`, `peer_size_differs` beyond the announced size, `cancelled`
    /// when the upload has ended, `storage_failed`.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Resumes an earlier, interrupted upload to this name with the same content, which `mark`
    /// identifies; returns how many bytes from the start it has. Call this before the first write;
    /// without the call the old data is discarded. A store that keeps nothing returns 0.
    fn resume(&self, _mark: &str) -> u64 {
        0
    }

    /// From now on writes arrive in any order, and only the first `bytes` bytes have no gaps: if
    /// the upload is interrupted, at most these are kept for a later one. Call this before the
    /// first write after a gap, and again when the front has grown. A store that keeps nothing
    /// ignores it.
    fn limit_resume(&self, _bytes: u64) {}

    /// Truncates the data to this length, or extends it with zero bytes.
    ///
    /// # Errors
    /// Those of [`Upload::write_vectored_at`]; `not_implemented` for a store that cannot do it.
    fn set_length(&self, _size_bytes: u64) -> Result<()> {
        Err(crate::fault::fault(ErrorCode::NotImplemented, Phase::Transfer)
            .with_detail("this store cannot change the length of an upload"))
    }

    /// Makes the data written so far durable. Only
    /// [`Storage::open_update`](super::Storage::open_update) needs it: an uncommitted upload has no
    /// name under which it could be found after a power failure.
    ///
    /// # Errors
    /// `storage_failed`.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Reads back the written data, for checksums that could not be computed while it streamed.
    ///
    /// # Errors
    /// `storage_failed`.
    fn reader(&self) -> Result<Arc<dyn FileReader>>;

    /// The properties of the data so far.
    ///
    /// # Errors
    /// `storage_failed`.
    fn stat(&self) -> Result<Stat> {
        Ok(self.reader()?.stat().clone())
    }

    /// Makes the file durable and renames it to its final name, replacing an old file in one step.
    /// On an error before that step the upload is aborted and an old file is untouched. After it
    /// only making the new name durable can fail: `storage_failed` then says that the file is in
    /// its place.
    ///
    /// # Errors
    /// `body_incomplete` when the stored size differs from the given or announced one, `exists`,
    /// `is_directory`, `parent_missing` when the directory has disappeared, `no_space`,
    /// `storage_failed`; `cancelled` when the upload has already ended.
    fn commit(&self, facts: &CommitFacts) -> Result<Stat>;

    /// Aborts the upload and removes the written data. Harmless after its end.
    fn abort(&self);

    /// Copies another file into the upload, from front to back; returns the number of bytes.
    ///
    /// # Errors
    /// Those of [`Upload::write_vectored_at`]; `storage_failed` when the source cannot be read,
    /// `source_changed` when it ends early, or was changed meanwhile.
    fn copy_from(&self, source: &dyn FileReader) -> Result<u64> {
        copy_bytes(source, self, 0)
    }
}

/// Copies the rest of `source` from `start` on through a buffer.
pub(crate) fn copy_bytes<U: Upload + ?Sized>(source: &dyn FileReader, sink: &U, start: u64) -> Result<u64> {
    let size_bytes = source.stat().size_bytes;
    let mut buffer = vec![0; types::limits::BUFFER_BYTES];
    let mut offset = start;
    while offset < size_bytes {
        let wanted = buffer.len().min((size_bytes - offset) as usize);
        let mut slices = [IoSliceMut::new(&mut buffer[..wanted])];
        let count = source
            .read_vectored_at(&mut slices, offset, Patience::Wait)
            .map_err(|error| crate::fault::from_io(&error, Phase::Transfer).at_side(Side::Source))?;
        if count == 0 {
            let why = "the file became shorter while it was copied";
            return Err(Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Transfer).with_detail(why));
        }
        sink.write_vectored_at(&[IoSlice::new(&buffer[..count])], offset)?;
        offset += count as u64;
    }
    check_unchanged(source)?;
    Ok(offset)
}
