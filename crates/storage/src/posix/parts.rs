//! Where parts of uploads lie, and what happens to those whose server died.
//!
//! Each running server has a directory `.crossload/uploads/<instance>` whose file `lock` it holds
//! locked while it lives. A directory whose lock can be taken belongs to nobody, and everything in
//! it is removed. A part that has to lie elsewhere (another file system below the same export) is
//! named in a journal entry here before it is made, so that it is found too.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use types::limits::PATH_BYTES_MAX;
use types::{LogicalPath, Phase, Result};

use super::resolve::{HIDDEN_DIRECTORY, Root, is_part_beside};
use crate::fault::from_errno;

const LOCK: &str = "lock";
const JOURNAL_SUFFIX: &str = ".elsewhere";

/// What start-up found and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Servers that had died on this file system.
    pub instances: u64,
    /// Parts of uploads that they left.
    pub parts: u64,
}

/// This server's place for parts.
pub(crate) struct Instance {
    uploads: OwnedFd,
    directory: OwnedFd,
    name: String,
    _lock: OwnedFd,
}

fn open_directory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, name, flags, Mode::empty())
}

fn make_and_open(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match fs::mkdirat(at, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open_directory(at, name),
        Err(errno) => Err(errno),
    }
}

fn open_lock(at: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, LOCK, flags, Mode::RUSR | Mode::WUSR)
}

/// A name that no other upload or server has; collisions are refused by the system anyway.
pub(crate) fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one((count, std::process::id(), std::time::SystemTime::now()));
    format!("{:x}-{random:016x}", std::process::id())
}

impl Instance {
    /// Removes what dead servers left and takes a place of its own. Servers that start at the same
    /// time do this one after the other.
    pub(crate) fn start(root: &Root) -> Result<(Self, Cleaned)> {
        Self::start_raw(root).map_err(|errno| from_errno(errno, Phase::Cleanup))
    }

    fn start_raw(root: &Root) -> Result<(Self, Cleaned), Errno> {
        let hidden = make_and_open(root.fd(), HIDDEN_DIRECTORY)?;
        let uploads = make_and_open(hidden.as_fd(), "uploads")?;
        let start_up = open_lock(hidden.as_fd())?;
        fs::flock(&start_up, FlockOperation::LockExclusive)?;
        let cleaned = clean_dead(root, uploads.as_fd())?;
        let name = fresh_id();
        fs::mkdirat(&uploads, name.as_str(), Mode::RWXU)?;
        let directory = open_directory(uploads.as_fd(), &name)?;
        let lock = open_lock(directory.as_fd())?;
        fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok((
            Self {
                uploads,
                directory,
                name,
                _lock: lock,
            },
            cleaned,
        ))
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Notes that the part `part_name` is about to be made in `directory`.
    pub(crate) fn note_elsewhere(&self, id: &str, directory: &LogicalPath, part_name: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let name = format!("{id}{JOURNAL_SUFFIX}");
        let mut file = File::from(fs::openat(
            &self.directory,
            name.as_str(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )?);
        let text = format!("{directory}\n{part_name}");
        file.write_all(text.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fs::fsync(&file)?;
        fs::fsync(&self.directory)
    }

    pub(crate) fn forget_elsewhere(&self, id: &str) {
        // An entry that stays names a part that is no more; start-up copes with it.
        let _ = fs::unlinkat(&self.directory, format!("{id}{JOURNAL_SUFFIX}"), AtFlags::empty());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Fails while parts are left, which then wait for the next start-up as after a crash.
        let _ = fs::unlinkat(&self.directory, LOCK, AtFlags::empty());
        let _ = fs::unlinkat(&self.uploads, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

fn names_in(directory: BorrowedFd<'_>) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        if let Ok(name) = entry?.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn clean_dead(root: &Root, uploads: BorrowedFd<'_>) -> Result<Cleaned, Errno> {
    let mut cleaned = Cleaned::default();
    for name in names_in(uploads)? {
        let Ok(directory) = open_directory(uploads, &name) else {
            continue;
        };
        let lock = open_lock(directory.as_fd())?;
        if fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        for entry in names_in(directory.as_fd())? {
            if entry.ends_with(JOURNAL_SUFFIX) {
                cleaned.parts += u64::from(remove_elsewhere(root, directory.as_fd(), &entry));
            } else if entry != LOCK {
                cleaned.parts += 1;
            }
            fs::unlinkat(&directory, entry.as_str(), AtFlags::empty())?;
        }
        fs::unlinkat(uploads, name.as_str(), AtFlags::REMOVEDIR)?;
        cleaned.instances += 1;
    }
    Ok(cleaned)
}

/// Removes the part that a journal entry names; whether there was one.
fn remove_elsewhere(root: &Root, directory: BorrowedFd<'_>, entry: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = fs::openat(directory, entry, flags, Mode::empty()) else {
        return false;
    };
    let mut text = String::new();
    let limit = PATH_BYTES_MAX as u64 * 2;
    if File::from(file).take(limit).read_to_string(&mut text).is_err() {
        return false;
    }
    let Some((place, part_name)) = text.rsplit_once('\n') else {
        return false;
    };
    let Ok(place) = LogicalPath::parse(place) else {
        return false;
    };
    if !is_part_beside(part_name) {
        return false;
    }
    root.open_beneath(&place, OFlags::RDONLY | OFlags::DIRECTORY)
        .is_ok_and(|place| fs::unlinkat(place, part_name, AtFlags::empty()).is_ok())
}
