//! The table of locks: pure data; callers pass the time.
//!
//! An ordered map by path: finding the locks that cover a path takes a look-up for each ancestor,
//! and finding those below takes a range. Each call first drops timed-out locks, which a second map
//! finds in order, so nothing has to sweep.
//!
//! The table also holds the running changes, so that checking a change and registering it is one
//! step for locks.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use types::LogicalPath;
use types::limits::LOCKS_PER_PATH_MAX;

use super::{Change, LockFacts, LockHolder, LockKeys, NewLock};
use crate::fair_share::Share;

/// All locks.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_path: BTreeMap<Arc<str>, Vec<Lock>>,
    /// The paths of locks by their end; the number distinguishes locks that end at the same time.
    ends: BTreeMap<(Instant, u64), Arc<str>>,
    /// The running changes.
    changes: BTreeMap<Arc<str>, Vec<UnderWay>>,
    /// Numbers locks and changes in order, so that the older of two is known.
    next_number: u64,
}

/// A running change.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    change: Change,
    is_long: bool,
}

/// What happens to a new lock that conflicts with a running change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// It waits for the end of the change.
    Waits,
    /// It is refused: its resource is being removed, or is open for an unknown time.
    Refused,
}

#[derive(Debug)]
struct Lock {
    facts: NewLock,
    number: u64,
    ends: Instant,
    /// Its unit of its client's share.
    _share: Option<Share>,
}

/// Why a lock cannot be refreshed or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// No lock with such a token covers the path.
    Unknown,
    /// It belongs to another client.
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

    /// Drops timed-out locks.
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

    /// The locks that cover a path: its own, and deep ones of its ancestors.
    fn over(&self, path: &LogicalPath) -> impl Iterator<Item = &Lock> {
        let key = key(path);
        let places = ancestors(&key).filter_map(|place| Some((self.by_path.get(place)?, place.len() == key.len())));
        let places: Vec<_> = places.collect();
        places.into_iter().flat_map(|(locks, is_here)| {
            let reaches = move |lock: &&Lock| lock.facts.is_deep || is_here;
            locks.iter().filter(reaches)
        })
    }

    /// The locks that begin below a path.
    fn below(&self, path: &LogicalPath) -> impl Iterator<Item = &Lock> {
        within(&self.by_path, &key(path)).flat_map(|(_, locks)| locks)
    }

    /// The locks that cover a path, in the form for clients.
    pub(super) fn covering(&self, path: &LogicalPath, now: Instant) -> Vec<LockFacts> {
        self.over(path).map(|lock| lock.tell(now)).collect()
    }

    /// The first lock that covers a path, unless one of their tokens was submitted: one of several
    /// suffices.
    pub(super) fn closed(&self, path: &LogicalPath, keys: &LockKeys) -> Option<LogicalPath> {
        let mut locks = self.over(path).peekable();
        let root = locks.peek()?.facts.root.clone();
        (!locks.any(|lock| lock.opens_for(keys))).then_some(root)
    }

    /// The same for everything below a path. Each path is visited once, with the result of the deep
    /// locks above it.
    pub(super) fn closed_below(&self, path: &LogicalPath, keys: &LockKeys) -> Option<LogicalPath> {
        let is_open = self.over(path).any(|lock| lock.facts.is_deep && lock.opens_for(keys));
        self.walk_below(path, is_open, |from_above, locks| {
            if !from_above && !locks.iter().any(|lock| lock.opens_for(keys)) {
                return Err(locks[0].facts.root.clone());
            }
            Ok(from_above || locks.iter().any(|lock| lock.facts.is_deep && lock.opens_for(keys)))
        })
        .err()
    }

    /// Visits each path with locks below `path`, ancestors first. Each visit gets the result of its
    /// nearest visited ancestor, or `from`.
    fn walk_below<C: Copy, E>(
        &self,
        path: &LogicalPath,
        from: C,
        mut visit: impl FnMut(C, &[Lock]) -> Result<C, E>,
    ) -> Result<(), E> {
        let mut above: Vec<(&str, C)> = Vec::new();
        for (place, locks) in within(&self.by_path, &key(path)) {
            while above.last().is_some_and(|(last, _)| !is_below(place, last)) {
                above.pop();
            }
            let carried = above.last().map_or(from, |(_, carried)| *carried);
            above.push((place, visit(carried, locks)?));
        }
        Ok(())
    }

    /// Registers a change that begins now; returns the number by which to end it.
    pub(super) fn begin(&mut self, path: &LogicalPath, change: Change, is_long: bool) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let under_way = UnderWay {
            number,
            change,
            is_long,
        };
        self.changes.entry(key(path).into()).or_default().push(under_way);
        number
    }

    /// The number of the next lock or change.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Marks a change as lasting for an unknown time.
    pub(super) fn set_long(&mut self, path: &LogicalPath, number: u64) {
        let changes = self.changes.get_mut(&*key(path)).into_iter().flatten();
        for change in changes.filter(|change| change.number == number) {
            change.is_long = true;
        }
    }

    /// Ends a change.
    pub(super) fn end(&mut self, path: &LogicalPath, number: u64) {
        let key = key(path);
        if let Some(changes) = self.changes.get_mut(&*key) {
            changes.retain(|change| change.number != number);
            if changes.is_empty() {
                self.changes.remove(&*key);
            }
        }
    }

    /// How a lock conflicts with the changes that began before this number.
    pub(super) fn change_conflict(&self, root: &LogicalPath, is_deep: bool, before: u64) -> Option<Conflict> {
        let (key, mut conflict) = (key(root), None);
        let mut note = |change: &UnderWay, takes_root: bool| {
            if change.number < before {
                let is_long = change.is_long || (takes_root && change.change == Change::Remove);
                conflict = if is_long {
                    Some(Conflict::Refused)
                } else {
                    conflict.or(Some(Conflict::Waits))
                };
            }
        };
        for place in ancestors(&key) {
            let changes = self.changes.get(place).into_iter().flatten();
            let reaches = |change: &&UnderWay| change.change != Change::Update || place.len() == key.len();
            changes.filter(reaches).for_each(|change| note(change, true));
        }
        for (place, changes) in within(&self.changes, &key) {
            // A new name changes the directory that gets it, which may be any ancestor; a removal
            // changes the directory that contained the name.
            let reaches = |change: &&UnderWay| match change.change {
                _ if is_deep => true,
                Change::Store => true,
                Change::Remove => ancestors(place).nth(1) == Some(&*key),
                Change::Update => false,
            };
            changes.iter().filter(reaches).for_each(|change| note(change, false));
        }
        conflict
    }

    /// The path of a lock that conflicts with a new one.
    pub(super) fn conflict(&self, wanted: &NewLock) -> Option<LogicalPath> {
        let is_in_the_way = |lock: &&Lock| !(wanted.is_shared && lock.facts.is_shared);
        let over = self.over(&wanted.root).find(is_in_the_way);
        let found = match wanted.is_deep {
            true => over.or_else(|| self.below(&wanted.root).find(is_in_the_way)),
            false => over,
        };
        found.map(|lock| lock.facts.root.clone())
    }

    /// Whether a new lock would be one too many on some path.
    pub(super) fn is_crowded(&self, wanted: &NewLock) -> bool {
        let over = self.over(&wanted.root).count();
        if over >= LOCKS_PER_PATH_MAX || !wanted.is_deep {
            return over >= LOCKS_PER_PATH_MAX;
        }
        let deep = |locks: &[Lock]| locks.iter().filter(|lock| lock.facts.is_deep).count();
        let from_above = self.over(&wanted.root).filter(|lock| lock.facts.is_deep).count();
        let walked = self.walk_below(&wanted.root, from_above, |above, locks| {
            match above + locks.len() < LOCKS_PER_PATH_MAX {
                true => Ok(above + deep(locks)),
                false => Err(()),
            }
        });
        walked.is_err()
    }

    /// Adds a lock, which must not conflict with any other.
    pub(super) fn add(&mut self, facts: NewLock, share: Option<Share>, now: Instant) -> LockFacts {
        let number = self.next_number;
        self.next_number += 1;
        let place: Arc<str> = key(&facts.root).into();
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

    /// Extends a lock that covers a path; the timeout counts from now.
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
        let mut locks = self.by_path.get_mut(&*key(&root)).into_iter().flatten();
        let lock = locks.find(|lock| lock.number == number).ok_or(Unusable::Unknown)?;
        if let Some(place) = self.ends.remove(&(lock.ends, number)) {
            lock.ends = now + timeout;
            self.ends.insert((lock.ends, number), place);
        }
        Ok(lock.tell(now))
    }

    /// Ends a lock that covers a path.
    pub(super) fn release(&mut self, path: &LogicalPath, token: &str, holder: &LockHolder) -> Result<(), Unusable> {
        let lock = self.over(path).find(|lock| *lock.facts.token == *token);
        let lock = lock.ok_or(Unusable::Unknown)?;
        if lock.facts.holder != *holder {
            return Err(Unusable::NotYours);
        }
        let (ends, number, place) = (lock.ends, lock.number, key(&lock.facts.root));
        self.ends.remove(&(ends, number));
        self.drop_lock(&place, number);
        Ok(())
    }

    /// Ends all locks at or below a path that are older than this number.
    pub(super) fn forget(&mut self, path: &LogicalPath, before: u64) {
        let key = key(path);
        let mut places: Vec<Arc<str>> = within(&self.by_path, &key).map(|(place, _)| place.clone()).collect();
        places.push(key.into());
        for place in places {
            let Some(locks) = self.by_path.get_mut(&place) else {
                continue;
            };
            for lock in locks.extract_if(.., |lock| lock.number < before) {
                self.ends.remove(&(lock.ends, lock.number));
            }
            if locks.is_empty() {
                self.by_path.remove(&place);
            }
        }
    }
}

/// A path as key of the maps. Its slashes are replaced by a byte that sorts before all characters
/// of names, so everything below a path follows it directly.
fn key(path: &LogicalPath) -> String {
    path.as_str().replace('/', "\0")
}

/// A key and all of its ancestors, the root included.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let place = next?;
        next = match place.rfind('\0') {
            _ if place == "\0" => None,
            Some(0) | None => Some("\0"),
            Some(cut) => Some(&place[..cut]),
        };
        Some(place)
    })
}

/// The entries of a map below a key.
fn within<'a, T>(
    map: &'a BTreeMap<Arc<str>, T>,
    key: &str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a T)> + use<'a, T> {
    let start = format!("{}\0", key.trim_end_matches('\0'));
    let end = format!("{}\u{1}", key.trim_end_matches('\0'));
    let range = map.range::<str, _>((Bound::Included(&*start), Bound::Excluded(&*end)));
    // The root is not below itself.
    range.filter(|(place, _)| place.len() > 1)
}

/// Whether a key is below another.
fn is_below(place: &str, above: &str) -> bool {
    let rest = place.strip_prefix(above.trim_end_matches('\0'));
    rest.is_some_and(|rest| rest.starts_with('\0'))
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
    fn a_lock_covers_its_path_and_a_deep_one_everything_below() {
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
    fn a_token_works_for_its_holder_only() {
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
    fn one_token_of_several_shared_locks_suffices_and_all_conflict_with_an_exclusive_one() {
        let (table, _) = table([lock("/f", "one", true, false), lock("/f", "two", true, false)]);
        assert_eq!(table.closed(&path("/f"), &keys(ANN, &["two"])), None);
        assert!(table.closed(&path("/f"), &keys(ANN, &["three"])).is_some());
        assert!(table.conflict(&lock("/f", "new", true, true)).is_none());
        assert_eq!(table.conflict(&lock("/f", "new", false, true)), Some(path("/f")));
        // A deep lock from above conflicts, a flat one does not.
        assert_eq!(table.conflict(&lock("/", "new", false, true)), Some(path("/f")));
        assert!(table.conflict(&lock("/", "new", false, false)).is_none());
        assert!(table.conflict(&lock("/", "new", true, true)).is_none());
    }

    #[test]
    fn the_number_of_locks_on_a_path_is_limited_in_any_order() {
        let shared = |root: &str, is_deep| lock(root, "t", true, is_deep);
        let half = LOCKS_PER_PATH_MAX / 2;
        let below = (0..half).map(|_| shared("/a/b", false));
        let above = (0..half - 1).map(|_| shared("/a", true));
        let (mut table, now) = table(below.chain(above));
        for root in ["/", "/a", "/a/b"] {
            assert!(!table.is_crowded(&shared(root, true)), "{root}");
        }
        table.add(shared("/", true), None, now);
        for root in ["/", "/a", "/a/b"] {
            assert!(table.is_crowded(&shared(root, true)), "{root}");
        }
        assert!(!table.is_crowded(&shared("/a", false)));
        assert!(!table.is_crowded(&shared("/a/c", true)));
        assert!(table.is_crowded(&shared("/a/b", false)));
    }

    #[test]
    fn locks_time_out_and_a_refresh_extends_them() {
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
    fn only_the_holder_ends_a_lock() {
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
    fn locks_end_when_their_resource_is_removed() {
        let all = ["/a", "/a/b/c", "/a0", "/ab"].map(|root| lock(root, root, false, false));
        let (mut table, _) = table(all);
        table.forget(&path("/a"), u64::MAX);
        let left: Vec<_> = table.by_path.keys().map(|place| place.replace('\0', "/")).collect();
        assert_eq!((left, table.len()), (vec!["/a0".to_owned(), "/ab".to_owned()], 2));
        table.forget(&LogicalPath::root(), u64::MAX);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_path_is_forgotten_with_older_locks_only() {
        let (mut table, now) = table([lock("/a", "old", true, true)]);
        let removal = table.begin(&path("/a"), Change::Remove, false);
        table.add(lock("/a/b", "new", true, true), None, now);
        table.forget(&path("/a"), removal);
        assert_eq!(table.len(), 1);
        assert_eq!(table.covering(&path("/a/b"), now)[0].token.as_ref(), "new");
    }

    #[test]
    fn each_path_below_is_closed_unless_a_lock_above_opens_it() {
        // '!' sorts before the slash, so without the replacement these paths would not follow each
        // other.
        let roots = [("/t/a", "a", true), ("/t/a!x", "x", true), ("/t/a/b", "b", false)];
        let (table, _) = table(roots.map(|(root, token, is_deep)| lock(root, token, true, is_deep)));
        let closed = |at: &str, tokens: &[&str]| table.closed_below(&path(at), &keys(ANN, tokens));
        assert_eq!(closed("/t", &["a", "x"]), None);
        assert_eq!(closed("/", &["a", "x"]), None);
        assert_eq!(closed("/t", &["x", "b"]), Some(path("/t/a")));
        assert_eq!(closed("/t", &["a", "b"]), Some(path("/t/a!x")));
        assert_eq!(closed("/t/a", &["x"]), Some(path("/t/a/b")));
        assert_eq!(closed("/t/a", &["a"]), None);
        assert_eq!(closed("/t/a/b", &[]), None);
    }

    #[test]
    fn many_locks_below_are_visited_once_each() {
        // Each path has all the others above it: visiting them again for each would take a billion
        // steps.
        let mut deep = String::new();
        let roots = (0..1000).map(|_| {
            deep.push_str("/d");
            deep.clone()
        });
        let locks = roots.flat_map(|root| (0..8).map(move |n| lock(&root, &format!("{n}"), true, true)));
        let (table, _) = table(locks.collect::<Vec<_>>());
        let visits = std::cell::Cell::new(0);
        let done = table.walk_below(&LogicalPath::root(), 0, |above, locks: &[Lock]| {
            visits.set(visits.get() + locks.len());
            Ok::<_, ()>(above + 1)
        });
        assert_eq!((done, visits.get()), (Ok(()), 8000));
        assert_eq!(table.closed_below(&LogicalPath::root(), &keys(ANN, &["7"])), None);
    }

    #[test]
    fn a_lock_conflicts_with_running_changes_under_it() {
        let (mut table, _) = table([]);
        let update = table.begin(&path("/a/f"), Change::Update, false);
        let store = table.begin(&path("/n/new/f"), Change::Store, false);
        let removal = table.begin(&path("/r/tree"), Change::Remove, false);
        let open = table.begin(&path("/o"), Change::Update, true);
        for (root, is_deep, conflict) in [
            ("/a/f", false, Some(Conflict::Waits)),
            ("/a", false, None),
            ("/a", true, Some(Conflict::Waits)),
            ("/a/g", true, None),
            ("/n/new/f", false, Some(Conflict::Waits)),
            ("/n", false, Some(Conflict::Waits)),
            ("/r/tree", false, Some(Conflict::Refused)),
            ("/r/tree/x/y", false, Some(Conflict::Refused)),
            ("/r/treex", true, None),
            ("/r", false, Some(Conflict::Waits)),
            ("/r", true, Some(Conflict::Waits)),
            ("/o", false, Some(Conflict::Refused)),
            ("/", true, Some(Conflict::Refused)),
        ] {
            assert_eq!(
                table.change_conflict(&path(root), is_deep, u64::MAX),
                conflict,
                "{root} {is_deep}"
            );
        }
        // A later change has found the lock.
        assert_eq!(table.change_conflict(&path("/a/f"), false, update), None);
        for (at, number) in [
            ("/a/f", update),
            ("/n/new/f", store),
            ("/r/tree", removal),
            ("/o", open),
        ] {
            table.end(&path(at), number);
        }
        assert!(table.changes.is_empty());
    }
}
