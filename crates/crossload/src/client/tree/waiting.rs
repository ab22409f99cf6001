//! The directories of a tree that wait to be entered: the latest first, so that few of them wait.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use types::Result;

use super::descent::Level;
use super::spool::Spooled;
use crate::client::place::Place;
use crate::client::session::Info;

/// A directory to enter.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) source: Place,
    pub(crate) target: Place,
    /// The directory above it, within the tree.
    pub(super) above: Option<Arc<Level>>,
}

impl Directory {
    /// The top of a tree.
    pub(crate) fn top(source: Place, target: Place) -> Self {
        Self {
            source,
            target,
            above: None,
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
}

/// The directories of one directory.
pub(super) struct Group {
    pub(super) directory: Directory,
    pub(super) level: Arc<Level>,
    pub(super) names: Spooled<Info>,
}

/// A directory whose turn it is, or the name of one that cannot be entered.
pub(super) enum Turn {
    Enter(Directory),
    Unusable(String, types::Error),
    Unreadable(String, io::Error),
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
            return Some(Turn::Enter(top));
        }
        while let Some(group) = self.groups.last_mut() {
            let Some(next) = group.names.next() else {
                self.groups.pop();
                continue;
            };
            let directory = &group.directory;
            return Some(match next {
                Err(cause) => {
                    let shown = directory.source.to_string();
                    self.groups.pop();
                    Turn::Unreadable(shown, cause)
                }
                Ok(info) => match directory.child(&info.name) {
                    Err(error) => Turn::Unusable(directory.shown(&info.name), error),
                    Ok((source, target)) => Turn::Enter(Directory {
                        source,
                        target,
                        above: Some(Arc::clone(&group.level)),
                    }),
                },
            });
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
