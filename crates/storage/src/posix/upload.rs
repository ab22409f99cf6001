//! An upload of the POSIX store: a hidden part that gets its name in one step at the end.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::limits::{SPACE_STEP_BYTES, WRITEBACK_STEP_BYTES};
use rustix::fs::{self, AtFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::begin::check_writable_by_user;
use super::identity::Acting;
use super::parts::Part;
use super::reader::PosixReader;
use super::resolve::plain_stat;
use super::space::Reservation;
use super::write_lock::WriteLock;
use super::{Directory, Shared, accounts, attributes, checksum_attributes, name_not_durable, open_name, writeback};
use crate::api::{
    CommitFacts, FileReader, Kind, Overwrite, Stat, Upload, UploadOptions, check_unchanged, copy_bytes,
    seconds_and_nanoseconds,
};
use crate::fault::{about, fault, from_errno, from_io};
use crate::links::LinkUse;
use crate::name_in::NameIn;
use crate::owner::Owner;

/// Most slices in one system call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;
/// Bytes per call of `copy_file_range`.
const COPY_STEP_BYTES: usize = 64 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
}

/// The name that an upload is to get.
pub(super) struct NewName {
    pub(super) parent: Directory,
    pub(super) path: LogicalPath,
    /// Nothing had it when the upload began.
    pub(super) is_free: bool,
}

pub(super) struct PosixUpload {
    shared: Arc<Shared>,
    part: Part,
    parent: Directory,
    path: LogicalPath,
    /// Nothing had the name when the upload began.
    is_new: bool,
    announced: Option<u64>,
    overwrite: Overwrite,
    reservation: Reservation,
    /// The owner of the file, whose rights apply to the final rename.
    owner: Owner,
    /// Read-locked by each write, so that none is running when the file gets its name.
    state: RwLock<State>,
    /// Serialises concurrent writes.
    write_lock: WriteLock,
    /// Written and not yet sent to the disk.
    unsent_bytes: AtomicU64,
    /// It is a copy of another file, including its attributes.
    is_copy: AtomicBool,
}

impl PosixUpload {
    pub(super) fn new(
        shared: Arc<Shared>,
        part: Part,
        name: NewName,
        options: &UploadOptions,
        reservation: Reservation,
        owner: Owner,
    ) -> Self {
        let write_lock = WriteLock::new(shared.locks_inode);
        Self {
            shared,
            part,
            parent: name.parent,
            path: name.path,
            is_new: name.is_free,
            announced: options.size_bytes,
            overwrite: options.overwrite,
            reservation,
            owner,
            state: RwLock::new(State::Open),
            write_lock,
            unsent_bytes: AtomicU64::new(0),
            is_copy: AtomicBool::new(false),
        }
    }

    fn name(&self) -> &str {
        self.path.name().unwrap_or_default()
    }

    fn remove_part(&self) {
        // What the user may not do, the server does.
        let acting = Acting::begin(self.owner.user.as_ref());
        self.part.unlink();
        drop(acting);
        self.part.forget();
        self.reservation.release();
    }

    fn check_growth(&self, end: u64) -> Result<()> {
        match self.announced {
            Some(size) if end > size => {
                let why = format!("more than the announced {size} bytes arrived");
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer);
                Err(error.with_detail(why).with_subject(&self.path))
            }
            Some(_) => Ok(()),
            None => self.reservation.cover(end, SPACE_STEP_BYTES),
        }
    }

    fn failed(&self, errno: Errno, phase: Phase) -> Error {
        about(errno, phase, &self.path)
    }

    /// Gives the part its final state and makes it durable. Returns whether checksums are stored
    /// with it too.
    fn seal(&self, facts: &CommitFacts) -> Result<(Stat, bool)> {
        let failed = |errno| self.failed(errno, Phase::Commit);
        let held = fs::fstat(&self.part.file).map_err(failed)?;
        if held.st_size as u64 != facts.size_bytes || self.announced.is_some_and(|size| size != facts.size_bytes) {
            let announced = self.announced.unwrap_or(facts.size_bytes);
            let why = format!("{} bytes are stored, expected {announced}", held.st_size);
            return Err(Error::new(ErrorCode::BodyIncomplete, Side::Source, Phase::Commit)
                .with_detail(why)
                .with_subject(&self.path));
        }
        if let Some(modified) = facts.modified {
            let (tv_sec, nanoseconds) = seconds_and_nanoseconds(modified);
            let last_modification = Timespec {
                tv_sec,
                tv_nsec: nanoseconds.into(),
            };
            let last_access = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            };
            fs::futimens(
                &self.part.file,
                &Timestamps {
                    last_access,
                    last_modification,
                },
            )
            .map_err(failed)?;
        }
        if let Some(mode) = facts.mode {
            // The file is complete; failing to set its mode is no reason to refuse it.
            let _ = fs::fchmod(&self.part.file, fs::Mode::from_raw_mode((mode & 0o777) as fs::RawMode));
        }
        let raw = match facts.modified.is_some() || facts.mode.is_some() {
            true => fs::fstat(&self.part.file).map_err(failed)?,
            false => held,
        };
        let stat = plain_stat(&raw, Kind::File);
        let is_kept = checksum_attributes::write_first(self.part.file.as_fd(), &stat, &facts.checksums);
        if let Some(vo) = &self.owner.vo {
            accounts::record_vo(self.part.file.as_fd(), vo);
        }
        fs::fsync(&self.part.file).map_err(failed)?;
        Ok((stat, is_kept))
    }

    /// Whether the directory still has the name under which the file was to be stored. If it was
    /// moved, other rules apply and its files belong to others.
    fn check_parent(&self) -> Result<()> {
        let parent = self.shared.root.open_parent(&self.path)?;
        let resolution = parent.resolution.clone();
        let (named, name) = parent.unchecked(&self.path)?;
        if resolution.is_link() {
            let used = match open_name(named.as_fd(), name) {
                Ok(_) => LinkUse::Overwrite,
                Err(_) => LinkUse::Create,
            };
            let checked = resolution.check(self.owner.links.as_ref(), used);
            checked.map_err(|error| error.with_subject(&self.path))?;
        }
        let named = fs::fstat(&named).map_err(|errno| self.failed(errno, Phase::Commit))?;
        if (named.st_dev, named.st_ino) == self.parent.place.identity() {
            return Ok(());
        }
        Err(fault(ErrorCode::ParentMissing, Phase::Commit)
            .with_detail("the directory was moved or replaced during the upload")
            .with_subject(&self.path))
    }

    /// Renames the part to its final name; returns the file that it replaced.
    fn place(&self, acting: &mut Acting<'_>) -> Result<Option<OwnedFd>> {
        let not_placed = |errno| match errno {
            Errno::ISDIR | Errno::NOTEMPTY => fault(ErrorCode::IsDirectory, Phase::Commit).with_subject(&self.path),
            Errno::NOENT => fault(ErrorCode::ParentMissing, Phase::Commit).with_subject(&self.path),
            errno => self.failed(errno, Phase::Commit),
        };
        let (home, part) = self.part.place();
        let (part, name) = (NameIn::new(&home, part), NameIn::new(&self.parent.opened, self.name()));
        if self.overwrite == Overwrite::Refuse {
            return rename_new(part, name).map(|()| None).map_err(not_placed);
        }
        if self.is_new {
            match fs::renameat_with(
                part.directory,
                part.name,
                name.directory,
                name.name,
                RenameFlags::NOREPLACE,
            ) {
                // Something was created there since the upload began, or the system cannot say.
                Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    acting.suspended(|| self.keep_dead_properties())?.map_err(not_placed)?;
                }
                placed => return placed.map(|()| None).map_err(not_placed),
            }
        }
        let old = open_name(name.directory, name.name).ok();
        if old.is_some() {
            check_writable_by_user(name.directory, name.name, acting).map_err(not_placed)?;
        }
        let placed = fs::renameat(part.directory, part.name, name.directory, name.name);
        placed.map(|()| old).map_err(not_placed)
    }

    /// Dead properties belong to the name, not to the content: new content keeps them, and they are
    /// as durable as that.
    fn keep_dead_properties(&self) -> Result<(), Errno> {
        if self.overwrite == Overwrite::Allow && !self.is_copy.load(Ordering::Relaxed) {
            let held = attributes::dead_properties_in(self.parent.opened.as_fd(), self.name());
            // Where they cannot be stored, the content matters more.
            if !held.is_empty()
                && attributes::set_dead_properties(self.part.file.as_fd(), &self.path, &held).is_ok()
                && self.is_new
            {
                return fs::fsync(&self.part.file);
            }
        }
        Ok(())
    }

    fn finish(&self, facts: &CommitFacts) -> Result<Stat> {
        if !self.is_new {
            let kept = self.keep_dead_properties();
            kept.map_err(|errno| self.failed(errno, Phase::Commit))?;
        }
        let mut acting = Acting::begin(self.owner.user.as_ref())?;
        let (stat, is_kept) = self.seal(facts)?;
        let directories = self.shared.directories.read().unwrap_or_else(PoisonError::into_inner);
        self.check_parent().map_err(|error| error.in_phase(Phase::Commit))?;
        let alone = self.shared.space.change_names();
        let old = self.place(&mut acting)?;
        // The rest is done as the server.
        drop((acting, directories));
        self.reservation.count(facts.size_bytes);
        if let Some(old) = old {
            self.shared.space.forget(old.as_fd(), &self.path);
            self.shared.late_close.close(old);
        }
        drop(alone);
        if !is_kept {
            // After the rename, because it changes the inode's timestamp.
            self.shared.checksum_cache.add(&self.part.file, &stat, &facts.checksums);
        }
        self.reservation.release();
        self.part.forget();
        Ok(stat)
    }
}

/// Copies the first bytes of another file into a new one, sharing blocks where the file system can.
pub(super) fn copy_content(source: &File, target: &File, size_bytes: u64) -> Result<(), Errno> {
    if fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    let (mut from, mut to) = (0, 0);
    while to < size_bytes {
        let step = COPY_STEP_BYTES.min((size_bytes - to) as usize);
        match fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), step) {
            Ok(count) if count > 0 => {}
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
            // Not between these file systems, or it ended early: copy through a buffer from here
            // on.
            _ => break,
        }
    }
    let mut buffer = vec![0; types::limits::BUFFER_BYTES];
    while to < size_bytes {
        let wanted = buffer.len().min((size_bytes - to) as usize);
        let count = rustix::io::pread(source, &mut buffer[..wanted], to)?;
        if count == 0 {
            return Ok(());
        }
        write_fully(target, &[IoSlice::new(&buffer[..count])], to)?;
        to += count as u64;
    }
    Ok(())
}

/// Renames only if the target does not exist. On file systems that cannot, a hard link does the
/// same for files.
pub(super) fn rename_new(from: NameIn<'_>, to: NameIn<'_>) -> Result<(), Errno> {
    let (old, new) = (from.directory, to.directory);
    match fs::renameat_with(old, from.name, new, to.name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::linkat(old, from.name, new, to.name, AtFlags::empty())?;
            fs::unlinkat(old, from.name, AtFlags::empty())
        }
        done => done,
    }
}

impl Upload for PosixUpload {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let end = offset
            .checked_add(length)
            .ok_or_else(|| self.failed(Errno::FBIG, Phase::Transfer))?;
        self.check_growth(end)?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Transfer).with_subject(&self.path));
        }
        let guard = self.write_lock.lock();
        write_fully(&self.part.file, slices, offset).map_err(|errno| self.failed(errno, Phase::Transfer))?;
        drop(guard);
        self.reservation.redeem(length);
        if !self.shared.in_memory
            && self.unsent_bytes.fetch_add(length, Ordering::Relaxed) + length >= WRITEBACK_STEP_BYTES
        {
            self.unsent_bytes.store(0, Ordering::Relaxed);
            writeback::start(&self.part.file);
        }
        Ok(())
    }

    fn set_length(&self, size_bytes: u64) -> Result<()> {
        self.check_growth(size_bytes)?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Transfer).with_subject(&self.path));
        }
        fs::ftruncate(&self.part.file, size_bytes).map_err(|errno| self.failed(errno, Phase::Transfer))
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        reader_of(&self.part.file, &self.path)
    }

    fn stat(&self) -> Result<Stat> {
        let raw = fs::fstat(&self.part.file).map_err(|errno| self.failed(errno, Phase::Transfer))?;
        Ok(plain_stat(&raw, Kind::File))
    }

    fn commit(&self, facts: &CommitFacts) -> Result<Stat> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Commit).with_subject(&self.path));
        }
        *state = State::Ended;
        let stat = self.finish(facts).inspect_err(|_| self.remove_part())?;
        let Directory { opened, place } = &self.parent;
        let synced = self.shared.group_sync.sync_known(place.identity(), opened);
        synced.map_err(|errno| name_not_durable(errno, &self.path))?;
        Ok(stat)
    }

    fn abort(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Open {
            *state = State::Ended;
            self.remove_part();
        }
    }

    fn copy_from(&self, source: &dyn FileReader) -> Result<u64> {
        let size_bytes = source.stat().size_bytes;
        self.check_growth(size_bytes)?;
        self.is_copy.store(true, Ordering::Relaxed);
        let Some(file) = source.as_file() else {
            return copy_bytes(source, self, 0);
        };
        attributes::carry(file.as_fd(), self.part.file.as_fd());
        if fs::ioctl_ficlone(&self.part.file, file).is_ok() {
            self.reservation.redeem(size_bytes);
            // The checksums that go with it are those of the old content.
            check_unchanged(source)?;
            return Ok(size_bytes);
        }
        let (mut from, mut to) = (0, 0);
        while to < size_bytes {
            let step = COPY_STEP_BYTES.min((size_bytes - to) as usize);
            match fs::copy_file_range(file, Some(&mut from), &self.part.file, Some(&mut to), step) {
                Ok(count) if count > 0 => self.reservation.redeem(count as u64),
                Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(self.failed(errno, Phase::Transfer)),
                // Not between these file systems: copy through a buffer from here on.
                _ => break,
            }
        }
        copy_bytes(source, self, to)
    }
}

impl Drop for PosixUpload {
    fn drop(&mut self) {
        self.abort();
    }
}

/// A reader of the file in its current state.
pub(super) fn reader_of(file: &File, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
    let failed = |errno| from_errno(errno, Phase::Checksum).with_subject(path);
    let file = file.try_clone().map_err(|error| from_io(&error, Phase::Checksum))?;
    let stat = plain_stat(&fs::fstat(&file).map_err(failed)?, Kind::File);
    Ok(Arc::new(PosixReader::new(file, stat)))
}

pub(super) fn write_fully(file: &File, slices: &[IoSlice<'_>], mut offset: u64) -> Result<(), Errno> {
    for group in slices.chunks(SLICES_MAX) {
        let length: usize = group.iter().map(|slice| slice.len()).sum();
        let mut done = pwritev(file, group, offset)?;
        offset += done as u64;
        if done == length {
            continue;
        }
        // Short writes are rare (a signal, a nearly full disk): only then is a copy of the list
        // made.
        let mut left = group.to_vec();
        let mut left = left.as_mut_slice();
        let mut advance = done;
        while done < length {
            IoSlice::advance_slices(&mut left, advance);
            advance = pwritev(file, left, offset)?;
            if advance == 0 {
                return Err(Errno::IO);
            }
            done += advance;
            offset += advance as u64;
        }
    }
    Ok(())
}

fn pwritev(file: &File, slices: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
    loop {
        match rustix::io::pwritev(file, slices, offset) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
