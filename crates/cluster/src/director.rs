//! The director: asks where a file is, remembers it, and sends each client to a node.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;
use types::LogicalPath;

use crate::expected::{Coming, Expected};
use crate::explanation::{Basis, Undirected};
use crate::locations::Locations;
use crate::locator::Locator;
use crate::near::Near;
use crate::node::{Change, Drain, Node, NodeConfig, NodeId, Nodes, Status};
use crate::placement::{Reservations, Unplaced};
use finding::Asking;
pub use state::Counts;
use state::State;
use surroundings::Directories;

/// What the choice of a node depends on, of a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Client<'a> {
    /// Where it comes from.
    pub address: Option<IpAddr>,
    /// What is near to it.
    pub near: Near<'a>,
    /// Nodes that it has tried in vain, by their names in URLs.
    pub tried: &'a [NodeId],
    /// What is known is not believed: the nodes are asked.
    pub refresh: bool,
    /// It only wants to know where it would be sent: no room is kept for it, and no load counted.
    pub only_asks: bool,
    /// A file that it stores must not replace another.
    pub is_new: bool,
}

/// Where a name is.
#[derive(Debug, Clone)]
pub struct Located {
    /// The nodes that have it.
    pub holders: Vec<NodeId>,
    /// There are no others.
    pub is_complete: bool,
    /// Where readers were sent a moment ago.
    sticky: Option<NodeId>,
    /// How it is known.
    pub basis: Basis,
}

/// Sends clients to nodes. What it knows can be asked for again; it keeps nothing on disk.
pub struct Director {
    state: Mutex<State>,
    locator: Arc<dyn Locator>,
    /// Names that are being asked for; several clients wait for the same answers.
    questions: Mutex<HashMap<LogicalPath, Asking>>,
    started: Instant,
    presence_changed: Notify,
}

impl Director {
    /// A director for these nodes, which remembers locations in so many bytes.
    pub fn new(nodes: impl IntoIterator<Item = NodeConfig>, locator: Arc<dyn Locator>, bytes_max: usize) -> Self {
        let state = State {
            nodes: Nodes::new(nodes),
            locations: Locations::new(bytes_max),
            reservations: Reservations::default(),
            expected: Expected::default(),
            heard: Expected::default(),
            claims: HashSet::new(),
            waiting: HashMap::new(),
            making: HashMap::new(),
            directories: Directories::default(),
            random: fastrand::Rng::new(),
            counts: Counts::default(),
        };
        Self {
            state: Mutex::new(state),
            locator,
            questions: Mutex::default(),
            started: Instant::now(),
            presence_changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since one before the start, so that nothing happens at 0.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX) + 1
    }

    /// A node answers, and may have told how it is.
    pub fn told(&self, node: NodeId, status: Option<Status>) -> Option<Change> {
        let (now_ms, time_ms) = (self.now_ms(), status.map_or(0, |status| status.time_ms));
        let change = {
            let nodes = &mut self.state().nodes;
            if time_ms > 0 {
                nodes.clock(node, ahead_ms(time_ms), now_ms);
            }
            nodes.told(node, status, now_ms)
        };
        if change.is_some() {
            self.presence_changed.notify_waiters();
        }
        change
    }

    /// Whether a node that tells no status is a server of ours.
    pub fn identified(&self, node: NodeId, is_ours: bool) {
        self.state().nodes.identified(node, is_ours);
    }

    /// A node does not answer.
    pub fn lost(&self, node: NodeId, reason: &str) -> Option<Change> {
        let change = self.state().nodes.lost(node, reason, self.now_ms());
        self.presence_changed.notify_waiters();
        change
    }

    /// An operator drains a node, or takes it back.
    pub fn order(&self, node: NodeId, drain: Drain) {
        self.state().nodes.order(node, drain);
    }

    /// Whether a node is there.
    pub(crate) fn is_present(&self, node: NodeId) -> bool {
        self.state().nodes.get(node).is_some_and(Node::is_present)
    }

    /// A node does not let us ask about names.
    pub fn refused(&self, node: NodeId, words: &str) {
        self.state().nodes.refused(node, words);
    }

    /// A node tells which names change from now on, or no longer does.
    pub fn tells(&self, node: NodeId, tells_changes: bool) {
        self.state().nodes.tells(node, tells_changes);
    }

    /// A node has told which trees it exports, under the names by which it is asked; `None` if it
    /// does not tell all. New files outside of them go to other nodes.
    pub fn exports(&self, node: NodeId, exports: Option<Vec<LogicalPath>>) {
        self.state().nodes.exports(node, exports);
    }

    /// A node has told where it is.
    pub fn at_site(&self, node: NodeId, site: Option<&str>) {
        self.state().nodes.at_site(node, site);
    }

    /// A node has a new file.
    pub fn created(&self, path: &LogicalPath, node: NodeId) {
        self.note_change(path);
        let state = &mut *self.state();
        if state.nodes.get(node).is_some_and(|node| node.config.may_hold(path)) {
            state.locations.gained(path, node, self.now_ms());
            path.parent().into_iter().for_each(|parent| state.made(&parent));
            state.end_expected(path);
        }
    }

    /// Another redirector has sent a client to this node with a new file.
    pub fn expect(&self, path: &LogicalPath, node: NodeId) {
        let (now_ms, state) = (self.now_ms(), &mut *self.state());
        if state.coming(path, now_ms).is_none() {
            let coming = Coming {
                node,
                reservation: None,
                client: None,
                since_ms: now_ms,
                clients: 1,
            };
            state.heard.note(path, coming);
        } else {
            state.heard.renew(path, node, now_ms);
        }
    }

    /// An upload to this node that passes through this redirector still runs: it may take longer
    /// than a file is expected.
    pub(crate) fn still_expect(&self, path: &LogicalPath, node: NodeId) {
        let now_ms = self.now_ms();
        if self.state().expected.renew(path, node, now_ms) {
            self.locator.placed(path, node);
        }
    }

    /// Whether a file of this name is expected.
    pub fn expects(&self, path: &LogicalPath) -> bool {
        let now_ms = self.now_ms();
        self.state().coming(path, now_ms).is_some()
    }

    /// Another redirector has made a directory.
    pub fn heard_made(&self, directory: &LogicalPath) {
        self.note_change(directory);
        self.state().made(directory);
    }

    /// A client that was sent to this node with a new file will not store it. Others may.
    pub fn given_up(&self, path: &LogicalPath, node: NodeId) {
        let state = &mut *self.state();
        let coming = state.expected.leave(path, node);
        state.release(coming);
    }

    /// A node does not have a file any more.
    pub fn removed(&self, path: &LogicalPath, node: NodeId) {
        self.note_change(path);
        self.state().locations.lost(path, node);
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<LogicalPath, Asking>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_change(&self, path: &LogicalPath) {
        if let Some(asking) = self.questions().get_mut(path) {
            asking.is_changed = true;
        }
    }

    /// A node has renamed or removed a whole tree.
    pub fn forget(&self, node: NodeId) {
        self.state().nodes.forget(node, self.now_ms());
    }

    /// Calls `look` with all nodes, for reports.
    pub fn with_nodes<T>(&self, look: impl FnOnce(&Nodes, u64) -> T) -> T {
        look(&self.state().nodes, self.now_ms())
    }

    /// A directory was made, or has another name now: "no node has it" is not true any more.
    pub fn made(&self, directory: &LogicalPath) {
        self.note_change(directory);
        self.locator.made(directory);
        self.state().made(directory);
    }

    /// How names were looked up.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            locations: state.locations.len(),
            reservations: state.reservations.len(),
            ..state.counts
        }
    }
}

/// How much a time, in milliseconds since 1970, is ahead of ours.
fn ahead_ms(time_ms: u64) -> i64 {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ours_ms = i64::try_from(ours.as_millis()).unwrap_or(i64::MAX);
    i64::try_from(time_ms).unwrap_or(i64::MAX).saturating_sub(ours_ms)
}

impl From<Unplaced> for Undirected {
    fn from(why: Unplaced) -> Self {
        match why {
            Unplaced::NotExported => Self::NotExported,
            Unplaced::Unavailable => Self::NoWriter,
            Unplaced::NoRoom {
                sum_bytes,
                largest_bytes,
            } => Self::NoRoom {
                sum_bytes,
                largest_bytes,
            },
        }
    }
}

mod finding;
mod sending;
mod state;
mod surroundings;
mod survey;
#[cfg(test)]
mod tests;
