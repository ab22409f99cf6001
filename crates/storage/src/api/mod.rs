//! The traits that a blocking back end implements, and the values that they exchange.
//!
//! All calls block; a [`Lane`](execution::Lane) decides where, so a back end knows no runtime.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side, Unlisted};

use crate::links::LinkUse;
use crate::owner::Owner;

/// Whether a name is a file or a directory. Nothing else is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The longest entity tag: three 64-bit numbers, the nanoseconds in 32 bits, and the separators.
const TAG_BYTES_MAX: usize = 3 * 16 + 8 + 3;

/// The properties of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory.
    pub kind: Kind,
    /// Size of a file in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds if the store records them.
    pub modified: SystemTime,
    /// Permission bits (`0o777` and below).
    pub mode: u32,
    /// Identity of the file within the store. A new file with the same name has another identity.
    pub inode: u64,
}

impl Stat {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// A strong validator without its quotes (RFC 9110 §8.8.3), made from size, modification time
    /// and identity. An overwriting rename changes all three.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut tag = String::new();
        self.push_etag(&mut tag);
        tag
    }

    /// Appends the entity tag to `out`.
    pub fn push_etag(&self, out: &mut String) {
        let (seconds, nanoseconds) = seconds_and_nanoseconds(self.modified);
        let mut text = [0; TAG_BYTES_MAX];
        let mut start = text.len();
        start = put_hex(&mut text, start, self.inode);
        start = put_before(&mut text, start, b'-');
        start = put_hex(&mut text, start, nanoseconds.into());
        start = put_before(&mut text, start, b'.');
        start = put_hex(&mut text, start, seconds.cast_unsigned());
        start = put_before(&mut text, start, b'-');
        start = put_hex(&mut text, start, self.size_bytes);
        // It contains only ASCII.
        out.push_str(std::str::from_utf8(&text[start..]).unwrap_or_default());
    }

    /// Whether `other` has the same content: same size, modification time and identity.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        (self.size_bytes, self.modified, self.inode) == (other.size_bytes, other.modified, other.inode)
    }
}

/// Seconds since the epoch (negative before it), and the nanoseconds after that second.
pub(crate) fn seconds_and_nanoseconds(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                nanoseconds => (-(before.as_secs() as i64) - 1, 1_000_000_000 - nanoseconds),
            }
        }
    }
}

/// Writes lower-case hexadecimal digits without leading zeros before `end`; returns their start.
/// Tags are built from the end, because a listing has thousands of them.
fn put_hex(text: &mut [u8; TAG_BYTES_MAX], end: usize, mut value: u64) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut start = end;
    loop {
        start = put_before(text, start, DIGITS[(value % 16) as usize]);
        value /= 16;
        if value == 0 {
            return start;
        }
    }
}

fn put_before(text: &mut [u8; TAG_BYTES_MAX], end: usize, byte: u8) -> usize {
    text[end - 1] = byte;
    end - 1
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name without slashes.
    pub name: String,
    /// Its properties; symbolic links are already followed.
    pub stat: Stat,
}

/// A directory that is read in batches.
pub trait Listing: Send {
    /// The next entries in no particular order, at most
    /// [`LISTING_BATCH_ENTRIES`](types::limits::LISTING_BATCH_ENTRIES); empty at the end.
    ///
    /// # Errors
    /// `storage_failed` when the rest of the directory cannot be read.
    fn next_batch(&mut self) -> Result<Vec<Entry>>;

    /// What has been left out so far, not counting hidden names.
    fn unlisted(&self) -> Unlisted {
        Unlisted::default()
    }
}

/// What happens if the name of a new file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The old file is replaced at commit, atomically.
    Allow,
    /// The upload is refused: at its creation, and again, atomically, at commit.
    Refuse,
}

/// How to create a new file.
#[derive(Clone, Debug)]
pub struct UploadOptions {
    /// The announced size in bytes. Space for it is reserved at once, and more data is refused.
    pub size_bytes: Option<u64>,
    /// What to do if the name exists.
    pub overwrite: Overwrite,
    /// Whether to create missing parent directories.
    pub create_parents: bool,
    /// Algorithms whose values will be given at commit.
    pub checksums: Vec<ChecksumAlgorithm>,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self {
            size_bytes: None,
            overwrite: Overwrite::Allow,
            create_parents: false,
            checksums: Vec::new(),
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

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Reads only what is in memory; `WouldBlock` if it would need the disk.
    CachedOnly,
    /// Waits as long as necessary.
    Wait,
}

/// Space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system, or the quota if that is smaller; `i64::MAX` if unknown.
    pub total_bytes: u64,
    /// What new files can take, after the reserve, running uploads and the quota.
    pub free_bytes: u64,
    /// What the files take: with a quota those of this export (until the first scan ends, of the
    /// files that it has counted), otherwise those of the whole file system.
    pub used_bytes: u64,
    /// The export's quota.
    pub quota_bytes: Option<u64>,
}

/// The usage of a virtual organisation's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoUsage {
    /// The VO.
    pub vo: Arc<str>,
    /// The path of the quota, as clients use it.
    pub path: LogicalPath,
    /// Bytes of its files; until the first scan ends, of those that it has reached.
    pub used_bytes: u64,
    /// The quota in bytes.
    pub limit_bytes: u64,
}

/// What a tree may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// Nothing: the name must be free.
    Nothing,
    /// A file or an empty directory.
    Single,
    /// Also a directory with everything in it.
    Tree,
}

/// Something in a tree that could not be removed.
#[derive(Clone, Debug)]
pub struct TreeFailure {
    /// Its path.
    pub path: LogicalPath,
    /// The reason.
    pub error: Error,
}

/// The files of one export. All calls block.
pub trait Storage: Send + Sync + 'static {
    /// The same files with the rights of an owner: for opening, listing, changing and removing; new
    /// files belong to that user. `None` for a store without users and VOs.
    fn acting_for(&self, _owner: &Owner) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Whether the owner's link judge allows this use of a name's target behind links. For
    /// [`LinkUse::Create`] and [`LinkUse::Overwrite`] the directory counts. A missing target is no
    /// refusal.
    ///
    /// # Errors
    /// The refusal; as [`Storage::stat`].
    fn check_links(&self, _path: &LogicalPath, _used: LinkUse<'_>) -> Result<()> {
        Ok(())
    }

    /// The properties of a name. Symbolic links are followed while they stay within the export.
    ///
    /// # Errors
    /// `not_found`, `not_directory`, `symlink_escapes`, `forbidden`, `path_refused` if it is
    /// neither file nor directory, `storage_failed`.
    fn stat(&self, path: &LogicalPath) -> Result<Stat>;

    /// Starts reading a directory.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_directory` for a file.
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>>;

    /// Opens a file for reading. The reader keeps this file even if the name is overwritten.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `is_directory` for a directory.
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>>;

    /// Starts an upload. Nothing is visible under the name before [`Upload::commit`].
    ///
    /// # Errors
    /// `no_space` and `quota_exceeded` before the first byte, `exists` when overwriting is refused,
    /// `is_directory`, `parent_missing`, `not_directory`, `path_refused`, `read_only`, `forbidden`.
    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>>;

    /// Creates a directory, and with `parents` its missing parents.
    ///
    /// # Errors
    /// `directory_exists`, `exists` for a file, `parent_missing`, `not_directory`, `read_only`.
    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()>;

    /// Removes a file or an empty directory. A symbolic link itself is removed, not its target.
    ///
    /// # Errors
    /// `not_found`, `not_empty`, `forbidden` for the root, `read_only`.
    fn remove(&self, path: &LogicalPath) -> Result<()>;

    /// Removes a directory with everything in it; never follows links. The name disappears in one
    /// step first. What cannot be removed reappears under it; one example is returned.
    ///
    /// # Errors
    /// As [`Storage::remove`], before anything is removed. `not_empty` if it contains names that no
    /// path can hold, which no listing shows. `path_refused` if the path leads through a symbolic
    /// link; `busy` if another file system is mounted below; `forbidden` if something below may not
    /// be removed, or another export begins there; `not_implemented` for a store that cannot do it.
    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        Err(not_offered(path))
    }

    /// Copies a file, or a directory and with `members` everything in it; visible in one step when
    /// complete. Copies links as links; leaves out pipes and the like. Returns whether it replaced
    /// something.
    ///
    /// # Errors
    /// As [`Storage::copy`], before anything is visible; `exists` and `not_empty`, depending on
    /// `replacing`; `forbidden` into itself; `path_refused` through a link; `cross_export` across a
    /// quota; as [`Storage::remove_tree`] for what is replaced.
    fn copy_tree(&self, _from: &LogicalPath, to: &LogicalPath, _members: bool, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// Renames a file or directory over another name, which may be a directory and is then removed.
    ///
    /// # Errors
    /// As [`Storage::rename`] and [`Storage::copy_tree`].
    fn move_over(&self, _from: &LogicalPath, to: &LogicalPath, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// Renames a file or directory; returns whether an old file was replaced.
    ///
    /// # Errors
    /// `not_found`, `exists` when overwriting is refused, `is_directory` if the target is a
    /// directory, `parent_missing`, `forbidden` for the root or into itself, `cross_export`.
    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool>;

    /// Copies a file and its stored checksums, sharing blocks where the file system can.
    ///
    /// # Errors
    /// Those of [`Storage::open`], [`Storage::create`] and [`Upload::commit`]; `source_changed`.
    fn copy(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<Stat> {
        let source = self.open(from)?;
        let size_bytes = source.stat().size_bytes;
        let checksums = self.stored_checksums(from)?;
        let unchanged = self.stat(from)?.same_content(source.stat());
        let options = UploadOptions {
            size_bytes: Some(size_bytes),
            overwrite,
            ..UploadOptions::default()
        };
        let upload = self.create(to, &options)?;
        upload.copy_from(source.as_ref())?;
        let checksums = if unchanged { checksums } else { Vec::new() };
        upload.commit(&CommitFacts {
            size_bytes,
            checksums,
            modified: None,
            mode: None,
        })
    }

    /// The stored checksums of a file that are still valid; often none.
    ///
    /// # Errors
    /// As [`Storage::open`].
    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>>;

    /// Stores a checksum computed over the file in state `seen`; does nothing if that is
    /// unsupported.
    ///
    /// # Errors
    /// As [`Storage::open`]; `source_changed` when the file has changed since.
    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()>;

    /// The space of the export.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space(&self) -> Result<Space>;

    /// The space at a path for the owner: within its VO's quota, if it has one there.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space_at(&self, _path: &LogicalPath) -> Result<Space> {
        self.space()
    }

    /// The usage of each VO that has a quota.
    fn usage(&self) -> Vec<VoUsage> {
        Vec::new()
    }

    /// Opens an existing file for changes in place, as XRootD's open for update asks. This breaks
    /// all promises about uploads: writes are visible at once, [`Upload::abort`] undoes nothing,
    /// and [`Upload::commit`] only makes the data durable. The first change removes stored
    /// checksums.
    ///
    /// # Errors
    /// As [`Storage::open`]; `read_only`; `not_implemented` for a store that cannot do it.
    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        Err(not_offered(path))
    }

    /// Changes the permission bits (`0o777` and below), also of an unreadable file.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `forbidden` for the root; `read_only`; `not_implemented` without
    /// modes.
    fn set_mode(&self, path: &LogicalPath, _mode: u32) -> Result<()> {
        Err(not_offered(path))
    }

    /// The names of the attributes that clients set on a file or directory, in no particular order.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_implemented` for a store without attributes.
    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        Err(not_offered(path))
    }

    /// The value of an attribute; `None` if there is none with this name.
    ///
    /// # Errors
    /// As [`Storage::attributes`].
    fn attribute(&self, path: &LogicalPath, _name: &str) -> Result<Option<Vec<u8>>> {
        Err(not_offered(path))
    }

    /// Sets an attribute of a file or directory.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `exists` if it exists and may not be replaced; `name_too_long`,
    /// `no_space` (file systems limit them), `read_only`.
    fn set_attribute(&self, path: &LogicalPath, _name: &str, _value: &[u8], _overwrite: Overwrite) -> Result<()> {
        Err(not_offered(path))
    }

    /// The dead properties that WebDAV clients set on a file or directory, in the door's encoding;
    /// empty if there are none. They are not among the [`Storage::attributes`].
    ///
    /// # Errors
    /// As [`Storage::stat`].
    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        self.stat(path).map(|_| Vec::new())
    }

    /// The dead properties of some names in a directory, in their order; empty for unreadable ones.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    fn dead_properties_in(&self, directory: &LogicalPath, names: &[String]) -> Result<Vec<Vec<u8>>> {
        let read = |name: &String| self.dead_properties(&directory.join(name)?);
        Ok(names.iter().map(|name| read(name).unwrap_or_default()).collect())
    }

    /// Replaces the dead properties by the result of `change`, atomically.
    ///
    /// # Errors
    /// Those of `change`; as [`Storage::set_attribute`].
    fn change_dead_properties(&self, path: &LogicalPath, _change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        Err(not_offered(path))
    }

    /// Removes an attribute; returns whether it existed.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `read_only`.
    fn remove_attribute(&self, path: &LogicalPath, _name: &str) -> Result<bool> {
        Err(not_offered(path))
    }
}

fn not_offered(path: &LogicalPath) -> Error {
    crate::fault::fault(ErrorCode::NotImplemented, Phase::Open)
        .with_detail("this store does not support it")
        .with_subject(path)
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

    /// The system's file, if there is one, for `sendfile`.
    fn as_file(&self) -> Option<&File> {
        None
    }

    /// Hints that this range will soon be read from front to back.
    fn advise_sequential(&self, _range: ByteRange) {}
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
    fn keep_front(&self, _bytes: u64) {}

    /// Truncates the data to this length, or extends it with zero bytes.
    ///
    /// # Errors
    /// Those of [`Upload::write_vectored_at`]; `not_implemented` for a store that cannot do it.
    fn set_length(&self, _size_bytes: u64) -> Result<()> {
        Err(crate::fault::fault(ErrorCode::NotImplemented, Phase::Transfer)
            .with_detail("this store cannot change the length of an upload"))
    }

    /// Makes the data written so far durable. Only [`Storage::open_update`] needs it: an
    /// uncommitted upload has no name under which it could be found after a power failure.
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
    /// `source_changed` when it ends early.
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
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 1, 15, 16, 0x6b03_34ee, u64::MAX >> 4, u64::MAX] {
            let mut text = [b'x'; TAG_BYTES_MAX];
            let end = TAG_BYTES_MAX - 1;
            let start = put_hex(&mut text, end, number);
            assert_eq!(text[start..end], *format!("{number:x}").as_bytes());
            assert_eq!((text[start - 1], text[end]), (b'x', b'x'), "nothing beside it");
        }
    }

    #[test]
    fn times_before_the_epoch_keep_their_nanoseconds_above_the_second() {
        assert_eq!(seconds_and_nanoseconds(UNIX_EPOCH + Duration::new(5, 7)), (5, 7));
        assert_eq!(seconds_and_nanoseconds(UNIX_EPOCH - Duration::new(5, 0)), (-5, 0));
        assert_eq!(
            seconds_and_nanoseconds(UNIX_EPOCH - Duration::new(4, 1)),
            (-5, 999_999_999)
        );
    }

    #[test]
    fn the_validator_changes_with_size_time_and_identity() {
        let stat = Stat {
            kind: Kind::File,
            size_bytes: 1,
            modified: UNIX_EPOCH,
            mode: 0o644,
            inode: 9,
        };
        let others = [
            Stat {
                size_bytes: 2,
                ..stat.clone()
            },
            Stat {
                modified: UNIX_EPOCH + Duration::from_nanos(1),
                ..stat.clone()
            },
            Stat {
                inode: 10,
                ..stat.clone()
            },
        ];
        for other in others {
            assert_ne!(stat.etag(), other.etag());
            assert!(!stat.same_content(&other));
        }
        let old = Stat {
            modified: UNIX_EPOCH - Duration::from_secs(1),
            inode: 0xabc,
            ..stat.clone()
        };
        assert_eq!(
            (stat.etag(), old.etag()),
            ("1-0.0-9".to_owned(), format!("1-{:x}.0-abc", -1_i64))
        );
        assert_eq!(
            stat.etag(),
            Stat {
                mode: 0o600,
                ..stat.clone()
            }
            .etag()
        );
    }
    #[test]
    fn the_longest_validator_fits() {
        let stat = Stat {
            kind: Kind::File,
            size_bytes: u64::MAX,
            modified: UNIX_EPOCH - Duration::from_nanos(1),
            mode: 0,
            inode: u64::MAX,
        };
        let ones = "f".repeat(16);
        assert_eq!(stat.etag(), format!("{ones}-{ones}.3b9ac9ff-{ones}"));
        let mut tag = "\"".to_owned();
        stat.push_etag(&mut tag);
        assert_eq!(tag, format!("\"{}", stat.etag()));
    }
}
