//! The directories of a tree that wait to be entered: the latest first, so that few of them wait.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use types::{Error, LogicalPath, Result};

use super::descent::Level;
use super::enter::Entry;
use super::spool::Spooled;
use super::spool_failed;
use crate::client::place::Place;

/// A directory to enter.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) source: Place,
    pub(crate) target: Place,
    /// The path below the top of the tree; empty for the top.
    path: String,
    /// The top of the tree at the source.
    pub(super) top: Arc<Place>,
    /// The directory above it, within the tree.
    pub(super) above: Option<Arc<Level>>,
    /// The destination has no such directory.
    pub(super) is_new: bool,
}

impl Directory {
    /// The top of a tree.
    pub(crate) fn top(source: Place, target: Place) -> Self {
        Self {
            top: Arc::new(source.clone()),
            source,
            target,
            path: String::new(),
            above: None,
            is_new: false,
        }
    }

    /// The path of an entry below the top of the tree.
    pub(super) fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        }
    }

    /// The name of an entry in reports.
    pub(super) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.source.to_string().trim_end_matches('/'))
    }

    /// The source and the target of an entry.
    ///
    /// # Errors
    /// A name that one of them cannot have.
    pub(super) fn child(&self, name: &str) -> Result<(Place, Place)> {
        Ok((self.source.child(name)?, self.target.child(name)?))
    }

    /// The same, with what a link leads to as the source.
    ///
    /// # Errors
    /// As [`Directory::child`].
    pub(super) fn child_of(&self, entry: &Entry) -> Result<(Place, Place)> {
        let (source, target) = self.child(&entry.info.name)?;
        Ok(match &entry.real {
            Some(real) => (Place::Local(LogicalPath::parse(real)?), target),
            None => (source, target),
        })
    }

    /// Whether it is this local directory, or in it.
    pub(super) fn is_within(&self, directory: &LogicalPath) -> bool {
        let is_it = |place: &Place| matches!(place, Place::Local(path) if path == directory);
        is_it(&self.source) || self.above.as_ref().is_some_and(|above| above.any(is_it))
    }
}

/// The directories of one directory.
pub(super) struct Group {
    pub(super) directory: Directory,
    pub(super) level: Arc<Level>,
    pub(super) entries: Spooled<Entry>,
}

/// A directory whose turn it is, or the name of one that cannot be entered.
pub(super) enum Turn {
    Enter(Box<Directory>),
    Unusable(String, Error),
}

/// Directories that wait. Groups are as many as the tree is deep, times those who enter.
pub(super) struct Waiting {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    top: Option<Directory>,
    groups: Vec<Group>,
    entered: usize,
}

impl State {
    fn pop(&mut self) -> Option<Turn> {
        if let Some(top) = self.top.take() {
            return Some(Turn::Enter(Box::new(top)));
        }
        while let Some(group) = self.groups.last_mut() {
            let Some(next) = group.entries.next() else {
                self.groups.pop();
                continue;
            };
            let directory = &group.directory;
            let turn = match next.map_err(|cause| spool_failed(&cause)) {
                Ok(entry) => match directory.child_of(&entry) {
                    Ok((source, target)) => Turn::Enter(Box::new(Directory {
                        source,
                        target,
                        path: directory.path_of(&entry.info.name),
                        top: Arc::clone(&directory.top),
                        above: Some(Arc::clone(&group.level)),
                        is_new: entry.is_new,
                    })),
                    Err(error) => Turn::Unusable(directory.shown(&entry.info.name), error),
                },
                Err(error) => {
                    let shown = directory.source.to_string();
                    self.groups.pop();
                    Turn::Unusable(shown, error)
                }
            };
            return Some(turn);
        }
        None
    }
}

impl Waiting {
    /// The top of a tree waits.
    pub(super) fn new(top: Directory) -> Self {
        Self {
            state: Mutex::new(State {
                top: Some(top),
                groups: Vec::new(),
                entered: 0,
            }),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next directory; waits while those that were entered may bring more. `None` at the end.
    /// Each is followed by a call of [`Waiting::leave`].
    pub(super) async fn next(&self) -> Option<Turn> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(turn) = state.pop() {
                    state.entered += 1;
                    return Some(turn);
                }
                if state.entered == 0 {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// A directory was read; these are in it.
    pub(super) fn leave(&self, below: Option<Group>) {
        let mut state = self.state();
        state.entered -= 1;
        state.groups.extend(below);
        drop(state);
        self.changed.notify_waiters();
    }
}
