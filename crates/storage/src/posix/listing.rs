//! Reads a directory in batches, so that memory does not grow with the number of entries.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, RawDirEntry};
use rustix::io::Errno;
use types::limits::{LISTING_BATCH_ENTRIES, NAME_BYTES_MAX};
use types::{Error, LogicalPath, Phase, Unlisted};

use super::identity::Acting;
use super::resolve::{Root, is_kept, stat_of};
use crate::api::{Entry, Listing};
use crate::fault::about;
use crate::links::LinkUse;
use crate::owner::Owner;

/// The smallest entry in the kernel's buffer: `linux_dirent64` with a name of one byte.
const ENTRY_BYTES_MIN: usize = 24;
/// Size of the kernel's buffer: it never returns more entries than a batch, so no entries have to
/// be kept between batches.
const READ_BUFFER_BYTES: usize = LISTING_BATCH_ENTRIES * ENTRY_BYTES_MIN;

pub(crate) struct PosixListing {
    pub(crate) root: Arc<Root>,
    pub(crate) path: LogicalPath,
    pub(crate) directory: OwnedFd,
    /// The client that looks.
    pub(crate) owner: Owner,
    pub(crate) unlisted: Unlisted,
}

/// The refusal to remove a directory; mentions names that no listing can show.
pub(super) fn not_empty(parent: BorrowedFd<'_>, name: &str, path: &LogicalPath) -> Error {
    let error = about(Errno::NOTEMPTY, Phase::Open, path);
    match unlisted_names(parent, name, path) {
        Ok(unlisted) if !unlisted.is_empty() => error.with_detail(unlisted.to_string()),
        _ => error,
    }
}

/// The names in a directory that no path can hold.
fn unlisted_names(parent: BorrowedFd<'_>, name: &str, path: &LogicalPath) -> Result<Unlisted, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = fs::openat(parent, name, flags, Mode::empty())?;
    let mut unlisted = Unlisted::default();
    for entry in fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let raw_name = entry.file_name();
        if !matches!(raw_name.to_bytes(), b"." | b"..") && name_in(path, raw_name).is_none() {
            unlisted.names.add(raw_name.to_bytes());
        }
    }
    Ok(unlisted)
}

/// The name as text, if a path can hold it.
fn name_in<'a>(directory: &LogicalPath, raw_name: &'a CStr) -> Option<&'a str> {
    let name = raw_name.to_str().ok()?;
    directory.check_join(name).ok()?;
    Some(name)
}

impl Listing for PosixListing {
    fn next_batch(&mut self) -> types::Result<Vec<Entry>> {
        self.read(|listing, found, unlisted| listing.entry(found.file_name(), unlisted))
    }

    fn next_names(&mut self) -> types::Result<Vec<String>> {
        self.read(Self::entry_name)
    }

    fn unlisted(&self) -> Unlisted {
        self.unlisted.clone()
    }
}

impl PosixListing {
    /// Reads what fits into the kernel's buffer; `item` makes of an entry what is returned for it.
    fn read<T>(&mut self, item: impl Fn(&Self, &RawDirEntry<'_>, &mut Unlisted) -> Option<T>) -> types::Result<Vec<T>> {
        let user = self.owner.user.clone();
        let _acting = Acting::begin(user.as_ref())?;
        let mut room = [const { MaybeUninit::uninit() }; READ_BUFFER_BYTES];
        let mut names = RawDir::new(&self.directory, &mut room);
        let mut batch = Vec::with_capacity(LISTING_BATCH_ENTRIES);
        let mut unlisted = self.unlisted.clone();
        // A batch must not be empty because its entries are hidden: that would look like the end.
        while batch.is_empty() || !names.is_buffer_empty() {
            let Some(read) = names.next() else { break };
            let read = read.map_err(|errno| about(errno, Phase::Open, &self.path))?;
            batch.extend(item(self, &read, &mut unlisted));
        }
        self.unlisted = unlisted;
        Ok(batch)
    }

    /// The name of what is listed. The directory itself says what most entries are, so that only
    /// links are looked at.
    fn entry_name(&self, found: &RawDirEntry<'_>, unlisted: &mut Unlisted) -> Option<String> {
        match found.file_type() {
            FileType::RegularFile | FileType::Directory => self.listed_name(found.file_name(), unlisted),
            FileType::Symlink | FileType::Unknown => {
                return self.entry(found.file_name(), unlisted).map(|entry| entry.name);
            }
            // A name that no path can hold counts, whatever has it.
            _ => self.listed_name(found.file_name(), unlisted).and(None),
        }
        .map(str::to_owned)
    }

    /// `None` for what is not listed. Names that no path can hold and links that lead nowhere or
    /// out are counted, unless rules hide them from the client. Hidden names, pipes, links to
    /// closed paths and files that disappear meanwhile are not.
    fn entry(&self, raw_name: &CStr, unlisted: &mut Unlisted) -> Option<Entry> {
        let name = self.listed_name(raw_name, unlisted)?;
        let raw = fs::statat(&self.directory, raw_name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let stat = match FileType::from_raw_mode(raw.st_mode) {
            FileType::Symlink => {
                let path = self.path.join(name).ok()?;
                match self.root.stat(&path, self.owner.links.as_ref()) {
                    Ok(stat) => stat,
                    Err(error) => {
                        if self.root.is_dead_link(&path, &error, self.owner.links.as_ref()) {
                            unlisted.links.add(raw_name.to_bytes());
                        }
                        return None;
                    }
                }
            }
            // Pipes and the like are not listed or counted.
            FileType::RegularFile | FileType::Directory => stat_of(&raw, &self.path).ok()?,
            _ => return None,
        };
        Some(Entry {
            name: name.to_owned(),
            stat,
        })
    }

    /// The name as text, unless it is hidden. Counts a name that no path can hold.
    fn listed_name<'a>(&self, raw_name: &'a CStr, unlisted: &mut Unlisted) -> Option<&'a str> {
        if matches!(raw_name.to_bytes(), b"." | b"..") || raw_name.to_str().is_ok_and(is_kept) {
            return None;
        }
        let name = name_in(&self.path, raw_name);
        if name.is_none() && self.may_tell_of(raw_name) {
            unlisted.names.add(raw_name.to_bytes());
        }
        name
    }

    /// Whether the client may know about a name that no path can hold. Rules are about paths, so
    /// they are asked about the nearest name that a path can hold: an area such as `/data/private*`
    /// closes names by their first letters.
    fn may_tell_of(&self, raw_name: &CStr) -> bool {
        let Some(checker) = &self.owner.links else { return true };
        let text = raw_name.to_string_lossy();
        let shown = text.chars().map(|character| match character.is_control() {
            true => char::REPLACEMENT_CHARACTER,
            false => character,
        });
        let mut nearest: String = shown.collect();
        while nearest.len() > NAME_BYTES_MAX {
            nearest.pop();
        }
        let path = self.path.join(&nearest);
        path.is_ok_and(|path| checker.check(&path, LinkUse::Stat).is_ok())
    }
}
