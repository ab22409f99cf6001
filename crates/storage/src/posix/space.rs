//! Who was promised how much room.
//!
//! Room is granted before the first byte: what the file system has, less the reserve, less what is
//! promised to running uploads and not yet written. The quota counts the bytes of the files in the
//! export; its counter starts with a scan in the background and follows every commit and removal
//! here. Quotas of VOs ([`super::accounts`]) are counted in the same way.
//!
//! How accurate that is: files that others write or remove count from the next start-up on. Until
//! the first scan is through, files that it has not met yet do not count, so that uploads are let
//! in which a finished scan would refuse; an export need not wait for millions of files to be
//! counted. An old file removed during the scan goes on counting until the next start-up, because
//! nobody knows whether the scan has met it: the error is on the safe side.

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

/// Stands for the size of a file system that does not name one: the largest file there can be.
const SIZE_UNKNOWN: u64 = i64::MAX as u64;

/// Seconds and nanoseconds since the epoch.
type Moment = (i64, i64);

pub(crate) struct SpaceBook {
    root: OwnedFd,
    reserve_bytes: u64,
    quota_bytes: Option<u64>,
    /// What each VO takes.
    accounts: Accounts,
    /// Promised and not yet on the disk.
    promised_bytes: AtomicU64,
    /// Promised against the quota by uploads not yet committed.
    pending_bytes: AtomicU64,
    used_bytes: AtomicI64,
    scanned: AtomicBool,
    /// When counting began: files born later are counted as they are committed.
    started: Moment,
    /// Held while a name changes its file, so that each replaced file is counted off once.
    names: Mutex<()>,
    /// Held while a promise is weighed and made, so that two cannot be given the same room.
    admission: Mutex<()>,
}

impl SpaceBook {
    pub(crate) fn new(root: OwnedFd, reserve_bytes: u64, quota_bytes: Option<u64>, accounts: Accounts) -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Self {
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

    /// Whether anybody has a quota, so that files are counted.
    pub(crate) fn counts(&self) -> bool {
        self.quota_bytes.is_some() || !self.accounts.is_empty()
    }

    /// The accounts of VOs.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Counts the files once, in the background; only a quota needs it.
    pub(crate) fn start_scan(self: &Arc<Self>) {
        if !self.counts() {
            return;
        }
        let book = Arc::clone(self);
        let scan = move || {
            book.count(&book.root, &LogicalPath::root(), 0);
            book.scanned.store(true, Ordering::Release);
        };
        // Without the thread the quota counts only what is written from now on.
        let _ = execution::start_thread("usage-scan", scan);
    }

    /// Adds the bytes of all files that were there when counting began, directory by directory.
    /// What cannot be read counts nothing.
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

    /// To be held while a name is given to another file, or to none, until that is counted. Only a
    /// quota needs it; without one nobody waits.
    pub(crate) fn change_names(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts().then(lock)
    }

    /// These bytes of files are in the export from now on.
    fn add(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// A file that counts already, for these accounts too, has another size now.
    pub(crate) fn resized(&self, before_bytes: u64, after_bytes: u64, charges: &Charges) {
        let more = after_bytes as i64 - before_bytes as i64;
        self.used_bytes.fetch_add(more, Ordering::Relaxed);
        charges.iter().for_each(|account| account.add(more));
    }

    /// What an open file counts for under that name. To be asked as the server, who may read every mark.
    pub(crate) fn charges(&self, file: BorrowedFd<'_>, path: &LogicalPath) -> Charges {
        if self.accounts.is_empty() {
            return Charges::new();
        }
        let uid = fs::fstat(file).map_or(u32::MAX, |raw| raw.st_uid);
        self.accounts.of(path, self.accounts.vo_of(file, uid).as_deref())
    }

    /// A file has lost that name. It counts no more when that was its last one.
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

    /// A file is about to get another name, and counts for other accounts then: those that are new to it
    /// must have room. Gives what to do when it has the name.
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

/// Room promised to one upload; given back when this is dropped.
pub(crate) struct Reservation {
    book: Arc<SpaceBook>,
    /// For what the file will count.
    charges: Charges,
    granted_bytes: Mutex<u64>,
    promised_bytes: AtomicU64,
    pending_bytes: AtomicU64,
}

impl Reservation {
    pub(crate) fn ask(book: &Arc<SpaceBook>, bytes: u64, charges: Charges) -> Result<Self> {
        book.admit(bytes, &charges)?;
        Ok(Self {
            book: Arc::clone(book),
            charges,
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
        let more = match self.book.admit(generous, &self.charges) {
            Ok(()) => generous,
            Err(_) => {
                self.book
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

    /// The file has its name, and counts from now on.
    pub(crate) fn count(&self, size_bytes: u64) {
        self.book.add(size_bytes);
        self.charges.iter().for_each(|account| account.add(size_bytes as i64));
    }

    /// For what the file counts.
    pub(crate) fn charges(&self) -> &Charges {
        &self.charges
    }

    /// Ends the promise: the file counts from now on, or was given up.
    pub(crate) fn release(&self) {
        self.redeem(u64::MAX);
        let pending = self.pending_bytes.swap(0, Ordering::Relaxed);
        self.book.pending_bytes.fetch_sub(pending, Ordering::Relaxed);
        self.charges.iter().for_each(|account| account.release(pending));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// What a file system says of its size.
struct Disk {
    total_bytes: u64,
    available_bytes: u64,
    used_bytes: u64,
}

impl Disk {
    /// One that names no size at all (ramfs, some in user space) is taken to have room: it is not
    /// the same as being full, and writing will show.
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

/// What counting needs to know of a file.
struct Facts {
    kind: FileType,
    size_bytes: u64,
    names: u32,
    uid: u32,
    /// When it was made; where the file system does not know, when it was last changed.
    born: Moment,
}

/// Asks about a name in a directory, or with an empty name about the open file itself.
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

/// Whether a directory's own file system has room for `bytes` more besides the reserve. For parts
/// that do not lie on the export's file system.
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
