//! What a director knows, and the choices that need all of it.

use std::collections::{HashMap, HashSet};

use types::LogicalPath;

use super::Client;
use super::surroundings::Directories;
use crate::expected::{Coming, Expected};
use crate::explanation::{Basis, Directed, Reason, Undirected};
use crate::limits::{EXPECTED_PARENTS_MAX, EXPECTED_TIME_MS, WAITING_RENAMES_MAX, WAITING_TIME_MS};
use crate::locations::Locations;
use crate::near::Nearness;
use crate::node::{Node, NodeId, Nodes};
use crate::placement::{self, Reservations};

#[derive(Debug)]
pub(super) struct State {
    pub(super) nodes: Nodes,
    pub(super) locations: Locations,
    pub(super) reservations: Reservations,
    /// New files with which this redirector has sent clients to nodes.
    pub(super) expected: Expected,
    /// Those of other redirectors: however many they tell of, ours are not forgotten.
    pub(super) heard: Expected,
    /// Names that renames are about to give.
    pub(super) claims: HashSet<LogicalPath>,
    /// Names for which renames wait that were refused, and until when.
    pub(super) waiting: HashMap<LogicalPath, u64>,
    /// Names of directories that are being made, and of those above them and above names of
    /// renames, each with how often.
    pub(super) making: HashMap<LogicalPath, usize>,
    pub(super) directories: Directories,
    pub(super) random: fastrand::Rng,
    pub(super) counts: Counts,
}

/// How names were looked up, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered from memory.
    pub known: u64,
    /// Asked of the nodes.
    pub asked: u64,
    /// Names in memory now.
    pub locations: usize,
    /// Reservations of room now.
    pub reservations: usize,
}

impl State {
    /// A directory is there now, and those above it.
    pub(super) fn made(&mut self, directory: &LogicalPath) {
        for path in std::iter::successors(Some(directory.clone()), LogicalPath::parent).take(EXPECTED_PARENTS_MAX) {
            self.locations.forget_absence(&path);
        }
    }

    /// Where a file is expected.
    pub(super) fn coming(&self, path: &LogicalPath, now_ms: u64) -> Option<Coming> {
        let ours = self.expected.find(path, now_ms);
        ours.or_else(|| self.heard.find(path, now_ms))
    }

    /// Whether a file is expected below this name.
    pub(super) fn is_above(&mut self, path: &LogicalPath, now_ms: u64) -> bool {
        self.expected.is_above(path, now_ms) || self.heard.is_above(path, now_ms)
    }

    /// A file that was expected has come: its room is no longer kept.
    pub(super) fn end_expected(&mut self, path: &LogicalPath) {
        self.heard.take(path);
        let coming = self.expected.take(path);
        self.release(coming);
    }

    /// The room that was kept for a file is no longer.
    pub(super) fn release(&mut self, coming: Option<Coming>) {
        if let Some(reservation) = coming.and_then(|coming| coming.reservation) {
            self.reservations.release(reservation);
        }
    }

    pub(super) fn note_sent(&mut self, node: NodeId, client: Client<'_>, now_ms: u64) {
        if !client.only_asks {
            self.nodes.sent(node, now_ms);
        }
    }

    /// A second copy under the same name would make two files of one: the holder gets the new
    /// content, even while it is drained of new files. If there are several copies already, a
    /// change of one would make them differ, and readers get the one or the other.
    pub(super) fn overwrite(
        &mut self,
        holders: &[NodeId],
        basis: Basis,
        client: Client<'_>,
        now_ms: u64,
    ) -> Result<Directed, Undirected> {
        let holders = holders.to_vec();
        let [node] = holders[..] else {
            return Err(Undirected::Several { holders });
        };
        let takes = self.nodes.get(node).is_some_and(Node::takes_changes);
        if !takes || client.tried.contains(&node) {
            return Err(Undirected::NoHolder { holders });
        }
        self.note_sent(node, client, now_ms);
        Ok(Directed {
            node,
            reason: Reason::Holder,
            nearness: Nearness::Far,
            holders,
            basis,
        })
    }

    /// The node to which another client was sent with this name, if this one cannot go there: a
    /// second file of the name elsewhere would be the other's as well.
    pub(super) fn is_stored_by_another(&self, path: &LogicalPath, client: Client<'_>, now_ms: u64) -> Option<NodeId> {
        let coming = self.coming(path, now_ms)?;
        let is_there = self.nodes.get(coming.node).is_some_and(Node::is_present);
        let is_other = coming.client != client.address && client.tried.contains(&coming.node);
        (is_there && is_other).then_some(coming.node)
    }

    /// The node to which a client was sent with this name, if it still takes it; `None` if this
    /// client may go elsewhere.
    ///
    /// # Errors
    /// [`Undirected::Occupied`]. Time alone shows no failure: several clients may have one address,
    /// and an upload may take hours. A second file of the name elsewhere would then be stored as
    /// well. So only the client that was sent there leaves a node that has become full.
    pub(super) fn expected_at(
        &self,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        client: Client<'_>,
        now_ms: u64,
    ) -> Result<Option<NodeId>, Undirected> {
        let Some(coming) = self.coming(path, now_ms) else {
            return Ok(None);
        };
        let node = coming.node;
        let takes = self.nodes.get(node).is_some_and(Node::takes_writes);
        if !takes || client.tried.contains(&node) {
            return Ok(None);
        }
        let is_own = coming.client.is_some() && coming.client == client.address;
        match self.has_room(&coming, size_bytes, now_ms) {
            true => Ok(Some(node)),
            false if is_own && !client.is_new => Ok(None),
            false => Err(Undirected::Occupied { node }),
        }
    }

    /// Whether the node has room for the file besides what is kept for others.
    fn has_room(&self, coming: &Coming, size_bytes: Option<u64>, now_ms: u64) -> bool {
        let kept_bytes = coming.reservation.map_or(0, |id| self.reservations.bytes(id));
        let others_bytes = self.reservations.on(coming.node).saturating_sub(kept_bytes);
        let has_room = |node| placement::has_room(node, others_bytes, size_bytes, now_ms);
        self.nodes.get(coming.node).is_some_and(has_room)
    }

    /// A rename was refused because a file of this name is expected. It goes before the next file:
    /// a client that announces files and stores none would keep the name from it for ever.
    pub(super) fn wait_for(&mut self, path: &LogicalPath, now_ms: u64) {
        self.waiting.retain(|_, until_ms| *until_ms > now_ms);
        if let Some(coming) = self.coming(path, now_ms)
            && self.waiting.len() < WAITING_RENAMES_MAX
        {
            let until_ms = coming.since_ms + EXPECTED_TIME_MS + WAITING_TIME_MS;
            self.waiting.insert(path.clone(), until_ms);
        }
    }

    /// Whether a rename waits for this name.
    pub(super) fn is_waited_for(&self, path: &LogicalPath, now_ms: u64) -> bool {
        self.waiting.get(path).is_some_and(|until_ms| *until_ms > now_ms)
    }
}
