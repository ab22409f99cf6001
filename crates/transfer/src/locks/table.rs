//! The locks themselves: pure data, to which callers bring the time.
//!
//! They lie in an ordered map by path, so that looking at a path takes a look-up for each of its ancestors, and looking
//! below one a range. Each call first drops what has timed out, which a second map finds in order: nothing is left
//! behind, and no task has to sweep.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use types::LogicalPath;

use super::{LockFacts, LockHolder, LockKeys, NewLock};
use crate::fair_share::Share;

/// All locks.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_path: BTreeMap<Arc<str>, Vec<Lock>>,
    /// Where a lock ends that ends then; the number tells apart those that end at the same time.
    ends: BTreeMap<(Instant, u64), Arc<str>>,
    next_number: u64,
}

#[derive(Debug)]
struct Lock {
    facts: NewLock,
    number: u64,
    ends: Instant,
    /// Its place in the share of its client.
    _share: Option<Share>,
}

/// Why a lock cannot be refreshed or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The path is under no lock with such a token.
    Unknown,
    /// Somebody else took it.
    NotYours,
}

impl Lock {
    fn tell(&self, now: Instant) -> LockFacts {
        LockFacts {
            root: self.facts.root.clone(),
            token: self.facts.token.clone(),
            is_shared: self.facts.is_shared,
            is_deep: self.facts.is_deep,
            owner: self.facts.owner.clone(),
            remaining: self.ends.saturating_duration_since(now),
        }
    }

    fn opens_for(&self, keys: &LockKeys) -> bool {
        self.facts.holder == keys.holder && keys.tokens.iter().any(|token| **token == *self.facts.token)
    }
}

impl Table {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Drops what has timed out.
    pub(super) fn purge(&mut self, now: Instant) {
        while let Some(first) = self.ends.first_entry()
            && first.key().0 <= now
        {
            let ((_, number), path) = first.remove_entry();
            self.drop_lock(&path, number);
        }
    }

    fn drop_lock(&mut self, path: &str, number: u64) {
        if let Some(locks) = self.by_path.get_mut(path) {
            locks.retain(|lock| lock.number != number);
            if locks.is_empty() {
                self.by_path.remove(path);
            }
        }
    }

    /// The locks that a path is under: its own, and those of its ancestors that reach down to it.
    fn over<'a>(&'a self, path: &'a LogicalPath) -> impl Iterator<Item = &'a Lock> {
        ancestors(path.as_str()).flat_map(move |place| {
            let locks = self.by_path.get(place).into_iter().flatten();
            locks.filter(move |lock| lock.facts.is_deep || place == path.as_str())
        })
    }

    /// The locks that begin below a path.
    fn below(&self, path: &LogicalPath) -> impl Iterator<Item = &Lock> {
        let (start, end) = inside(path.as_str());
        let range = (Bound::Included(&*start), Bound::Excluded(&*end));
        // The root itself is not below itself.
        let range = self.by_path.range::<str, _>(range);
        range
            .filter(move |(place, _)| ***place != *path.as_str())
            .flat_map(|(_, locks)| locks)
    }

    /// The locks that a path is under, as they are told.
    pub(super) fn covering(&self, path: &LogicalPath, now: Instant) -> Vec<LockFacts> {
        self.over(path).map(|lock| lock.tell(now)).collect()
    }

    /// The first lock over a path of which no token is submitted: of several, one suffices.
    pub(super) fn closed(&self, path: &LogicalPath, keys: &LockKeys) -> Option<LogicalPath> {
        let mut locks = self.over(path).peekable();
        let root = locks.peek()?.facts.root.clone();
        (!locks.any(|lock| lock.opens_for(keys))).then_some(root)
    }

    /// The same for everything below a path.
    pub(super) fn closed_below(&self, path: &LogicalPath, keys: &LockKeys) -> Option<LogicalPath> {
        self.below(path).find_map(|lock| self.closed(&lock.facts.root, keys))
    }

    /// Where a lock begins that would be in the way of a new one.
    pub(super) fn conflict(&self, wanted: &NewLock) -> Option<LogicalPath> {
        let is_in_the_way = |lock: &&Lock| !(wanted.is_shared && lock.facts.is_shared);
        let over = self.over(&wanted.root).find(is_in_the_way);
        let found = match wanted.is_deep {
            true => over.or_else(|| self.below(&wanted.root).find(is_in_the_way)),
            false => over,
        };
        found.map(|lock| lock.facts.root.clone())
    }

    /// Adds a lock, with which none must be in conflict.
    pub(super) fn add(&mut self, facts: NewLock, share: Option<Share>, now: Instant) -> LockFacts {
        let number = self.next_number;
        self.next_number += 1;
        let place: Arc<str> = facts.root.as_str().into();
        let lock = Lock {
            ends: now + facts.timeout,
            number,
            facts,
            _share: share,
        };
        let told = lock.tell(now);
        self.ends.insert((lock.ends, number), place.clone());
        self.by_path.entry(place).or_default().push(lock);
        told
    }

    /// Lets a lock over a path last so long from now on.
    pub(super) fn refresh(
        &mut self,
        path: &LogicalPath,
        keys: &LockKeys,
        timeout: Duration,
        now: Instant,
    ) -> Result<LockFacts, Unusable> {
        let is_named = |lock: &&Lock| keys.tokens.iter().any(|token| **token == *lock.facts.token);
        let facts = |lock: &Lock| (lock.number, lock.facts.root.clone(), lock.opens_for(keys));
        let named: Vec<_> = self.over(path).filter(is_named).map(facts).collect();
        if named.is_empty() {
            return Err(Unusable::Unknown);
        }
        let usable = named.into_iter().find(|(_, _, is_ours)| *is_ours);
        let (number, root, _) = usable.ok_or(Unusable::NotYours)?;
        let mut locks = self.by_path.get_mut(root.as_str()).into_iter().flatten();
        let lock = locks.find(|lock| lock.number == number).ok_or(Unusable::Unknown)?;
        if let Some(place) = self.ends.remove(&(lock.ends, number)) {
            lock.ends = now + timeout;
            self.ends.insert((lock.ends, number), place);
        }
        Ok(lock.tell(now))
    }

    /// Ends a lock over a path.
    pub(super) fn release(&mut self, path: &LogicalPath, token: &str, holder: &LockHolder) -> Result<(), Unusable> {
        let lock = self.over(path).find(|lock| *lock.facts.token == *token);
        let lock = lock.ok_or(Unusable::Unknown)?;
        if lock.facts.holder != *holder {
            return Err(Unusable::NotYours);
        }
        let (ends, number, place) = (lock.ends, lock.number, lock.facts.root.as_str().to_owned());
        self.ends.remove(&(ends, number));
        self.drop_lock(&place, number);
        Ok(())
    }

    /// Ends all locks that begin at a path or below it.
    pub(super) fn forget(&mut self, path: &LogicalPath) {
        let (start, end) = inside(path.as_str());
        let below = self
            .by_path
            .range::<str, _>((Bound::Included(&*start), Bound::Excluded(&*end)));
        let mut places: Vec<Arc<str>> = below.map(|(place, _)| place.clone()).collect();
        places.push(path.as_str().into());
        for place in places {
            for lock in self.by_path.remove(&place).into_iter().flatten() {
                self.ends.remove(&(lock.ends, lock.number));
            }
        }
    }
}

/// A path and all above it, the root included.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let place = next?;
        next = match place.rfind('/') {
            _ if place == "/" => None,
            Some(0) | None => Some("/"),
            Some(cut) => Some(&place[..cut]),
        };
        Some(place)
    })
}

/// Between which texts all paths below a path lie: those that begin with it and a slash.
fn inside(path: &str) -> (String, String) {
    let start = if path == "/" {
        path.to_owned()
    } else {
        format!("{path}/")
    };
    // The byte behind the slash.
    let end = format!("{}0", &start[..start.len() - 1]);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    const ANN: &str = "token https://idp ann";

    fn keys(holder: &str, tokens: &[&str]) -> LockKeys {
        LockKeys {
            holder: LockHolder(Some(holder.into())),
            tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
        }
    }

    fn lock(root: &str, token: &str, is_shared: bool, is_deep: bool) -> NewLock {
        NewLock {
            root: path(root),
            token: token.into(),
            is_shared,
            is_deep,
            owner: String::new(),
            holder: LockHolder(Some(ANN.into())),
            timeout: Duration::from_secs(60),
        }
    }

    fn table(locks: impl IntoIterator<Item = NewLock>) -> (Table, Instant) {
        let now = Instant::now();
        let mut table = Table::default();
        for lock in locks {
            table.add(lock, None, now);
        }
        (table, now)
    }

    #[test]
    fn a_lock_is_over_its_path_and_a_deep_one_over_all_below() {
        let (table, now) = table([lock("/a/b", "deep", false, true), lock("/c", "flat", false, false)]);
        let over = |text: &str| {
            let mut tokens: Vec<_> = table.covering(&path(text), now).into_iter().collect();
            tokens.pop().map(|lock| lock.token.to_string())
        };
        for text in ["/a/b", "/a/b/c", "/a/b/c/d"] {
            assert_eq!(over(text).as_deref(), Some("deep"), "{text}");
        }
        assert_eq!(over("/c").as_deref(), Some("flat"));
        for text in ["/", "/a", "/a/bc", "/a/b0", "/c/d"] {
            assert_eq!(over(text), None, "{text}");
        }
        let nobody = LockKeys::default();
        for (text, found) in [("/", true), ("/a", true), ("/a/b", false), ("/c", false), ("/a/", true)] {
            let text = text.trim_end_matches('/');
            let at = if text.is_empty() { "/" } else { text };
            assert_eq!(table.closed_below(&path(at), &nobody).is_some(), found, "{at}");
        }
    }

    #[test]
    fn a_token_opens_for_its_holder_only() {
        let (table, _) = table([lock("/a", "t", false, true)]);
        let closed = |keys: &LockKeys| table.closed(&path("/a/f"), keys);
        assert_eq!(closed(&keys(ANN, &["x", "t"])), None);
        for other in [
            keys(ANN, &[]),
            keys(ANN, &["x"]),
            keys("token https://idp bob", &["t"]),
            LockKeys {
                tokens: vec!["t".to_owned()],
                ..LockKeys::default()
            },
        ] {
            assert_eq!(closed(&other), Some(path("/a")), "{other:?}");
        }
    }

    #[test]
    fn of_shared_locks_one_token_opens_and_all_are_in_the_way_of_an_exclusive_one() {
        let (table, _) = table([lock("/f", "one", true, false), lock("/f", "two", true, false)]);
        assert_eq!(table.closed(&path("/f"), &keys(ANN, &["two"])), None);
        assert!(table.closed(&path("/f"), &keys(ANN, &["three"])).is_some());
        assert!(table.conflict(&lock("/f", "new", true, true)).is_none());
        assert_eq!(table.conflict(&lock("/f", "new", false, true)), Some(path("/f")));
        // From above a deep one meets them, a flat one does not.
        assert_eq!(table.conflict(&lock("/", "new", false, true)), Some(path("/f")));
        assert!(table.conflict(&lock("/", "new", false, false)).is_none());
        assert!(table.conflict(&lock("/", "new", true, true)).is_none());
    }

    #[test]
    fn what_has_timed_out_is_gone_and_a_refresh_lets_it_last() {
        let (mut table, now) = table([lock("/a", "a", false, true), lock("/b", "b", false, true)]);
        let later = now + Duration::from_secs(59);
        table.purge(later);
        assert_eq!(table.len(), 2);
        let mine = keys(ANN, &["a"]);
        let told = table
            .refresh(&path("/a/f"), &mine, Duration::from_secs(10), later)
            .unwrap();
        assert_eq!((told.remaining, told.root), (Duration::from_secs(10), path("/a")));
        table.purge(now + Duration::from_secs(60));
        assert_eq!((table.len(), table.by_path.len()), (1, 1));
        table.purge(later + Duration::from_secs(10));
        assert_eq!((table.len(), table.by_path.len()), (0, 0));
        let lost = table.refresh(&path("/a"), &mine, Duration::from_secs(10), later);
        assert_eq!(lost.unwrap_err(), Unusable::Unknown);
    }

    #[test]
    fn only_its_holder_ends_a_lock() {
        let (mut table, now) = table([lock("/a", "a", false, true)]);
        let ann = LockHolder(Some(ANN.into()));
        let (at, elsewhere) = (path("/a/f"), path("/b"));
        assert_eq!(table.release(&elsewhere, "a", &ann), Err(Unusable::Unknown));
        assert_eq!(table.release(&at, "a", &LockHolder::default()), Err(Unusable::NotYours));
        let others = keys("bob", &["a"]);
        let refreshed = table.refresh(&at, &others, Duration::ZERO, now);
        assert_eq!(refreshed.unwrap_err(), Unusable::NotYours);
        assert_eq!(table.release(&at, "a", &ann), Ok(()));
        assert_eq!((table.len(), table.by_path.len()), (0, 0));
    }

    #[test]
    fn with_what_is_removed_its_locks_go() {
        let all = ["/a", "/a/b/c", "/a0", "/ab"].map(|root| lock(root, root, false, false));
        let (mut table, _) = table(all);
        table.forget(&path("/a"));
        let left: Vec<_> = table.by_path.keys().map(|place| place.to_string()).collect();
        assert_eq!((left, table.len()), (vec!["/a0".to_owned(), "/ab".to_owned()], 2));
        table.forget(&LogicalPath::root());
        assert_eq!(table.len(), 0);
    }
}
