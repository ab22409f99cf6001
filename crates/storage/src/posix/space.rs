//! Who was promised how much room.
//!
//! Room is granted before the first byte: what the file system has, less the reserve, less what is
//! promised to running uploads and not yet written. The quota counts the bytes of the files in the
//! export; its counter starts with a scan in the background and follows every commit and removal
//! here. It is as accurate as that: files that others write or remove count from the next start-up
//! on, and one removed here while the scan runs may be missed by at most its own size.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use types::limits::SCAN_DEPTH_MAX;
use types::{ErrorCode, Phase, Result};

use super::resolve::HIDDEN_DIRECTORY;
use crate::api::Space;
use crate::fault::{fault, from_errno};

pub(crate) struct SpaceBook {
    root: OwnedFd,
    reserve_bytes: u64,
    quota_bytes: Option<u64>,
    /// Promised and not yet on the disk.
    promised_bytes: AtomicU64,
    /// Promised against the quota by uploads not yet committed.
    pending_bytes: AtomicU64,
    used_bytes: AtomicI64,
    scanned: AtomicBool,
    /// Held while a promise is weighed and made, so that two cannot be given the same room.
    admission: Mutex<()>,
}

impl SpaceBook {
    pub(crate) fn new(root: OwnedFd, reserve_bytes: u64, quota_bytes: Option<u64>) -> Self {
        Self {
            root,
            reserve_bytes,
            quota_bytes,
            promised_bytes: AtomicU64::new(0),
            pending_bytes: AtomicU64::new(0),
            used_bytes: AtomicI64::new(0),
            scanned: AtomicBool::new(quota_bytes.is_none()),
            admission: Mutex::new(()),
        }
    }

    /// Counts the files once, in the background; only a quota needs it.
    pub(crate) fn start_scan(self: &Arc<Self>) {
        if self.quota_bytes.is_none() {
            return;
        }
        let book = Arc::clone(self);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let started = (now.tv_sec as i64, now.tv_nsec as i64);
        let scan = move || {
            let bytes = count_bytes(&book.root, started, 0);
            book.used_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
            book.scanned.store(true, Ordering::Release);
        };
        // Without the thread the quota counts only what is written from now on.
        let _ = std::thread::Builder::new().name("usage-scan".to_owned()).spawn(scan);
    }

    pub(crate) fn is_scanned(&self) -> bool {
        self.scanned.load(Ordering::Acquire)
    }

    /// A change by a removal, or by a file that took another's place.
    pub(crate) fn account(&self, added_bytes: u64, removed_bytes: u64) {
        self.used_bytes
            .fetch_add(added_bytes as i64 - removed_bytes as i64, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn space(&self) -> Result<Space> {
        let disk = fs::fstatvfs(&self.root).map_err(|errno| from_errno(errno, Phase::Open))?;
        let available = disk.f_bavail * disk.f_frsize;
        let promised = self.promised_bytes.load(Ordering::Relaxed);
        let mut space = Space {
            total_bytes: disk.f_blocks * disk.f_frsize,
            free_bytes: available.saturating_sub(self.reserve_bytes).saturating_sub(promised),
            used_bytes: (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            quota_bytes: self.quota_bytes,
        };
        if let Some(quota) = self.quota_bytes {
            let taken = self.used() + self.pending_bytes.load(Ordering::Relaxed);
            space.total_bytes = space.total_bytes.min(quota);
            space.free_bytes = space.free_bytes.min(quota.saturating_sub(taken));
            space.used_bytes = self.used();
        }
        Ok(space)
    }

    fn admit(&self, bytes: u64) -> Result<()> {
        let _held = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        let space = self.space()?;
        if bytes > space.free_bytes {
            let taken = self.used() + self.pending_bytes.load(Ordering::Relaxed);
            let over_quota = self
                .quota_bytes
                .is_some_and(|quota| taken.saturating_add(bytes) > quota);
            let code = if over_quota {
                ErrorCode::QuotaExceeded
            } else {
                ErrorCode::NoSpace
            };
            let why = format!("{bytes} bytes are needed, {} are free", space.free_bytes);
            return Err(fault(code, Phase::Open).with_detail(why));
        }
        self.promised_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Room promised to one upload; given back when this is dropped.
pub(crate) struct Reservation {
    book: Arc<SpaceBook>,
    granted_bytes: Mutex<u64>,
    promised_bytes: AtomicU64,
    pending_bytes: AtomicU64,
}

impl Reservation {
    pub(crate) fn ask(book: &Arc<SpaceBook>, bytes: u64) -> Result<Self> {
        book.admit(bytes)?;
        Ok(Self {
            book: Arc::clone(book),
            granted_bytes: Mutex::new(bytes),
            promised_bytes: AtomicU64::new(bytes),
            pending_bytes: AtomicU64::new(bytes),
        })
    }

    /// Makes sure that a file of `end` bytes is covered; asks for `step` more bytes than needed
    /// when they are to be had, so that the question is not asked for every buffer.
    pub(crate) fn cover(&self, end: u64, step_bytes: u64) -> Result<()> {
        let mut granted = self.granted_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if end <= *granted {
            return Ok(());
        }
        let needed = end - *granted;
        let generous = needed.saturating_add(step_bytes);
        let more = match self.book.admit(generous) {
            Ok(()) => generous,
            Err(_) => {
                self.book
                    .admit(needed)
                    .map_err(|error| error.in_phase(Phase::Transfer))?;
                needed
            }
        };
        *granted += more;
        self.promised_bytes.fetch_add(more, Ordering::Relaxed);
        self.pending_bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// `bytes` of the promise are on the disk now, where the file system itself counts them.
    pub(crate) fn redeem(&self, bytes: u64) {
        let before = self
            .promised_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(bytes))
            });
        let redeemed = before.unwrap_or(0).min(bytes);
        self.book.promised_bytes.fetch_sub(redeemed, Ordering::Relaxed);
    }

    /// Ends the promise: the file counts from now on, or was given up.
    pub(crate) fn release(&self) {
        self.redeem(u64::MAX);
        let pending = self.pending_bytes.swap(0, Ordering::Relaxed);
        self.book.pending_bytes.fetch_sub(pending, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// Bytes of all files that did not change since `started` (those that did are counted as they are
/// committed). What cannot be read counts nothing.
#[allow(
    clippy::unnecessary_cast,
    reason = "the widths of these fields differ between machines"
)]
fn count_bytes(directory: impl AsFd, started: (i64, i64), depth: usize) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(mut entries) = fs::openat(&directory, ".", flags, Mode::empty()).and_then(Dir::new) else {
        return 0;
    };
    let mut bytes = 0;
    while let Some(Ok(entry)) = entries.read() {
        let name = entry.file_name();
        let hidden = depth == 0 && name.to_bytes() == HIDDEN_DIRECTORY.as_bytes();
        if hidden || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(raw) = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        match FileType::from_raw_mode(raw.st_mode) {
            FileType::RegularFile if (raw.st_ctime as i64, raw.st_ctime_nsec as i64) < started => {
                bytes += raw.st_size as u64
            }
            FileType::Directory if depth < SCAN_DEPTH_MAX => {
                if let Ok(below) = fs::openat(&directory, name, flags, Mode::empty()) {
                    bytes += count_bytes(below, started, depth + 1);
                }
            }
            _ => {}
        }
    }
    bytes
}
