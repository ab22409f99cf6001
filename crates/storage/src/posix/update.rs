//! A file that is changed in place: the exception among uploads, see
//! [`Storage::open_update`](crate::Storage::open_update).

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::SPACE_STEP_BYTES;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::identity::Acting;
use super::resolve::plain_stat;
use super::space::Reservation;
use super::upload::{reader_of, write_fully};
use super::{Shared, checksum_attributes, is_same};
use crate::api::{CommitFacts, FileReader, Kind, Stat, Upload};
use crate::fault::{about, fault};
use crate::owner::LocalUser;

pub(super) struct PosixUpdate {
    shared: Arc<Shared>,
    file: File,
    path: LogicalPath,
    /// The client that changes it.
    user: Option<Arc<LocalUser>>,
    /// Space for the growth of the file.
    reservation: Reservation,
    /// Its size when it was opened.
    first_bytes: u64,
    /// The highest end of all writes.
    reached_bytes: AtomicU64,
    changed: AtomicBool,
    ended: Mutex<bool>,
}

impl PosixUpdate {
    pub(super) fn new(
        shared: &Arc<Shared>,
        file: File,
        stat: &Stat,
        path: &LogicalPath,
        user: Option<Arc<LocalUser>>,
    ) -> Result<Self> {
        let space = &shared.space;
        let charges = space.charges(file.as_fd(), path);
        Ok(Self {
            shared: Arc::clone(shared),
            file,
            path: path.clone(),
            user,
            reservation: Reservation::ask(space, 0, charges)?,
            first_bytes: stat.size_bytes,
            reached_bytes: AtomicU64::new(stat.size_bytes),
            changed: AtomicBool::new(false),
            ended: Mutex::new(false),
        })
    }

    fn failed(&self, errno: Errno, phase: Phase) -> Error {
        about(errno, phase, &self.path)
    }

    /// Call before the file is changed up to `end`.
    fn before_change(&self, end: u64) -> Result<()> {
        if *self.ended.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(fault(ErrorCode::Cancelled, Phase::Transfer).with_subject(&self.path));
        }
        self.reservation
            .cover(end.saturating_sub(self.first_bytes), SPACE_STEP_BYTES)?;
        if !self.changed.swap(true, Ordering::Relaxed) {
            let _acting = Acting::begin(self.user.as_ref())?;
            checksum_attributes::remove(self.file.as_fd());
        }
        Ok(())
    }

    /// Whether the file still has its name. A client must not believe that it stored something in a
    /// file that was replaced, removed or moved away.
    fn check_name(&self) -> Result<()> {
        let failed = |errno| self.failed(errno, Phase::Commit);
        let held = fs::fstat(&self.file).map_err(failed)?;
        let acting = Acting::begin(self.user.as_ref())?;
        // Compare with what was checked at the open.
        let named = self.shared.root.open_beneath(&self.path, OFlags::PATH);
        let named = match named.and_then(|named| named.unchecked(&self.path)) {
            Ok(named) => Some(fs::fstat(named).map_err(failed)?),
            Err(error) if error.code() == ErrorCode::NotFound => None,
            Err(error) => return Err(error.in_phase(Phase::Commit)),
        };
        drop(acting);
        if named.is_some_and(|named| is_same(&held, &named)) {
            return Ok(());
        }
        Err(fault(ErrorCode::NotFound, Phase::Commit)
            .with_detail("the file was replaced, removed or moved meanwhile")
            .with_subject(&self.path))
    }

    /// Counts the final size, once.
    fn end(&self) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *ended, true) {
            return false;
        }
        if let Ok(now) = fs::fstat(&self.file) {
            self.shared
                .space
                .resized(self.first_bytes, now.st_size as u64, self.reservation.charges());
        }
        self.reservation.release();
        true
    }
}

impl Upload for PosixUpdate {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let end = offset
            .checked_add(length)
            .ok_or_else(|| self.failed(Errno::FBIG, Phase::Transfer))?;
        self.before_change(end)?;
        write_fully(&self.file, slices, offset).map_err(|errno| self.failed(errno, Phase::Transfer))?;
        let before = self.reached_bytes.fetch_max(end, Ordering::Relaxed);
        self.reservation.redeem(end.saturating_sub(before));
        Ok(())
    }

    fn set_length(&self, size_bytes: u64) -> Result<()> {
        // Only a file that still has its name may be cut.
        self.check_name()?;
        self.before_change(size_bytes)?;
        fs::ftruncate(&self.file, size_bytes).map_err(|errno| self.failed(errno, Phase::Transfer))
    }

    fn sync(&self) -> Result<()> {
        fs::fsync(&self.file).map_err(|errno| self.failed(errno, Phase::Commit))?;
        self.check_name()
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        reader_of(&self.file, &self.path)
    }

    fn stat(&self) -> Result<Stat> {
        let raw = fs::fstat(&self.file).map_err(|errno| self.failed(errno, Phase::Transfer))?;
        Ok(plain_stat(&raw, Kind::File))
    }

    /// Only makes durable: the file has its name already, and any size is right.
    fn commit(&self, _facts: &CommitFacts) -> Result<Stat> {
        if !self.end() {
            return Err(fault(ErrorCode::Cancelled, Phase::Commit).with_subject(&self.path));
        }
        if self.changed.load(Ordering::Relaxed) {
            self.sync()?;
        }
        let raw = fs::fstat(&self.file).map_err(|errno| self.failed(errno, Phase::Commit))?;
        Ok(plain_stat(&raw, Kind::File))
    }

    fn abort(&self) {
        self.end();
    }
}

impl Drop for PosixUpdate {
    fn drop(&mut self) {
        self.end();
    }
}
