//! Reservation of space for uploads, and the counting of usage for quotas.
//!
//! Space is reserved before the first byte: from what the file system has, minus the reserve, minus
//! what is reserved for running uploads and not written yet. The quota counts the bytes of all
//! files in the export: a background scan counts the existing ones, and commits and removals update
//! the counter. Quotas of VOs ([`super::accounts`]) work the same way.
//!
//! Accuracy: files that other programs write or remove count from the next start-up on. Until the
//! first scan ends, files that it has not reached do not count, so uploads may be accepted that
//! would be refused later; in return an export with millions of files is usable at once. An old
//! file that is removed during the scan counts until the next start-up, because it is unknown
//! whether the scan has reached it: this error is on the safe side.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::SCAN_DEPTH_MAX;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, StatxFlags};
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::accounts::{Account, Accounts, Charges};
use super::resolve::HIDDEN_DIRECTORY;
use crate::api::Space;
use crate::fault::{fault, from_errno};

/// The size of a file system that reports none: the largest possible file.
const SIZE_UNKNOWN: u64 = i64::MAX as u64;

/// Seconds and nanoseconds since the epoch.
type Moment = (i64, i64);

pub(crate) struct SpaceUsage {
    root: OwnedFd,
    /// The number of the file system, which stays the same while `root` is open.
    device: Option<u64>,
    reserve_bytes: u64,
    quota_bytes: Option<u64>,
    /// The usage of each VO.
    accounts: Accounts,
    /// Reserved and not yet on the disk.
    promised_bytes: AtomicU64,
    /// Reserved against the quota by uploads that are not committed.
    pending_bytes: AtomicU64,
    used_bytes: AtomicI64,
    scanned: AtomicBool,
    /// When counting began: files created later are counted at commit.
    started: Moment,
    /// Held while a name gets another file, so that each replaced file is subtracted once.
    names: Mutex<()>,
    /// Held while a reservation is checked and made, so that two uploads cannot get the same space.
    admission: Mutex<()>,
}

impl SpaceUsage {
    pub(crate) fn new(root: OwnedFd, reserve_bytes: u64, quota_bytes: Option<u64>, accounts: Accounts) -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Self {
            device: fs::fstat(&root).ok().map(|facts| facts.st_dev),
            root,
            reserve_bytes,
            quota_bytes,
            promised_bytes: AtomicU64::new(0),
            pending_bytes: AtomicU64::new(0),
            used_bytes: AtomicI64::new(0),
            scanned: AtomicBool::new(quota_bytes.is_none() && accounts.is_empty()),
            accounts,
            started: (now.tv_sec, now.tv_nsec),
            names: Mutex::new(()),
            admission: Mutex::new(()),
        }
    }

    /// Whether any quota exists, so that files are counted.
    pub(crate) fn counts(&self) -> bool {
        self.quota_bytes.is_some() || !self.accounts.is_empty()
    }

    /// The accounts of VOs.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Counts the files once, in the background, if there is a quota.
    pub(crate) fn start_scan(self: &Arc<Self>) {
        if !self.counts() {
            return;
        }
        let usage = Arc::clone(self);
        let scan = move || {
            usage.count(&usage.root, &LogicalPath::root(), 0);
            usage.scanned.store(true, Ordering::Release);
        };
        // Without the thread the quota counts only what is written from now on.
        let _ = execution::start_thread("usage-scan", scan);
    }

    /// Adds the bytes of all files that existed when counting began, directory by directory.
    /// Unreadable files count nothing.
    fn count(&self, directory: impl AsFd, path: &LogicalPath, depth: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(mut entries) = fs::openat(&directory, ".", flags, Mode::empty()).and_then(Dir::new) else {
            return;
        };
        let mut bytes = 0;
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name();
            let hidden = depth == 0 && name.to_bytes() == HIDDEN_DIRECTORY.as_bytes();
            if hidden || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match facts(directory.as_fd(), name) {
                Some(found) if found.kind == FileType::RegularFile && found.born < self.started => {
                    bytes += found.size_bytes;
                    self.count_for_vo(directory.as_fd(), name, path, &found);
                }
                Some(found) if found.kind == FileType::Directory && depth < SCAN_DEPTH_MAX => {
                    // A name that no path can hold is in no quota of its own.
                    let inner = name.to_str().ok().and_then(|name| path.join(name).ok());
                    if let Ok(below) = fs::openat(&directory, name, flags, Mode::empty()) {
                        self.count(below, inner.as_ref().unwrap_or(path), depth + 1);
                    }
                }
                _ => {}
            }
        }
        self.add(bytes);
    }

    fn count_for_vo(&self, directory: BorrowedFd<'_>, name: &CStr, path: &LogicalPath, found: &Facts) {
        if self.accounts.is_empty() {
            return;
        }
        let vo = self.accounts.vo_in(directory, name, found.uid);
        for account in self.accounts.of(path, vo.as_deref()) {
            account.add(found.size_bytes as i64);
        }
    }

    pub(crate) fn is_scanned(&self) -> bool {
        self.scanned.load(Ordering::Acquire)
    }

    /// Free space that uploads must leave, in bytes.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Hold this while a name gets another file or none, until that is counted. Without a quota it
    /// locks nothing.
    pub(crate) fn change_names(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts().then(lock)
    }

    /// Adds this many bytes to the export's usage.
    fn add(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Changes the size of a file that is already counted, also in these accounts.
    pub(crate) fn resized(&self, before_bytes: u64, after_bytes: u64, charges: &Charges) {
        let more = after_bytes as i64 - before_bytes as i64;
        self.used_bytes.fetch_add(more, Ordering::Relaxed);
        charges.iter().for_each(|account| account.add(more));
    }

    /// What to charge an open file to at this path. Ask as the server, which may read every mark.
    pub(crate) fn charges(&self, file: BorrowedFd<'_>, path: &LogicalPath) -> Charges {
        if self.accounts.is_empty() {
            return Charges::new();
        }
        let uid = fs::fstat(file).map_or(u32::MAX, |raw| raw.st_uid);
        self.accounts.of(path, self.accounts.vo_of(file, uid).as_deref())
    }

    /// A file has lost this name. It no longer counts if that was its last one.
    pub(crate) fn forget(&self, file: BorrowedFd<'_>, path: &LogicalPath) {
        if !self.counts() {
            return;
        }
        if let Some(gone) = facts(file, c"")
            && gone.kind == FileType::RegularFile
            && gone.names == 0
            && (gone.born >= self.started || self.is_scanned())
        {
            self.used_bytes.fetch_sub(gone.size_bytes as i64, Ordering::Relaxed);
            for account in self.charges(file, path) {
                account.add(-(gone.size_bytes as i64));
            }
        }
    }

    /// Prepares a rename that changes the accounts of a file; the new ones must have room. Returns
    /// what to do once the file is renamed.
    pub(crate) fn moving(
        &self,
        file: BorrowedFd<'_>,
        from: &LogicalPath,
        to: &LogicalPath,
    ) -> Result<impl FnOnce() + use<>> {
        let (before, after) = match self.accounts.is_empty() {
            true => (Charges::new(), Charges::new()),
            false => (self.charges(file, from), self.charges(file, to)),
        };
        let size_bytes = match (before.is_empty(), after.is_empty()) {
            (true, true) => 0,
            _ => facts(file, c"").map_or(0, |found| found.size_bytes),
        };
        let new = |account: &&Arc<Account>| before.iter().all(|old| !Arc::ptr_eq(old, account));
        after
            .iter()
            .filter(new)
            .try_for_each(|account| account.check(size_bytes))?;
        Ok(move || {
            before.iter().for_each(|account| account.add(-(size_bytes as i64)));
            after.iter().for_each(|account| account.add(size_bytes as i64));
        })
    }

    fn used(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn space(&self) -> Result<Space> {
        let disk = Disk::of(self.root.as_fd())?;
        let promised = self.promised_bytes.load(Ordering::Relaxed);
        let mut space = Space {
            total_bytes: disk.total_bytes,
            free_bytes: disk
                .available_bytes
                .saturating_sub(self.reserve_bytes)
                .saturating_sub(promised),
            used_bytes: disk.used_bytes,
            quota_bytes: self.quota_bytes,
            device: self.device,
        };
        if let Some(quota) = self.quota_bytes {
            let taken = self.used() + self.pending_bytes.load(Ordering::Relaxed);
            space.total_bytes = space.total_bytes.min(quota);
            space.free_bytes = space.free_bytes.min(quota.saturating_sub(taken));
            space.used_bytes = self.used();
        }
        Ok(space)
    }

    fn admit(&self, bytes: u64, charges: &Charges) -> Result<()> {
        // The size of an upload may be unknown; its first bytes ask.
        if bytes == 0 {
            return Ok(());
        }
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
            return Err(no_room(code, bytes, space.free_bytes));
        }
        charges.iter().try_for_each(|account| account.check(bytes))?;
        self.promised_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        charges.iter().for_each(|account| account.promise(bytes));
        Ok(())
    }
}

/// Space reserved for one upload; given back on drop.
pub(crate) struct Reservation {
    usage: Arc<SpaceUsage>,
    /// The accounts that the file will be charged to.
    charges: Charges,
    granted_bytes: Mutex<u64>,
    promised_bytes: AtomicU64,
    pending_bytes: AtomicU64,
}

impl Reservation {
    pub(crate) fn ask(usage: &Arc<SpaceUsage>, bytes: u64, charges: Charges) -> Result<Self> {
        usage.admit(bytes, &charges)?;
        Ok(Self {
            usage: Arc::clone(usage),
            charges,
            granted_bytes: Mutex::new(bytes),
            promised_bytes: AtomicU64::new(bytes),
            pending_bytes: AtomicU64::new(bytes),
        })
    }

    /// Makes sure that a file of `end` bytes is covered. Reserves up to `step_bytes` more if
    /// available, so that not every buffer needs a reservation.
    pub(crate) fn cover(&self, end: u64, step_bytes: u64) -> Result<()> {
        let mut granted = self.granted_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if end <= *granted {
            return Ok(());
        }
        let needed = end - *granted;
        let generous = needed.saturating_add(step_bytes);
        let more = match self.usage.admit(generous, &self.charges) {
            Ok(()) => generous,
            Err(_) => {
                self.usage
                    .admit(needed, &self.charges)
                    .map_err(|error| error.in_phase(Phase::Transfer))?;
                needed
            }
        };
        *granted += more;
        self.promised_bytes.fetch_add(more, Ordering::Relaxed);
        self.pending_bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// `bytes` of the reservation are on the disk now, where the file system counts them.
    pub(crate) fn redeem(&self, bytes: u64) {
        let before = self
            .promised_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(bytes))
            });
        let redeemed = before.unwrap_or(0).min(bytes);
        self.usage.promised_bytes.fetch_sub(redeemed, Ordering::Relaxed);
    }

    /// The file has its name, and counts from now on.
    pub(crate) fn count(&self, size_bytes: u64) {
        self.usage.add(size_bytes);
        self.charges.iter().for_each(|account| account.add(size_bytes as i64));
    }

    /// The accounts that the file is charged to.
    pub(crate) fn charges(&self) -> &Charges {
        &self.charges
    }

    /// Ends the reservation: the file is counted from now on, or the upload was aborted.
    pub(crate) fn release(&self) {
        self.redeem(u64::MAX);
        let pending = self.pending_bytes.swap(0, Ordering::Relaxed);
        self.usage.pending_bytes.fetch_sub(pending, Ordering::Relaxed);
        self.charges.iter().for_each(|account| account.release(pending));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// A file system's report about its size.
struct Disk {
    total_bytes: u64,
    available_bytes: u64,
    used_bytes: u64,
}

impl Disk {
    /// A file system that reports no size (ramfs, some FUSE ones) is assumed to have room. It need
    /// not be full; a write will show.
    fn of(directory: BorrowedFd<'_>) -> Result<Self> {
        let disk = fs::fstatvfs(directory).map_err(|errno| from_errno(errno, Phase::Open))?;
        if disk.f_blocks == 0 {
            return Ok(Self {
                total_bytes: SIZE_UNKNOWN,
                available_bytes: SIZE_UNKNOWN,
                used_bytes: 0,
            });
        }
        Ok(Self {
            total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            available_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            used_bytes: disk.f_blocks.saturating_sub(disk.f_bfree).saturating_mul(disk.f_frsize),
        })
    }
}

/// What counting needs to know about a file.
struct Facts {
    kind: FileType,
    size_bytes: u64,
    names: u32,
    uid: u32,
    /// Creation time, or the last change where the file system does not record it.
    born: Moment,
}

/// Stats a name in a directory, or the open file itself if the name is empty.
fn facts(at: BorrowedFd<'_>, name: &CStr) -> Option<Facts> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let raw = fs::statx(at, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH, wanted).ok()?;
    let birth_is_known = StatxFlags::from_bits_retain(raw.stx_mask).contains(StatxFlags::BTIME);
    let born = if birth_is_known { raw.stx_btime } else { raw.stx_ctime };
    Some(Facts {
        kind: FileType::from_raw_mode(raw.stx_mode.into()),
        size_bytes: raw.stx_size,
        names: raw.stx_nlink,
        uid: raw.stx_uid,
        born: (born.tv_sec, born.tv_nsec.into()),
    })
}

/// Whether a directory's own file system has room for `bytes` besides the reserve. For parts that
/// are not on the export's file system.
pub(crate) fn check_room(directory: BorrowedFd<'_>, bytes: u64, reserve_bytes: u64) -> Result<()> {
    let free_bytes = Disk::of(directory)?.available_bytes.saturating_sub(reserve_bytes);
    if bytes > free_bytes {
        return Err(no_room(ErrorCode::NoSpace, bytes, free_bytes));
    }
    Ok(())
}

fn no_room(code: ErrorCode, bytes: u64, free_bytes: u64) -> Error {
    let why = format!("{bytes} bytes are needed, {free_bytes} are free");
    fault(code, Phase::Open).with_detail(why)
}
