//! Files in a directory of this machine (or of a mounted cluster file system).

mod attributes;
mod late_close;
mod listing;
mod marks;
mod parts;
mod reader;
mod resolve;
mod space;
#[cfg(test)]
mod tests;
mod update;
mod upload;
mod writeback;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use types::limits::{PREALLOCATE_BYTES_MIN, SPACE_RESERVE_BYTES};
use types::{Checksum, Error, ErrorCode, LogicalPath, Phase, Result};

use crate::api::{FileReader, Listing, Overwrite, Space, Stat, Storage, Upload, UploadOptions};
use crate::fault::{about, fault, from_errno};
use late_close::LateClose;
use listing::PosixListing;
pub use parts::Cleaned;
use parts::{Instance, Part};
use reader::PosixReader;
use resolve::{Root, check_readable, check_writable, stat_of};
use space::{Reservation, SpaceBook};
use update::PosixUpdate;
use upload::PosixUpload;

const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// How an export directory is used.
#[derive(Clone, Debug)]
pub struct PosixOptions {
    /// Whether anything may be written. Without it, the directory gets no hidden directory.
    pub writable: bool,
    /// Free space that uploads must leave, in bytes.
    pub reserve_bytes: u64,
    /// Most bytes that all files of the export together may take.
    pub quota_bytes: Option<u64>,
}

impl Default for PosixOptions {
    fn default() -> Self {
        Self {
            writable: true,
            reserve_bytes: SPACE_RESERVE_BYTES,
            quota_bytes: None,
        }
    }
}

/// What the store and its uploads have in common.
struct Shared {
    space: Arc<SpaceBook>,
    late_close: LateClose,
    in_memory: bool,
}

/// A store over a directory. Several servers may use the same one.
pub struct Posix {
    root: Arc<Root>,
    shared: Arc<Shared>,
    instance: Option<Arc<Instance>>,
    cleaned: Cleaned,
    /// File system and mount of the hidden directory.
    home: (u64, u64),
}

impl Posix {
    /// Opens the export, removes what dead servers left, and begins to count usage when there is
    /// a quota.
    ///
    /// # Errors
    /// `not_found`, `not_directory`, `forbidden`, `read_only` or `storage_failed`, with the
    /// directory's name in the private part.
    pub fn open(directory: &Path, options: &PosixOptions) -> Result<Self> {
        Self::with_root(Root::open(directory)?, options).map_err(|error| error.with_private(directory.display()))
    }

    fn with_root(root: Root, options: &PosixOptions) -> Result<Self> {
        let failed = |errno| from_errno(errno, Phase::Open);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = fs::openat(root.fd(), ".", flags, Mode::empty()).map_err(failed)?;
        let magic = fs::fstatfs(&top).map_err(failed)?.f_type as u64;
        let (instance, cleaned) = match options.writable {
            true => Instance::start(&root).map(|(instance, cleaned)| (Some(Arc::new(instance)), cleaned))?,
            false => (None, Cleaned::default()),
        };
        let home = match &instance {
            Some(instance) => place_of(instance.directory()).map_err(failed)?,
            None => (0, 0),
        };
        let space = Arc::new(SpaceBook::new(top, options.reserve_bytes, options.quota_bytes));
        space.start_scan();
        let in_memory = matches!(magic, TMPFS | RAMFS);
        let shared = Arc::new(Shared {
            space,
            late_close: LateClose::start(),
            in_memory,
        });
        Ok(Self {
            root: Arc::new(root),
            shared,
            instance,
            cleaned,
            home,
        })
    }

    /// What start-up removed.
    #[must_use]
    pub fn cleaned(&self) -> Cleaned {
        self.cleaned
    }

    /// Whether the usage that the quota is compared with is complete.
    #[must_use]
    pub fn usage_is_known(&self) -> bool {
        self.shared.space.is_scanned()
    }

    fn instance(&self, path: &LogicalPath) -> Result<&Arc<Instance>> {
        self.instance
            .as_ref()
            .ok_or_else(|| fault(ErrorCode::ReadOnly, Phase::Open).with_subject(path))
    }

    fn open_file(&self, path: &LogicalPath) -> Result<PosixReader> {
        check_readable(path)?;
        let file = File::from(self.root.open_beneath(path, OFlags::RDONLY | OFlags::NOCTTY)?);
        let raw = fs::fstat(&file).map_err(|errno| about(errno, Phase::Open, path))?;
        let stat = stat_of(&raw, path)?;
        if stat.is_directory() {
            return Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path));
        }
        Ok(PosixReader::new(file, stat))
    }

    /// Opens a file or directory to look at or change what is kept beside its content.
    fn open_any(&self, path: &LogicalPath) -> Result<OwnedFd> {
        check_readable(path)?;
        self.root.open_beneath(path, OFlags::RDONLY | OFlags::NOCTTY)
    }

    /// As [`Posix::open_any`], where that may be changed.
    fn open_any_to_change(&self, path: &LogicalPath) -> Result<OwnedFd> {
        let opened = self.open_any(path)?;
        self.instance(path).map(|_| opened)
    }

    /// The directory for a new name; makes it when asked to.
    fn parent_for<'a>(&self, path: &'a LogicalPath, make: bool) -> Result<(OwnedFd, &'a str)> {
        match self.root.open_parent(path) {
            Err(error) if make && error.code() == ErrorCode::ParentMissing => {
                self.make_ancestors(path)?;
                self.root.open_parent(path)
            }
            done => done,
        }
    }

    fn make_ancestors(&self, path: &LogicalPath) -> Result<()> {
        let mut ancestors: Vec<LogicalPath> = std::iter::successors(path.parent(), LogicalPath::parent).collect();
        ancestors.retain(|ancestor| !ancestor.is_root());
        for ancestor in ancestors.iter().rev() {
            let (parent, name) = self.root.open_parent(ancestor)?;
            match make_durable_directory(&parent, name) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(about(errno, Phase::Open, ancestor)),
            }
        }
        Ok(())
    }

    fn check_target(&self, path: &LogicalPath, overwrite: Overwrite) -> Result<()> {
        match self.root.stat(path) {
            Ok(stat) if stat.is_directory() => Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path)),
            Ok(_) if overwrite == Overwrite::Refuse => Err(fault(ErrorCode::Exists, Phase::Open).with_subject(path)),
            Ok(_) => Ok(()),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The directory nearest above a new name that is there already. What is made below it lies on
    /// the same file system and mount.
    fn nearest_directory(&self, path: &LogicalPath) -> Result<(OwnedFd, LogicalPath)> {
        let mut above = path.parent().unwrap_or_else(LogicalPath::root);
        loop {
            match self.root.open_beneath(&above, OFlags::RDONLY | OFlags::DIRECTORY) {
                Err(error) if error.code() == ErrorCode::NotFound && !above.is_root() => {
                    above = above.parent().unwrap_or_else(LogicalPath::root);
                }
                opened => return Ok((opened.map_err(|error| error.with_subject(path))?, above)),
            }
        }
    }

    /// Makes the hidden part where a rename to `path` will work, and sets its room aside.
    fn make_part(&self, path: &LogicalPath, announced: Option<u64>, reservation: &Reservation) -> Result<Part> {
        let failed = |errno| about(errno, Phase::Open, path);
        let instance = self.instance(path)?;
        let (directory, place) = self.nearest_directory(path)?;
        let part = if place_of(directory.as_fd()).map_err(failed)? == self.home {
            Part::make_at_home(instance).map_err(failed)?
        } else {
            space::check_room(
                directory.as_fd(),
                announced.unwrap_or(0),
                self.shared.space.reserve_bytes(),
            )
            .map_err(|error| error.with_subject(path))?;
            Part::make_elsewhere(instance, directory, &place).map_err(failed)?
        };
        if let Some(size_bytes) = announced
            && size_bytes >= PREALLOCATE_BYTES_MIN
            && (part.is_elsewhere() || !self.shared.in_memory)
        {
            match preallocate(&part.file, size_bytes) {
                Ok(true) => reservation.redeem(size_bytes),
                Ok(false) => {}
                Err(errno) => {
                    part.remove();
                    return Err(failed(errno));
                }
            }
        }
        Ok(part)
    }
}

fn make_durable_directory(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?;
    fs::fsync(parent)
}

/// Makes a change of names durable. The change itself is done; the answer to a failure says so.
fn sync_names(directory: impl AsFd, path: &LogicalPath) -> Result<()> {
    fs::fsync(directory).map_err(|errno| {
        let why = "it is in its place and whole, but its name may not survive a power cut";
        fault(ErrorCode::StorageFailed, Phase::Commit)
            .with_detail(why)
            .with_subject(path)
            .with_private(errno)
    })
}

/// File system and mount of an open directory: a rename works only within both.
fn place_of(directory: impl AsFd) -> Result<(u64, u64), Errno> {
    let flags = fs::StatxFlags::BASIC_STATS | fs::StatxFlags::MNT_ID;
    match fs::statx(&directory, "", AtFlags::EMPTY_PATH, flags) {
        Ok(raw) => Ok((fs::makedev(raw.stx_dev_major, raw.stx_dev_minor), raw.stx_mnt_id)),
        Err(Errno::NOSYS | Errno::PERM) => Ok((fs::fstat(&directory)?.st_dev, 0)),
        Err(errno) => Err(errno),
    }
}

/// Sets blocks aside, so that a full disk shows now. Only some file systems can.
fn preallocate(file: &File, size_bytes: u64) -> Result<bool, Errno> {
    match fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, size_bytes) {
        Ok(()) => Ok(true),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(errno),
        Err(_) => Ok(false),
    }
}

impl Storage for Posix {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        check_readable(path)?;
        self.root.stat(path)
    }

    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        check_readable(path)?;
        let fd = self.root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let directory = Dir::new(fd).map_err(|errno| about(errno, Phase::Open, path))?;
        Ok(Box::new(PosixListing {
            root: Arc::clone(&self.root),
            path: path.clone(),
            directory,
        }))
    }

    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(self.open_file(path)?))
    }

    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        check_writable(path)?;
        self.instance(path)?;
        self.check_target(path, options.overwrite)?;
        if !options.create_parents {
            self.root.open_parent(path)?;
        }
        let announced = options.size_bytes;
        let reservation =
            Reservation::ask(&self.shared.space, announced.unwrap_or(0)).map_err(|error| error.with_subject(path))?;
        // Directories come last: an upload that finds no room leaves none behind.
        let part = self.make_part(path, announced, &reservation)?;
        let (parent, _) = self
            .parent_for(path, options.create_parents)
            .inspect_err(|_| part.remove())?;
        Ok(Arc::new(PosixUpload::new(
            Arc::clone(&self.shared),
            part,
            parent,
            path.clone(),
            options,
            reservation,
        )))
    }

    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        check_writable(path)?;
        self.instance(path)?;
        if path.is_root() {
            return Err(fault(ErrorCode::DirectoryExists, Phase::Open).with_subject(path));
        }
        let (parent, name) = self.parent_for(path, parents)?;
        match make_durable_directory(&parent, name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) if self.root.stat(path).is_ok_and(|stat| stat.is_directory()) => {
                Err(fault(ErrorCode::DirectoryExists, Phase::Open).with_subject(path))
            }
            Err(errno) => Err(about(errno, Phase::Open, path)),
        }
    }

    fn remove(&self, path: &LogicalPath) -> Result<()> {
        check_readable(path)?;
        self.instance(path)?;
        let failed = |errno| about(errno, Phase::Open, path);
        let (parent, name) = self.root.open_parent(path).map_err(missing_is_not_found)?;
        let _alone = self.shared.space.change_names();
        let old = open_name(parent.as_fd(), name).map_err(failed)?;
        let raw = fs::fstat(&old).map_err(failed)?;
        let directory = is_directory(&raw);
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        fs::unlinkat(&parent, name, flags).map_err(|errno| match errno {
            Errno::EXIST => failed(Errno::NOTEMPTY),
            errno => failed(errno),
        })?;
        self.shared.space.forget(old.as_fd());
        self.shared.late_close.close(old);
        Ok(())
    }

    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        check_readable(from)?;
        check_writable(to)?;
        self.instance(from)?;
        let (old_parent, old_name) = self.root.open_parent(from).map_err(missing_is_not_found)?;
        let (new_parent, new_name) = self.root.open_parent(to)?;
        if to.is_within(from) {
            return Err(into_itself(to));
        }
        let raw = fs::statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| about(errno, Phase::Open, from))?;
        self.check_target(to, overwrite)?;
        let alone = self.shared.space.change_names();
        // Looked at again: the name may have been taken, or freed, since it was checked.
        let replaced = open_name(new_parent.as_fd(), new_name).ok();
        let (source, target) = ((old_parent.as_fd(), old_name), (new_parent.as_fd(), new_name));
        let moved = match overwrite {
            Overwrite::Allow => fs::renameat(source.0, source.1, target.0, target.1),
            Overwrite::Refuse if is_directory(&raw) => {
                fs::renameat_with(source.0, source.1, target.0, target.1, RenameFlags::NOREPLACE)
            }
            Overwrite::Refuse => upload::rename_new(source, target),
        };
        moved.map_err(|errno| not_moved(errno, is_directory(&raw), to))?;
        let was_there = replaced.is_some();
        if let Some(old) = replaced {
            self.shared.space.forget(old.as_fd());
            self.shared.late_close.close(old);
        }
        drop(alone);
        sync_names(&new_parent, to)?;
        Ok(was_there)
    }

    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        let reader = self.open_file(path)?;
        Ok(marks::kept(reader.file.as_fd(), &reader.stat))
    }

    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()> {
        let reader = self.open_file(path)?;
        if !reader.stat.same_content(seen) {
            return Err(fault(ErrorCode::SourceChanged, Phase::Checksum).with_subject(path));
        }
        // An export that is only read is not changed, not even for this.
        if self.instance.is_some() {
            marks::keep(reader.file.as_fd(), seen, std::slice::from_ref(checksum));
        }
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        self.shared.space.space()
    }

    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        check_writable(path)?;
        self.instance(path)?;
        let stat = self.root.stat(path)?;
        if stat.is_directory() {
            return Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path));
        }
        let file = File::from(self.root.open_beneath(path, OFlags::RDWR | OFlags::NOCTTY)?);
        let raw = fs::fstat(&file).map_err(|errno| about(errno, Phase::Open, path))?;
        let stat = stat_of(&raw, path)?;
        Ok(Arc::new(PosixUpdate::new(&self.shared.space, file, &stat, path)?))
    }

    fn set_mode(&self, path: &LogicalPath, mode: u32) -> Result<()> {
        let file = self.open_any_to_change(path)?;
        let mode = Mode::from_raw_mode((mode & 0o777) as fs::RawMode);
        fs::fchmod(&file, mode).map_err(|errno| about(errno, Phase::Open, path))
    }

    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        attributes::names(self.open_any(path)?.as_fd(), path)
    }

    fn attribute(&self, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
        attributes::value(self.open_any(path)?.as_fd(), path, name)
    }

    fn set_attribute(&self, path: &LogicalPath, name: &str, value: &[u8], overwrite: Overwrite) -> Result<()> {
        let file = self.open_any_to_change(path)?;
        attributes::set(file.as_fd(), path, name, value, overwrite)
    }

    fn remove_attribute(&self, path: &LogicalPath, name: &str) -> Result<bool> {
        attributes::remove(self.open_any_to_change(path)?.as_fd(), path, name)
    }
}

/// Why a rename failed. Both names are single ones in open directories, so that `ENOTDIR` and
/// `EINVAL` can only be about what is moved.
fn not_moved(errno: Errno, moves_directory: bool, to: &LogicalPath) -> Error {
    let plain = |code| fault(code, Phase::Commit).with_subject(to).with_private(errno);
    match errno {
        Errno::XDEV => plain(ErrorCode::CrossExport),
        Errno::NOTDIR if moves_directory => {
            plain(ErrorCode::Exists).with_detail("a directory does not take the place of a file")
        }
        Errno::INVAL if moves_directory => into_itself(to),
        // Somebody made a directory of that name meanwhile.
        Errno::ISDIR | Errno::NOTEMPTY => plain(ErrorCode::IsDirectory),
        errno => about(errno, Phase::Commit, to),
    }
}

fn into_itself(to: &LogicalPath) -> Error {
    fault(ErrorCode::Forbidden, Phase::Open)
        .with_detail("it cannot be moved into itself")
        .with_subject(to)
}

/// Opens what has this name, without following a link and without reading it.
fn open_name(directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::empty())
}

fn is_directory(raw: &fs::Stat) -> bool {
    fs::FileType::from_raw_mode(raw.st_mode) == fs::FileType::Directory
}

fn missing_is_not_found(error: Error) -> Error {
    match error.code() {
        ErrorCode::ParentMissing => fault(ErrorCode::NotFound, error.phase()),
        _ => error,
    }
}
