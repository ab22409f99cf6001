//! Copies a tree. The copy is built in a hidden place, made durable, and made visible in one step,
//! so nothing of a failed copy is ever visible. Symbolic links are copied as links and never
//! followed. Anything else than files, directories and links is left out, as no door shows it.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use types::limits::PATH_BYTES_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::hidden::HiddenTree;
use super::remove::{not_entered, open_top, unlink_tree};
use super::replace::{Target, check_replaceable, give_name};
use super::walk::{Step, Walk, WalkEntry, open_directory};
use crate::api::{Kind, Replacing};
use crate::fault::{about, fault};
use crate::name_in::NameIn;
use crate::posix::identity::Acting;
use crate::posix::link_checks::missing_is_not_found;
use crate::posix::resolve::{check_readable, check_writable, is_kept, plain_stat};
use crate::posix::space::Reservation;
use crate::posix::upload::copy_content;
use crate::posix::{Posix, accounts, attributes, checksum_attributes, into_itself, is_same};

/// Copies `from`; with `members` everything in it. Returns whether something was replaced.
pub(in crate::posix) fn copy(
    store: &Posix,
    from: &LogicalPath,
    to: &LogicalPath,
    members: bool,
    replacing: Replacing,
) -> Result<bool> {
    check_readable(from)?;
    check_writable(to)?;
    store.instance(to)?;
    if (members && to.is_within(from)) || from.is_within(to) {
        return Err(into_itself(to));
    }
    let mut acting = store.acting()?;
    let (old_parent, old_name) = store.root.open_plain_parent(from).map_err(missing_is_not_found)?;
    let (parent, name) = store.root.open_plain_parent(to)?;
    let target = Target {
        parent: &parent,
        name,
        path: to,
    };
    check_replaceable(target, replacing, &acting)?;
    check_apart(store, NameIn::new(&old_parent, old_name), target)?;
    let top = open_top(&old_parent, old_name, from)?;
    let bytes = measure(
        top.as_ref().filter(|_| members),
        NameIn::new(&old_parent, old_name),
        from,
    )?;
    let reservation = reserve(store, to, bytes)?;
    let hidden = HiddenTree::beside(store, &parent, to, &mut acting)?;
    let copying = Copying {
        store,
        from,
        to,
        reservation: &reservation,
    };
    let built = match &top {
        Some(top) => copying.directory(top, &hidden, &parent, members, &mut acting),
        None => copying.single(NameIn::new(&old_parent, old_name), &hidden),
    };
    let placed = built.and_then(|()| {
        copying.make_durable(&hidden)?;
        give_name(store, &hidden, target, replacing, &mut acting)
    });
    let Ok(replaced) = placed else {
        let (directory, hidden_name) = hidden.place();
        acting.suspended(|| {
            unlink_tree(directory, hidden_name)
                .or_else(|_| remove_file(directory, hidden_name))
                .ok()
        })?;
        return placed;
    };
    drop(acting);
    reservation.count(bytes);
    reservation.release();
    Ok(replaced)
}

/// One directory may be mounted at two names: refuses a target that is the source, is in it, or has
/// it inside.
fn check_apart(store: &Posix, source: NameIn<'_>, target: Target<'_>) -> Result<()> {
    let failed = |errno| about(errno, Phase::Open, target.path);
    let root = fs::fstat(store.root.fd()).map_err(failed)?;
    let look = |directory, name| fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let is_below = |directory, other: Option<fs::Stat>| match other {
        Some(other) => is_below(directory, &other, &root).map_err(failed),
        None => Ok(false),
    };
    let place = target.parent.as_fd();
    let (here, there) = (look(source.directory, source.name), look(place, target.name));
    let is_one = here
        .as_ref()
        .zip(there.as_ref())
        .is_some_and(|(here, there)| is_same(here, there));
    match is_one || is_below(place, here)? || is_below(source.directory, there)? {
        true => Err(into_itself(target.path)),
        false => Ok(()),
    }
}

/// Whether an open directory is `above`, or below it.
fn is_below(directory: BorrowedFd<'_>, above: &fs::Stat, root: &fs::Stat) -> Result<bool, Errno> {
    let up = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = directory.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    for _ in 0..PATH_BYTES_MAX {
        let raw = fs::fstat(&here)?;
        if is_same(&raw, above) {
            return Ok(true);
        }
        if is_same(&raw, root) {
            break;
        }
        here = fs::openat(&here, "..", up, Mode::empty())?;
    }
    Ok(false)
}

fn remove_file(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    fs::unlinkat(directory, name, AtFlags::empty())
}

/// The size of all files together. A file system mounted below is refused before anything is
/// copied.
fn measure(top: Option<&OwnedFd>, file: NameIn<'_>, path: &LogicalPath) -> Result<u64> {
    let failed = |errno| about(errno, Phase::Open, path);
    let size = |raw: &fs::Stat| raw.st_size as u64;
    let Some(top) = top else {
        let raw = fs::statat(file.directory, file.name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        return match FileType::from_raw_mode(raw.st_mode) {
            FileType::RegularFile => Ok(size(&raw)),
            FileType::Directory => Ok(0),
            _ => Err(fault(ErrorCode::PathRefused, Phase::Open)
                .with_detail("it is a symbolic link, or neither a file nor a directory")
                .with_subject(path)),
        };
    };
    let top = top.try_clone().map_err(|_| failed(Errno::MFILE))?;
    let mut walk = Walk::begin(top, false).map_err(failed)?;
    let mut bytes = 0_u64;
    loop {
        match walk.step().map_err(failed)? {
            Step::End => return Ok(bytes),
            Step::Left(_) => {}
            Step::Directory(found) if is_left_out(&found) => {}
            Step::Directory(found) => {
                let entered = walk.enter(&found);
                entered.map_err(|errno| not_entered(errno, path, &walk.path_of(path, &found.name)))?;
            }
            Step::Other(found) if found.kind == FileType::RegularFile => {
                if let Ok(raw) = fs::statat(walk.here(), &found.name, AtFlags::SYMLINK_NOFOLLOW) {
                    bytes = bytes.saturating_add(size(&raw));
                }
            }
            Step::Other(_) => {}
        }
    }
}

/// Names that belong to the server.
fn is_left_out(found: &WalkEntry) -> bool {
    found.name.to_str().is_ok_and(is_kept)
}

fn reserve(store: &Posix, to: &LogicalPath, bytes: u64) -> Result<Reservation> {
    let usage = &store.shared.space;
    if usage.accounts().begin_below(to) {
        return Err(fault(ErrorCode::CrossExport, Phase::Open)
            .with_detail("a directory is not copied across the beginning of a quota")
            .with_subject(to));
    }
    let charges = usage.accounts().of(to, store.owner.vo.as_deref());
    Reservation::ask(usage, bytes, charges).map_err(|error| error.with_subject(to))
}

struct Copying<'a> {
    store: &'a Posix,
    from: &'a LogicalPath,
    to: &'a LogicalPath,
    reservation: &'a Reservation,
}

impl Copying<'_> {
    /// Copies what is not a directory.
    fn single(&self, file: NameIn<'_>, hidden: &HiddenTree) -> Result<()> {
        let failed = |errno| about(errno, Phase::Transfer, self.from);
        let name = std::ffi::CString::new(file.name).map_err(|_| failed(Errno::INVAL))?;
        let (directory, hidden_name) = hidden.place();
        let hidden_name = std::ffi::CString::new(hidden_name).map_err(|_| failed(Errno::INVAL))?;
        let raw = fs::statat(file.directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let kind = FileType::from_raw_mode(raw.st_mode);
        let to = NameIn::new(&directory, &*hidden_name);
        self.entry(NameIn::new(&file.directory, &*name), kind, to)
            .map_err(failed)
    }

    fn directory(
        &self,
        top: &OwnedFd,
        hidden: &HiddenTree,
        parent: &OwnedFd,
        members: bool,
        acting: &mut Acting<'_>,
    ) -> Result<()> {
        let failed = |errno| about(errno, Phase::Transfer, self.to);
        let (directory, name) = hidden.place();
        let name = std::ffi::CString::new(name).map_err(|_| failed(Errno::INVAL))?;
        let copied = make_directory(directory, &name).map_err(failed)?;
        hand_on_group(parent, &copied, acting)?.map_err(failed)?;
        attributes::carry(top.as_fd(), copied.as_fd());
        if !members {
            return Ok(());
        }
        let top = top.try_clone().map_err(|_| failed(Errno::MFILE))?;
        self.fill(Walk::begin(top, false).map_err(failed)?, copied)
    }

    /// Copies everything on the walk.
    fn fill(&self, mut walk: Walk, mut copied: OwnedFd) -> Result<()> {
        let failed = |errno: Errno, walk: &Walk, name: &CStr| -> Error {
            about(errno, Phase::Transfer, &walk.path_of(self.from, name))
        };
        loop {
            let step = walk.step().map_err(|errno| failed(errno, &walk, c"."))?;
            let (name, done) = match step {
                Step::End => return Ok(()),
                Step::Left(name) => {
                    let up = open_directory(copied.as_fd(), c"..");
                    (name, up.map(|up| copied = up))
                }
                Step::Directory(found) | Step::Other(found) if is_left_out(&found) => continue,
                Step::Directory(found) => {
                    let made = make_directory(copied.as_fd(), &found.name).and_then(|made| {
                        walk.enter(&found)?;
                        attributes::carry(walk.here(), made.as_fd());
                        copied = made;
                        Ok(())
                    });
                    (found.name, made)
                }
                Step::Other(found) => {
                    let target = NameIn::new(&copied, &*found.name);
                    let here = walk.here();
                    let done = self.entry(NameIn::new(&here, &*found.name), found.kind, target);
                    (found.name, done)
                }
            };
            done.map_err(|errno| failed(errno, &walk, &name))?;
        }
    }

    /// Copies a file or a link; leaves out anything else.
    fn entry(&self, from: NameIn<'_, CStr>, kind: FileType, to: NameIn<'_, CStr>) -> Result<(), Errno> {
        match kind {
            FileType::RegularFile => self.file(from, to),
            FileType::Symlink => {
                let content = fs::readlinkat(from.directory, from.name, Vec::new())?;
                fs::symlinkat(content, to.directory, to.name)
            }
            _ => Ok(()),
        }
    }

    fn file(&self, from: NameIn<'_, CStr>, to: NameIn<'_, CStr>) -> Result<(), Errno> {
        let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let source = File::from(fs::openat(from.directory, from.name, read, Mode::empty())?);
        let raw = fs::fstat(&source)?;
        if FileType::from_raw_mode(raw.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        if self.store.shared.secrets.check(&raw, self.from).is_err() {
            return Err(Errno::ACCESS);
        }
        let write = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copied = File::from(fs::openat(to.directory, to.name, write, Mode::from_raw_mode(0o666))?);
        attributes::carry(source.as_fd(), copied.as_fd());
        copy_content(&source, &copied, raw.st_size as u64)?;
        self.reservation.redeem(raw.st_size as u64);
        let seen = plain_stat(&raw, Kind::File);
        let kept = checksum_attributes::read(source.as_fd(), &seen);
        // Checksums belong to the state that was seen; the file may have changed since.
        if plain_stat(&fs::fstat(&source)?, Kind::File).same_content(&seen) {
            checksum_attributes::write(copied.as_fd(), &plain_stat(&fs::fstat(&copied)?, Kind::File), &kept);
        }
        if let Some(vo) = &self.store.owner.vo {
            accounts::record_vo(copied.as_fd(), vo);
        }
        Ok(())
    }

    /// One flush of the file system for all files, before any of them is visible.
    fn make_durable(&self, hidden: &HiddenTree) -> Result<()> {
        if self.store.shared.in_memory {
            return Ok(());
        }
        let (directory, _) = hidden.place();
        fs::syncfs(directory).map_err(|errno| about(errno, Phase::Commit, self.to))
    }
}

fn make_directory(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::mkdirat(at, name, Mode::from_raw_mode(0o777))?;
    open_directory(at, name)
}

/// Gives a directory the group of its future parent if that is set-group-ID. What is created in it
/// then inherits the group.
fn hand_on_group(parent: &OwnedFd, copied: &OwnedFd, acting: &mut Acting<'_>) -> Result<Result<(), Errno>> {
    let Ok(above) = fs::fstat(parent) else {
        return Ok(Ok(()));
    };
    if !Mode::from_raw_mode(above.st_mode).contains(Mode::SGID) {
        return Ok(Ok(()));
    }
    acting.suspended(|| {
        let mode = fs::fstat(copied)?.st_mode & 0o777;
        fs::fchown(copied, None, Some(fs::Gid::from_raw(above.st_gid)))?;
        fs::fchmod(copied, Mode::from_raw_mode(mode) | Mode::SGID)
    })
}
