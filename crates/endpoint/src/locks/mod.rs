//! Locks on paths, as WebDAV has them (RFC 4918 §6, §7): who wants to change what is locked has to hold a lock and name
//! its token. They hold at every door, are kept in memory, and are gone with the process.
//!
//! A lock belongs to whom it was given: its token is of no use to anybody else (§6.4). It ends when its holder releases
//! it, when what it is on is removed or gets another name, and after its timeout.

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

use crate::authorize::Asker;
use crate::exports::Exports;
use crate::fair_share::{ClientId, FairShare, ShareKind, identity_of};
use crate::found::is_missing;
use crate::links::path_reached;
use crate::store::Store;
use changing::Pending;
use table::{Met, Table};

/// Who holds a lock. Everybody without a credential is the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolder(Option<Arc<str>>);

impl LockHolder {
    /// Who showed this.
    #[must_use]
    pub fn of(credential: &Result<Arc<Credential>>) -> Self {
        let credential = credential.as_ref().ok();
        Self(credential.and_then(|credential| identity_of(credential)))
    }
}

/// What a request brings to get past locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockKeys {
    /// Who asks.
    pub holder: LockHolder,
    /// The tokens that the request submits.
    pub tokens: Vec<String>,
}

/// A lock to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLock {
    /// What is to be locked.
    pub root: LogicalPath,
    /// By which the lock is named.
    pub token: Arc<str>,
    /// Whether others may lock it too.
    pub is_shared: bool,
    /// Whether everything below is locked as well.
    pub is_deep: bool,
    /// What the client says about its user, as it is to be told to others.
    pub owner: String,
    /// Who takes it.
    pub holder: LockHolder,
    /// How long it lasts when it is not refreshed.
    pub timeout: Duration,
}

/// A lock as clients are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFacts {
    /// Where it begins.
    pub root: LogicalPath,
    /// Its token.
    pub token: Arc<str>,
    /// Whether others may lock the same.
    pub is_shared: bool,
    /// Whether it holds for everything below.
    pub is_deep: bool,
    /// What the client said about its user.
    pub owner: String,
    /// How long it lasts from now on.
    pub remaining: Duration,
}

/// What is to be done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something about it is changed, such as its mode or its attributes.
    Update,
    /// A file or directory is stored under this name, in place of whatever is there.
    Store,
    /// It goes away, with everything below it: removed, or moved elsewhere.
    Remove,
}

/// A new token, unlike all others (RFC 4918 §6.5): a random UUID (RFC 9562 §5.4).
#[must_use]
pub fn new_lock_token() -> Arc<str> {
    format!("urn:uuid:{}", uuid_text(random(), 4)).into()
}

/// How long a lock lasts for which a client asks for so many seconds, or for nothing in particular.
#[must_use]
pub fn lock_timeout(wanted_s: Option<u64>) -> Duration {
    wanted_s
        .map_or(LOCK_TIMEOUT, Duration::from_secs)
        .clamp(LOCK_TIMEOUT_MIN, LOCK_TIMEOUT_MAX)
}

/// The refusal because of a lock that begins there.
#[must_use]
pub fn locked(root: &LogicalPath) -> Error {
    Error::new(ErrorCode::Locked, Side::Client, Phase::Open).with_subject(root)
}

/// The refusal of one lock more over a path.
fn crowded(root: &LogicalPath) -> Error {
    let detail = format!("no more than {LOCKS_PER_PATH_MAX} locks can be over one path");
    Error::new(ErrorCode::Overloaded, Side::Client, Phase::Open)
        .with_subject(root)
        .with_detail(detail)
}

/// The refusal of a lock because of what is being done there.
fn being_changed(root: &LogicalPath) -> Error {
    Error::new(ErrorCode::Busy, Side::Client, Phase::Open)
        .with_subject(root)
        .with_detail("it is being changed, and can be locked afterwards")
}

/// All locks of a server. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Locks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many there are, so that those who meet none do not wait for others.
    count: AtomicUsize,
    table: Mutex<Table>,
    /// Tells the locks that wait for it that a change has ended.
    ended: Notify,
}

/// The table for as long as it is used; what it holds then is counted.
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
    /// Whether there are none. Costs next to nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    /// The table, without what has timed out.
    fn table(&self, now: Instant) -> Guard<'_> {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.purge(now);
        Guard {
            table,
            count: &self.0.count,
        }
    }

    /// Takes a lock, which counts in the share of a client. Changes that begin from then on meet it; those under way
    /// it waits for.
    ///
    /// # Errors
    /// `locked`, with where the lock begins that is in the way; `busy` where something is being changed that does not end
    /// soon, or takes the path away; `overloaded` and `share_used_up`.
    pub async fn take(&self, wanted: NewLock, fair_share: &FairShare, client: &ClientId) -> Result<LockFacts> {
        let now = Instant::now();
        // What has timed out gives its place back before another one is asked for.
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
            let met = guard.table.met(&wanted.root, wanted.is_deep, u64::MAX);
            if met == Some(Met::Long) {
                return Err(being_changed(&wanted.root));
            }
            let pending = met.map(|_| Pending::new(self, &wanted, guard.table.next_number()));
            (guard.table.add(wanted, Some(share), now), pending)
        };
        match pending {
            None => Ok(facts),
            Some(pending) => pending.granted().await,
        }
    }

    /// Lets a lock over a path, whose token is among `keys`, last so long from now on.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn refresh(&self, path: &LogicalPath, keys: &LockKeys, timeout: Duration) -> Result<LockFacts, Unusable> {
        let now = Instant::now();
        self.table(now).table.refresh(path, keys, timeout, now)
    }

    /// Ends a lock over a path.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn release(&self, path: &LogicalPath, token: &str, holder: &LockHolder) -> Result<(), Unusable> {
        self.table(Instant::now()).table.release(path, token, holder)
    }

    /// The locks that a path is under.
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

    /// Whether locks let something be done to a path, which `store` knows as `inner`. To be asked when policy has allowed it:
    /// who may not do it anyway learns nothing of locks.
    ///
    /// Something that is to have a new name is a change of the directory that gets it too; what is removed changes the
    /// directory that it was in (RFC 4918 §7.4).
    ///
    /// # Errors
    /// `locked`, with where the lock begins whose token is missing.
    pub async fn check_locks(
        &self,
        (store, inner): (&Store, &LogicalPath),
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<()> {
        if self.locks.is_empty() {
            return Ok(());
        }
        self.begin_change((store, inner), path, change, keys).await.map(drop)
    }

    /// The same for a change that is made now: until the end of what this gives, no lock is granted that forbids it.
    ///
    /// # Errors
    /// As [`Exports::check_locks`].
    pub async fn begin_change(
        &self,
        (store, inner): (&Store, &LogicalPath),
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
                touched = Some(Touched::find((store, inner), path, change).await);
            }
            let guard = self.locks.table(Instant::now());
            let Some(touched) = &touched else {
                if guard.table.len() == 0 {
                    return Ok(Changing::begin(&self.locks, guard, [path], change));
                }
                // The first lock came this very moment.
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

    /// Whether a path leads over symbolic links: it is another name of something, under which a lock would not hold.
    pub async fn is_another_name(&self, (store, inner): (&Store, &LogicalPath), path: &LogicalPath) -> bool {
        path_reached(store, (inner, path), true).await.is_some()
    }

    /// The locks that a path is under, where locks count.
    #[must_use]
    pub fn locks_over(&self, path: &LogicalPath) -> Vec<LockFacts> {
        match self.locks.is_empty() || !self.has_locks_at(path) {
            true => Vec::new(),
            false => self.locks.covering(path),
        }
    }

    /// Whether locks count at a path: those from above do not reach into an export where they are off.
    #[must_use]
    pub fn has_locks_at(&self, path: &LogicalPath) -> bool {
        let over = self.list().iter().map(|export| &export.rules);
        let over = over.filter(|rules| path.is_within(&rules.path));
        let deepest = over.max_by_key(|rules| rules.path.as_str().len());
        deepest.is_none_or(|rules| rules.locks)
    }

    /// A refusal because of a lock in the way of changing `path`, as the asker may see it: without the name of something
    /// below at which he may not look.
    #[must_use]
    pub fn locked_for(&self, asker: Asker<'_>, path: &LogicalPath, error: Error) -> Error {
        let root = error.subject().and_then(|root| LogicalPath::parse(root).ok());
        let may_see = |root: &LogicalPath| path.is_within(root) || self.would_allow(asker, Operation::Stat, root, None);
        match root.is_some_and(|root| !may_see(&root)) {
            true => locked(path),
            false => error,
        }
    }
}

/// What a change is about: the path that was named, and the one that it leads to over symbolic links.
struct Touched {
    paths: Vec<LogicalPath>,
    /// The directories whose names change.
    holding: Vec<LogicalPath>,
}

impl Touched {
    async fn find((store, inner): (&Store, &LogicalPath), path: &LogicalPath, change: Change) -> Self {
        let grown = match change {
            Change::Store => grown(store, inner, path).await,
            Change::Update | Change::Remove => None,
        };
        let reached = path_reached(store, (inner, path), change == Change::Update).await;
        let paths: Vec<_> = std::iter::once(path.clone()).chain(reached).collect();
        let holding = match (change, grown) {
            (Change::Remove, _) => paths.iter().filter_map(LogicalPath::parent).collect(),
            (_, Some(grown)) => {
                let mut holding = vec![grown];
                // Behind a link, the directory that is nearest: those above it are no part of a new name's way.
                holding.extend(paths.iter().skip(1).filter_map(LogicalPath::parent));
                holding
            }
            _ => Vec::new(),
        };
        Self { paths, holding }
    }
}

/// The directory that gets a new name when something is stored: the deepest that exists, where the name itself does not.
async fn grown(store: &Store, inner: &LogicalPath, path: &LogicalPath) -> Option<LogicalPath> {
    let (mut outer, mut inner) = (path.clone(), inner.clone());
    while store.stat(&inner).await.is_err_and(|error| is_missing(&error)) {
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
    fn timeouts_have_a_default_and_an_end() {
        assert_eq!(lock_timeout(None), LOCK_TIMEOUT);
        assert_eq!(lock_timeout(Some(0)), LOCK_TIMEOUT_MIN);
        assert_eq!(lock_timeout(Some(5)), Duration::from_secs(5));
        assert_eq!(lock_timeout(Some(u64::MAX)), LOCK_TIMEOUT_MAX);
    }
}
