//! The locks themselves: pure data, to which callers bring the time.
//!
//! They lie in an ordered map by path, so that looking at a path takes a look-up for each of its ancestors, and looking
//! below one a range. Each call first drops what has timed out, which a second map finds in order: nothing is left
//! behind, and no task has to sweep.
//!
//! Beside them lie the changes that are being made at the moment: a check and the change that it lets through are one
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
    /// Where a lock ends that ends then; the number tells apart those that end at the same time.
    ends: BTreeMap<(Instant, u64), Arc<str>>,
    /// What is being changed.
    changes: BTreeMap<Arc<str>, Vec<UnderWay>>,
    /// Counts locks and changes, so that of two the older one is known.
    next_number: u64,
}

/// A change that is being made.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    change: Change,
    is_long: bool,
}

/// What becomes of a lock that meets a change under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// It waits for the end of the change.
    Short,
    /// It is refused: what it is to be on goes away, or is open for as long as its client likes.
    Long,
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

    /// The same for everything below a path. Each place is visited once, with what the deep locks above it open.
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

    /// Visits each place with locks below a path, behind those above it, with what the visit of the nearest of these
    /// gave; at first with `from`.
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

    /// Notes a change that begins now. Gives the number by which it ends.
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

    /// A change lasts for as long as its client likes.
    pub(super) fn set_long(&mut self, path: &LogicalPath, number: u64) {
        let changes = self.changes.get_mut(&*key(path)).into_iter().flatten();
        for change in changes.filter(|change| change.number == number) {
            change.is_long = true;
        }
    }

    /// A change has been made, or not.
    pub(super) fn end(&mut self, path: &LogicalPath, number: u64) {
        let key = key(path);
        if let Some(changes) = self.changes.get_mut(&*key) {
            changes.retain(|change| change.number != number);
            if changes.is_empty() {
                self.changes.remove(&*key);
            }
        }
    }

    /// What a lock would meet of the changes that began before that number.
    pub(super) fn met(&self, root: &LogicalPath, is_deep: bool, before: u64) -> Option<Met> {
        let (key, mut met) = (key(root), None);
        let mut note = |change: &UnderWay, takes_root: bool| {
            if change.number < before {
                let is_long = change.is_long || (takes_root && change.change == Change::Remove);
                met = if is_long {
                    Some(Met::Long)
                } else {
                    met.or(Some(Met::Short))
                };
            }
        };
        for place in ancestors(&key) {
            let changes = self.changes.get(place).into_iter().flatten();
            let reaches = |change: &&UnderWay| change.change != Change::Update || place.len() == key.len();
            changes.filter(reaches).for_each(|change| note(change, true));
        }
        for (place, changes) in within(&self.changes, &key) {
            // A new name is one of the directory that gets it, which may be any above it; what is removed changes the
            // directory that it was in.
            let reaches = |change: &&UnderWay| match change.change {
                _ if is_deep => true,
                Change::Store => true,
                Change::Remove => ancestors(place).nth(1) == Some(&*key),
                Change::Update => false,
            };
            changes.iter().filter(reaches).for_each(|change| note(change, false));
        }
        met
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

    /// Whether there would be too many over a path.
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

    /// Adds a lock, with which none must be in conflict.
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
        let mut locks = self.by_path.get_mut(&*key(&root)).into_iter().flatten();
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
        let (ends, number, place) = (lock.ends, lock.number, key(&lock.facts.root));
        self.ends.remove(&(ends, number));
        self.drop_lock(&place, number);
        Ok(())
    }

    /// Ends all locks that begin at a path or below it and are older than that number.
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

/// A path as the maps have it: its slashes come before all that names can hold, so that everything below a path stands
/// right behind it.
fn key(path: &LogicalPath) -> String {
    path.as_str().replace('/', "\0")
}

/// A key and those of all above it, the root included.
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

/// What a map has below a key.
fn within<'a, T>(
    map: &'a BTreeMap<Arc<str>, T>,
    key: &str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a T)> + use<'a, T> {
    let start = format!("{}\0", key.trim_end_matches('\0'));
    let end = format!("{}\u{1}", key.trim_end_matches('\0'));
    let range = map.range::<str, _>((Bound::Included(&*start), Bound::Excluded(&*end)));
    // The root itself is not below itself.
    range.filter(|(place, _)| place.len() > 1)
}

/// Whether a key is that of something below another one.
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
    fn so_many_locks_are_over_a_path_whichever_came_first() {
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
    fn each_place_below_is_closed_unless_something_over_it_opens() {
        // '!' comes before the slash: what is below a path would not stand right behind it.
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
    fn many_locks_below_are_looked_at_once_each() {
        // Over each place lie all the others above it: looking at them for each would take a billion steps.
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
    fn a_lock_meets_what_is_being_changed_under_it() {
        let (mut table, _) = table([]);
        let update = table.begin(&path("/a/f"), Change::Update, false);
        let store = table.begin(&path("/n/new/f"), Change::Store, false);
        let removal = table.begin(&path("/r/tree"), Change::Remove, false);
        let open = table.begin(&path("/o"), Change::Update, true);
        for (root, is_deep, met) in [
            ("/a/f", false, Some(Met::Short)),
            ("/a", false, None),
            ("/a", true, Some(Met::Short)),
            ("/a/g", true, None),
            ("/n/new/f", false, Some(Met::Short)),
            ("/n", false, Some(Met::Short)),
            ("/r/tree", false, Some(Met::Long)),
            ("/r/tree/x/y", false, Some(Met::Long)),
            ("/r/treex", true, None),
            ("/r", false, Some(Met::Short)),
            ("/r", true, Some(Met::Short)),
            ("/o", false, Some(Met::Long)),
            ("/", true, Some(Met::Long)),
        ] {
            assert_eq!(table.met(&path(root), is_deep, u64::MAX), met, "{root} {is_deep}");
        }
        // What began later found the lock.
        assert_eq!(table.met(&path("/a/f"), false, update), None);
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
