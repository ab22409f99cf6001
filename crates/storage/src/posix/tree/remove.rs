//! Removes a tree. First it checks that all of the tree can be removed. Then it renames the tree to
//! a hidden place in one step, which makes it invisible to all clients, and unlinks its files
//! there. If the server dies meanwhile, the next start removes the rest. If something cannot be
//! removed after all, it reappears under the old name.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use crate::limits::STORED_TREE_DEPTH_MAX;
use rustix::fs::{self, AtFlags, FileType, Mode, RenameFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Unlisted};

use super::hidden::HiddenTree;
use super::walk::{Step, Walk, WalkEntry, open_directory};
use crate::api::TreeFailure;
use crate::fault::{about, fault};
use crate::name_in::NameIn;
use crate::posix::begin::may_change_names;
use crate::posix::identity::Acting;
use crate::posix::link_checks::missing_is_not_found;
use crate::posix::resolve::{HIDDEN_DIRECTORY, check_readable};
use crate::posix::{Posix, Storage, is_directory, is_same, sync_names};

/// How often a directory that should be empty is read again: other programs may put something into
/// it meanwhile.
const READ_AGAIN_MAX: u32 = 64;

/// Something that could not be removed.
struct Stuck {
    path: LogicalPath,
    errno: Errno,
}

/// Called for each file that lost its name, with its former path.
type Unlinked<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &LogicalPath);

/// Removes this path with everything in it.
pub(in crate::posix) fn remove(store: &Posix, path: &LogicalPath) -> Result<Option<TreeFailure>> {
    check_readable(path)?;
    store.instance(path)?;
    let mut acting = store.acting()?;
    let (parent, name) = store.root.open_plain_parent(path).map_err(missing_is_not_found)?;
    let Some(top) = open_top(&parent, name, path)? else {
        drop(acting);
        return store.remove(path).map(|()| None);
    };
    check_removable(top.try_clone().map_err(|_| too_many(path))?, path, &acting)?;
    let hidden = HiddenTree::beside(store, &parent, path, &mut acting)?;
    hide(store, NameIn::new(&parent, name), &top, path, &hidden)?;
    let synced = sync_names(&store.shared.group_sync, &parent, path);
    let removed = discard(store, &hidden, path, &mut acting)?;
    if let Some(failure) = removed {
        // As the server: in the hidden directory, perhaps only the owner of the tree could rename
        // it back.
        let (directory, hidden_name) = hidden.place();
        acting.suspended(|| {
            fs::renameat_with(directory, hidden_name, &parent, name, RenameFlags::NOREPLACE).map_err(|errno| {
                let error = about(errno, Phase::Cleanup, path);
                error.with_detail("the rest of it could not be renamed back")
            })
        })??;
        return Ok(Some(failure));
    }
    drop(acting);
    synced.map(|()| None)
}

/// Opens the directory with this name; `None` if it is not a directory.
pub(super) fn open_top(parent: &OwnedFd, name: &str, path: &LogicalPath) -> Result<Option<OwnedFd>> {
    let failed = |errno| about(errno, Phase::Open, path);
    let raw = fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    if !is_directory(&raw) {
        return Ok(None);
    }
    let name = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
    open_directory(parent.as_fd(), &name).map(Some).map_err(failed)
}

fn too_many(path: &LogicalPath) -> Error {
    about(Errno::MFILE, Phase::Open, path)
}

/// Renames the tree, which is open as `top`, to its hidden name.
fn hide(store: &Posix, visible: NameIn<'_>, top: &OwnedFd, path: &LogicalPath, hidden: &HiddenTree) -> Result<()> {
    let failed = |errno| about(errno, Phase::Commit, path);
    let directories = &store.shared.directories;
    let _moving = directories.write().unwrap_or_else(PoisonError::into_inner);
    let seen = fs::fstat(top).map_err(failed)?;
    let (parent, name) = (visible.directory, visible.name);
    let there = fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    if !is_same(&seen, &there) {
        return Err(failed(Errno::BUSY));
    }
    let (directory, hidden_name) = hidden.place();
    fs::renameat_with(parent, name, directory, hidden_name, RenameFlags::NOREPLACE)
        .or_else(|errno| match errno {
            Errno::INVAL | Errno::NOSYS => fs::renameat(parent, name, directory, hidden_name),
            errno => Err(errno),
        })
        .map_err(failed)
}

/// Removes a hidden tree that was visible as `path`; returns what could not be removed.
pub(super) fn discard(
    store: &Posix,
    hidden: &HiddenTree,
    path: &LogicalPath,
    acting: &mut Acting<'_>,
) -> Result<Option<TreeFailure>> {
    let usage = &store.shared.space;
    let (directory, name) = hidden.place();
    let mut trouble = Ok(());
    let mut count = |file: BorrowedFd<'_>, path: &LogicalPath| {
        // The server may read attributes that the user may not.
        let counted = acting.suspended(|| {
            let _alone = usage.change_names();
            usage.forget(file, path);
        });
        if counted.is_err() && trouble.is_ok() {
            trouble = counted;
        }
    };
    let emptied = match usage.counts() {
        true => empty_tree(directory, name, path, Some(&mut count)),
        false => empty_tree(directory, name, path, None),
    };
    trouble?;
    // The top keeps its owner; whether it may be removed was checked when it was hidden.
    let emptied = match emptied {
        Ok(()) => acting.suspended(|| unlink_top(directory, name, path))?,
        stuck => stuck,
    };
    Ok(emptied.err().map(|Stuck { path, errno }| {
        let error = about(errno, Phase::Commit, &path);
        TreeFailure { path, error }
    }))
}

/// Removes an invisible tree.
pub(in crate::posix) fn unlink_tree(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let root = LogicalPath::root();
    empty_tree(directory, name, &root, None)
        .and_then(|()| unlink_top(directory, name, &root))
        .map_err(|stuck| stuck.errno)
}

fn unlink_top(directory: BorrowedFd<'_>, name: &str, path: &LogicalPath) -> Result<(), Stuck> {
    gone(fs::unlinkat(directory, name, AtFlags::REMOVEDIR)).map_err(|errno| Stuck {
        path: path.clone(),
        errno,
    })
}

/// Removes everything in a directory.
fn empty_tree(
    directory: BorrowedFd<'_>,
    name: &str,
    shown: &LogicalPath,
    mut unlinked: Option<Unlinked<'_>>,
) -> Result<(), Stuck> {
    let at_top = |errno| Stuck {
        path: shown.clone(),
        errno,
    };
    let name = CString::new(name).map_err(|_| at_top(Errno::INVAL))?;
    let top = open_directory(directory, &name).map_err(at_top)?;
    let mut walk = Walk::begin(top, true).map_err(at_top)?;
    let mut again_left = READ_AGAIN_MAX;
    loop {
        let step = walk.step().map_err(|errno| Stuck {
            path: walk.path_of(shown, c"."),
            errno,
        })?;
        let (name, done) = match step {
            Step::End => return Ok(()),
            Step::Other(found) => {
                let done = unlink_file(&walk, &found, shown, &mut unlinked);
                (found.name, done)
            }
            Step::Directory(found) => {
                let done = match gone(fs::unlinkat(walk.here(), &found.name, AtFlags::REMOVEDIR)) {
                    Err(Errno::NOTEMPTY | Errno::EXIST) => walk.enter(&found),
                    done => done,
                };
                (found.name, done)
            }
            Step::Left(name) => {
                let done = match gone(fs::unlinkat(walk.here(), &name, AtFlags::REMOVEDIR)) {
                    // It comes up again, because its directory is read again from the start.
                    Err(Errno::NOTEMPTY | Errno::EXIST) if again_left > 0 => {
                        again_left -= 1;
                        Ok(())
                    }
                    done => done,
                };
                (name, done)
            }
        };
        done.map_err(|errno| Stuck {
            path: walk.path_of(shown, &name),
            errno,
        })?;
    }
}

fn unlink_file(
    walk: &Walk,
    found: &WalkEntry,
    shown: &LogicalPath,
    unlinked: &mut Option<Unlinked<'_>>,
) -> Result<(), Errno> {
    let counted = unlinked.as_mut().filter(|_| found.kind == FileType::RegularFile);
    let Some(unlinked) = counted else {
        return gone(fs::unlinkat(walk.here(), &found.name, AtFlags::empty()));
    };
    let flags = fs::OFlags::PATH | fs::OFlags::NOFOLLOW | fs::OFlags::CLOEXEC;
    let file = fs::openat(walk.here(), &found.name, flags, Mode::empty());
    gone(fs::unlinkat(walk.here(), &found.name, AtFlags::empty()))?;
    if let Ok(file) = file {
        unlinked(file.as_fd(), &walk.path_of(shown, &found.name));
    }
    Ok(())
}

fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Checks whether all of a tree can be removed, so that nothing is removed otherwise: no other
/// export begins below, nothing is mounted, the kernel allows the removal of every name, and
/// clients can see every name.
pub(super) fn check_removable(top: OwnedFd, path: &LogicalPath, acting: &Acting<'_>) -> Result<()> {
    let failed = |errno| about(errno, Phase::Open, path);
    let mut walk = Walk::begin(top, false).map_err(failed)?;
    let mut unlisted = Unlisted::default();
    // Whether the current directory has been checked.
    let mut is_asked = false;
    loop {
        let step = walk.step().map_err(failed)?;
        let found = match &step {
            Step::End => break,
            Step::Left(_) => {
                is_asked = true;
                continue;
            }
            Step::Directory(found) | Step::Other(found) => found,
        };
        let here = || walk.path_of(path, &found.name);
        if found.name.to_bytes() == HIDDEN_DIRECTORY.as_bytes() {
            let why = "another export begins in this directory";
            let directory = here().parent().unwrap_or_else(LogicalPath::root);
            return Err(fault(ErrorCode::Forbidden, Phase::Open)
                .with_detail(why)
                .with_subject(directory));
        }
        may_change_names(walk.here(), &found.name, is_asked, acting)
            .map_err(|errno| about(errno, Phase::Open, &here()))?;
        is_asked = true;
        if !walk.can_name(path, &found.name) {
            // No need to look inside: the tree stays.
            unlisted.names.add(found.name.to_bytes());
            continue;
        }
        if let Step::Directory(found) = &step {
            let entered = walk.enter(found);
            entered.map_err(|errno| not_entered(errno, path, &walk.path_of(path, &found.name)))?;
            is_asked = false;
        }
    }
    if !unlisted.is_empty() {
        return Err(holds_unlisted(&unlisted, path));
    }
    Ok(())
}

/// The refusal of a tree with names that no listing shows: the client cannot know what it would
/// remove.
fn holds_unlisted(unlisted: &Unlisted, path: &LogicalPath) -> Error {
    let detail = format!("{unlisted}; `crossload check` on the server finds them");
    about(Errno::NOTEMPTY, Phase::Open, path).with_detail(detail)
}

/// Why a directory in the tree at `top` cannot be entered.
pub(super) fn not_entered(errno: Errno, top: &LogicalPath, path: &LogicalPath) -> Error {
    match errno {
        // The path of the directory would fill pages and say nothing more.
        Errno::NAMETOOLONG => fault(ErrorCode::Forbidden, Phase::Open)
            .with_detail(format!(
                "it has more than {STORED_TREE_DEPTH_MAX} levels of directories"
            ))
            .with_subject(top),
        Errno::XDEV => fault(ErrorCode::Busy, Phase::Open)
            .with_detail("another file system is mounted there")
            .with_subject(path),
        errno => about(errno, Phase::Open, path),
    }
}
