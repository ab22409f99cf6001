//! Opens files by name, never outside of the export's root directory.
//!
//! The kernel resolves the path (`openat2` with `RESOLVE_BENEATH`), so replacing a directory by a
//! symbolic link in the middle has no effect. Where that call is missing (old kernels, some
//! containers), each component is opened without following links, and any link is refused.
//!
//! With it, relative links that stay within the export are followed. Absolute links are refused
//! even if they lead back into the export, because their meaning depends on where it is mounted.
//! When a link was followed, the resulting path is determined and checked before anything is done.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use crate::api::{Kind, Stat};
use crate::fault::{about, fault, from_errno};
use crate::links::{LinkChecker, LinkUse, Resolution};

/// Directory in the root of an export for what is not yet, or no longer, visible.
pub const HIDDEN_DIRECTORY: &str = ".crossload";
const PART_PREFIX: &str = ".crossload-";
const PART_SUFFIX: &str = ".part";
/// A walk that meets a concurrent rename must be retried; more retries than this suggest an attack.
const WALK_ATTEMPTS: usize = 8;

/// Name of a part that has to be beside its final name.
pub(crate) fn beside_name(id: &str) -> String {
    format!("{PART_PREFIX}{id}{PART_SUFFIX}")
}

/// Whether a directory entry is a part, which no client may see or name.
pub(crate) fn is_part_beside(name: &str) -> bool {
    name.starts_with(PART_PREFIX) && name.ends_with(PART_SUFFIX)
}

/// Whether a name is reserved for the server. The hidden directory's name is reserved everywhere,
/// because another export may begin at any directory.
pub(crate) fn is_kept(name: &str) -> bool {
    name == HIDDEN_DIRECTORY || is_part_beside(name)
}

fn is_hidden(path: &LogicalPath) -> bool {
    path.components().any(is_kept)
}

/// Refuses hidden names: for readers they do not exist.
pub(crate) fn check_readable(path: &LogicalPath) -> Result<()> {
    if is_hidden(path) {
        Err(about(Errno::NOENT, Phase::Open, path))
    } else {
        Ok(())
    }
}

/// Refuses to create hidden names.
pub(crate) fn check_writable(path: &LogicalPath) -> Result<()> {
    if is_hidden(path) {
        let why = "this name is reserved for the server";
        return Err(fault(ErrorCode::PathRefused, Phase::Open)
            .with_detail(why)
            .with_subject(path));
    }
    Ok(())
}

/// What a name led to; unusable until it is checked.
pub(crate) struct Reached {
    /// `None`: nothing exists there, behind a link.
    fd: Option<OwnedFd>,
    pub(crate) resolution: Resolution,
}

impl Reached {
    fn direct(fd: OwnedFd) -> Self {
        Self {
            fd: Some(fd),
            resolution: Resolution::Direct,
        }
    }

    /// For the client, if it may use this. A client that may not look behind a link does not learn
    /// whether anything exists.
    pub(crate) fn checked(
        self,
        checker: Option<&Arc<dyn LinkChecker>>,
        used: LinkUse<'_>,
        path: &LogicalPath,
    ) -> Result<OwnedFd> {
        let used = if self.fd.is_some() { used } else { LinkUse::Stat };
        let checked = self.resolution.check(checker, used);
        checked.map_err(|error| error.with_subject(path))?;
        self.unchecked(path)
    }

    /// For the server itself.
    pub(crate) fn unchecked(self, path: &LogicalPath) -> Result<OwnedFd> {
        self.fd.ok_or_else(|| about(Errno::NOENT, Phase::Open, path))
    }
}

/// The directory that contains a name.
pub(crate) struct Parent<'a> {
    /// `None`: nothing exists there, behind a link.
    directory: Option<OwnedFd>,
    name: &'a str,
    /// How the path to the name was resolved.
    pub(crate) resolution: Resolution,
}

impl<'a> Parent<'a> {
    /// To use the name, if the client may.
    pub(crate) fn checked(
        self,
        checker: Option<&Arc<dyn LinkChecker>>,
        used: LinkUse<'_>,
        path: &LogicalPath,
    ) -> Result<(OwnedFd, &'a str)> {
        let used = if self.directory.is_some() { used } else { LinkUse::Stat };
        let checked = self.resolution.check(checker, used);
        checked.map_err(|error| error.with_subject(path))?;
        self.unchecked(path)
    }

    /// Whether the directory does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.directory.is_none()
    }

    /// To look at the name, or to check it later.
    pub(crate) fn unchecked(self, path: &LogicalPath) -> Result<(OwnedFd, &'a str)> {
        match self.directory {
            Some(directory) => Ok((directory, self.name)),
            None => Err(fault(ErrorCode::ParentMissing, Phase::Open).with_subject(path)),
        }
    }
}

/// The export's root directory.
pub(crate) struct Root {
    fd: OwnedFd,
    kernel_walk: bool,
}

impl Root {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(directory, flags, Mode::empty())
            .map_err(|errno| from_errno(errno, Phase::Open).with_private(directory.display()))?;
        let probe = fs::openat2(&fd, ".", flags, Mode::empty(), ResolveFlags::BENEATH);
        Ok(Self {
            fd,
            kernel_walk: !matches!(probe, Err(Errno::NOSYS | Errno::PERM)),
        })
    }

    #[cfg(test)]
    pub(crate) fn without_kernel_walk(mut self) -> Self {
        self.kernel_walk = false;
        self
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a name. Never waits for the other end of a pipe.
    pub(crate) fn open_beneath(&self, path: &LogicalPath, flags: OFlags) -> Result<Reached> {
        let flags = flags
            | OFlags::CLOEXEC
            | if flags.contains(OFlags::PATH) {
                OFlags::empty()
            } else {
                OFlags::NONBLOCK
            };
        let opened = if self.kernel_walk {
            self.walk_by_kernel(path, flags)
        } else {
            self.walk_by_hand(path, flags).map(Reached::direct)
        };
        opened.map_err(|errno| match errno {
            Errno::XDEV => escapes(path),
            Errno::LOOP if !self.kernel_walk => escapes(path),
            errno => about(errno, Phase::Open, path),
        })
    }

    /// Links are rare, so the walk is tried without them first. If one was followed, the result may
    /// be in the hidden directory, which no name may reach, or where other rights apply.
    fn walk_by_kernel(&self, path: &LogicalPath, flags: OFlags) -> Result<Reached, Errno> {
        match self.walk(relative(path), flags, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => {}
            done => return done.map(Reached::direct),
        }
        for _ in 0..WALK_ATTEMPTS {
            let fd = match self.walk(relative(path), flags, ResolveFlags::empty()) {
                Err(Errno::NOENT) => return self.missing(path),
                fd => fd?,
            };
            let below = self.below_root(&fd).ok_or(Errno::NOENT)?;
            let Some(reached) = logical(&below) else {
                let resolution = Resolution::Link(None);
                return Ok(Reached {
                    fd: Some(fd),
                    resolution,
                });
            };
            // The system's name may be older than a rename.
            let again = self.walk(relative(&reached), OFlags::PATH, ResolveFlags::NO_SYMLINKS);
            if again.is_ok_and(|again| is_same(&fd, &again)) {
                let resolution = Resolution::Link(Some(reached));
                return Ok(Reached {
                    fd: Some(fd),
                    resolution,
                });
            }
        }
        Err(Errno::BUSY)
    }

    /// Resolves a path that does not exist: the nearest existing directory above it, and on from
    /// there.
    fn missing(&self, path: &LogicalPath) -> Result<Reached, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Errno::NOENT);
        };
        let above = self.walk_by_kernel(&parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let resolution = above.resolution.to(name);
        Ok(Reached { fd: None, resolution })
    }

    fn walk(&self, relative: &str, flags: OFlags, links: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | links;
        for _ in 0..WALK_ATTEMPTS {
            match fs::openat2(&self.fd, relative, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
        Err(Errno::BUSY)
    }

    /// The path of an open file below the root; `None` when it is a part or in the directory of
    /// parts, or when that is unknown.
    fn below_root(&self, reached: &OwnedFd) -> Option<PathBuf> {
        let root = name_of(self.fd.as_fd()).ok()?;
        let reached = name_of(reached.as_fd()).ok()?;
        let below = reached.strip_prefix(root).ok()?;
        let mut names = below.components().map(|name| name.as_os_str());
        let is_kept = names.any(|name| name.to_str().is_some_and(is_kept));
        (!is_kept).then(|| below.to_owned())
    }

    fn walk_by_hand(&self, path: &LogicalPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = fs::openat(&self.fd, ".", step, Mode::empty())?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let last = names.peek().is_none();
            let flags = if last { flags | OFlags::NOFOLLOW } else { step };
            match fs::openat(&directory, name, flags, Mode::empty()) {
                Ok(opened) if last => return Ok(opened),
                Ok(opened) => directory = opened,
                // For a link in place of a directory, the system says "not a directory".
                Err(Errno::NOTDIR) if is_link(directory.as_fd(), name) => return Err(Errno::LOOP),
                Err(errno) => return Err(errno),
            }
        }
        fs::openat(&directory, ".", flags, Mode::empty())
    }

    /// Opens the directory that contains a name, such that it can be synced.
    pub(crate) fn open_parent<'a>(&self, path: &'a LogicalPath) -> Result<Parent<'a>> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            let why = "the root of the export cannot be moved or replaced";
            return Err(fault(ErrorCode::Forbidden, Phase::Open)
                .with_detail(why)
                .with_subject(path));
        };
        match self.open_beneath(&parent, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(Reached { fd, resolution }) => Ok(Parent {
                directory: fd,
                name,
                resolution: resolution.to(name),
            }),
            Err(error) if error.code() == ErrorCode::NotFound => {
                Err(fault(ErrorCode::ParentMissing, Phase::Open).with_subject(path))
            }
            Err(error) => Err(error.with_subject(path)),
        }
    }

    /// As [`Root::open_parent`], for operations on everything below a name: without any link,
    /// because rules about paths below are compared with the path as written.
    pub(crate) fn open_plain_parent<'a>(&self, path: &'a LogicalPath) -> Result<(OwnedFd, &'a str)> {
        let (true, Some(parent), Some(name)) = (self.kernel_walk, path.parent(), path.name()) else {
            return self.open_parent(path)?.unchecked(path);
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        match self.walk(relative(&parent), flags, ResolveFlags::NO_SYMLINKS) {
            Ok(plain) => Ok((plain, name)),
            Err(Errno::LOOP) => Err(fault(ErrorCode::PathRefused, Phase::Open)
                .with_detail("whole directory trees cannot be used through a symbolic link")
                .with_subject(path)),
            Err(Errno::NOENT) => Err(fault(ErrorCode::ParentMissing, Phase::Open).with_subject(path)),
            Err(errno) => Err(about(errno, Phase::Open, path)),
        }
    }

    /// What a name refers to; follows links where the checker allows it.
    pub(crate) fn stat(&self, path: &LogicalPath, checker: Option<&Arc<dyn LinkChecker>>) -> Result<Stat> {
        // A name directly in the root leads nowhere else unless it is a link: one system call
        // instead of three.
        let name = relative(path);
        if !name.contains('/') {
            match fs::statat(&self.fd, name, fs::AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) if FileType::from_raw_mode(raw.st_mode) != FileType::Symlink => return stat_of(&raw, path),
                Err(Errno::NOENT) => return Err(about(Errno::NOENT, Phase::Open, path)),
                _ => {}
            }
        }
        let reached = self.open_beneath(path, OFlags::PATH)?;
        let fd = reached.checked(checker, LinkUse::Stat, path)?;
        let raw = fs::fstat(&fd).map_err(|errno| about(errno, Phase::Open, path))?;
        stat_of(&raw, path)
    }
}

/// The kernel's path of an open file.
fn name_of(opened: BorrowedFd<'_>) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// A path below the root as clients name it; `None` when they cannot.
fn logical(below: &Path) -> Option<LogicalPath> {
    match below.to_str()? {
        "" => Some(LogicalPath::root()),
        below => LogicalPath::parse(&format!("/{below}")).ok(),
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    match (fs::fstat(one), fs::fstat(other)) {
        (Ok(one), Ok(other)) => super::is_same(&one, &other),
        _ => false,
    }
}

fn is_link(directory: BorrowedFd<'_>, name: &str) -> bool {
    fs::statat(directory, name, fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|raw| FileType::from_raw_mode(raw.st_mode) == FileType::Symlink)
}

fn relative(path: &LogicalPath) -> &str {
    if path.is_root() { "." } else { &path.as_str()[1..] }
}

fn escapes(path: &LogicalPath) -> Error {
    fault(ErrorCode::SymlinkEscapes, Phase::Open)
        .with_detail("only relative links that stay within the export are followed")
        .with_subject(path)
}

/// Converts a system's stat; refuses what is neither file nor directory.
pub(crate) fn stat_of(raw: &fs::Stat, path: &LogicalPath) -> Result<Stat> {
    match FileType::from_raw_mode(raw.st_mode) {
        FileType::RegularFile => Ok(plain_stat(raw, Kind::File)),
        FileType::Directory => Ok(plain_stat(raw, Kind::Directory)),
        FileType::Symlink => Err(escapes(path)),
        _ => {
            let why = "it is neither a file nor a directory";
            Err(fault(ErrorCode::PathRefused, Phase::Open)
                .with_detail(why)
                .with_subject(path))
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    reason = "the widths of these fields differ between machines"
)]
pub(crate) fn plain_stat(raw: &fs::Stat, kind: Kind) -> Stat {
    let (seconds, nanoseconds) = (raw.st_mtime as i64, raw.st_mtime_nsec as u64);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 {
        UNIX_EPOCH - whole
    } else {
        UNIX_EPOCH + whole
    };
    Stat {
        kind,
        size_bytes: if kind == Kind::File { raw.st_size as u64 } else { 0 },
        modified: second + Duration::from_nanos(nanoseconds),
        mode: raw.st_mode & 0o777,
        inode: raw.st_ino as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_kernels_walk_links_are_refused_and_files_are_found() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::fs::write(directory.path().join("d/f"), "abc").unwrap();
        std::os::unix::fs::symlink("/etc", directory.path().join("out")).unwrap();
        std::os::unix::fs::symlink("f", directory.path().join("d/link")).unwrap();
        let root = Root::open(directory.path()).unwrap().without_kernel_walk();
        let path = |text| LogicalPath::parse(text).unwrap();
        assert_eq!(root.stat(&path("/d/f"), None).unwrap().size_bytes, 3);
        assert!(root.stat(&path("/"), None).unwrap().is_directory());
        for link in ["/out", "/out/passwd", "/d/link"] {
            assert_eq!(
                root.stat(&path(link), None).unwrap_err().code(),
                ErrorCode::SymlinkEscapes,
                "{link}"
            );
        }
        assert_eq!(
            root.stat(&path("/d/f/x"), None).unwrap_err().code(),
            ErrorCode::NotDirectory
        );
    }
}
