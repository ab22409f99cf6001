//! Local files as a store for one user: any directory, no export, and nothing hidden left behind.
//!
//! A download is written to a part beside its target, `.NAME.crossload-part`, and renamed at the
//! end. After an interruption the part stays, with a mark that identifies the source's content; the
//! next attempt resumes it if the source is still the same.

mod attributes;
mod beneath;

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::{
    CommitFacts, Entry, FileReader, Kind, Listing, Overwrite, Patience, Space, Stat, Storage, Upload, UploadOptions,
};
use crate::hash::Hasher;
use crate::name_in::NameIn;
use rustix::fs::{
    self, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, XattrFlags,
};
use rustix::io::Errno;
use types::limits::NAME_BYTES_MAX;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

pub use attributes::{attribute, attribute_names, remove_attribute, set_attribute};
use beneath::entries;
pub use beneath::{LocalEntries, LocalEntry, Unfit, look};

/// The attribute of a part that identifies its content.
const MARK: &str = "user.crossload.source";
const MARK_BYTES_MAX: usize = 4096;

/// The whole file system, with this user's rights.
#[derive(Debug)]
pub struct LocalFiles;

/// Bytes of a name that its part still shows if it is too long for a suffix.
const SHOWN_BYTES: usize = 200;

/// The name of a download's part, beside its target. That of a long name has a digest of it.
fn part_of(target: &str) -> String {
    let plain = format!(".{target}.crossload-part");
    if plain.len() <= NAME_BYTES_MAX {
        return plain;
    }
    let mut hasher = Hasher::new(&[ChecksumAlgorithm::Md5]);
    hasher.update(target.as_bytes());
    let digest: String = hasher.finish().iter().map(Checksum::to_hex).collect();
    let mut end = SHOWN_BYTES;
    while !target.is_char_boundary(end) {
        end -= 1;
    }
    format!(".{}.{digest}.crossload-part", &target[..end])
}

/// Removes the part of a download, if there is one.
pub fn discard_part(target: &LogicalPath) {
    if let Ok((directory, name)) = beneath::parent(target) {
        let _ = fs::unlinkat(directory, part_of(name), AtFlags::empty());
    }
}

/// Sets the modification time of a file.
///
/// # Errors
/// Those of the system.
pub fn set_modified(path: &LogicalPath, modified: SystemTime) -> Result<()> {
    let set = || {
        let (directory, name) = beneath::parent(path)?;
        open_at(&directory, name, OFlags::RDONLY)?.set_modified(modified)
    };
    set().map_err(|cause: io::Error| fault(&cause, Phase::Commit, path))
}

/// Copies a symbolic link, which is not followed. One that is there and leads to the same is kept.
/// With [`Overwrite::Allow`] another one, or a file, is replaced. Returns whether it was made.
///
/// # Errors
/// `exists`, and other errors of the system.
pub fn copy_link(from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
    let read = |path: &LogicalPath| {
        let (directory, name) = beneath::parent(path)?;
        Ok(fs::readlinkat(directory, name, Vec::new())?)
    };
    let leads_to = read(from).map_err(|cause: io::Error| fault(&cause, Phase::Open, from).at_side(Side::Source))?;
    let make = || -> io::Result<bool> {
        let (directory, name) = beneath::parent(to)?;
        match fs::symlinkat(&leads_to, &directory, name) {
            Err(Errno::EXIST) if read(to).is_ok_and(|there| there == leads_to) => Ok(false),
            Err(Errno::EXIST) if overwrite == Overwrite::Allow => {
                let part = part_of(name);
                let _ = fs::unlinkat(&directory, &part, AtFlags::empty());
                fs::symlinkat(&leads_to, &directory, &part)?;
                let renamed = fs::renameat(&directory, &part, &directory, name);
                if renamed.is_err() {
                    let _ = fs::unlinkat(&directory, &part, AtFlags::empty());
                }
                Ok(renamed.map(|()| true)?)
            }
            made => Ok(made.map(|()| true)?),
        }
    };
    make().map_err(|cause| fault(&cause, Phase::Commit, to).at_side(Side::Destination))
}

/// The project's error for a system error about `path`.
pub fn fault(cause: &io::Error, phase: Phase, path: impl std::fmt::Display) -> Error {
    let code = match cause.kind() {
        ErrorKind::NotFound => ErrorCode::NotFound,
        ErrorKind::PermissionDenied => ErrorCode::Forbidden,
        ErrorKind::AlreadyExists => ErrorCode::Exists,
        ErrorKind::NotADirectory => ErrorCode::NotDirectory,
        ErrorKind::IsADirectory => ErrorCode::IsDirectory,
        ErrorKind::DirectoryNotEmpty => ErrorCode::NotEmpty,
        ErrorKind::StorageFull => ErrorCode::NoSpace,
        ErrorKind::QuotaExceeded => ErrorCode::QuotaExceeded,
        ErrorKind::ReadOnlyFilesystem => ErrorCode::ReadOnly,
        ErrorKind::InvalidFilename => ErrorCode::NameTooLong,
        ErrorKind::CrossesDevices => ErrorCode::CrossExport,
        _ if cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => ErrorCode::PathRefused,
        _ => ErrorCode::StorageFailed,
    };
    let error = Error::new(code, Side::Active, phase).with_subject(path);
    if code == ErrorCode::PathRefused {
        return error.with_detail("the path now contains a symbolic link; links are not followed");
    }
    if code == ErrorCode::StorageFailed {
        error.with_private(cause)
    } else {
        error
    }
}

/// A stat from the system's.
fn stat_of(raw: &fs::Stat) -> Stat {
    let is_directory = FileType::from_raw_mode(raw.st_mode) == FileType::Directory;
    let since = Duration::new(
        u64::try_from(raw.st_mtime).unwrap_or_default(),
        u32::try_from(raw.st_mtime_nsec).unwrap_or_default(),
    );
    Stat {
        kind: if is_directory { Kind::Directory } else { Kind::File },
        size_bytes: if is_directory {
            0
        } else {
            u64::try_from(raw.st_size).unwrap_or_default()
        },
        modified: UNIX_EPOCH + since,
        mode: raw.st_mode & 0o777,
        inode: raw.st_ino,
    }
}

/// The state of an open file; anything else is refused.
fn file_stat(file: &File, path: &LogicalPath) -> Result<Stat> {
    let raw = fs::fstat(file).map_err(|errno| fault(&errno.into(), Phase::Open, path))?;
    match FileType::from_raw_mode(raw.st_mode) {
        FileType::RegularFile => Ok(stat_of(&raw)),
        FileType::Directory => Err(Error::new(ErrorCode::IsDirectory, Side::Active, Phase::Open).with_subject(path)),
        _ => Err(unfit(path, Unfit::Special)),
    }
}

fn unfit(path: &LogicalPath, what: Unfit) -> Error {
    let error = Error::new(ErrorCode::PathRefused, Side::Active, Phase::Open).with_subject(path);
    error.with_detail(what.words())
}

/// Opens a name, unless it is a symbolic link; does not wait for the other end of a pipe.
fn open_at(directory: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(File::from(fs::openat(
        directory,
        name,
        flags,
        Mode::from_raw_mode(0o666),
    )?))
}

impl Storage for LocalFiles {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        match look(path)?.what {
            // Reported as a file so that it can be replaced; it cannot be opened.
            Err(Unfit::Link) => Ok(Stat {
                kind: Kind::File,
                size_bytes: 0,
                modified: UNIX_EPOCH,
                mode: 0,
                inode: 0,
            }),
            found => found.map_err(|what| unfit(path, what)),
        }
    }

    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        let known = entries(path)?.into_iter();
        let known = known.filter_map(|LocalEntry { name, what }| Some(Entry { name, stat: what.ok()? }));
        Ok(Box::new(LocalListing(known.collect())))
    }

    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        let opened = beneath::parent(path).and_then(|(directory, name)| open_at(&directory, name, OFlags::RDONLY));
        let file = opened.map_err(|cause| fault(&cause, Phase::Open, path))?;
        let stat = file_stat(&file, path)?;
        Ok(Arc::new(LocalReader { file, stat }))
    }

    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
        match look(path).map(|found| found.what) {
            Ok(Ok(stat)) if stat.is_directory() => return Err(failed(ErrorKind::IsADirectory.into())),
            Ok(_) if options.overwrite == Overwrite::Refuse => return Err(failed(ErrorKind::AlreadyExists.into())),
            // A link is replaced, whatever its target.
            Ok(Ok(_) | Err(Unfit::Link)) => {}
            Ok(Err(what)) => return Err(unfit(path, what)),
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(error),
        }
        if let Some(parent) = path.parent().filter(|_| options.create_parents) {
            beneath::make_all(&parent).map_err(failed)?;
        }
        let (directory, name) = beneath::parent(path).map_err(failed)?;
        let part = part_of(name);
        let file = open_at(&directory, &part, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        file_stat(&file, path)?;
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let error = Error::new(ErrorCode::Busy, Side::Active, Phase::Open).with_subject(path);
            error.with_detail("another copy to this file is running")
        })?;
        Ok(Arc::new(LocalUpload {
            file,
            directory,
            part,
            target: path.clone(),
            overwrite: options.overwrite,
            state: Mutex::new(State::Fresh),
        }))
    }

    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        let made = if parents {
            beneath::make_all(path)
        } else {
            beneath::parent(path)
                .and_then(|(directory, name)| Ok(fs::mkdirat(directory, name, Mode::from_raw_mode(0o777))?))
        };
        made.map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => Error::new(ErrorCode::ParentMissing, Side::Active, Phase::Open).with_subject(path),
            _ => fault(&cause, Phase::Open, path),
        })
    }

    fn remove(&self, path: &LogicalPath) -> Result<()> {
        let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
        let (directory, name) = beneath::parent(path).map_err(failed)?;
        let remove = |flags| match fs::unlinkat(&directory, name, flags) {
            // POSIX allows either.
            Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
            removed => removed,
        };
        let raw = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failed(errno.into()))?;
        let removed = match FileType::from_raw_mode(raw.st_mode) {
            FileType::Directory => remove(AtFlags::REMOVEDIR),
            _ => remove(AtFlags::empty()),
        };
        removed.map_err(|errno| failed(errno.into()))
    }

    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        if from != to && to.is_within(from) {
            let error = Error::new(ErrorCode::BadRequest, Side::Active, Phase::Open).with_subject(to);
            return Err(error.with_detail("a directory cannot be moved into itself"));
        }
        let (old, new) = (beneath::parent(from), beneath::parent(to));
        let (old, old_name) = old.map_err(|cause| fault(&cause, Phase::Open, from))?;
        let (new, new_name) = new.map_err(|cause| fault(&cause, Phase::Commit, to))?;
        let replaces = exists(&new, new_name);
        rename(NameIn::new(&old, old_name), NameIn::new(&new, new_name), overwrite)
            .map_err(|cause| fault(&cause, Phase::Commit, to))?;
        Ok(replaces)
    }

    fn stored_checksums(&self, _path: &LogicalPath) -> Result<Vec<Checksum>> {
        Ok(Vec::new())
    }

    fn store_checksum(&self, _path: &LogicalPath, _seen: &Stat, _checksum: &Checksum) -> Result<()> {
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        space(&LogicalPath::root())
    }
}

/// Sets the times of a file or directory to now, or creates an empty file.
///
/// # Errors
/// `not_found` without its directory, and other errors of the system.
pub fn touch(path: &LogicalPath) -> Result<()> {
    let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
    let (directory, name) = beneath::parent(path).map_err(failed)?;
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    let touched = match fs::utimensat(&directory, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            fs::openat(&directory, name, flags, Mode::from_raw_mode(0o666)).map(drop)
        }
        touched => touched,
    };
    touched.map_err(|errno| failed(errno.into()))
}

/// Sets the permission bits of a file or directory.
///
/// # Errors
/// `not_found`, and other errors of the system.
pub fn set_mode(path: &LogicalPath, mode: u16) -> Result<()> {
    let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
    let (directory, name) = beneath::parent(path).map_err(failed)?;
    let changed = fs::chmodat(&directory, name, Mode::from_raw_mode(mode.into()), AtFlags::empty());
    changed.map_err(|errno| failed(errno.into()))
}

/// The space of the file system that a path is in.
///
/// # Errors
/// `not_found`, and other errors of the system.
pub fn space(path: &LogicalPath) -> Result<Space> {
    let state = fs::statvfs(path.as_str()).map_err(|cause| fault(&cause.into(), Phase::Open, path))?;
    let (total_bytes, free_bytes) = (state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize);
    let used_bytes = total_bytes.saturating_sub(free_bytes);
    Ok(Space {
        total_bytes,
        free_bytes,
        used_bytes,
        quota_bytes: None,
        device: None,
    })
}

fn exists(directory: impl AsFd, name: &str) -> bool {
    fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn rename(from: NameIn<'_>, to: NameIn<'_>, overwrite: Overwrite) -> io::Result<()> {
    let (old, new) = (from.directory, to.directory);
    if overwrite == Overwrite::Allow {
        return Ok(fs::renameat(old, from.name, new, to.name)?);
    }
    match fs::renameat_with(old, from.name, new, to.name, RenameFlags::NOREPLACE) {
        // Some file systems cannot do it atomically, so check beforehand.
        Err(Errno::INVAL) if !exists(new, to.name) => Ok(fs::renameat(old, from.name, new, to.name)?),
        Err(Errno::INVAL) => Err(ErrorKind::AlreadyExists.into()),
        other => Ok(other?),
    }
}

/// All entries in one batch.
struct LocalListing(Vec<Entry>);

impl Listing for LocalListing {
    fn next_batch(&mut self) -> Result<Vec<Entry>> {
        Ok(std::mem::take(&mut self.0))
    }
}

struct LocalReader {
    file: File,
    stat: Stat,
}

impl FileReader for LocalReader {
    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn stat_now(&self) -> io::Result<Stat> {
        Ok(stat_of(&fs::fstat(&self.file)?))
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, _: Patience) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.file, slices, offset)?)
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// The state of an upload.
enum State {
    /// Nothing has been written or resumed.
    Fresh,
    /// Written in order; a later upload with this mark may resume it.
    Marked(String),
    /// Written in any order. A later upload may resume the first bytes; the part gets its mark only
    /// after the rest is cut off.
    Scattered(String, u64),
    /// Written in any order, and useless after an interruption.
    Plain,
    /// Committed or aborted.
    Ended,
}

struct LocalUpload {
    file: File,
    /// The directory of part and target; both stay in it, wherever it is moved.
    directory: OwnedFd,
    part: String,
    target: LogicalPath,
    overwrite: Overwrite,
    state: Mutex<State>,
}

impl LocalUpload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, cause: &io::Error) -> Error {
        fault(cause, Phase::Transfer, &self.target)
    }

    /// The first write, if nothing was resumed, starts an empty part.
    fn begin(&self) -> io::Result<()> {
        let mut state = self.state();
        if matches!(*state, State::Fresh) {
            self.file.set_len(0)?;
            let _ = fs::fremovexattr(&self.file, MARK);
            *state = State::Plain;
        }
        Ok(())
    }
}

impl Upload for LocalUpload {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.begin().map_err(|cause| self.fault(&cause))?;
        let mut at = offset;
        for slice in slices {
            self.file.write_all_at(slice, at).map_err(|cause| self.fault(&cause))?;
            at += slice.len() as u64;
        }
        Ok(())
    }

    fn resume(&self, mark: &str) -> u64 {
        let mut state = self.state();
        let mut known = [0_u8; MARK_BYTES_MAX];
        let length = fs::fgetxattr(&self.file, MARK, &mut known).unwrap_or(0);
        if length > 0 && known.get(..length) == Some(mark.as_bytes()) {
            *state = State::Marked(mark.to_owned());
            return self.file.metadata().map_or(0, |found| found.len());
        }
        let marked = self.file.set_len(0).is_ok()
            && mark.len() <= MARK_BYTES_MAX
            && fs::fsetxattr(&self.file, MARK, mark.as_bytes(), XattrFlags::empty()).is_ok();
        // If the file system stores no mark, the part cannot be resumed.
        *state = if marked {
            State::Marked(mark.to_owned())
        } else {
            State::Plain
        };
        0
    }

    fn limit_resume(&self, bytes: u64) {
        let mut state = self.state();
        *state = match std::mem::replace(&mut *state, State::Plain) {
            State::Marked(mark) => match fs::fremovexattr(&self.file, MARK) {
                Ok(()) => State::Scattered(mark, bytes),
                // The mark must not vouch for gaps.
                Err(_) => State::Plain,
            },
            State::Scattered(mark, _) => State::Scattered(mark, bytes),
            other => other,
        };
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        let failed = |cause: io::Error| self.fault(&cause);
        let file = self.file.try_clone().map_err(failed)?;
        let stat = file_stat(&file, &self.target)?;
        Ok(Arc::new(LocalReader { file, stat }))
    }

    fn commit(&self, facts: &CommitFacts) -> Result<Stat> {
        let failed = |cause: io::Error| fault(&cause, Phase::Commit, &self.target);
        self.begin().map_err(failed)?;
        let found = self.file.metadata().map_err(failed)?.len();
        if found != facts.size_bytes {
            let error = Error::new(ErrorCode::BodyIncomplete, Side::Active, Phase::Commit);
            return Err(error.with_detail(format!("{found} of {} bytes are stored", facts.size_bytes)));
        }
        let _ = fs::fremovexattr(&self.file, MARK);
        if let Some(modified) = facts.modified {
            self.file.set_modified(modified).map_err(failed)?;
        }
        let (from, to) = (self.part.as_str(), self.target.name().unwrap_or_default());
        rename(
            NameIn::new(&self.directory, from),
            NameIn::new(&self.directory, to),
            self.overwrite,
        )
        .map_err(failed)?;
        *self.state() = State::Ended;
        file_stat(&self.file, &self.target)
    }

    fn abort(&self) {
        let mut state = self.state();
        let empty = || self.file.metadata().is_ok_and(|found| found.len() == 0);
        let is_kept = match &*state {
            State::Ended => return,
            State::Fresh | State::Plain => false,
            State::Marked(_) => !empty(),
            State::Scattered(mark, front) => {
                *front > 0
                    && self.file.set_len(*front).is_ok()
                    && fs::fsetxattr(&self.file, MARK, mark.as_bytes(), XattrFlags::empty()).is_ok()
            }
        };
        if !is_kept {
            let _ = fs::unlinkat(&self.directory, &self.part, AtFlags::empty());
        }
        *state = State::Ended;
    }
}

impl Drop for LocalUpload {
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn upload(path: &LogicalPath) -> Arc<dyn Upload> {
        LocalFiles.create(path, &UploadOptions::default()).expect("an upload")
    }

    fn target(directory: &tempfile::TempDir) -> LogicalPath {
        LogicalPath::parse(&format!("{}/file", directory.path().display())).unwrap()
    }

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn nothing_is_left_beside_a_link_that_cannot_replace_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (target(&directory), directory.path().join("link"));
        fs::create_dir(path.as_str()).unwrap();
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        let link = LogicalPath::parse(link.to_str().unwrap()).unwrap();
        let refused = copy_link(&link, &path, Overwrite::Allow).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::IsDirectory);
        let mut left = names(&directory);
        left.sort();
        assert_eq!(left, ["file", "link"]);
    }

    #[test]
    fn the_longest_name_has_a_part_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let named = |name: String| LogicalPath::parse(&format!("{}/{name}", directory.path().display())).unwrap();
        let longest = "é".repeat(127);
        // Other names of the same length and beginning are copied to at the same time.
        let _others = ["c".to_owned() + &longest, longest.clone() + "c"].map(|name| upload(&named(name)));
        let copied = [longest.clone() + "a", longest + "b", "n".repeat(239), "n".repeat(240)];
        for name in copied {
            upload(&named(name)).commit(&CommitFacts::default()).unwrap();
        }
        assert_eq!(names(&directory).len(), 6);
    }

    #[test]
    fn a_directory_is_not_moved_into_itself() {
        let directory = tempfile::tempdir().unwrap();
        let (outer, inner) = (target(&directory), target(&directory).join("inner").unwrap());
        fs::create_dir(outer.as_str()).unwrap();
        let refused = LocalFiles.rename(&outer, &inner, Overwrite::Refuse);
        assert_eq!(refused.err().map(|error| error.code()), Some(ErrorCode::BadRequest));
    }

    #[test]
    fn nothing_is_left_beside_a_finished_or_failed_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = target(&directory);
        let first = upload(&path);
        first
            .write_vectored_at(&[IoSlice::new(b"ab"), IoSlice::new(b"c")], 0)
            .unwrap();
        let facts = CommitFacts {
            size_bytes: 3,
            ..CommitFacts::default()
        };
        first.commit(&facts).unwrap();
        drop(first);
        assert_eq!(names(&directory), ["file"]);
        let second = upload(&path);
        second.write_vectored_at(&[IoSlice::new(b"x")], 0).unwrap();
        assert_eq!(second.commit(&facts).unwrap_err().code(), ErrorCode::BodyIncomplete);
        drop(second);
        assert_eq!(names(&directory), ["file"]);
        assert_eq!(fs::read(path.as_str()).unwrap(), b"abc");
    }

    #[test]
    fn an_interrupted_download_is_resumed_only_for_the_same_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = target(&directory);
        let first = upload(&path);
        assert_eq!(first.resume("v1"), 0);
        first.write_vectored_at(&[IoSlice::new(b"abc")], 0).unwrap();
        drop(first);
        if names(&directory).is_empty() {
            return; // The file system stores no marks, hence no parts.
        }
        let second = upload(&path);
        assert_eq!(second.resume("v1"), 3);
        drop(second);
        let other = upload(&path);
        assert_eq!(other.resume("v2"), 0);
        other.write_vectored_at(&[IoSlice::new(b"z")], 0).unwrap();
        let facts = CommitFacts {
            size_bytes: 1,
            ..CommitFacts::default()
        };
        other.commit(&facts).unwrap();
        assert_eq!(fs::read(path.as_str()).unwrap(), b"z");
    }

    #[test]
    fn after_writes_in_any_order_only_the_front_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let path = target(&directory);
        let first = upload(&path);
        assert_eq!(first.resume("v1"), 0);
        first.limit_resume(0);
        first.write_vectored_at(&[IoSlice::new(b"behind")], 100).unwrap();
        drop(first);
        assert!(names(&directory).is_empty(), "nothing of it can be resumed");
        let second = upload(&path);
        assert_eq!(second.resume("v1"), 0);
        second.limit_resume(0);
        second.write_vectored_at(&[IoSlice::new(b"front")], 0).unwrap();
        second.write_vectored_at(&[IoSlice::new(b"behind")], 100).unwrap();
        second.limit_resume(5);
        drop(second);
        if names(&directory).is_empty() {
            return; // The file system stores no marks, hence no parts.
        }
        assert_eq!(upload(&path).resume("v1"), 5);
    }

    #[test]
    fn two_copies_to_one_file_do_not_mix_and_existing_files_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = target(&directory);
        let first = upload(&path);
        let busy = LocalFiles
            .create(&path, &UploadOptions::default())
            .err()
            .map(|error| error.code());
        assert_eq!(busy, Some(ErrorCode::Busy));
        first.commit(&CommitFacts::default()).unwrap();
        drop(first);
        let refuse = UploadOptions {
            overwrite: Overwrite::Refuse,
            ..UploadOptions::default()
        };
        assert_eq!(
            LocalFiles.create(&path, &refuse).err().map(|error| error.code()),
            Some(ErrorCode::Exists)
        );
    }
}
