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
use policy::Operation;
use tokio::sync::Notify;
use types::limits::LOCKS_PER_PATH_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side, uuid_text};

pub use changing::Changing;
pub use table::Unusable;

use crate::authorize::Requester;
use crate::exports::{ExportPath, Exports, StoredPath};
use crate::fair_share::{ClientId, FairShare, ShareKind, identity_of};
use crate::found::is_missing;
use crate::links::path_reached;
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

impl Exports {
    /// The locks on paths of these exports.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether locks allow a client to change a path. Ask only after policy has allowed it: a
    /// client without the right must learn nothing about locks.
    ///
    /// A new name also changes the directory that gets it, and a removal the directory that
    /// contained the name (RFC 4918 §7.4).
    ///
    /// # Errors
    /// `locked`, with the path of the lock whose token is missing, if the client may see that path.
    pub async fn check_locks(
        &self,
        requester: Requester<'_>,
        spot: &ExportPath,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<()> {
        if self.locks.is_empty() {
            return Ok(());
        }
        self.begin_change_by(requester, spot, path, change, keys)
            .await
            .map(drop)
    }

    /// The same for a change that begins now: until the returned value is dropped, no conflicting
    /// lock is granted.
    ///
    /// # Errors
    /// As [`Exports::check_locks`].
    pub async fn begin_change_by(
        &self,
        requester: Requester<'_>,
        spot: &ExportPath,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<Changing> {
        let begun = self.begin_change(spot.stored(), path, change, keys).await;
        begun.map_err(|error| self.locked_for(requester, path, error))
    }

    /// Begins a change to a path, which its store knows as `stored`.
    ///
    /// # Errors
    /// `locked`, with the path of the lock whose token is missing.
    pub(crate) async fn begin_change(
        &self,
        stored: StoredPath<'_>,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<Changing> {
        if !self.has_locks_at(path) {
            return Ok(Changing::default());
        }
        let mut touched = None;
        loop {
            if !self.locks.is_empty() && touched.is_none() {
                touched = Some(AffectedPaths::find(stored, path, change).await);
            }
            let guard = self.locks.table(Instant::now());
            let Some(touched) = &touched else {
                if guard.table.len() == 0 {
                    return Ok(Changing::begin(&self.locks, guard, [path], change));
                }
                // The first lock was taken in this very moment.
                drop(guard);
                continue;
            };
            let closed = |path: &LogicalPath| guard.table.closed(path, keys);
            let below = |path: &LogicalPath| match change {
                Change::Update => None,
                Change::Store | Change::Remove => guard.table.closed_below(path, keys),
            };
            let (paths, holding) = (&touched.paths, &touched.holding);
            let found = paths.iter().chain(holding).find_map(closed);
            return match found.or_else(|| paths.iter().find_map(below)) {
                Some(root) => Err(locked(&root)),
                None => Ok(Changing::begin(&self.locks, guard, paths, change)),
            };
        }
    }

    /// Whether a path leads over symbolic links. It is then another name of a resource, which a
    /// lock would not cover.
    pub async fn is_another_name(&self, stored: StoredPath<'_>, path: &LogicalPath) -> bool {
        path_reached(stored, path, true).await.is_some()
    }

    /// The locks that cover a path, where locks apply.
    #[must_use]
    pub fn locks_over(&self, path: &LogicalPath) -> Vec<LockFacts> {
        match self.locks.is_empty() || !self.has_locks_at(path) {
            true => Vec::new(),
            false => self.locks.covering(path),
        }
    }

    /// Whether locks apply at a path: those from above do not reach into an export that has them
    /// off.
    #[must_use]
    pub fn has_locks_at(&self, path: &LogicalPath) -> bool {
        let over = self.list().iter().map(|export| &export.rules);
        let over = over.filter(|rules| path.is_within(&rules.path));
        let deepest = over.max_by_key(|rules| rules.path.as_str().len());
        deepest.is_none_or(|rules| rules.locks)
    }

    /// The refusal of a change of `path` because of a lock, without the name of a resource below
    /// that the client may not stat.
    #[must_use]
    pub fn locked_for(&self, requester: Requester<'_>, path: &LogicalPath, error: Error) -> Error {
        let root = error.subject().and_then(|root| LogicalPath::parse(root).ok());
        let may_see =
            |root: &LogicalPath| path.is_within(root) || self.would_allow(requester, Operation::Stat, root, None);
        match root.is_some_and(|root| !may_see(&root)) {
            true => locked(path),
            false => error,
        }
    }
}

/// The paths that a change affects: the one that was named, and the one that it leads to over
/// symbolic links.
struct AffectedPaths {
    paths: Vec<LogicalPath>,
    /// The directories that gain or lose a name.
    holding: Vec<LogicalPath>,
}

impl AffectedPaths {
    async fn find(stored: StoredPath<'_>, path: &LogicalPath, change: Change) -> Self {
        let grown = match change {
            Change::Store => grown(stored, path).await,
            Change::Update | Change::Remove => None,
        };
        let reached = path_reached(stored, path, change == Change::Update).await;
        let paths: Vec<_> = std::iter::once(path.clone()).chain(reached).collect();
        let holding = match (change, grown) {
            (Change::Remove, _) => paths.iter().filter_map(LogicalPath::parent).collect(),
            (_, Some(grown)) => {
                let mut holding = vec![grown];
                // Behind a link only the nearest directory counts; those above it are not on the
                // new name's path.
                holding.extend(paths.iter().skip(1).filter_map(LogicalPath::parent));
                holding
            }
            _ => Vec::new(),
        };
        Self { paths, holding }
    }
}

/// The directory that gets a new name when something is stored: the deepest existing one, if the
/// name itself does not exist.
async fn grown(stored: StoredPath<'_>, path: &LogicalPath) -> Option<LogicalPath> {
    let (mut outer, mut inner) = (path.clone(), stored.inner.clone());
    while stored.store.stat(&inner).await.is_err_and(|error| is_missing(&error)) {
        inner = inner.parent()?;
        outer = outer.parent()?;
    }
    (outer != *path).then_some(outer)
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
