//! Running changes, and the locks that wait for them.
//!
//! A lock enters the table before it waits, so no later change gets past it. When it is granted,
//! all earlier changes have ended.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::LOCK_WAIT;
use tokio::time::timeout;
use types::{LogicalPath, Result};

use super::{Change, Guard, LockFacts, LockKeys, Locks, NewLock, being_changed};
use crate::name_changes::Notice;

/// Running changes. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Debug, Default)]
#[must_use = "the changes end when this is dropped"]
pub struct Changing {
    under_way: Vec<Arc<UnderWay>>,
    /// Given when the changes have ended.
    notices: Vec<Arc<Notice>>,
}

#[derive(Debug)]
struct UnderWay {
    locks: Locks,
    path: LogicalPath,
    change: Change,
    number: u64,
}

impl Changing {
    pub(super) fn begin<'a>(
        locks: &Locks,
        mut guard: Guard<'_>,
        paths: impl IntoIterator<Item = &'a LogicalPath>,
        change: Change,
    ) -> Self {
        let mut begin = |path: &LogicalPath| {
            Arc::new(UnderWay {
                locks: locks.clone(),
                path: path.clone(),
                change,
                number: guard.table.begin(path, change, false),
            })
        };
        Self {
            under_way: paths.into_iter().map(&mut begin).collect(),
            notices: Vec::new(),
        }
    }

    /// The same, with a notice for those that watch names.
    pub(crate) fn noticed(mut self, notice: Option<Arc<Notice>>) -> Self {
        self.notices.extend(notice);
        self
    }

    /// Adds others.
    pub fn and(mut self, others: Self) -> Self {
        self.under_way.extend(others.under_way);
        self.notices.extend(others.notices);
        self
    }

    /// From now on locks do not wait for these changes, because their end is unknown.
    pub fn lasting(self) -> Self {
        for change in &self.under_way {
            let mut guard = change.locks.table(Instant::now());
            guard.table.set_long(&change.path, change.number);
        }
        self
    }

    /// Ends the locks on a removed resource that were taken before the removal began (RFC 4918
    /// §7.5, §9.6).
    pub fn forget_locks(&self) {
        let removals = self.under_way.iter().filter(|change| change.change == Change::Remove);
        for removal in removals.filter(|removal| !removal.locks.is_empty()) {
            let mut guard = removal.locks.table(Instant::now());
            guard.table.forget(&removal.path, removal.number);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let table = self.locks.0.table.lock();
        let mut table = table.unwrap_or_else(PoisonError::into_inner);
        table.end(&self.path, self.number);
        drop(table);
        self.locks.0.ended.notify_waiters();
    }
}

/// A lock that blocks new changes and waits for older ones. It disappears unless it is granted.
pub(super) struct Pending {
    locks: Locks,
    root: LogicalPath,
    is_deep: bool,
    keys: LockKeys,
    timeout: Duration,
    number: u64,
    is_granted: bool,
}

impl Pending {
    pub(super) fn new(locks: &Locks, wanted: &NewLock, number: u64) -> Self {
        Self {
            locks: locks.clone(),
            root: wanted.root.clone(),
            is_deep: wanted.is_deep,
            keys: LockKeys {
                holder: wanted.holder.clone(),
                tokens: vec![wanted.token.to_string()],
            },
            timeout: wanted.timeout,
            number,
            is_granted: false,
        }
    }

    /// The lock, once all changes under it have ended.
    pub(super) async fn granted(mut self) -> Result<LockFacts> {
        let over = timeout(LOCK_WAIT, self.changes_over()).await;
        over.map_err(|_| being_changed(&self.root))?;
        // The timeout starts now.
        let facts = self.locks.refresh(&self.root, &self.keys, self.timeout);
        let facts = facts.map_err(|_| being_changed(&self.root))?;
        self.is_granted = true;
        Ok(facts)
    }

    async fn changes_over(&self) {
        loop {
            let ended = self.locks.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let conflict = {
                let guard = self.locks.table(Instant::now());
                guard.table.change_conflict(&self.root, self.is_deep, self.number)
            };
            if conflict.is_none() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_granted {
            for token in &self.keys.tokens {
                let _ = self.locks.release(&self.root, token, &self.keys.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::ExportRules;
    use storage::Memory;
    use types::ErrorCode;

    use super::*;
    use crate::export_path::StoredPath;
    use crate::exports::{Export, Exports};
    use crate::fair_share::{ClientId, FairShare};
    use crate::locks::{LockHolder, new_lock_token};
    use crate::store::Store;

    struct Fixture {
        exports: Exports,
        store: Store,
    }

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    impl Fixture {
        fn new() -> Self {
            let store = Store::new(Arc::new(Memory::new(1 << 20)));
            let rules = ExportRules::default();
            let export = Export {
                rules,
                store: store.clone(),
            };
            let exports = Exports::new(vec![export]);
            Self { exports, store }
        }

        async fn begin(&self, at: &str, change: Change) -> Result<Changing> {
            let at = path(at);
            let stored = StoredPath {
                store: &self.store,
                inner: &at,
            };
            let keys = LockKeys::default();
            self.exports.begin_change(stored, &at, change, &keys).await
        }

        fn take(&self, root: &str) -> impl Future<Output = Result<LockFacts>> + use<> {
            let locks = self.exports.locks().clone();
            let lock = NewLock {
                root: path(root),
                token: new_lock_token(),
                is_shared: false,
                is_deep: true,
                owner: String::new(),
                holder: LockHolder::default(),
                timeout: Duration::from_secs(600),
            };
            async move { locks.take(lock, &FairShare::default(), &ClientId::own()).await }
        }

        /// Waits until the lock blocks changes.
        async fn locked(&self) {
            while self.exports.locks().is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_lock_waits_for_older_changes_and_keeps_out_new_ones() {
        let fixture = Fixture::new();
        let older = fixture.begin("/d/f", Change::Store).await.unwrap();
        let taken = tokio::spawn(fixture.take("/d"));
        fixture.locked().await;
        let refused = fixture.begin("/d/f", Change::Store).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Locked);
        assert!(!taken.is_finished());
        drop(older);
        taken.await.unwrap().unwrap();
        assert_eq!(fixture.exports.locks().covering(&path("/d/f")).len(), 1);
    }

    #[tokio::test]
    async fn a_lock_disappears_when_its_request_does() {
        let fixture = Fixture::new();
        let older = fixture.begin("/f", Change::Update).await.unwrap();
        let taken = tokio::spawn(fixture.take("/f"));
        fixture.locked().await;
        taken.abort();
        let _ = taken.await;
        assert!(fixture.exports.locks().is_empty());
        drop(older);
    }

    #[tokio::test]
    async fn a_resource_that_is_being_removed_or_stays_open_cannot_be_locked() {
        let fixture = Fixture::new();
        let removal = fixture.begin("/tree", Change::Remove).await.unwrap();
        let open = fixture.begin("/open", Change::Update).await.unwrap().lasting();
        for root in ["/tree", "/tree/x", "/open"] {
            let refused = fixture.take(root).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Busy, "{root}");
        }
        assert!(fixture.exports.locks().is_empty());
        drop((removal, open));
        fixture.take("/tree/x").await.unwrap();
        fixture.take("/open").await.unwrap();
    }

    #[tokio::test]
    async fn a_change_lasts_as_long_as_the_call_that_makes_it() {
        let fixture = Fixture::new();
        let changing = fixture.begin("/f", Change::Remove).await.unwrap();
        let store = fixture.store.during(&changing);
        drop(changing);
        assert_eq!(fixture.take("/f").await.unwrap_err().code(), ErrorCode::Busy);
        drop(store);
        fixture.take("/f").await.unwrap();
    }

    #[tokio::test]
    async fn a_name_is_reported_once_when_its_change_has_ended() {
        let fixture = Fixture::new();
        drop(fixture.begin("/before", Change::Store).await.unwrap());
        let mut names = fixture.exports.name_changes().subscribe();
        let stored = fixture.begin("/d/f", Change::Store).await.unwrap();
        let clone = stored.clone();
        drop(fixture.begin("/d/f", Change::Update).await.unwrap());
        drop(stored);
        assert!(names.try_recv().is_err(), "the work goes on");
        drop(clone);
        assert_eq!(names.try_recv().unwrap(), path("/d/f"));
        let removed = fixture.begin("/a", Change::Remove).await.unwrap();
        drop(removed.and(fixture.begin("/b", Change::Store).await.unwrap()));
        assert_eq!(names.try_recv().unwrap(), path("/a"));
        assert_eq!(names.try_recv().unwrap(), path("/b"));
        assert!(names.try_recv().is_err());
    }
}
