//! An upload of the POSIX store: a hidden part that takes its name in one step at the end.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use types::limits::{SPACE_STEP_BYTES, WRITEBACK_STEP_BYTES};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::marks;
use super::parts::Instance;
use super::reader::PosixReader;
use super::resolve::plain_stat;
use super::space::Reservation;
use super::{Shared, writeback};
use crate::api::{CommitFacts, FileReader, Kind, Overwrite, Stat, Upload, copy_bytes, seconds_and_nanoseconds};
use crate::fault::{about, fault, from_errno, from_io};

/// Most slices in one system call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;
/// Bytes that one `copy_file_range` is asked for.
const COPY_STEP_BYTES: usize = 64 * 1024 * 1024;

/// The hidden file that an upload writes to.
pub(super) struct Part {
    pub(super) id: String,
    pub(super) name: String,
    /// The directory it lies in when that is not the instance's own.
    pub(super) beside: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
}

pub(super) struct PosixUpload {
    pub(super) shared: Arc<Shared>,
    pub(super) instance: Arc<Instance>,
    pub(super) file: File,
    pub(super) parent: OwnedFd,
    pub(super) path: LogicalPath,
    pub(super) part: Part,
    pub(super) announced: Option<u64>,
    pub(super) overwrite: Overwrite,
    pub(super) reservation: Reservation,
    progress: Progress,
}

struct Progress {
    /// Held for reading by each write, so that none is under way when the file takes its name.
    state: RwLock<State>,
    unsent_bytes: AtomicU64,
}

/// What an upload starts with; see [`PosixUpload`].
pub(super) struct Start {
    pub(super) shared: Arc<Shared>,
    pub(super) instance: Arc<Instance>,
    pub(super) file: File,
    pub(super) parent: OwnedFd,
    pub(super) path: LogicalPath,
    pub(super) part: Part,
    pub(super) announced: Option<u64>,
    pub(super) overwrite: Overwrite,
    pub(super) reservation: Reservation,
}

impl PosixUpload {
    pub(super) fn new(start: Start) -> Self {
        let Start {
            shared,
            instance,
            file,
            parent,
            path,
            part,
            announced,
            overwrite,
            reservation,
        } = start;
        let progress = Progress {
            state: RwLock::new(State::Open),
            unsent_bytes: AtomicU64::new(0),
        };
        Self {
            shared,
            instance,
            file,
            parent,
            path,
            part,
            announced,
            overwrite,
            reservation,
            progress,
        }
    }

    fn name(&self) -> &str {
        self.path.name().unwrap_or_default()
    }

    fn part_directory(&self) -> BorrowedFd<'_> {
        if self.part.beside {
            self.parent.as_fd()
        } else {
            self.instance.directory()
        }
    }

    /// Removes the part if the name still means the file that this upload opened.
    fn remove_part(&self) {
        let ours = fs::fstat(&self.file);
        let there = fs::statat(
            self.part_directory(),
            self.part.name.as_str(),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        if let (Ok(ours), Ok(there)) = (ours, there)
            && (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        {
            // If this fails the next start-up removes it.
            let _ = fs::unlinkat(self.part_directory(), self.part.name.as_str(), AtFlags::empty());
        }
        if self.part.beside {
            self.instance.forget_elsewhere(&self.part.id);
        }
        self.reservation.release();
    }

    fn check_growth(&self, end: u64) -> Result<()> {
        match self.announced {
            Some(size) if end > size => {
                let why = format!("{size} bytes were announced and more came");
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

    fn seal(&self, facts: &CommitFacts) -> Result<Stat> {
        let failed = |errno| self.failed(errno, Phase::Commit);
        let held = fs::fstat(&self.file).map_err(failed)?;
        if held.st_size as u64 != facts.size_bytes || self.announced.is_some_and(|size| size != facts.size_bytes) {
            let announced = self.announced.unwrap_or(facts.size_bytes);
            let why = format!("{} bytes are stored, {announced} were expected", held.st_size);
            return Err(fault(ErrorCode::BodyIncomplete, Phase::Commit)
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
                &self.file,
                &Timestamps {
                    last_access,
                    last_modification,
                },
            )
            .map_err(failed)?;
        }
        let raw = fs::fstat(&self.file).map_err(failed)?;
        let stat = plain_stat(&raw, Kind::File);
        marks::keep(self.file.as_fd(), &stat, &facts.checksums);
        fs::fsync(&self.file).map_err(failed)?;
        Ok(stat)
    }

    /// Puts the part under its name; returns the file that was there.
    fn place(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let old = fs::openat(&self.parent, self.name(), flags, Mode::empty()).ok();
        let (from, part, name) = (self.part_directory(), self.part.name.as_str(), self.name());
        match self.overwrite {
            Overwrite::Allow => fs::renameat(from, part, &self.parent, name)?,
            Overwrite::Refuse => rename_new(from, part, self.parent.as_fd(), name)?,
        }
        Ok(old)
    }

    fn finish(&self, facts: &CommitFacts) -> Result<Stat> {
        let stat = self.seal(facts)?;
        let old = self.place().map_err(|errno| match errno {
            Errno::ISDIR | Errno::NOTEMPTY => fault(ErrorCode::IsDirectory, Phase::Commit).with_subject(&self.path),
            Errno::NOENT => fault(ErrorCode::ParentMissing, Phase::Commit).with_subject(&self.path),
            errno => self.failed(errno, Phase::Commit),
        })?;
        self.reservation.release();
        let replaced_bytes = old.as_ref().map_or(0, |old| last_link_bytes(old.as_fd()));
        self.shared.space.account(facts.size_bytes, replaced_bytes);
        if let Some(old) = old {
            self.shared.late_close.close(old);
        }
        if self.part.beside {
            self.instance.forget_elsewhere(&self.part.id);
        }
        Ok(stat)
    }
}

/// Bytes that go away with this file: those of a regular file that has no other name left.
pub(super) fn last_link_bytes(file: BorrowedFd<'_>) -> u64 {
    match fs::fstat(file) {
        Ok(raw) if raw.st_nlink == 0 && FileType::from_raw_mode(raw.st_mode) == FileType::RegularFile => {
            raw.st_size as u64
        }
        _ => 0,
    }
}

/// Renames where nothing is; on file systems that cannot, a second link does the same for files.
pub(super) fn rename_new(from: BorrowedFd<'_>, name: &str, to: BorrowedFd<'_>, new: &str) -> Result<(), Errno> {
    match fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::linkat(from, name, to, new, AtFlags::empty())?;
            fs::unlinkat(from, name, AtFlags::empty())
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
        let state = self.progress.state.read().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Transfer).with_subject(&self.path));
        }
        write_fully(&self.file, slices, offset).map_err(|errno| self.failed(errno, Phase::Transfer))?;
        self.reservation.redeem(length);
        if !self.shared.in_memory
            && self.progress.unsent_bytes.fetch_add(length, Ordering::Relaxed) + length >= WRITEBACK_STEP_BYTES
        {
            self.progress.unsent_bytes.store(0, Ordering::Relaxed);
            writeback::start(&self.file);
        }
        Ok(())
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        let failed = |errno| from_errno(errno, Phase::Checksum).with_subject(&self.path);
        let file = self
            .file
            .try_clone()
            .map_err(|error| from_io(&error, Phase::Checksum))?;
        let stat = plain_stat(&fs::fstat(&file).map_err(failed)?, Kind::File);
        Ok(Arc::new(PosixReader { file, stat }))
    }

    fn commit(&self, facts: &CommitFacts) -> Result<Stat> {
        let mut state = self.progress.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Commit).with_subject(&self.path));
        }
        *state = State::Ended;
        let stat = self.finish(facts).inspect_err(|_| self.remove_part())?;
        // The file is in its place and whole; if this fails only its name may be lost in a power cut.
        fs::fsync(&self.parent).map_err(|errno| self.failed(errno, Phase::Commit))?;
        Ok(stat)
    }

    fn abort(&self) {
        let mut state = self.progress.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Open {
            *state = State::Ended;
            self.remove_part();
        }
    }

    fn copy_from(&self, source: &dyn FileReader) -> Result<u64> {
        let size_bytes = source.stat().size_bytes;
        self.check_growth(size_bytes)?;
        let Some(file) = source.as_file() else {
            return copy_bytes(source, self, 0);
        };
        if fs::ioctl_ficlone(&self.file, file).is_ok() {
            self.reservation.redeem(size_bytes);
            return Ok(size_bytes);
        }
        let (mut from, mut to) = (0, 0);
        while to < size_bytes {
            let step = COPY_STEP_BYTES.min((size_bytes - to) as usize);
            match fs::copy_file_range(file, Some(&mut from), &self.file, Some(&mut to), step) {
                Ok(count) if count > 0 => self.reservation.redeem(count as u64),
                Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(self.failed(errno, Phase::Transfer)),
                // Not between these file systems: by hand from here on.
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

fn write_fully(file: &File, slices: &[IoSlice<'_>], mut offset: u64) -> Result<(), Errno> {
    for group in slices.chunks(SLICES_MAX) {
        let length: usize = group.iter().map(|slice| slice.len()).sum();
        let mut done = pwritev(file, group, offset)?;
        offset += done as u64;
        // Short writes are rare (a signal, a disk about to be full): only then is a copy made.
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
