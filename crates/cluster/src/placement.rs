//! Which node takes a new file, and the room that is kept for files that were announced.

use std::collections::{BTreeMap, HashMap};

use endpoint::ClientId;
use types::LogicalPath;

use crate::choice::drawn;
use crate::limits::{
    BUSY_AS_FILL, CLIENT_ROOM_SHARE, RESERVATION_TIME_MS, RESERVATIONS_MAX, RESERVED_ROOM_SHARE, SCORE_MARGIN,
    SPARE_SHARE, UNKNOWN_SIZE_BYTES,
};
use crate::near::Near;
use crate::node::{Node, NodeId, Nodes, Status};

/// Names one reservation until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u64);

#[derive(Debug, Clone)]
struct Reservation {
    node: NodeId,
    bytes: u64,
    client: Option<ClientId>,
    until_ms: u64,
}

/// For whom room is kept.
#[derive(Debug, Clone)]
pub struct RoomFor {
    /// The node.
    pub node: NodeId,
    /// How much.
    pub bytes: u64,
    /// What is free there.
    pub room_bytes: u64,
    /// The client.
    pub client: Option<ClientId>,
}

/// Room that is kept for files that are on their way.
#[derive(Debug, Default)]
pub struct Reservations {
    // By number, and so by time: all last equally long.
    open: BTreeMap<u64, Reservation>,
    sums: HashMap<NodeId, u64>,
    client_sums: HashMap<(Option<ClientId>, NodeId), u64>,
    next: u64,
}

impl Reservations {
    /// Keeps room on a node. The oldest reservation gives way if there are too many. For one client
    /// no more than a share of the room is kept, and a share for all: files that are announced and
    /// not stored must not keep those of others away, from however many addresses.
    pub fn reserve(&mut self, wanted: RoomFor, now_ms: u64) -> ReservationId {
        let RoomFor { node, client, .. } = wanted;
        self.expire(now_ms);
        if self.open.len() >= RESERVATIONS_MAX
            && let Some((id, _)) = self.open.first_key_value()
        {
            self.release(ReservationId(*id));
        }
        self.next += 1;
        let sum = self.sums.entry(node).or_default();
        let of_client = self.client_sums.entry((client.clone(), node)).or_default();
        let share = (wanted.room_bytes as f64 * CLIENT_ROOM_SHARE) as u64;
        // `room_bytes` lacks what is kept already.
        let most = (wanted.room_bytes.saturating_add(*sum) as f64 * RESERVED_ROOM_SHARE) as u64;
        let left = share.saturating_sub(*of_client).min(most.saturating_sub(*sum));
        let bytes = wanted.bytes.min(left);
        *of_client += bytes;
        *sum += bytes;
        let reservation = Reservation {
            node,
            bytes,
            client,
            until_ms: now_ms + RESERVATION_TIME_MS,
        };
        self.open.insert(self.next, reservation);
        ReservationId(self.next)
    }

    /// The file has come, or will not.
    pub fn release(&mut self, id: ReservationId) {
        let Some(gone) = self.open.remove(&id.0) else { return };
        if let Some(sum) = self.sums.get_mut(&gone.node) {
            *sum = sum.saturating_sub(gone.bytes);
        }
        let of_client = (gone.client, gone.node);
        if let Some(sum) = self.client_sums.get_mut(&of_client) {
            *sum = sum.saturating_sub(gone.bytes);
            if *sum == 0 {
                self.client_sums.remove(&of_client);
            }
        }
    }

    /// Ends those whose file did not come in time.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((id, oldest)) = self.open.first_key_value() {
            if oldest.until_ms > now_ms {
                break;
            }
            self.release(ReservationId(*id));
        }
    }

    /// Room that is kept on a node.
    pub fn on(&self, node: NodeId) -> u64 {
        self.sums.get(&node).copied().unwrap_or(0)
    }

    /// Room that this one keeps.
    pub fn bytes(&self, id: ReservationId) -> u64 {
        self.open.get(&id.0).map_or(0, |reservation| reservation.bytes)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// A new file.
#[derive(Debug, Clone, Copy)]
pub struct NewFile<'a> {
    /// Its name.
    pub path: &'a LogicalPath,
    /// Its size, if the client has announced it.
    pub size_bytes: Option<u64>,
    /// Nodes that the client has tried in vain.
    pub tried: &'a [NodeId],
    /// What is near to the client.
    pub near: Near<'a>,
}

/// Where a new file goes, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    /// The node.
    pub node: NodeId,
    /// Its fill level, 0 to 1, with what is reserved; none if it does not tell its room.
    pub fill: Option<f64>,
    /// How busy it is.
    pub busy: f64,
    /// Room that is free there, in bytes.
    pub room_bytes: u64,
    /// Nodes that were possible.
    pub candidates: usize,
}

/// Why no node takes a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unplaced {
    /// No node may hold this name.
    NotExported,
    /// The nodes that may hold it are away, or are drained, or were tried in vain.
    Unavailable,
    /// None has enough room.
    NoRoom {
        /// Room on all that take new files.
        sum_bytes: u64,
        /// The largest room on one of them.
        largest_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: NodeId,
    room_bytes: u64,
    fill: Option<f64>,
    /// Counts where it tells none.
    supposed_fill: f64,
    busy: f64,
    weight: f64,
}

impl Candidate {
    fn new(id: NodeId, node: &Node, reservations: &Reservations, now_ms: u64) -> Self {
        let reserved = reservations.on(id);
        let status = node.status(now_ms).filter(|status| status.total_bytes > 0);
        Self {
            id,
            room_bytes: status.map_or(u64::MAX, |status| room_bytes(status, reserved)),
            fill: status.map(|status| fill(status, reserved)),
            supposed_fill: 0.0,
            busy: node.busy(now_ms),
            weight: match status {
                Some(status) => status.total_bytes as f64,
                None => node.config.weight,
            },
        }
    }

    /// Lower is better: how full it is, and how busy.
    fn score(&self) -> f64 {
        self.fill.unwrap_or(self.supposed_fill) + BUSY_AS_FILL * self.busy
    }
}

fn room_bytes(status: &Status, reserved: u64) -> u64 {
    let spare = (status.total_bytes as f64 * SPARE_SHARE) as u64;
    status.free_bytes.saturating_sub(reserved).saturating_sub(spare)
}

/// Whether a node has room for a file besides what is kept for others. One that does not tell its
/// room has; a file of unknown size may be small.
pub fn has_room(node: &Node, kept_bytes: u64, size_bytes: Option<u64>, now_ms: u64) -> bool {
    let status = node.status(now_ms).filter(|status| status.total_bytes > 0);
    status.is_none_or(|status| room_bytes(status, kept_bytes) >= size_bytes.unwrap_or(1))
}

fn fill(status: &Status, reserved: u64) -> f64 {
    let free = status.free_bytes.saturating_sub(reserved) as f64;
    1.0 - free / status.total_bytes as f64
}

/// Chooses a node for a new file: of two that are drawn by their size, the one that is emptier and
/// less busy. Fill levels come together that way, and an empty node that joins is not overrun.
///
/// # Errors
/// [`Unplaced`] if no node takes it.
pub fn writer(
    nodes: &Nodes,
    reservations: &Reservations,
    file: NewFile<'_>,
    now_ms: u64,
    random: &mut fastrand::Rng,
) -> Result<Placed, Unplaced> {
    let allowed = |node: &Node| node.may_store(file.path);
    if !nodes.iter().any(|(_, node)| allowed(node)) {
        return Err(Unplaced::NotExported);
    }
    let mut open: Vec<Candidate> = nodes
        .iter()
        .filter(|(id, node)| allowed(node) && node.takes_writes() && !file.tried.contains(id))
        .map(|(id, node)| Candidate::new(id, node, reservations, now_ms))
        .collect();
    if open.is_empty() {
        return Err(Unplaced::Unavailable);
    }
    suppose(&mut open);
    let size_bytes = file.size_bytes.unwrap_or(UNKNOWN_SIZE_BYTES);
    let fits = |node: &Candidate| node.room_bytes >= size_bytes;
    if !open.iter().any(fits) {
        return place_unknown(&open, file).ok_or_else(|| no_room(&open));
    }
    open.retain(fits);
    file.near.retain(&mut open, |node| node.id, nodes);
    let weight = |node: &Candidate| node.weight;
    let first = drawn(&open, weight, random).ok_or(Unplaced::Unavailable)?;
    let second = drawn(&open, weight, random).ok_or(Unplaced::Unavailable)?;
    let is_better = second.score() < first.score() - SCORE_MARGIN;
    Ok(placed(if is_better { &second } else { &first }, open.len()))
}

/// Nodes that do not tell their room are supposed to be like the mean of those that do.
fn suppose(open: &mut [Candidate]) {
    let told: Vec<(f64, f64)> = open.iter().filter_map(|node| Some((node.fill?, node.weight))).collect();
    if told.is_empty() {
        return;
    }
    let count = told.len() as f64;
    let fill = told.iter().map(|(fill, _)| fill).sum::<f64>() / count;
    let weight = told.iter().map(|(_, weight)| weight).sum::<f64>() / count;
    for node in open.iter_mut().filter(|node| node.fill.is_none()) {
        node.weight *= weight;
        node.supposed_fill = fill;
    }
}

/// A file of unknown size may well be smaller than what it is counted with: it goes where most
/// room is, if there is any.
fn place_unknown(open: &[Candidate], file: NewFile<'_>) -> Option<Placed> {
    if file.size_bytes.is_some() {
        return None;
    }
    let largest = open.iter().max_by_key(|node| node.room_bytes)?;
    (largest.room_bytes > 0).then(|| placed(largest, open.len()))
}

fn placed(node: &Candidate, candidates: usize) -> Placed {
    Placed {
        node: node.id,
        fill: node.fill,
        busy: node.busy,
        room_bytes: node.room_bytes,
        candidates,
    }
}

fn no_room(open: &[Candidate]) -> Unplaced {
    let rooms = || open.iter().map(|node| node.room_bytes);
    Unplaced::NoRoom {
        sum_bytes: rooms().fold(0, u64::saturating_add),
        largest_bytes: rooms().max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
