//! What a store offers: the traits, and the plain values that go in and out of them.
//!
//! All calls block. Where they run (on the caller's task or in the blocking pool) is decided by a
//! [`Lane`](execution::Lane), so that a store itself knows no runtime.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side, Unlisted};

use crate::links::LinkUse;
use crate::owner::Owner;

/// Whether a name is a file or a directory. Nothing else is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The longest tag: three numbers of 64 bits, the nanoseconds of 32, and what is between them.
const TAG_BYTES_MAX: usize = 3 * 16 + 8 + 3;

/// What is known of a file or directory without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory.
    pub kind: Kind,
    /// Size of a file in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// Last change of the content, to the nanosecond where the store knows it.
    pub modified: SystemTime,
    /// Permission bits (`0o777` and below).
    pub mode: u32,
    /// Identity of the file within the store; another file of the same name has another one.
    pub inode: u64,
}

impl Stat {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// A strong validator without its quotes (RFC 9110 §8.8.3), made from size, time of change in
    /// nanoseconds and identity: overwriting by rename changes all three.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut tag = String::new();
        self.push_etag(&mut tag);
        tag
    }

    /// The same, behind what is there.
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
        // Only ASCII is in it.
        out.push_str(std::str::from_utf8(&text[start..]).unwrap_or_default());
    }

    /// Whether `other` shows the same content: same size, time of change and identity.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        (self.size_bytes, self.modified, self.inode) == (other.size_bytes, other.modified, other.inode)
    }
}

/// Seconds since the epoch (negative before it) and the nanoseconds above them.
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

/// Writes lower-case hexadecimal digits without zeros in front so that they end before `end`; returns where they begin.
/// Tags are put together from the back, at once: a listing has thousands of them.
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

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name without any slash.
    pub name: String,
    /// What it is; symbolic links are already followed.
    pub stat: Stat,
}

/// A directory being read, a batch at a time.
pub trait Listing: Send {
    /// The next entries in no particular order, at most
    /// [`LISTING_BATCH_ENTRIES`](types::limits::LISTING_BATCH_ENTRIES); empty at the end.
    ///
    /// # Errors
    /// `storage_failed` when the directory cannot be read on.
    fn next_batch(&mut self) -> Result<Vec<Entry>>;

    /// What was left out so far. Hidden names are not among it.
    fn unlisted(&self) -> Unlisted {
        Unlisted::default()
    }
}

/// What happens when the name of a new file is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The old file is replaced at commit, at once and completely.
    Allow,
    /// The upload is refused: when it is created, and once more, atomically, when it is committed.
    Refuse,
}

/// How a new file is to be made.
#[derive(Clone, Debug)]
pub struct UploadOptions {
    /// The announced size in bytes. Space is asked for it at once; more is then refused.
    pub size_bytes: Option<u64>,
    /// What to do when the name is taken.
    pub overwrite: Overwrite,
    /// Whether missing parent directories are made.
    pub create_parents: bool,
    /// Algorithms whose values will be handed over at commit.
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
    /// Size of the whole file in bytes; compared with what the store really holds.
    pub size_bytes: u64,
    /// Verified checksums of the whole file, kept with it.
    pub checksums: Vec<Checksum>,
    /// Time of change to give the file; the time of commit otherwise.
    pub modified: Option<SystemTime>,
    /// Permission bits to give the file (`0o777` and below), before it has its name, so that no other file can get
    /// them. That a file system refuses them does not make the upload fail.
    pub mode: Option<u32>,
}

/// How long a read may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Only what is in memory already; `WouldBlock` when the disk would have to be asked.
    CachedOnly,
    /// As long as it takes.
    Wait,
}

/// How much room there is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system, or the quota when that is smaller; `i64::MAX` when it names none.
    pub total_bytes: u64,
    /// What new files can take: after the reserve, running uploads and the quota.
    pub free_bytes: u64,
    /// What the files take. With a quota: of this export; until the first scan is through, of what
    /// it has met so far. Without one: of the whole file system.
    pub used_bytes: u64,
    /// The export's quota.
    pub quota_bytes: Option<u64>,
}

/// What the files of a virtual organisation take of its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoUsage {
    /// The VO.
    pub vo: Arc<str>,
    /// Below which path, as clients know it.
    pub path: LogicalPath,
    /// Bytes of its files; until the first scan is through, of those that it has met so far.
    pub used_bytes: u64,
    /// Bytes that it may take.
    pub limit_bytes: u64,
}

/// What a tree may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// The name must be free.
    Nothing,
    /// A file or an empty directory.
    Single,
    /// A directory with everything in it, too.
    Tree,
}

/// Something within a tree that stayed when the tree was removed.
#[derive(Clone, Debug)]
pub struct TreeFailure {
    /// What.
    pub path: LogicalPath,
    /// Why.
    pub error: Error,
}

/// Files behind one export.
pub trait Storage: Send + Sync + 'static {
    /// The same files as that owner may use them: opened, listed, changed and removed with the rights of
    /// its user, to whom what is made belongs. `None` for a store that knows no users and no VOs.
    fn acting_for(&self, _owner: &Owner) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Whether the judge of whom this acts for admits a use of what a name leads to over symbolic links. Of what is
    /// used by its name in a directory ([`LinkUse::Create`], [`LinkUse::Overwrite`]), the way to that
    /// directory counts. What is missing is no refusal.
    ///
    /// # Errors
    /// The refusal; as [`Storage::stat`].
    fn check_links(&self, _path: &LogicalPath, _used: LinkUse<'_>) -> Result<()> {
        Ok(())
    }

    /// What is under a name. Symbolic links are followed as long as they stay within the export.
    ///
    /// # Errors
    /// `not_found`, `not_directory`, `symlink_escapes`, `forbidden`, `path_refused` for what is
    /// neither file nor directory, `storage_failed`.
    fn stat(&self, path: &LogicalPath) -> Result<Stat>;

    /// Begins to read a directory.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_directory` for a file.
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>>;

    /// Opens a file for reading. The reader goes on showing this file when the name is overwritten.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `is_directory` for a directory.
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>>;

    /// Begins an upload. Nothing is visible under the name before [`Upload::commit`].
    ///
    /// # Errors
    /// `no_space` and `quota_exceeded` before the first byte, `exists` when overwriting is refused,
    /// `is_directory`, `parent_missing`, `not_directory`, `path_refused`, `read_only`, `forbidden`.
    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>>;

    /// Makes a directory, and with `parents` those above it that are missing.
    ///
    /// # Errors
    /// `directory_exists`, `exists` for a file, `parent_missing`, `not_directory`, `read_only`.
    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()>;

    /// Removes a file or an empty directory. A symbolic link is removed, not what it points to.
    ///
    /// # Errors
    /// `not_found`, `not_empty`, `forbidden` for the root, `read_only`.
    fn remove(&self, path: &LogicalPath) -> Result<()>;

    /// Removes a directory with everything in it, symbolic links themselves included and never what they point to. The
    /// name is gone in one step before anything below it is; what cannot be removed comes back under it, and one
    /// example of that is returned.
    ///
    /// # Errors
    /// As [`Storage::remove`], before anything was removed. `not_empty` when it holds names that no listing shows, because
    /// no path can hold them. `path_refused` when the way there leads through a symbolic link;
    /// `busy` when another file system is mounted below; `forbidden` when something below may not be removed, or another
    /// export begins there; `not_implemented` for a store that cannot.
    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        Err(not_offered(path))
    }

    /// Copies a file, or a directory and with `members` everything in it; shown in one step when it is whole. Symbolic links
    /// are copied as links, pipes and the like left out; attributes go along. Returns whether something was replaced.
    ///
    /// # Errors
    /// As [`Storage::copy`], before anything shows; `exists` and `not_empty`, as `replacing` says; `forbidden` into itself;
    /// `path_refused` through a link; `cross_export` across a quota; as [`Storage::remove_tree`] of what is replaced.
    fn copy_tree(&self, _from: &LogicalPath, to: &LogicalPath, _members: bool, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// Gives a file or directory the name of another one, which may be a directory and is then removed.
    ///
    /// # Errors
    /// As [`Storage::rename`] and [`Storage::copy_tree`].
    fn move_over(&self, _from: &LogicalPath, to: &LogicalPath, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// Gives a file or directory another name; returns whether an old file was replaced.
    ///
    /// # Errors
    /// `not_found`, `exists` when overwriting is refused, `is_directory` when a directory is in the
    /// way, `parent_missing`, `forbidden` for the root or into itself, `cross_export`.
    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool>;

    /// Copies a file within the store, sharing blocks where the file system can; its kept
    /// checksums go with it.
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

    /// Checksums kept with a file that are still valid for it; often none.
    ///
    /// # Errors
    /// As [`Storage::open`].
    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>>;

    /// Keeps a checksum that was computed over the file as `seen`. Where the store cannot keep
    /// checksums this does nothing.
    ///
    /// # Errors
    /// As [`Storage::open`]; `source_changed` when the file is no longer the one seen.
    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()>;

    /// How much room there is.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space(&self) -> Result<Space>;

    /// How much room there is at a place for whom the store acts for: where its VO has a quota, of that.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space_at(&self, _path: &LogicalPath) -> Result<Space> {
        self.space()
    }

    /// What each VO takes that has a quota.
    fn usage(&self) -> Vec<VoUsage> {
        Vec::new()
    }

    /// Opens a file to be changed where it lies, which is what a client of the XRootD protocol asks
    /// for that opens an existing file for update. It is the exception to every promise about uploads:
    /// each write shows at once, [`Upload::abort`] undoes nothing, [`Upload::commit`] only makes
    /// durable what was written. The kept checksums go with the first change.
    ///
    /// # Errors
    /// As [`Storage::open`]; `read_only`; `not_implemented` for a store that cannot.
    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        Err(not_offered(path))
    }

    /// Changes the permission bits (`0o777` and below), also of what may not be read.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `forbidden` for the root; `read_only`; `not_implemented` for a store that has none.
    fn set_mode(&self, path: &LogicalPath, _mode: u32) -> Result<()> {
        Err(not_offered(path))
    }

    /// The names of the attributes that clients gave to a file or directory, in no particular order.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_implemented` for a store that keeps none.
    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        Err(not_offered(path))
    }

    /// The value of such an attribute; `None` when there is none of that name.
    ///
    /// # Errors
    /// As [`Storage::attributes`].
    fn attribute(&self, path: &LogicalPath, _name: &str) -> Result<Option<Vec<u8>>> {
        Err(not_offered(path))
    }

    /// Gives a file or directory an attribute.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `exists` when it has one of that name which may not be replaced;
    /// `name_too_long`, `no_space` (file systems limit them), `read_only`.
    fn set_attribute(&self, path: &LogicalPath, _name: &str, _value: &[u8], _overwrite: Overwrite) -> Result<()> {
        Err(not_offered(path))
    }

    /// The dead properties that WebDAV clients gave to a file or directory, as a door has them stored; empty when there are
    /// none. They are not among the [`Storage::attributes`].
    ///
    /// # Errors
    /// As [`Storage::stat`].
    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        self.stat(path).map(|_| Vec::new())
    }

    /// The same of some names in a directory, in their order. Where they cannot be read there are none.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    fn dead_properties_in(&self, directory: &LogicalPath, names: &[String]) -> Result<Vec<Vec<u8>>> {
        let read = |name: &String| self.dead_properties(&directory.join(name)?);
        Ok(names.iter().map(|name| read(name).unwrap_or_default()).collect())
    }

    /// Replaces the dead properties by what `change` makes of them, at once and with no other change in between.
    ///
    /// # Errors
    /// Those of `change`; as [`Storage::set_attribute`].
    fn change_dead_properties(&self, path: &LogicalPath, _change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        Err(not_offered(path))
    }

    /// Takes an attribute away; returns whether there was one of that name.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `read_only`.
    fn remove_attribute(&self, path: &LogicalPath, _name: &str) -> Result<bool> {
        Err(not_offered(path))
    }
}

fn not_offered(path: &LogicalPath) -> Error {
    crate::fault::fault(ErrorCode::NotImplemented, Phase::Open)
        .with_detail("this store does not offer it")
        .with_subject(path)
}

/// An open file. Reads at any offset from any thread.
pub trait FileReader: Send + Sync {
    /// The file as it was when it was opened.
    fn stat(&self) -> &Stat;

    /// Reads from `offset` on into the slices, one after the other; returns how many bytes, 0 at
    /// the end of the file. May return fewer than asked for.
    ///
    /// # Errors
    /// `WouldBlock` with [`Patience::CachedOnly`] when the disk would have to be asked; a file
    /// system that cannot tell simply reads. Otherwise the system's error.
    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize>;

    /// Whether [`Patience::CachedOnly`] makes a difference, as far as is known: whether it can be told what is in memory.
    fn tells_what_is_cached(&self) -> bool {
        true
    }

    /// The system's file, when there is one, for `sendfile`.
    fn as_file(&self) -> Option<&File> {
        None
    }

    /// Says that this range will be read from front to back soon. Only a hint.
    fn advise_sequential(&self, _range: ByteRange) {}
}

/// A file on its way in. Writes at any offset from any thread. Dropped without
/// [`Upload::commit`], it is aborted.
///
/// An error about the number of bytes names [`Side::Source`], where they come from: a store does
/// not know whether that is a peer or the client. A door that takes a body in knows, and says so.
pub trait Upload: Send + Sync {
    /// Writes all slices, one after the other, from `offset` on.
    ///
    /// # Errors
    /// `no_space`, `quota_exceeded`, `peer_size_differs` beyond the announced size, `cancelled`
    /// when the upload has ended, `storage_failed`.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Takes up what an earlier, interrupted upload to this name left of the same content, which `mark`
    /// identifies; returns how many bytes are held already, from the front on. To be called before
    /// anything is written; what is not called for is not kept. A store that keeps nothing says 0.
    fn take_up(&self, _mark: &str) -> u64 {
        0
    }

    /// From now on writes come in any order, and only the first `bytes` bytes are without gaps: should the
    /// upload be interrupted, no more than these are kept for a later one. To be called before the first write
    /// behind a gap, and again when more is without gaps. A store that keeps nothing ignores it.
    fn keep_front(&self, _bytes: u64) {}

    /// Cuts what was written to this length, or extends it with zero bytes.
    ///
    /// # Errors
    /// Those of [`Upload::write_vectored_at`]; `not_implemented` for a store that cannot.
    fn set_length(&self, _size_bytes: u64) -> Result<()> {
        Err(crate::fault::fault(ErrorCode::NotImplemented, Phase::Transfer)
            .with_detail("this store cannot change the length of an upload"))
    }

    /// Makes durable what was written so far. Only [`Storage::open_update`] needs it: what is not
    /// committed has no name under which it could be found after a power cut.
    ///
    /// # Errors
    /// `storage_failed`.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Reads back what was written, for checksums that could not be made while it streamed.
    ///
    /// # Errors
    /// `storage_failed`.
    fn reader(&self) -> Result<Arc<dyn FileReader>>;

    /// Makes the file durable and puts it under its name, replacing an old file in one step.
    /// On an error before that step the upload is aborted and an old file is untouched. After it
    /// only one thing can fail, that the new name is made durable: `storage_failed` then says that
    /// the file is in its place.
    ///
    /// # Errors
    /// `body_incomplete` when the stored size is not the one given or announced, `exists`,
    /// `is_directory`, `parent_missing` when the directory went away, `no_space`, `storage_failed`;
    /// `cancelled` when the upload has already ended.
    fn commit(&self, facts: &CommitFacts) -> Result<Stat>;

    /// Gives the upload up and removes what was written. Harmless when it has already ended.
    fn abort(&self);

    /// Fills the upload from another file, from front to back; returns the number of bytes.
    ///
    /// # Errors
    /// Those of [`Upload::write_vectored_at`]; `storage_failed` when the source cannot be read,
    /// `source_changed` when it ends early.
    fn copy_from(&self, source: &dyn FileReader) -> Result<u64> {
        copy_bytes(source, self, 0)
    }
}

/// Copies what is left of `source` from `start` on through a buffer.
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
