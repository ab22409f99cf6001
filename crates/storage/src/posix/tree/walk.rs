//! Walks a tree by directory descriptors: never through a symbolic link, with only two descriptors
//! open, and without recursion however deep it is.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::limits::STORED_TREE_DEPTH_MAX;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use types::LogicalPath;
use types::limits::PATH_BYTES_MAX;

use crate::posix::{is_same, place_of};

/// Size of the kernel's buffer; names that were read and not yet visited take as much again.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// A name on the walk.
#[derive(Clone, Debug)]
pub(super) struct WalkEntry {
    pub(super) name: CString,
    pub(super) kind: FileType,
    /// Where to continue reading after it.
    next: u64,
}

/// What comes next.
pub(super) enum Step {
    /// A directory, which may be entered.
    Directory(WalkEntry),
    /// Anything else, links included.
    Other(WalkEntry),
    /// The directory with this name was read to its end and left; it is in the current directory.
    Left(CString),
    /// The whole tree was read.
    End,
}

/// A directory above the current one.
struct Level {
    identity: fs::Stat,
    /// The name of the next level in it.
    below: CString,
    /// Where to continue reading on return.
    next: u64,
}

/// A walk that visits the contents of a directory before its next siblings.
pub(super) struct Walk {
    here: OwnedFd,
    above: Vec<Level>,
    /// Names that were read, the last one first.
    unread: Vec<WalkEntry>,
    /// File system and mount where it began.
    home: (u64, u64),
    /// Whether everything left behind has been removed when the walk returns to a directory.
    empties: bool,
}

impl Walk {
    /// Starts in an open directory. `empties`: everything on the way gets removed, so on return to
    /// a directory its remaining contents are read.
    pub(super) fn begin(top: OwnedFd, empties: bool) -> Result<Self, Errno> {
        // A duplicated descriptor would share the read position.
        fs::seek(&top, SeekFrom::Start(0))?;
        Ok(Self {
            home: place_of(&top)?.home(),
            here: top,
            above: Vec::new(),
            unread: Vec::new(),
            empties,
        })
    }

    /// The current directory.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// The next step.
    pub(super) fn step(&mut self) -> Result<Step, Errno> {
        if self.unread.is_empty() {
            self.unread = read_names(&self.here)?;
        }
        if let Some(found) = self.unread.pop() {
            return Ok(match found.kind {
                FileType::Directory => Step::Directory(found),
                _ => Step::Other(found),
            });
        }
        match self.above.pop() {
            None => Ok(Step::End),
            Some(level) => self.leave(level).map(Step::Left),
        }
    }

    /// Enters a directory that [`Walk::step`] returned last. `XDEV`: a file system is mounted
    /// there.
    pub(super) fn enter(&mut self, found: &WalkEntry) -> Result<(), Errno> {
        if self.above.len() >= STORED_TREE_DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let child = open_directory(self.here.as_fd(), &found.name)?;
        if place_of(&child)?.home() != self.home {
            return Err(Errno::XDEV);
        }
        self.above.push(Level {
            identity: fs::fstat(&self.here)?,
            below: found.name.clone(),
            next: if self.empties { 0 } else { found.next },
        });
        self.unread.clear();
        self.here = child;
        Ok(())
    }

    fn leave(&mut self, level: Level) -> Result<CString, Errno> {
        let parent = open_directory(self.here.as_fd(), c"..")?;
        // The directory may have been moved meanwhile; what is above it now must not be touched.
        if !is_same(&fs::fstat(&parent)?, &level.identity) {
            return Err(Errno::STALE);
        }
        fs::seek(&parent, SeekFrom::Start(level.next))?;
        self.here = parent;
        Ok(level.below)
    }

    /// Whether a path can name this entry, in a tree that begins at `top`.
    pub(super) fn can_name(&self, top: &LogicalPath, name: &CStr) -> bool {
        let above: usize = self.above.iter().map(|level| level.below.count_bytes() + 1).sum();
        let top_bytes = if top.is_root() { 0 } else { top.as_str().len() };
        let is_name = |name| LogicalPath::root().check_join(name).is_ok();
        top_bytes + above + 1 + name.count_bytes() <= PATH_BYTES_MAX && name.to_str().is_ok_and(is_name)
    }

    /// The path of this entry in a tree that begins at `top`, or of the nearest directory above it
    /// that a path can name.
    pub(super) fn path_of(&self, top: &LogicalPath, name: &CStr) -> LogicalPath {
        let names = self.above.iter().map(|level| level.below.as_c_str());
        let mut path = top.clone();
        for name in names.chain(std::iter::once(name)) {
            match name.to_str().ok().and_then(|name| path.join(name).ok()) {
                Some(longer) => path = longer,
                None => break,
            }
        }
        path
    }
}

pub(super) fn open_directory(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, name, flags, Mode::empty())
}

/// The next names, the last one first; none at the end.
fn read_names(directory: &OwnedFd) -> Result<Vec<WalkEntry>, Errno> {
    let mut room = [const { MaybeUninit::uninit() }; READ_BUFFER_BYTES];
    let mut names = RawDir::new(directory, &mut room);
    let mut found = Vec::new();
    while found.is_empty() || !names.is_buffer_empty() {
        let Some(entry) = names.next() else { break };
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) => FileType::from_raw_mode(raw.st_mode),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            },
            kind => kind,
        };
        found.push(WalkEntry {
            name: name.to_owned(),
            kind,
            next: entry.next_entry_cookie(),
        });
    }
    found.reverse();
    Ok(found)
}
