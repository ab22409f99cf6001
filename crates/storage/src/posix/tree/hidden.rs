//! The place for a tree that is not yet, or no longer, visible: in the server's hidden directory,
//! or under a hidden name beside its own if that is on another file system. If the server dies, the
//! next start removes it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use types::{LogicalPath, Result};

use crate::fault::about;
use crate::posix::identity::Acting;
use crate::posix::parts::{HiddenName, Instance};
use crate::posix::{Posix, place_of};

/// A hidden name for a tree.
pub(super) struct HiddenTree {
    instance: Arc<Instance>,
    name: HiddenName,
}

impl HiddenTree {
    /// Chooses a hidden name on the file system of `parent`, the directory that contains `path`.
    pub(super) fn beside(store: &Posix, parent: &OwnedFd, path: &LogicalPath, acting: &mut Acting<'_>) -> Result<Self> {
        let failed = |errno| about(errno, types::Phase::Open, path);
        let instance = acting.suspended(|| store.instance_for_part(path))??;
        let by_user = acting.user().is_some();
        let is_home = place_of(parent).map_err(failed)?.home() == store.home;
        let name = acting.suspended(|| -> Result<HiddenName, Errno> {
            if is_home {
                return instance.name_at_home(by_user);
            }
            let directory = parent.try_clone().map_err(|_| Errno::MFILE)?;
            let place = path.parent().unwrap_or_else(LogicalPath::root);
            instance.name_elsewhere(directory, &place)
        })?;
        Ok(Self {
            name: name.map_err(failed)?,
            instance,
        })
    }

    /// Directory and name.
    pub(super) fn place(&self) -> (BorrowedFd<'_>, &str) {
        self.instance.place_of(&self.name)
    }
}

impl Drop for HiddenTree {
    /// The name is unused by now, or what has it waits for the next start.
    fn drop(&mut self) {
        let (directory, name) = self.place();
        let there = rustix::fs::statat(directory.as_fd(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        if there.err() == Some(Errno::NOENT) {
            self.instance.forget_name(&self.name);
        }
    }
}
