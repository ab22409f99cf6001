//! How much each virtual organisation (VO) uses of its quotas.
//!
//! A file belongs to the VO that stored it, which an attribute of the file records. Without that,
//! the owner's user ID decides, if the quota lists it. A quota counts its VO's files below its
//! path, so one file may count in several quotas.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, getxattr, lgetxattr};
use rustix::io::Errno;
use types::limits::VO_NAME_BYTES_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase};

use crate::api::{Space, VoUsage};
use crate::fault::fault;

/// Our attribute with the name of a file's VO.
const MARK: &str = "user.crossload.vo";

/// How much the files of a VO below a path may take together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoQuota {
    /// The VO.
    pub vo: Arc<str>,
    /// The path in the store.
    pub path: LogicalPath,
    /// The path that clients use.
    pub shown: LogicalPath,
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// User IDs of local users whose files belong to the VO unless the attribute says otherwise.
    pub uids: Vec<u32>,
}

/// A quota and its usage.
#[derive(Debug)]
pub(crate) struct Account {
    quota: VoQuota,
    used_bytes: AtomicI64,
    /// Reserved for uploads that are not committed yet.
    pending_bytes: AtomicU64,
}

/// The accounts that a file is charged to.
pub(crate) type Charges = Vec<Arc<Account>>;

impl Account {
    pub(crate) fn add(&self, bytes: i64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn promise(&self, bytes: u64) {
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    fn free(&self) -> u64 {
        let taken = self.used() + self.pending_bytes.load(Ordering::Relaxed);
        self.quota.limit_bytes.saturating_sub(taken)
    }

    /// Whether there is room for this many more bytes.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), Error> {
        let free = self.free();
        if bytes <= free {
            return Ok(());
        }
        let VoQuota {
            vo, shown, limit_bytes, ..
        } = &self.quota;
        let why = format!("{bytes} bytes are needed, {free} of {limit_bytes} are left for the VO {vo} below {shown}");
        Err(fault(ErrorCode::QuotaExceeded, Phase::Open).with_detail(why))
    }

    /// Limits the free space to what this VO may still use.
    pub(crate) fn narrow(&self, space: &mut Space) {
        let limit = self.quota.limit_bytes;
        if self.free() > space.free_bytes && space.quota_bytes.is_some() {
            return;
        }
        space.total_bytes = space.total_bytes.min(limit);
        space.free_bytes = space.free_bytes.min(self.free());
        space.used_bytes = self.used();
        space.quota_bytes = Some(limit);
    }
}

/// All accounts of a store.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Vec<Arc<Account>>);

impl Accounts {
    pub(crate) fn new(quotas: &[VoQuota]) -> Self {
        let account = |quota: &VoQuota| {
            Arc::new(Account {
                quota: quota.clone(),
                used_bytes: AtomicI64::new(0),
                pending_bytes: AtomicU64::new(0),
            })
        };
        Self(quotas.iter().map(account).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The accounts for a file of this VO at this path.
    pub(crate) fn of(&self, path: &LogicalPath, vo: Option<&str>) -> Charges {
        let Some(vo) = vo else { return Charges::new() };
        let counting = self.0.iter().filter(|account| *account.quota.vo == *vo);
        counting
            .filter(|account| path.is_within(&account.quota.path))
            .cloned()
            .collect()
    }

    /// Whether a quota begins below a path.
    pub(crate) fn begin_below(&self, path: &LogicalPath) -> bool {
        let mut places = self.0.iter().map(|account| &account.quota.path);
        places.any(|place| place != path && place.is_within(path))
    }

    /// Whether renaming a directory would move files between quotas.
    pub(crate) fn divide(&self, from: &LogicalPath, to: &LogicalPath) -> bool {
        let divides = |place: &LogicalPath| {
            from.is_within(place) != to.is_within(place) || place.is_within(from) || place.is_within(to)
        };
        self.0
            .iter()
            .any(|account| divides(&account.quota.path) && !account.quota.path.is_root())
    }

    /// The VO of an open file, also when it is open as a path only.
    pub(crate) fn vo_of(&self, file: BorrowedFd<'_>, uid: u32) -> Option<Arc<str>> {
        let mut buffer = [0; VO_NAME_BYTES_MAX];
        let read = match fgetxattr(file, MARK, &mut buffer) {
            Err(Errno::BADF) => getxattr(format!("/proc/self/fd/{}", file.as_raw_fd()), MARK, &mut buffer),
            done => done,
        };
        self.vo_from(read, &buffer, uid)
    }

    /// The VO of a file in an open directory. An unreadable file counts as unmarked.
    pub(crate) fn vo_in(&self, directory: BorrowedFd<'_>, name: &std::ffi::CStr, uid: u32) -> Option<Arc<str>> {
        let mut buffer = [0; VO_NAME_BYTES_MAX];
        let mut place = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        place.extend_from_slice(name.to_bytes());
        let read = lgetxattr(place, MARK, &mut buffer);
        self.vo_from(read, &buffer, uid)
    }

    fn vo_from(&self, read: Result<usize, Errno>, buffer: &[u8], uid: u32) -> Option<Arc<str>> {
        let mut quotas = self.0.iter().map(|account| &account.quota);
        match read.ok().and_then(|length| std::str::from_utf8(&buffer[..length]).ok()) {
            Some(marked) => quotas.find(|quota| *quota.vo == *marked),
            None => quotas.find(|quota| quota.uids.contains(&uid)),
        }
        .map(|quota| quota.vo.clone())
    }

    pub(crate) fn usage(&self) -> Vec<VoUsage> {
        let usage = |account: &Arc<Account>| VoUsage {
            vo: account.quota.vo.clone(),
            path: account.quota.shown.clone(),
            used_bytes: account.used(),
            limit_bytes: account.quota.limit_bytes,
        };
        self.0.iter().map(usage).collect()
    }
}

/// Records a file's VO in its attribute. Where that is impossible, the file's owner decides.
pub(crate) fn record_vo(file: BorrowedFd<'_>, vo: &str) {
    let _ = fsetxattr(file, MARK, vo.as_bytes(), XattrFlags::empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    fn quota(vo: &str, below: &str) -> VoQuota {
        VoQuota {
            vo: vo.into(),
            path: path(below),
            shown: path(below),
            limit_bytes: 10,
            uids: Vec::new(),
        }
    }

    #[test]
    fn a_file_counts_for_all_quotas_of_its_vo_that_hold_it() {
        let accounts = Accounts::new(&[quota("atlas", "/"), quota("atlas", "/a"), quota("cms", "/")]);
        let count = |name, vo| accounts.of(&path(name), vo).len();
        assert_eq!(
            [
                count("/a/f", Some("atlas")),
                count("/ab", Some("atlas")),
                count("/a/f", Some("cms"))
            ],
            [2, 1, 1]
        );
        assert_eq!([count("/a/f", Some("lhcb")), count("/a/f", None)], [0, 0]);
    }

    #[test]
    fn directories_do_not_move_between_quotas() {
        let accounts = Accounts::new(&[quota("atlas", "/"), quota("cms", "/a/b")]);
        let divide = |from, to| accounts.divide(&path(from), &path(to));
        assert!(divide("/x", "/a/b/x") && divide("/a/b/x", "/x") && divide("/a", "/c") && divide("/c", "/a/b"));
        assert!(!divide("/x", "/y") && !divide("/a/b/x", "/a/b/y") && !divide("/a/c", "/d"));
    }
}
