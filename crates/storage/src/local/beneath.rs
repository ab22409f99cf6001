//! Access to local paths without following symbolic links.
//!
//! A path is resolved once, when the command line is parsed. From then on no component may be a
//! link: a directory that is replaced by a link between two steps is refused, not followed.

use std::ffi::{CStr, OsStr};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use types::{LogicalPath, Phase, Result};

use super::{fault, stat_of};
use crate::api::Stat;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a directory entry is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Neither a file nor a directory, according to its server.
    Special,
    /// Its name is not UTF-8.
    Name,
    /// A directory that the server lists inside itself.
    Loop,
    /// The server's statement about names that it does not list.
    Unlisted,
}

impl Unfit {
    /// The name in reports for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "symbolic_link",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Special => "special",
            Self::Name => "name",
            Self::Loop => "loop",
            Self::Unlisted => "unlisted",
        }
    }

    /// The text for users.
    pub fn words(self) -> &'static str {
        match self {
            Self::Link => "a symbolic link (links are not followed)",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Special => "neither a file nor a directory",
            Self::Name => "its name is not UTF-8",
            Self::Loop => "the directory contains one of its own parents: a symbolic link forms a loop",
            Self::Unlisted => "its server does not list all names in it",
        }
    }

    fn of(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile | FileType::Directory => None,
            FileType::Symlink => Some(Self::Link),
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            FileType::CharacterDevice | FileType::BlockDevice => Some(Self::Device),
            FileType::Unknown => Some(Self::Special),
        }
    }
}

/// What a name refers to; a link is not followed.
#[derive(Clone, Debug)]
pub struct LocalEntry {
    /// The name in its directory. Bytes that are not UTF-8 are written as `\x` and two digits, and
    /// the entry is not copied.
    pub name: String,
    /// What it is, or why it cannot be copied.
    pub what: std::result::Result<Stat, Unfit>,
}

/// Opens a directory.
pub(super) fn directory(path: &LogicalPath, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | DIRECTORY;
    match fs::openat2(CWD, path.as_str(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // An old kernel, or a sandbox that blocks the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok(walk(path, flags)?),
        opened => Ok(opened?),
    }
}

/// The same, component by component.
fn walk(path: &LogicalPath, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let names: Vec<&OsStr> = Path::new(path.as_str())
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let Some((last, above)) = names.split_last() else {
        return fs::open("/", flags, Mode::empty());
    };
    let mut at = fs::open("/", OFlags::PATH | DIRECTORY, Mode::empty())?;
    for name in above {
        at = fs::openat(&at, *name, OFlags::PATH | DIRECTORY, Mode::empty())?;
    }
    fs::openat(&at, *last, flags, Mode::empty())
}

/// The directory that contains a name, and the name.
pub(super) fn parent(path: &LogicalPath) -> io::Result<(OwnedFd, &str)> {
    match (path.parent(), path.name()) {
        (Some(above), Some(name)) => Ok((directory(&above, OFlags::PATH)?, name)),
        _ => Ok((directory(path, OFlags::PATH)?, ".")),
    }
}

/// What a name refers to.
///
/// # Errors
/// `not_found`, and other errors of the system.
pub fn look(path: &LogicalPath) -> Result<LocalEntry> {
    let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
    let (directory, name) = parent(path).map_err(failed)?;
    let raw = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failed(errno.into()))?;
    let name = path.name().unwrap_or("/").to_owned();
    Ok(LocalEntry { name, what: what(&raw) })
}

fn what(raw: &fs::Stat) -> std::result::Result<Stat, Unfit> {
    let kind = FileType::from_raw_mode(raw.st_mode);
    match Unfit::of(kind) {
        Some(unfit) => Err(unfit),
        None => Ok(stat_of(raw)),
    }
}

/// The entries of a directory on their way, in no order, without those that disappear meanwhile.
pub struct LocalEntries {
    path: LogicalPath,
    opened: OwnedFd,
    entries: Dir,
}

impl LocalEntries {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &LogicalPath) -> Result<Self> {
        let failed = |cause: io::Error| fault(&cause, Phase::Open, path);
        let opened = directory(path, OFlags::RDONLY).map_err(failed)?;
        Ok(Self {
            path: path.clone(),
            entries: Dir::read_from(&opened).map_err(|errno| failed(errno.into()))?,
            opened,
        })
    }

    /// The next entries, at most `count`; none at the end.
    ///
    /// # Errors
    /// When the directory cannot be read further.
    pub fn next_batch(&mut self, count: usize) -> Result<Vec<LocalEntry>> {
        let mut found = Vec::new();
        while found.len() < count
            && let Some(entry) = self.entries.next()
        {
            let read = entry.map_err(io::Error::from);
            let seen = read.and_then(|entry| entry_in(&self.opened, entry.file_name()));
            found.extend(seen.map_err(|cause| fault(&cause, Phase::Open, &self.path))?);
        }
        Ok(found)
    }
}

/// An entry; `None` if it is gone, or the directory itself or the one above.
fn entry_in(directory: &OwnedFd, raw_name: &CStr) -> io::Result<Option<LocalEntry>> {
    if matches!(raw_name.to_bytes(), b"." | b"..") {
        return Ok(None);
    }
    let raw = match fs::statat(directory, raw_name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    Ok(Some(match raw_name.to_str() {
        Ok(name) => LocalEntry {
            name: name.to_owned(),
            what: what(&raw),
        },
        Err(_) => LocalEntry {
            name: shown(raw_name.to_bytes()),
            what: Err(Unfit::Name),
        },
    }))
}

/// The entries of a directory, as [`LocalEntries`].
///
/// # Errors
/// When it cannot be read.
pub(super) fn entries(path: &LogicalPath) -> Result<Vec<LocalEntry>> {
    LocalEntries::open(path)?.next_batch(usize::MAX)
}

/// A name that is not UTF-8, escaped for users.
fn shown(raw: &[u8]) -> String {
    let mut name = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        name.push_str(chunk.valid());
        for byte in chunk.invalid() {
            name.push_str(&format!("\\x{byte:02x}"));
        }
    }
    name
}

/// Creates a directory and its missing parents. It may exist already, unless it is a link.
pub(super) fn make_all(path: &LogicalPath) -> io::Result<()> {
    let mut missing = vec![path.clone()];
    while let Some(next) = missing.pop() {
        let made = parent(&next).and_then(|(directory, name)| make(&directory, name));
        match (made, next.parent()) {
            (Err(cause), Some(above)) if cause.kind() == ErrorKind::NotFound && !above.is_root() => {
                // Another program that keeps removing a directory must not block us.
                if missing.len() > path.as_str().len() {
                    return Err(cause);
                }
                missing.extend([next, above]);
            }
            (made, _) => made?,
        }
    }
    Ok(())
}

fn make(directory: &OwnedFd, name: &str) -> io::Result<()> {
    match fs::mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
        Err(Errno::EXIST) => {
            let raw = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(raw.st_mode) {
                FileType::Directory => Ok(()),
                FileType::Symlink => Err(Errno::LOOP.into()),
                _ => Err(Errno::EXIST.into()),
            }
        }
        made => Ok(made?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::api::{Overwrite, Storage as _, UploadOptions};
    use types::ErrorCode;

    use super::super::LocalFiles;
    use super::*;

    /// A directory with a file, and a link to it where a directory was when the tree was listed.
    fn swapped() -> (tempfile::TempDir, LogicalPath) {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("target")).unwrap();
        std::fs::write(scratch.path().join("target/file"), b"precious").unwrap();
        symlink("target", scratch.path().join("swapped")).unwrap();
        let base = scratch.path().canonicalize().unwrap();
        let path = LogicalPath::parse(&format!("{}/swapped/file", base.display())).unwrap();
        (scratch, path)
    }

    #[test]
    fn a_directory_that_became_a_link_is_not_entered() {
        let (scratch, file) = swapped();
        let directory = file.parent().unwrap();
        let options = UploadOptions {
            overwrite: Overwrite::Allow,
            create_parents: true,
            ..UploadOptions::default()
        };
        let codes = [
            look(&file).err(),
            entries(&directory).err(),
            LocalFiles.open(&file).err(),
            LocalFiles.create(&file, &options).err(),
            LocalFiles.make_directory(&directory, true).err(),
            LocalFiles
                .make_directory(&file.parent().unwrap().join("new").unwrap(), true)
                .err(),
            LocalFiles.remove(&file).err(),
            LocalFiles
                .rename(
                    &file,
                    &file.parent().unwrap().parent().unwrap().join("x").unwrap(),
                    Overwrite::Allow,
                )
                .err(),
        ];
        for (step, error) in codes.into_iter().enumerate() {
            let code = error.map(|error| error.code());
            // The system reports a link as last component as "not a directory".
            let is_refused = matches!(code, Some(ErrorCode::PathRefused | ErrorCode::NotDirectory));
            assert!(is_refused, "step {step}: {code:?}");
        }
        let found: Vec<_> = std::fs::read_dir(scratch.path().join("target")).unwrap().collect();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn an_old_kernel_follows_no_link_either() {
        let (_scratch, file) = swapped();
        let directory = file.parent().unwrap();
        assert!(walk(&directory, OFlags::RDONLY | DIRECTORY).is_err());
        let beside = directory.parent().unwrap().join("target").unwrap();
        assert!(walk(&beside, OFlags::RDONLY | DIRECTORY).is_ok());
        assert!(walk(&LogicalPath::root(), OFlags::RDONLY | DIRECTORY).is_ok());
    }
}
