//! Starts an upload: the checks before the first byte, and the creation of the hidden part.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::limits::PREALLOCATE_BYTES_MIN;
use rustix::fs::{self, Access, AtFlags, FallocateFlags, FileType, OFlags};
use rustix::io::Errno;
use types::{ErrorCode, LogicalPath, Phase, Result};

use super::identity::Acting;
use super::parts::Part;
use super::resolve::{check_writable, stat_of};
use super::space::{self, Reservation};
use super::upload::{NewName, PosixUpload};
use super::{Directory, Posix, make_durable_directory, open_name, place_of};
use crate::api::{Overwrite, Stat, Upload, UploadOptions};
use crate::fault::{about, fault};
use crate::links::LinkUse;

impl Posix {
    pub(super) fn begin_upload(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        check_writable(path)?;
        self.instance(path)?;
        if self.owner.user.is_some() {
            let made = self.instance_for_part(path)?.make_users_directory();
            made.map_err(|errno| about(errno, Phase::Open, path))?;
        }
        let mut acting = self.acting()?;
        let target = self.upload_target(path, options, &acting)?;
        let announced = options.size_bytes;
        let usage = &self.shared.space;
        let charges = usage.accounts().of(path, self.owner.vo.as_deref());
        let reservation = Reservation::ask(usage, announced.unwrap_or(0), charges);
        let reservation = reservation.map_err(|error| error.with_subject(path))?;
        // Create directories last, so that an upload without room leaves none behind.
        let part = self.make_part(path, target.parent.as_ref(), announced, &reservation, &mut acting)?;
        let used = target.used;
        let parent = match self.parent_for_part(path, target, &part, options.create_parents, &mut acting) {
            Ok(parent) => parent,
            Err(error) => {
                part.unlink();
                acting.suspended(|| part.forget())?;
                return Err(error);
            }
        };
        drop(acting);
        Ok(Arc::new(PosixUpload::new(
            Arc::clone(&self.shared),
            part,
            NewName {
                parent,
                path: path.clone(),
                is_free: used == LinkUse::Create,
            },
            options,
            reservation,
            self.owner.clone(),
        )))
    }

    /// What an upload will do at a name. Opens the directory of the name once for all that follows,
    /// unless it does not exist yet or a link leads to it or to the file: each step then walks the
    /// path again and checks where it leads.
    fn upload_target(&self, path: &LogicalPath, options: &UploadOptions, acting: &Acting<'_>) -> Result<Target> {
        if let Some(plain) = self.plain_target(path, options.overwrite, acting) {
            return plain;
        }
        let used = self.check_target(path, options.overwrite, acting)?;
        if !options.create_parents {
            self.open_parent(path, used)?;
        }
        Ok(Target { parent: None, used })
    }

    /// The same, if no link leads there; otherwise `None`, and if the directory cannot be opened.
    fn plain_target(&self, path: &LogicalPath, overwrite: Overwrite, acting: &Acting<'_>) -> Option<Result<Target>> {
        let parent = self.root.open_parent(path).ok()?;
        if parent.resolution.is_link() {
            return None;
        }
        let (parent, name) = parent.unchecked(path).ok()?;
        let found = match fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) if FileType::from_raw_mode(raw.st_mode) == FileType::Symlink => return None,
            Ok(raw) => stat_of(&raw, path),
            Err(errno) => Err(about(errno, Phase::Open, path)),
        };
        let used = take_name(found, overwrite, path).and_then(|used| {
            if used == LinkUse::Overwrite {
                let checked = check_writable_by_user(parent.as_fd(), name, acting);
                checked.map_err(|errno| about(errno, Phase::Open, path))?;
            }
            Ok(used)
        });
        Some(used.and_then(|used| {
            let place = place_of(&parent).map_err(|errno| about(errno, Phase::Open, path))?;
            let parent = Some(Directory { opened: parent, place });
            Ok(Target { parent, used })
        }))
    }

    /// The directory where the part will get its name. Checks that the user may create names there,
    /// and sets the part's group if the directory is set-group-ID.
    fn parent_for_part(
        &self,
        path: &LogicalPath,
        target: Target,
        part: &Part,
        make: bool,
        acting: &mut Acting<'_>,
    ) -> Result<Directory> {
        let failed = |errno| about(errno, Phase::Open, path);
        let parent = match target.parent {
            Some(parent) => parent,
            None => {
                let (opened, _) = self.parent_for(path, target.used, make)?;
                let place = place_of(&opened).map_err(failed)?;
                Directory { opened, place }
            }
        };
        if acting.user().is_some() {
            // Check now, and not only at the rename after the last byte.
            may(parent.opened.as_fd(), ".", Access::WRITE_OK | Access::EXEC_OK).map_err(failed)?;
            inherit_group(&parent.opened, &part.file, acting)?.map_err(failed)?;
        }
        Ok(parent)
    }

    /// Whether VO quotas allow renaming; returns what to charge at the new path. A directory cannot
    /// move between quotas, as with project quotas of file systems: its files would have to be
    /// counted first.
    pub(super) fn check_quotas(
        &self,
        old_parent: &OwnedFd,
        from: &LogicalPath,
        to: &LogicalPath,
        is_directory: bool,
        acting: &mut Acting<'_>,
    ) -> Result<impl FnOnce() + use<>> {
        let usage = &self.shared.space;
        let mut count = None;
        if is_directory && usage.accounts().divide(from, to) {
            let why = "a directory cannot move from one quota to another";
            return Err(fault(ErrorCode::CrossExport, Phase::Open)
                .with_detail(why)
                .with_subject(to));
        }
        if !is_directory && !usage.accounts().is_empty() {
            let name = from.name().unwrap_or_default();
            let file = open_name(old_parent.as_fd(), name).map_err(|errno| about(errno, Phase::Open, from))?;
            let moving = acting.suspended(|| usage.moving(file.as_fd(), from, to))?;
            count = Some(moving.map_err(|error| error.with_subject(to))?);
        }
        Ok(move || {
            if let Some(count) = count {
                count();
            }
        })
    }

    /// The directory for a new name; creates it on request.
    pub(super) fn parent_for<'a>(
        &self,
        path: &'a LogicalPath,
        used: LinkUse<'_>,
        make: bool,
    ) -> Result<(OwnedFd, &'a str)> {
        match self.open_parent(path, used) {
            Err(error) if make && error.code() == ErrorCode::ParentMissing => {
                self.make_ancestors(path)?;
                self.open_parent(path, used)
            }
            done => done,
        }
    }

    fn make_ancestors(&self, path: &LogicalPath) -> Result<()> {
        let mut ancestors: Vec<LogicalPath> = std::iter::successors(path.parent(), LogicalPath::parent).collect();
        ancestors.retain(|ancestor| !ancestor.is_root());
        for ancestor in ancestors.iter().rev() {
            let (parent, name) = self.open_parent(ancestor, LinkUse::MakeDirectory)?;
            match make_durable_directory(&parent, name) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(about(errno, Phase::Open, ancestor)),
            }
        }
        Ok(())
    }

    /// Whether the name may be taken, and what has it now. A mapped user may replace only what it
    /// could write to: the kernel would check that for a write in place, but here the new file is
    /// another one.
    pub(super) fn check_target(
        &self,
        path: &LogicalPath,
        overwrite: Overwrite,
        acting: &Acting<'_>,
    ) -> Result<LinkUse<'static>> {
        let used = take_name(self.root.stat(path, self.owner.links.as_ref()), overwrite, path)?;
        if used == LinkUse::Overwrite && acting.user().is_some() {
            let (parent, name) = self.root.open_parent(path)?.unchecked(path)?;
            let checked = check_writable_by_user(parent.as_fd(), name, acting);
            checked.map_err(|errno| about(errno, Phase::Open, path))?;
        }
        Ok(used)
    }

    /// The nearest existing directory above a new name. Anything created below it is on the same
    /// file system and mount.
    fn nearest_directory(&self, path: &LogicalPath) -> Result<(OwnedFd, LogicalPath)> {
        let mut above = path.parent().unwrap_or_else(LogicalPath::root);
        loop {
            let opened = self.root.open_beneath(&above, OFlags::RDONLY | OFlags::DIRECTORY);
            match opened.and_then(|opened| opened.unchecked(&above)) {
                Err(error) if error.code() == ErrorCode::NotFound && !above.is_root() => {
                    above = above.parent().unwrap_or_else(LogicalPath::root);
                }
                opened => {
                    let opened = opened.map_err(|error| error.with_subject(path))?;
                    return Ok((opened, above));
                }
            }
        }
    }

    /// Creates the hidden part where a rename to `path` will work, and reserves its space. `parent`
    /// is the directory of the name, if it is open already.
    fn make_part(
        &self,
        path: &LogicalPath,
        parent: Option<&Directory>,
        announced: Option<u64>,
        reservation: &Reservation,
        acting: &mut Acting<'_>,
    ) -> Result<Part> {
        let failed = |errno| about(errno, Phase::Open, path);
        let part = match parent {
            Some(parent) if parent.place.home() == self.home => self.make_part_at_home(path, acting)?,
            _ => self.make_part_near(path, announced, acting)?,
        };
        if let Some(size_bytes) = announced
            && size_bytes >= PREALLOCATE_BYTES_MIN
            && (part.is_elsewhere() || !self.shared.in_memory)
        {
            match preallocate(&part.file, size_bytes) {
                Ok(true) => reservation.redeem(size_bytes),
                Ok(false) => {}
                Err(errno) => {
                    part.unlink();
                    acting.suspended(|| part.forget())?;
                    return Err(failed(errno));
                }
            }
        }
        Ok(part)
    }

    /// Creates the part on the file system of the nearest existing directory.
    fn make_part_near(&self, path: &LogicalPath, announced: Option<u64>, acting: &mut Acting<'_>) -> Result<Part> {
        let failed = |errno| about(errno, Phase::Open, path);
        let (directory, place) = self.nearest_directory(path)?;
        if place_of(&directory).map_err(failed)?.home() == self.home {
            return self.make_part_at_home(path, acting);
        }
        let (needed, reserve) = (announced.unwrap_or(0), self.shared.space.reserve_bytes());
        space::check_room(directory.as_fd(), needed, reserve).map_err(|error| error.with_subject(path))?;
        let instance = acting.suspended(|| self.instance_for_part(path))??;
        Part::make_elsewhere(&instance, directory, &place, acting)?.map_err(failed)
    }

    fn make_part_at_home(&self, path: &LogicalPath, acting: &mut Acting<'_>) -> Result<Part> {
        let by_user = acting.user().is_some();
        let made = match Part::make_at_home(&self.instance(path)?, by_user) {
            // The export's directory was emptied by hand.
            Err(Errno::NOENT) if !by_user => Part::make_at_home(&self.instance_for_part(path)?, by_user),
            made => made,
        };
        made.map_err(|errno| about(errno, Phase::Open, path))
    }
}

/// What an upload does at a name.
struct Target {
    /// The directory of the name, if no link leads there.
    parent: Option<Directory>,
    used: LinkUse<'static>,
}

/// What an upload does to what stands under its name.
fn take_name(found: Result<Stat>, overwrite: Overwrite, path: &LogicalPath) -> Result<LinkUse<'static>> {
    match found {
        Ok(stat) if stat.is_directory() => Err(fault(ErrorCode::IsDirectory, Phase::Open).with_subject(path)),
        Ok(_) if overwrite == Overwrite::Refuse => Err(fault(ErrorCode::Exists, Phase::Open).with_subject(path)),
        Ok(_) => Ok(LinkUse::Overwrite),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(LinkUse::Create),
        Err(error) => Err(error),
    }
}

/// Gives a part the group of its directory if that is set-group-ID. A file that is created there
/// inherits it, but a renamed one does not.
fn inherit_group(parent: &OwnedFd, part: &File, acting: &mut Acting<'_>) -> Result<Result<(), Errno>> {
    let group = || -> Result<Option<fs::Gid>, Errno> {
        let parent = fs::fstat(parent)?;
        let hands_on = fs::Mode::from_raw_mode(parent.st_mode).contains(fs::Mode::SGID);
        let differs = hands_on && fs::fstat(part)?.st_gid != parent.st_gid;
        Ok(differs.then(|| fs::Gid::from_raw(parent.st_gid)))
    };
    let group = match group() {
        Ok(Some(group)) => group,
        nothing => return Ok(nothing.map(drop)),
    };
    match fs::fchown(part, None, Some(group)) {
        // The user is not in the group. The server can set it, if it has the right to.
        Err(Errno::PERM) => acting.suspended(|| fs::fchown(part, None, Some(group))),
        done => Ok(done),
    }
}

/// Whether the user may replace what has this name. A symbolic link itself may be replaced.
pub(super) fn check_writable_by_user(directory: BorrowedFd<'_>, name: &str, acting: &Acting<'_>) -> Result<(), Errno> {
    match acting.user() {
        Some(_) => may(directory, name, Access::WRITE_OK),
        None => Ok(()),
    }
}

/// Whether a name may be removed from this directory. `is_asked`: the directory itself was checked
/// before.
pub(super) fn may_change_names(
    directory: BorrowedFd<'_>,
    name: &CStr,
    is_asked: bool,
    acting: &Acting<'_>,
) -> Result<(), Errno> {
    if !is_asked {
        may(directory, ".", Access::WRITE_OK | Access::EXEC_OK)?;
    }
    let uid = acting
        .user()
        .map_or_else(rustix::process::geteuid, |user| fs::Uid::from_raw(user.uid()));
    if uid.is_root() {
        return Ok(());
    }
    let raw = fs::fstat(directory)?;
    // As in /tmp: only the owner of the file or of the directory may remove a name.
    let sticky = fs::Mode::from_raw_mode(raw.st_mode).contains(fs::Mode::SVTX);
    if sticky && raw.st_uid != uid.as_raw() {
        let entry = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.st_uid != uid.as_raw() {
            return Err(Errno::PERM);
        }
    }
    Ok(())
}

/// Asks the kernel for the current thread's rights. If the kernel cannot say, the operation itself
/// will.
fn may(directory: BorrowedFd<'_>, name: &str, access: Access) -> Result<(), Errno> {
    match fs::accessat(directory, name, access, AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOSYS | Errno::INVAL) => Ok(()),
        done => done,
    }
}

/// Allocates blocks, so that a full disk is noticed now. Only some file systems can.
fn preallocate(file: &File, size_bytes: u64) -> Result<bool, Errno> {
    match fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, size_bytes) {
        Ok(()) => Ok(true),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(errno),
        Err(_) => Ok(false),
    }
}
