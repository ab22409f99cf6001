//! WebDAV locks on paths (RFC 4918 §6, §7): to change a locked resource, a client must hold a lock
//! on it and submit its token. Locks apply at every door, are kept in memory, and end with the
//! process.
//!
//! A lock belongs to the client that took it: its token is useless to other clients (§6.4). It ends
//! when it is released, when its resource is removed or renamed, and after its timeout.

mod changing;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LOCK_TIMEOUT, LOCK_TIMEOUT_MAX, LOCK_TIMEOUT_MIN};
use credentials::Credential;
use net::random::random;
use tokio::sync::Notify;
use types::limits::LOCKS_PER_PATH_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side, uuid_text};

pub use changing::Changing;
pub use table::Unusable;

use crate::fair_share::{ClientId, FairShare, ShareKind, identity_of};
use changing::Pending;
use table::{Conflict, Table};

/// The holder of a lock. All anonymous clients are the same holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolder(Option<Arc<str>>);

impl LockHolder {
    /// The holder of this credential.
    #[must_use]
    pub fn of(credential: &Result<Arc<Credential>>) -> Self {
        let credential = credential.as_ref().ok();
        Self(credential.and_then(|credential| identity_of(credential)))
    }
}

/// What a request submits to get past locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockKeys {
    /// The client.
    pub holder: LockHolder,
    /// The tokens that the request submits.
    pub tokens: Vec<String>,
}

/// A requested lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLock {
    /// The resource to lock.
    pub root: LogicalPath,
    /// The name of the lock.
    pub token: Arc<str>,
    /// Whether others may lock it too.
    pub is_shared: bool,
    /// Whether everything below is locked as well.
    pub is_deep: bool,
    /// What the client says about its user, for other clients.
    pub owner: String,
    /// The client that takes it.
    pub holder: LockHolder,
    /// How long it lasts without a refresh.
    pub timeout: Duration,
}

/// A lock as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFacts {
    /// Where it begins.
    pub root: LogicalPath,
    /// Its token.
    pub token: Arc<str>,
    /// Whether others may lock the same resource.
    pub is_shared: bool,
    /// Whether it covers everything below.
    pub is_deep: bool,
    /// What the client said about its user.
    pub owner: String,
    /// How long it still lasts.
    pub remaining: Duration,
}

/// A kind of change to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something about it changes, such as its mode or its attributes.
    Update,
    /// A file or directory is stored under this name and replaces what exists.
    Store,
    /// It is removed or moved elsewhere, with everything below it.
    Remove,
}

/// A new unique token (RFC 4918 §6.5): a random UUID (RFC 9562 §5.4).
#[must_use]
pub fn new_lock_token() -> Arc<str> {
    format!("urn:uuid:{}", uuid_text(random(), 4)).into()
}

/// The timeout of a lock for which the client asks for this many seconds, or for none.
#[must_use]
pub fn lock_timeout(wanted_s: Option<u64>) -> Duration {
    wanted_s
        .map_or(LOCK_TIMEOUT, Duration::from_secs)
        .clamp(LOCK_TIMEOUT_MIN, LOCK_TIMEOUT_MAX)
}

/// The refusal because of a lock that begins at `root`.
#[must_use]
pub fn locked(root: &LogicalPath) -> Error {
    Error::new(ErrorCode::Locked, Side::Client, Phase::Open).with_subject(root)
}

/// The refusal of too many locks on a path.
fn crowded(root: &LogicalPath) -> Error {
    let detail = format!("at most {LOCKS_PER_PATH_MAX} locks can cover one path");
    Error::new(ErrorCode::Overloaded, Side::Client, Phase::Open)
        .with_subject(root)
        .with_detail(detail)
}

/// The refusal of a lock because of a running change.
fn being_changed(root: &LogicalPath) -> Error {
    Error::new(ErrorCode::Busy, Side::Client, Phase::Open)
        .with_subject(root)
        .with_detail("it is being changed; lock it afterwards")
}

/// All locks of a server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Locks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The number of locks, so that requests skip the table's mutex when there are none.
    count: AtomicUsize,
    table: Mutex<Table>,
    /// Notifies waiting locks that a change has ended.
    ended: Notify,
}

/// The locked table; updates the counter on drop.
struct Guard<'a> {
    table: MutexGuard<'a, Table>,
    count: &'a AtomicUsize,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.count.store(self.table.len(), Ordering::Release);
    }
}

impl Locks {
    /// Whether there are no locks. One atomic load.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    /// The table, without timed-out locks.
    fn table(&self, now: Instant) -> Guard<'_> {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.purge(now);
        Guard {
            table,
            count: &self.0.count,
        }
    }

    /// Takes a lock, which counts in the client's share. Later changes are checked against it;
    /// earlier ones it waits for.
    ///
    /// # Errors
    /// `locked`, with the path of the conflicting lock; `busy` if a running change does not end
    /// soon, or removes the path; `overloaded` and `share_used_up`.
    pub async fn take(&self, wanted: NewLock, fair_share: &FairShare, client: &ClientId) -> Result<LockFacts> {
        let now = Instant::now();
        // Drop timed-out locks before asking for another share.
        drop(self.table(now));
        let share = fair_share.take(ShareKind::Locks, client)?;
        let (facts, pending) = {
            let mut guard = self.table(now);
            if let Some(root) = guard.table.conflict(&wanted) {
                return Err(locked(&root));
            }
            if guard.table.is_crowded(&wanted) {
                return Err(crowded(&wanted.root));
            }
            let conflict = guard.table.change_conflict(&wanted.root, wanted.is_deep, u64::MAX);
            if conflict == Some(Conflict::Refused) {
                return Err(being_changed(&wanted.root));
            }
            let pending = conflict.map(|_| Pending::new(self, &wanted, guard.table.next_number()));
            (guard.table.add(wanted, Some(share), now), pending)
        };
        match pending {
            None => Ok(facts),
            Some(pending) => pending.granted().await,
        }
    }

    /// Extends a lock that covers a path and whose token is among `keys`; the timeout counts from
    /// now.
    ///
    /// # Errors
    /// Why it cannot be refreshed.
    pub fn refresh(&self, path: &LogicalPath, keys: &LockKeys, timeout: Duration) -> Result<LockFacts, Unusable> {
        let now = Instant::now();
        self.table(now).table.refresh(path, keys, timeout, now)
    }

    /// Ends a lock that covers a path.
    ///
    /// # Errors
    /// Why it cannot be released.
    pub fn release(&self, path: &LogicalPath, token: &str, holder: &LockHolder) -> Result<(), Unusable> {
        self.table(Instant::now()).table.release(path, token, holder)
    }

    /// The locks that cover a path.
    #[must_use]
    pub fn covering(&self, path: &LogicalPath) -> Vec<LockFacts> {
        if self.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        self.table(now).table.covering(path, now)
    }
}

/// The paths that a change affects: the one that was named, and the one that it leads to over
/// symbolic links.
pub(crate) struct AffectedPaths {
    pub(crate) paths: Vec<LogicalPath>,
    /// The directories that gain or lose a name.
    pub(crate) holding: Vec<LogicalPath>,
}

impl Locks {
    /// Begins a change of a path; `None` if there is a lock on any path.
    pub(crate) fn begin_without_locks(&self, path: &LogicalPath, change: Change) -> Option<Changing> {
        let guard = self.table(Instant::now());
        (guard.table.len() == 0).then(|| Changing::begin(self, guard, [path], change))
    }

    /// Begins a change: until the returned value is dropped, no conflicting lock is granted.
    ///
    /// # Errors
    /// `locked`, with the path of the lock whose token is missing.
    pub(crate) fn begin(&self, affected: &AffectedPaths, change: Change, keys: &LockKeys) -> Result<Changing> {
        let guard = self.table(Instant::now());
        let closed = |path: &LogicalPath| guard.table.closed(path, keys);
        let below = |path: &LogicalPath| match change {
            Change::Update => None,
            Change::Store | Change::Remove => guard.table.closed_below(path, keys),
        };
        let AffectedPaths { paths, holding } = affected;
        let found = paths.iter().chain(holding).find_map(closed);
        match found.or_else(|| paths.iter().find_map(below)) {
            Some(root) => Err(locked(&root)),
            None => Ok(Changing::begin(self, guard, paths, change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_uuids() {
        let (one, other) = (new_lock_token(), new_lock_token());
        assert_ne!(one, other);
        let digits: Vec<_> = one.strip_prefix("urn:uuid:").unwrap().split('-').collect();
        assert_eq!(
            digits.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [8, 4, 4, 4, 12]
        );
        assert!(digits[2].starts_with('4') && digits[3].starts_with(['8', '9', 'a', 'b']));
    }

    #[test]
    fn timeouts_have_a_default_and_a_maximum() {
        assert_eq!(lock_timeout(None), LOCK_TIMEOUT);
        assert_eq!(lock_timeout(Some(0)), LOCK_TIMEOUT_MIN);
        assert_eq!(lock_timeout(Some(5)), Duration::from_secs(5));
        assert_eq!(lock_timeout(Some(u64::MAX)), LOCK_TIMEOUT_MAX);
    }
}
