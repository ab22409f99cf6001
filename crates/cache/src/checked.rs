//! Which version of a file the origin had, and when it was asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use storage::Stat;
use types::LogicalPath;

use crate::key::Key;
use crate::limits::CHECKED_FILES_MAX;

struct Checked {
    origin: Arc<str>,
    path: LogicalPath,
    known: KnownVersion,
}

/// A version of a file.
#[derive(Clone)]
pub(crate) struct KnownVersion {
    pub(crate) version: Stat,
    /// When the origin was asked.
    pub(crate) asked_at: Instant,
}

#[derive(Default)]
struct State {
    files: IndexMap<Key, Checked>,
    /// Files that are open for changes, and how often.
    changing: std::collections::HashMap<Key, u32>,
    /// Changes so far.
    changes: u64,
}

/// What the origin said. Changes made through the cache remove it.
#[derive(Default)]
pub(crate) struct CheckedVersions(Mutex<State>);

/// Taken before the origin is asked. Its answer counts only if nothing was changed meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Ticket(u64);

impl CheckedVersions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.lock().changes)
    }

    /// The version, if the origin was asked less than `age` ago.
    pub(crate) fn find(&self, key: Key, age: Duration) -> Option<KnownVersion> {
        let state = self.lock();
        let known = &state.files.get(&key)?.known;
        (known.asked_at.elapsed() < age).then(|| known.clone())
    }

    pub(crate) fn note(&self, ticket: Ticket, key: Key, origin: &Arc<str>, path: &LogicalPath, version: &Stat) {
        let mut state = self.lock();
        if state.changes != ticket.0 || state.changing.contains_key(&key) {
            return;
        }
        if state.files.len() >= CHECKED_FILES_MAX && !state.files.contains_key(&key) {
            let any = fastrand::usize(..state.files.len());
            state.files.swap_remove_index(any);
        }
        let checked = Checked {
            origin: origin.clone(),
            path: path.clone(),
            known: KnownVersion {
                version: version.clone(),
                asked_at: Instant::now(),
            },
        };
        state.files.insert(key, checked);
    }

    /// Forgets one file.
    pub(crate) fn forget(&self, key: Key) {
        self.lock().files.swap_remove(&key);
    }

    /// Forgets a file that was changed.
    pub(crate) fn note_changed(&self, key: Key) {
        let mut state = self.lock();
        state.changes += 1;
        state.files.swap_remove(&key);
    }

    /// Forgets what a change of `path`, and of everything below it, makes invalid. Returns the keys
    /// below it that were known.
    pub(crate) fn forget_below(&self, origin: &str, path: &LogicalPath) -> Vec<Key> {
        let mut state = self.lock();
        state.changes += 1;
        let mut forgotten = Vec::new();
        state.files.retain(|key, checked| {
            let is_below = &*checked.origin == origin && checked.path.is_within(path);
            if is_below {
                forgotten.push(*key);
            }
            !is_below
        });
        forgotten
    }

    /// Notes that a file is open for changes in place.
    pub(crate) fn begin_changes(&self, key: Key) {
        let mut state = self.lock();
        state.changes += 1;
        state.files.swap_remove(&key);
        *state.changing.entry(key).or_default() += 1;
    }

    /// The end of [`CheckedVersions::begin_changes`].
    pub(crate) fn end_changes(&self, key: Key) {
        let mut state = self.lock();
        state.changes += 1;
        if let Some(count) = state.changing.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                state.changing.remove(&key);
            }
        }
    }

    pub(crate) fn is_changing(&self, key: Key) -> bool {
        self.lock().changing.contains_key(&key)
    }
}
