//! Files in a directory of this machine, or of a mounted cluster file system.

mod accounts;
mod attributes;
mod begin;
mod beside;
mod checksum_attributes;
mod checksum_cache;
mod dead_links;
mod group_sync;
mod identity;
mod late_close;
mod link_checks;
mod listing;
mod parts;
mod place;
mod reader;
mod resolve;
mod secret_files;
mod space;
#[cfg(test)]
mod tests;
mod tree;
mod update;
mod upload;
mod write_lock;
mod writeback;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use types::limits::SPACE_RESERVE_BYTES;
use types::{Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Unlisted};

use crate::api::{
    FileReader, Listing, Overwrite, Replacing, Space, Stat, Storage, TreeFailure, Upload, UploadOptions, VoUsage,
};
use crate::aside::Beside;
use crate::fault::{about, fault, from_errno, root_keeps_mode};
use crate::links::LinkUse;
use crate::name_in::NameIn;
use crate::owner::Owner;
use accounts::Accounts;
pub use accounts::VoQuota;
use checksum_cache::ChecksumCache;
pub use dead_links::DeadLinks;
use group_sync::{GroupSync, name_not_durable, sync_names};
use identity::Acting;
pub use identity::can_act_as;
use late_close::LateClose;
use link_checks::{RenameEnd, open_replaced};
use listing::PosixListing;
pub use parts::Cleaned;
use parts::Instance;
use place::{Directory, place_of};
use reader::PosixReader;
pub use resolve::HIDDEN_DIRECTORY;
use resolve::{Root, check_readable, check_writable, stat_of};
pub use secret_files::SecretFiles;
use space::SpaceUsage;
use update::PosixUpdate;

const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// How an export's directory is used.
#[derive(Clone, Debug)]
pub struct PosixOptions {
    /// Whether anything may be written. If not, no hidden directory is created.
    pub writable: bool,
    /// Free space that uploads must leave, in bytes.
    pub reserve_bytes: u64,
    /// Most bytes that all files of the export may take together.
    pub quota_bytes: Option<u64>,
    /// Most bytes that the files of each VO may take.
    pub vo_quotas: Vec<VoQuota>,
    /// Files of the server itself, which clients never get.
    pub secrets: SecretFiles,
}

impl Default for PosixOptions {
    fn default() -> Self {
        Self {
            writable: true,
            reserve_bytes: SPACE_RESERVE_BYTES,
            quota_bytes: None,
            vo_quotas: Vec::new(),
            secrets: SecretFiles::default(),
        }
    }
}

/// State that a store shares with its uploads.
struct Shared {
    root: Arc<Root>,
    /// Write-locked while a directory is renamed; read-locked by a commit, from the check of its
    /// parent until the file has its name.
    directories: RwLock<()>,
    /// Held while dead properties are read, changed and written.
    properties: Mutex<()>,
    group_sync: GroupSync,
    space: Arc<SpaceUsage>,
    late_close: LateClose,
    in_memory: bool,
    /// The file system of the export's directory.
    device: u64,
    /// The file system locks the inode during a write ([`write_lock`]).
    locks_inode: bool,
    checksum_cache: ChecksumCache,
    secrets: SecretFiles,
}

/// A store over a directory. Several servers may use the same directory. Clones are the same store.
#[derive(Clone)]
pub struct Posix {
    root: Arc<Root>,
    shared: Arc<Shared>,
    instance: Option<Arc<RwLock<Arc<Instance>>>>,
    cleaned: Cleaned,
    /// File system and mount of the hidden directory.
    home: (u64, u64),
    owner: Owner,
}

impl Posix {
    /// Opens the export, removes what dead servers left, and starts to count usage if there is a
    /// quota.
    ///
    /// # Errors
    /// `not_found`, `not_directory`, `forbidden`, `read_only` or `storage_failed`, with the
    /// directory's name in the private detail.
    pub fn open(directory: &Path, options: &PosixOptions) -> Result<Self> {
        Self::with_root(Root::open(directory)?, options).map_err(|error| error.with_private(directory.display()))
    }

    fn with_root(root: Root, options: &PosixOptions) -> Result<Self> {
        let failed = |errno| from_errno(errno, Phase::Open);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = fs::openat(root.fd(), ".", flags, Mode::empty()).map_err(failed)?;
        let magic = fs::fstatfs(&top).map_err(failed)?.f_type as u64;
        let device = fs::fstat(&top).map_err(failed)?.st_dev;
        let (instance, cleaned) = match options.writable {
            true => Instance::start(&root)
                .map(|(instance, cleaned)| (Some(Arc::new(RwLock::new(Arc::new(instance)))), cleaned))?,
            false => (None, Cleaned::default()),
        };
        let home = match &instance {
            Some(instance) => place_of(read(instance).directory()).map_err(failed)?.home(),
            None => (0, 0),
        };
        let space = Arc::new(SpaceUsage::new(
            top,
            options.reserve_bytes,
            options.quota_bytes,
            Accounts::new(&options.vo_quotas),
        ));
        space.start_scan();
        let in_memory = matches!(magic, TMPFS | RAMFS);
        let root = Arc::new(root);
        let shared = Arc::new(Shared {
            root: Arc::clone(&root),
            directories: RwLock::new(()),
            properties: Mutex::new(()),
            group_sync: GroupSync::default(),
            space,
            late_close: LateClose::start(),
            in_memory,
            device,
            locks_inode: write_lock::is_needed(magic),
            checksum_cache: ChecksumCache::default(),
            secrets: options.secrets.clone(),
        });
        Ok(Self {
            root,
            shared,
            instance,
            cleaned,
            home,
            owner: Owner::default(),
        })
    }

    /// What start-up removed.
    #[must_use]
    pub fn cleaned(&self) -> Cleaned {
        self.cleaned
    }

    /// Whether the usage scan for the quota is complete.
    #[must_use]
    pub fn usage_is_known(&self) -> bool {
        self.shared.space.is_scanned()
    }

    /// Hold this while names are resolved and changed.
    fn acting(&self) -> Result<Acting<'_>> {
        Acting::begin(self.owner.user.as_ref())
    }

    /// The directory for parts; it exists only if the export may be written to.
    fn instance(&self, path: &LogicalPath) -> Result<Arc<Instance>> {
        let instance = self.instance.as_ref();
        let instance = instance.ok_or_else(|| fault(ErrorCode::ReadOnly, Phase::Open).with_subject(path))?;
        Ok(read(instance).clone())
    }

    /// The same, created again if the export's directory was emptied by hand. Call this as the
    /// server.
    fn instance_for_part(&self, path: &LogicalPath) -> Result<Arc<Instance>> {
        let found = self.instance(path)?;
        let Some(shared) = self.instance.as_ref().filter(|_| found.is_gone()) else {
            return Ok(found);
        };
        let mut instance = shared.write().unwrap_or_else(PoisonError::into_inner);
        if instance.is_gone() {
            *instance = Arc::new(Instance::start(&self.root)?.0);
        }
        Ok(instance.clone())
    }

    fn open_file(&self, path: &LogicalPath, used: LinkUse<'_>) -> Result<PosixReader> {
        check_readable(path)?;
        let file = File::from(self.open_as(path, OFlags::RDONLY | OFlags::NOCTTY, used)?);
        let raw = fs::fstat(&file).map_err(|errno| about(errno, Phase::Open, path))?;
        let stat = stat_of(&raw, path)?;
        if stat.is_directory() {
            return Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path));
        }
        self.shared.secrets.check(&raw, path)?;
        // Another file system may be mounted below the export's directory.
        let is_in_memory = self.shared.in_memory && raw.st_dev == self.shared.device;
        Ok(PosixReader::new(file, stat).in_memory(is_in_memory))
    }

    /// Opens a file or directory to read or change its attributes.
    fn open_any(&self, path: &LogicalPath, used: LinkUse<'_>) -> Result<OwnedFd> {
        check_readable(path)?;
        self.open_as(path, OFlags::RDONLY | OFlags::NOCTTY, used)
    }

    /// As [`Posix::open_any`], if that may be changed.
    fn open_any_to_change(&self, path: &LogicalPath) -> Result<OwnedFd> {
        let opened = self.open_any(path, LinkUse::Overwrite)?;
        self.instance(path).map(|_| opened)
    }
}

fn read(instance: &RwLock<Arc<Instance>>) -> RwLockReadGuard<'_, Arc<Instance>> {
    instance.read().unwrap_or_else(PoisonError::into_inner)
}

fn make_durable_directory(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?;
    fs::fsync(parent)
}

impl Storage for Posix {
    fn acting_for(&self, owner: &Owner) -> Option<Arc<dyn Storage>> {
        let owner = owner.clone();
        Some(Arc::new(Self { owner, ..self.clone() }))
    }

    fn check_links(&self, path: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        self.check_link_use(path, used)
    }

    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        check_readable(path)?;
        let _acting = self.acting()?;
        self.root.stat(path, self.owner.links.as_ref())
    }

    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        check_readable(path)?;
        let _acting = self.acting()?;
        let reached = self.root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let links = self.owner.links.as_ref();
        // Behind a link, too, only what the client may look at exists for it.
        let seen = reached.resolution.check(links, LinkUse::Stat);
        seen.map_err(|error| error.with_subject(path))?;
        let directory = reached.checked(links, LinkUse::List, path)?;
        Ok(Box::new(PosixListing {
            root: Arc::clone(&self.root),
            path: path.clone(),
            directory,
            owner: self.owner.clone(),
            unlisted: Unlisted::default(),
        }))
    }

    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        let _acting = self.acting()?;
        Ok(Arc::new(self.open_file(path, LinkUse::Read)?))
    }

    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        self.begin_upload(path, options)
    }

    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        check_writable(path)?;
        self.instance(path)?;
        if path.is_root() {
            return Err(fault(ErrorCode::DirectoryExists, Phase::Open).with_subject(path));
        }
        let _acting = self.acting()?;
        let (parent, name) = self.parent_for(path, LinkUse::MakeDirectory, parents)?;
        match make_durable_directory(&parent, name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) if self.root.stat(path, None).is_ok_and(|stat| stat.is_directory()) => {
                Err(fault(ErrorCode::DirectoryExists, Phase::Open).with_subject(path))
            }
            Err(errno) => Err(about(errno, Phase::Open, path)),
        }
    }

    fn remove(&self, path: &LogicalPath) -> Result<()> {
        check_readable(path)?;
        self.instance(path)?;
        let failed = |errno| about(errno, Phase::Open, path);
        let acting = self.acting()?;
        let (parent, name, resolution) = self.parent_of_old(path)?;
        let _alone = self.shared.space.change_names();
        let old = open_name(parent.as_fd(), name).map_err(|errno| self.missing_or(&resolution, errno, path))?;
        let raw = fs::fstat(&old).map_err(failed)?;
        let (flags, used) = match is_directory(&raw) {
            true => (AtFlags::REMOVEDIR, LinkUse::RemoveDirectory),
            false => (AtFlags::empty(), LinkUse::Delete),
        };
        let checked = resolution.check(self.owner.links.as_ref(), used);
        checked.map_err(|error| error.with_subject(path))?;
        fs::unlinkat(&parent, name, flags).map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY => listing::not_empty(parent.as_fd(), name, path),
            errno => failed(errno),
        })?;
        // The server may read attributes that the user may not.
        drop(acting);
        self.shared.space.forget(old.as_fd(), path);
        self.shared.late_close.close(old);
        Ok(())
    }

    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        tree::remove(self, path)
    }

    fn copy_tree(&self, from: &LogicalPath, to: &LogicalPath, members: bool, replacing: Replacing) -> Result<bool> {
        tree::copy(self, from, to, members, replacing)
    }

    fn beside(&self, path: &LogicalPath) -> Result<Beside> {
        beside::name(self, path)
    }

    fn move_over(&self, from: &LogicalPath, to: &LogicalPath, replacing: Replacing) -> Result<bool> {
        tree::move_over(self, from, to, replacing)
    }

    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        check_readable(from)?;
        check_writable(to)?;
        self.instance(from)?;
        let mut acting = self.acting()?;
        let (old_parent, old_name, old_resolution) = self.parent_of_old(from)?;
        let (new_parent, new_name, new_resolution) = self.parent_to_check(to)?;
        if to.is_within(from) {
            return Err(into_itself(to));
        }
        let raw = fs::statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| self.missing_or(&old_resolution, errno, from))?;
        let used = self.check_target(to, overwrite, &acting)?;
        let replaces = used == LinkUse::Overwrite;
        let old_end = RenameEnd {
            path: from,
            resolution: &old_resolution,
        };
        let new_end = RenameEnd {
            path: to,
            resolution: &new_resolution,
        };
        self.check_rename(old_end, new_end, raw.st_ino as u64, replaces)?;
        let directories = &self.shared.directories;
        let _moving = is_directory(&raw).then(|| directories.write().unwrap_or_else(PoisonError::into_inner));
        let alone = self.shared.space.change_names();
        // Check again: the name may have been taken or freed meanwhile.
        let replaced = open_replaced(NameIn::new(&new_parent, new_name), &raw, to)?;
        let moved_on = self.check_quotas(&old_parent, from, to, is_directory(&raw), &mut acting)?;
        let (source, target) = (NameIn::new(&old_parent, old_name), NameIn::new(&new_parent, new_name));
        let moved = match overwrite {
            Overwrite::Allow => fs::renameat(source.directory, source.name, target.directory, target.name),
            Overwrite::Refuse if is_directory(&raw) => fs::renameat_with(
                source.directory,
                source.name,
                target.directory,
                target.name,
                RenameFlags::NOREPLACE,
            ),
            Overwrite::Refuse => upload::rename_new(source, target),
        };
        moved.map_err(|errno| not_moved(errno, is_directory(&raw), to))?;
        drop(acting);
        moved_on();
        let was_there = replaced.is_some();
        if let Some(old) = replaced {
            self.shared.space.forget(old.as_fd(), to);
            self.shared.late_close.close(old);
        }
        drop(alone);
        sync_names(&self.shared.group_sync, &new_parent, to)?;
        Ok(was_there)
    }

    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        let _acting = self.acting()?;
        let reader = self.open_file(path, LinkUse::Stat)?;
        let mut checksums = checksum_attributes::read(reader.file.as_fd(), &reader.stat);
        self.shared.checksum_cache.complete(&reader.file, &mut checksums);
        Ok(checksums)
    }

    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()> {
        let mut acting = self.acting()?;
        let reader = self.open_file(path, LinkUse::Stat)?;
        if !reader.stat.same_content(seen) {
            return Err(fault(ErrorCode::SourceChanged, Phase::Checksum).with_subject(path));
        }
        let checksums = std::slice::from_ref(checksum);
        let keep = || checksum_attributes::write(reader.file.as_fd(), seen, checksums);
        // A read-only export is never changed, not even for this.
        let mut is_kept = self.instance.is_some() && keep();
        // Written as the server, because the user may have read access only. A server without
        // superuser rights cannot store anything with files of others.
        if self.instance.is_some() && acting.user().is_some() {
            is_kept |= acting.suspended(keep)?;
        }
        if !is_kept {
            self.shared.checksum_cache.add(&reader.file, seen, checksums);
        }
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        self.shared.space.space()
    }

    fn space_at(&self, path: &LogicalPath) -> Result<Space> {
        let usage = &self.shared.space;
        let mut space = usage.space()?;
        for account in usage.accounts().of(path, self.owner.vo.as_deref()) {
            account.narrow(&mut space);
        }
        Ok(space)
    }

    fn usage(&self) -> Vec<VoUsage> {
        self.shared.space.accounts().usage()
    }

    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        check_writable(path)?;
        self.instance(path)?;
        let acting = self.acting()?;
        let stat = self.root.stat(path, self.owner.links.as_ref())?;
        if stat.is_directory() {
            return Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path));
        }
        let file = File::from(self.open_as(path, OFlags::RDWR | OFlags::NOCTTY, LinkUse::Overwrite)?);
        let raw = fs::fstat(&file).map_err(|errno| about(errno, Phase::Open, path))?;
        let stat = stat_of(&raw, path)?;
        self.shared.secrets.check(&raw, path)?;
        drop(acting);
        Ok(Arc::new(PosixUpdate::new(
            &self.shared,
            file,
            &stat,
            path,
            self.owner.user.clone(),
        )?))
    }

    fn set_mode(&self, path: &LogicalPath, mode: u32) -> Result<()> {
        if path.is_root() {
            return Err(root_keeps_mode(path));
        }
        check_readable(path)?;
        self.instance(path)?;
        let failed = |errno| about(errno, Phase::Open, path);
        let _acting = self.acting()?;
        // Not opened for reading, so that a mode without read permission can be changed back.
        let file = self.open_as(path, OFlags::PATH, LinkUse::ChangeMode)?;
        let raw = fs::fstat(&file).map_err(failed)?;
        stat_of(&raw, path)?;
        self.shared.secrets.check(&raw, path)?;
        let mode = Mode::from_raw_mode((mode & 0o777) as fs::RawMode);
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        match fs::chmod(opened, mode) {
            // /proc is not mounted.
            Err(Errno::NOENT) => {
                let file = self.open_as(path, OFlags::RDONLY | OFlags::NOCTTY, LinkUse::ChangeMode)?;
                fs::fchmod(file, mode).map_err(failed)
            }
            done => done.map_err(failed),
        }
    }

    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        let _acting = self.acting()?;
        attributes::names(self.open_any(path, LinkUse::Read)?.as_fd(), path)
    }

    fn attribute(&self, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
        let _acting = self.acting()?;
        attributes::value(self.open_any(path, LinkUse::Read)?.as_fd(), path, name)
    }

    fn set_attribute(&self, path: &LogicalPath, name: &str, value: &[u8], overwrite: Overwrite) -> Result<()> {
        let _acting = self.acting()?;
        let file = self.open_any_to_change(path)?;
        attributes::set(file.as_fd(), path, name, value, overwrite)
    }

    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        check_readable(path)?;
        let _acting = self.acting()?;
        let file = self.open_as(path, OFlags::PATH, LinkUse::Stat)?;
        attributes::dead_properties(file.as_fd(), path)
    }

    fn dead_properties_in(&self, directory: &LogicalPath, names: &[String]) -> Result<Vec<Vec<u8>>> {
        check_readable(directory)?;
        if !attributes::has_dead_properties(self.root.fd()) {
            return Ok(vec![Vec::new(); names.len()]);
        }
        let _acting = self.acting()?;
        let opened = self.open_as(directory, OFlags::PATH | OFlags::DIRECTORY, LinkUse::List)?;
        let read = |name: &String| attributes::dead_properties_in(opened.as_fd(), name);
        Ok(names.iter().map(read).collect())
    }

    fn change_dead_properties(&self, path: &LogicalPath, change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        let alone = self.shared.properties.lock().unwrap_or_else(PoisonError::into_inner);
        self.instance(path)?;
        attributes::note_dead_properties(self.root.fd(), path)?;
        let _acting = self.acting()?;
        let file = self.open_any_to_change(path)?;
        let changed = change(&attributes::dead_properties(file.as_fd(), path)?)?;
        attributes::set_dead_properties(file.as_fd(), path, &changed)?;
        drop(alone);
        fs::fsync(&file).map_err(|errno| about(errno, Phase::Commit, path))
    }

    fn remove_attribute(&self, path: &LogicalPath, name: &str) -> Result<bool> {
        let _acting = self.acting()?;
        attributes::remove(self.open_any_to_change(path)?.as_fd(), path, name)
    }
}

/// Why a rename failed. Both names are single components in open directories, so `ENOTDIR` and
/// `EINVAL` can only be about what is moved.
fn not_moved(errno: Errno, moves_directory: bool, to: &LogicalPath) -> Error {
    let plain = |code| fault(code, Phase::Commit).with_subject(to).with_private(errno);
    match errno {
        Errno::XDEV => plain(ErrorCode::CrossExport),
        Errno::NOTDIR if moves_directory => plain(ErrorCode::Exists).with_detail("a directory cannot replace a file"),
        Errno::INVAL if moves_directory => into_itself(to),
        // A directory with this name was created meanwhile.
        Errno::ISDIR | Errno::NOTEMPTY => plain(ErrorCode::IsDirectory),
        errno => about(errno, Phase::Commit, to),
    }
}

fn into_itself(to: &LogicalPath) -> Error {
    fault(ErrorCode::Forbidden, Phase::Open)
        .with_detail("a directory cannot be moved or copied into itself")
        .with_subject(to)
}

/// Opens what has this name, without following a link and without read permission.
fn open_name(directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::empty())
}

/// Whether both are the same file or directory.
fn is_same(one: &fs::Stat, other: &fs::Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn is_directory(raw: &fs::Stat) -> bool {
    fs::FileType::from_raw_mode(raw.st_mode) == fs::FileType::Directory
}
