//! Replaces one thing by another, trees included: both exchange their names in one step, and the
//! old one is then removed where no client sees it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::hidden::HiddenTree;
use super::remove::{check_removable, discard, open_top};
use super::walk::{Step, Walk};
use crate::api::Replacing;
use crate::fault::{about, fault};
use crate::name_in::NameIn;
use crate::posix::identity::Acting;
use crate::posix::link_checks::missing_is_not_found;
use crate::posix::resolve::{check_readable, check_writable};
use crate::posix::{Posix, into_itself, is_directory, sync_names};

/// The name that a file or tree is to get, in its open directory.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) parent: &'a OwnedFd,
    pub(super) name: &'a str,
    /// The path of the name.
    pub(super) path: &'a LogicalPath,
}

fn failed(errno: Errno, path: &LogicalPath) -> Error {
    about(errno, Phase::Commit, path)
}

fn full(path: &LogicalPath) -> Error {
    fault(ErrorCode::NotEmpty, Phase::Commit).with_subject(path)
}

/// Checks that the name is free, or that what has it may be replaced.
pub(super) fn check_replaceable(target: Target<'_>, replacing: Replacing, acting: &Acting<'_>) -> Result<()> {
    let Target { parent, name, path } = target;
    let raw = match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|errno| failed(errno, path))?,
    };
    match replacing {
        Replacing::Nothing => Err(fault(ErrorCode::Exists, Phase::Open).with_subject(path)),
        Replacing::Tree if is_directory(&raw) => match open_top(parent, name, path)? {
            Some(top) => check_removable(top, path, acting),
            None => Ok(()),
        },
        Replacing::Single if is_directory(&raw) => match open_top(parent, name, path)? {
            Some(top) => check_empty(top, path),
            None => Ok(()),
        },
        Replacing::Single | Replacing::Tree => Ok(()),
    }
}

fn check_empty(directory: OwnedFd, path: &LogicalPath) -> Result<()> {
    let mut walk = Walk::begin(directory, false).map_err(|errno| failed(errno, path))?;
    match walk.step().map_err(|errno| failed(errno, path))? {
        Step::End => Ok(()),
        _ => Err(full(path)),
    }
}

/// Renames a hidden thing to its final name; returns whether something was replaced.
pub(super) fn give_name(
    store: &Posix,
    hidden: &HiddenTree,
    target: Target<'_>,
    replacing: Replacing,
    acting: &mut Acting<'_>,
) -> Result<bool> {
    let Target { parent, name, path } = target;
    let (directory, hidden_name) = hidden.place();
    let source = NameIn::new(&directory, hidden_name);
    let moving = store.shared.directories.write().unwrap_or_else(PoisonError::into_inner);
    let place = NameIn::new(parent, name);
    match fs::renameat_with(directory, hidden_name, parent, name, RenameFlags::NOREPLACE) {
        Ok(()) => {
            drop(moving);
            return sync_names(&store.shared.group_sync, parent, path).map(|()| false);
        }
        Err(Errno::EXIST) if replacing != Replacing::Nothing => {}
        Err(errno) => return Err(failed(errno, path)),
    }
    exchange(source, place).map_err(|errno| failed(errno, path))?;
    drop(moving);
    if let Err(error) = drop_old(store, hidden, path, replacing, acting) {
        // Nothing of it was removed, so both get their names back.
        exchange(source, place).map_err(|errno| failed(errno, path))?;
        return Err(error);
    }
    sync_names(&store.shared.group_sync, parent, path).map(|()| true)
}

fn exchange(one: NameIn<'_>, other: NameIn<'_>) -> Result<(), Errno> {
    fs::renameat_with(
        one.directory,
        one.name,
        other.directory,
        other.name,
        RenameFlags::EXCHANGE,
    )
}

/// Removes what was replaced and is hidden now. On an error all of it still exists.
fn drop_old(
    store: &Posix,
    hidden: &HiddenTree,
    path: &LogicalPath,
    replacing: Replacing,
    acting: &mut Acting<'_>,
) -> Result<()> {
    let (directory, name) = hidden.place();
    let raw = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failed(errno, path))?;
    if !is_directory(&raw) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let old = fs::openat(directory, name, flags, Mode::empty()).map_err(|errno| failed(errno, path))?;
        return acting.suspended(|| {
            let _alone = store.shared.space.change_names();
            fs::unlinkat(directory, name, AtFlags::empty()).map_err(|errno| failed(errno, path))?;
            store.shared.space.forget(old.as_fd(), path);
            Ok(())
        })?;
    }
    if replacing != Replacing::Tree {
        return acting.suspended(|| {
            fs::unlinkat(directory, name, AtFlags::REMOVEDIR).map_err(|errno| match errno {
                Errno::NOTEMPTY | Errno::EXIST => full(path),
                errno => failed(errno, path),
            })
        })?;
    }
    // What cannot be removed after all stays hidden until the next start.
    discard(store, hidden, path, acting).map(drop)
}

/// Renames `from` to `to`, and replaces what has that name.
pub(in crate::posix) fn move_over(
    store: &Posix,
    from: &LogicalPath,
    to: &LogicalPath,
    replacing: Replacing,
) -> Result<bool> {
    check_readable(from)?;
    check_writable(to)?;
    store.instance(from)?;
    if to.is_within(from) || from.is_within(to) {
        return Err(into_itself(to));
    }
    let mut acting = store.acting()?;
    let (old_parent, old_name) = store.root.open_plain_parent(from).map_err(missing_is_not_found)?;
    let (parent, name) = store.root.open_plain_parent(to)?;
    let raw = fs::statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failed(errno, from))?;
    let replaced = Target {
        parent: &parent,
        name,
        path: to,
    };
    check_replaceable(replaced, replacing, &acting)?;
    let moved_on = store.check_quotas(&old_parent, from, to, is_directory(&raw), &mut acting)?;
    let hidden = HiddenTree::beside(store, &old_parent, from, &mut acting)?;
    let (source, target) = (NameIn::new(&old_parent, old_name), NameIn::new(&parent, name));
    let moving = store.shared.directories.write().unwrap_or_else(PoisonError::into_inner);
    // From here the new one has its name. The old one briefly has the other name, so that nothing
    // is lost if the server dies.
    exchange(source, target).map_err(|errno| failed(errno, to))?;
    let (directory, hidden_name) = hidden.place();
    let hide = || fs::renameat_with(&old_parent, old_name, directory, hidden_name, RenameFlags::NOREPLACE);
    if let Err(errno) = hide() {
        exchange(source, target).map_err(|errno| failed(errno, to))?;
        return Err(failed(errno, to));
    }
    drop(moving);
    if let Err(error) = drop_old(store, &hidden, to, replacing, &mut acting) {
        fs::renameat_with(directory, hidden_name, &old_parent, old_name, RenameFlags::NOREPLACE)
            .and_then(|()| exchange(source, target))
            .map_err(|errno| failed(errno, to))?;
        return Err(error);
    }
    drop(acting);
    moved_on();
    sync_names(&store.shared.group_sync, &parent, to)?;
    sync_names(&store.shared.group_sync, &old_parent, from).map(|()| true)
}
