//! Access to names for clients: targets of symbolic links are checked before use.

use std::os::fd::OwnedFd;

use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::resolve::check_readable;
use super::{Posix, is_same, open_name};
use crate::fault::{about, fault};
use crate::links::{LinkUse, Resolution, refused_behind_link};
use crate::name_in::NameIn;

/// One end of a rename.
#[derive(Clone, Copy)]
pub(super) struct RenameEnd<'a> {
    /// The path that the client named.
    pub(super) path: &'a LogicalPath,
    /// How it was resolved.
    pub(super) resolution: &'a Resolution,
}

impl Posix {
    /// Opens a name, if the client may use it in this way.
    pub(super) fn open_as(&self, path: &LogicalPath, flags: OFlags, used: LinkUse<'_>) -> Result<OwnedFd> {
        let reached = self.root.open_beneath(path, flags)?;
        reached.checked(self.owner.links.as_ref(), used, path)
    }

    /// Opens the directory that contains a name, if the client may use that name.
    pub(super) fn open_parent<'a>(&self, path: &'a LogicalPath, used: LinkUse<'_>) -> Result<(OwnedFd, &'a str)> {
        let parent = self.root.open_parent(path)?;
        parent.checked(self.owner.links.as_ref(), used, path)
    }

    /// The directory of a name that will be checked later, and how it was resolved.
    pub(super) fn parent_to_check<'a>(&self, path: &'a LogicalPath) -> Result<(OwnedFd, &'a str, Resolution)> {
        let parent = self.root.open_parent(path)?;
        let resolution = parent.resolution.clone();
        let (directory, name) = match parent.is_missing() {
            true => parent.checked(self.owner.links.as_ref(), LinkUse::Stat, path)?,
            false => parent.unchecked(path)?,
        };
        Ok((directory, name, resolution))
    }

    /// The same for a name that must exist.
    pub(super) fn parent_of_old<'a>(&self, path: &'a LogicalPath) -> Result<(OwnedFd, &'a str, Resolution)> {
        self.parent_to_check(path).map_err(missing_is_not_found)
    }

    /// Why a name could not be used. A client that may not look behind a link does not learn
    /// whether it exists.
    pub(super) fn missing_or(&self, resolution: &Resolution, errno: Errno, path: &LogicalPath) -> Error {
        match resolution.check(self.owner.links.as_ref(), LinkUse::Stat) {
            Err(refusal) => refusal.with_subject(path),
            Ok(()) => about(errno, Phase::Open, path),
        }
    }

    /// Whether a rename is allowed where a link leads to one of its ends.
    pub(super) fn check_rename(
        &self,
        from: RenameEnd<'_>,
        to: RenameEnd<'_>,
        inode: u64,
        replaces: bool,
    ) -> Result<()> {
        let (Some(checker), true) = (&self.owner.links, from.resolution.is_link() || to.resolution.is_link()) else {
            return Ok(());
        };
        let asked = from.path;
        let (Some(source), Some(target)) = (from.resolution.end(asked), to.resolution.end(to.path)) else {
            return Err(refused_behind_link(ErrorCode::Forbidden).with_subject(asked));
        };
        let used = LinkUse::Rename {
            asked,
            inode,
            target,
            replaces,
        };
        checker.check(source, used).map_err(|error| error.with_subject(asked))
    }

    /// As [`Storage::check_links`](crate::Storage::check_links).
    pub(super) fn check_link_use(&self, path: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        check_readable(path)?;
        let _acting = self.acting()?;
        let resolution = match used {
            LinkUse::Create | LinkUse::Overwrite => self.root.open_parent(path).map(|parent| parent.resolution),
            _ => self
                .root
                .open_beneath(path, OFlags::PATH)
                .map(|reached| reached.resolution),
        };
        match resolution {
            Ok(resolution) => resolution
                .check(self.owner.links.as_ref(), used)
                .map_err(|error| error.with_subject(path)),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Opens what a rename replaces, if there is something. Refuses another name of the moved file: the
/// system renames nothing then, and says that it has (rename(2)).
pub(super) fn open_replaced(target: NameIn<'_>, moved: &fs::Stat, to: &LogicalPath) -> Result<Option<OwnedFd>> {
    let old = open_name(target.directory, target.name).ok();
    match old
        .as_ref()
        .is_some_and(|old| fs::fstat(old).is_ok_and(|old| is_same(&old, moved)))
    {
        true => Err(fault(ErrorCode::Forbidden, Phase::Open)
            .with_detail("both names are of one file")
            .with_subject(to)),
        false => Ok(old),
    }
}

pub(super) fn missing_is_not_found(error: Error) -> Error {
    match error.code() {
        ErrorCode::ParentMissing => fault(ErrorCode::NotFound, error.phase()),
        _ => error,
    }
}
