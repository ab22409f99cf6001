//! Files in a directory of this machine (or of a mounted cluster file system).

mod late_close;
mod listing;
mod marks;
mod parts;
mod reader;
mod resolve;
mod space;
mod upload;
mod writeback;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use types::limits::{PREALLOCATE_BYTES_MIN, SPACE_RESERVE_BYTES};
use types::{Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::api::{FileReader, Listing, Overwrite, Space, Stat, Storage, Upload, UploadOptions};
use crate::fault::{about, fault, from_errno};
use late_close::LateClose;
use listing::PosixListing;
pub use parts::Cleaned;
use parts::{Instance, fresh_id};
use reader::PosixReader;
use resolve::{Root, beside_name, check_readable, check_writable, stat_of};
use space::{Reservation, SpaceBook};
use upload::{Part, PosixUpload, Start};

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
        Ok(PosixReader { file, stat })
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

    fn check_target(&self, path: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        match self.root.stat(path) {
            Ok(stat) if stat.is_directory() => Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path)),
            Ok(_) if overwrite == Overwrite::Refuse => Err(fault(ErrorCode::Exists, Phase::Open).with_subject(path)),
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the hidden part: in the instance's directory, or beside the final name when that lies
    /// on another file system or mount.
    fn make_part(&self, instance: &Instance, parent: &OwnedFd, path: &LogicalPath) -> Result<(File, Part), Errno> {
        let id = fresh_id();
        let beside = place_of(parent.as_fd())? != self.home;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        if !beside {
            let name = format!("{id}.part");
            let fd = fs::openat(instance.directory(), name.as_str(), flags, mode)?;
            return Ok((fd.into(), Part { id, name, beside }));
        }
        let name = beside_name(&id);
        instance.note_elsewhere(&id, &path.parent().unwrap_or_else(LogicalPath::root), &name)?;
        match fs::openat(parent, name.as_str(), flags, mode) {
            Ok(fd) => Ok((fd.into(), Part { id, name, beside })),
            Err(errno) => {
                instance.forget_elsewhere(&id);
                Err(errno)
            }
        }
    }
}

fn make_durable_directory(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?;
    fs::fsync(parent)
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
        let failed = |errno| about(errno, Phase::Open, path);
        let instance = Arc::clone(self.instance(path)?);
        // The names are looked at before space is asked and directories are made.
        self.check_target(path, options.overwrite)?;
        let announced = options.size_bytes;
        let reservation = Reservation::ask(&self.shared.space, announced.unwrap_or(0))
            .map_err(|error| error.with_subject(path).at_side(Side::Active))?;
        let (parent, _) = self.parent_for(path, options.create_parents)?;
        let (file, part) = self.make_part(&instance, &parent, path).map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        let (path, overwrite) = (path.clone(), options.overwrite);
        let start = Start {
            shared,
            instance,
            file,
            parent,
            path,
            part,
            announced,
            overwrite,
            reservation,
        };
        let upload = PosixUpload::new(start);
        if let Some(size_bytes) = announced
            && size_bytes >= PREALLOCATE_BYTES_MIN
            && !self.shared.in_memory
            && preallocate(&upload.file, size_bytes).map_err(|errno| about(errno, Phase::Open, &upload.path))?
        {
            upload.reservation.redeem(size_bytes);
        }
        Ok(Arc::new(upload))
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
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let old = fs::openat(&parent, name, flags, Mode::empty()).map_err(failed)?;
        let raw = fs::fstat(&old).map_err(failed)?;
        let directory = fs::FileType::from_raw_mode(raw.st_mode) == fs::FileType::Directory;
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        fs::unlinkat(&parent, name, flags).map_err(|errno| match errno {
            Errno::EXIST => failed(Errno::NOTEMPTY),
            errno => failed(errno),
        })?;
        self.shared.space.account(0, upload::last_link_bytes(old.as_fd()));
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
            let why = "it cannot be moved into itself";
            return Err(fault(ErrorCode::Forbidden, Phase::Open)
                .with_detail(why)
                .with_subject(to));
        }
        fs::statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| about(errno, Phase::Open, from))?;
        let taken = self.check_target(to, overwrite)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let replaced = fs::openat(&new_parent, new_name, flags, Mode::empty())
            .ok()
            .filter(|_| taken);
        let moved = match overwrite {
            Overwrite::Allow => fs::renameat(&old_parent, old_name, &new_parent, new_name),
            Overwrite::Refuse => rename_where_nothing_is(&old_parent, old_name, &new_parent, new_name),
        };
        moved.map_err(|errno| match errno {
            Errno::XDEV => fault(ErrorCode::CrossExport, Phase::Commit).with_subject(to),
            // A directory does not take a file's place.
            Errno::NOTDIR => fault(ErrorCode::Exists, Phase::Commit).with_subject(to),
            errno => about(errno, Phase::Commit, to),
        })?;
        fs::fsync(&new_parent).map_err(|errno| about(errno, Phase::Commit, to))?;
        let was_there = replaced.is_some();
        if let Some(old) = replaced {
            self.shared.space.account(0, upload::last_link_bytes(old.as_fd()));
            self.shared.late_close.close(old);
        }
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
        marks::keep(reader.file.as_fd(), seen, std::slice::from_ref(checksum));
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        self.shared.space.space()
    }
}

fn rename_where_nothing_is(from: &OwnedFd, name: &str, to: &OwnedFd, new: &str) -> Result<(), Errno> {
    let raw = fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match fs::FileType::from_raw_mode(raw.st_mode) {
        // A second link, the way out where renaming cannot refuse, is not to be had for directories.
        fs::FileType::Directory => fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE),
        _ => upload::rename_new(from.as_fd(), name, to.as_fd(), new),
    }
}

fn missing_is_not_found(error: Error) -> Error {
    match error.code() {
        ErrorCode::ParentMissing => fault(ErrorCode::NotFound, error.phase()),
        _ => error,
    }
}
