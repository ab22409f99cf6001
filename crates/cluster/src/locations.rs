//! Where files were found: names and the nodes that have them, in a bounded number of bytes.
//!
//! A name is kept as 128 bits of two keyed hashes, so that a location takes 36 bytes however long
//! its name is, and so that no client can make two names meet. There are two generations: when the
//! younger one is full, the older one is dropped and what was used since then lives on. Both are
//! allocated at the start, because a growing table would make everybody wait for its move; the
//! kernel gives the memory when it is first written to.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use types::LogicalPath;

use crate::limits::{ABSENCE_TIME_MS, HOLDERS_MAX, LOCATION_TIME_MS, STICKY_TIME_MS, UNTOLD_TIME_MS};
use crate::node::{NodeId, Nodes};

/// Bytes of one entry, with the byte that the table keeps for it.
const ENTRY_BYTES: usize = size_of::<Key>() + size_of::<Entry>() + 1;
/// Times are kept in units of 16 ms, so that 32 bits last for two years.
const TICK_BITS: u32 = 4;

/// 128 bits of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key([u32; 4]);

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.0[0]) << 32 | u64::from(self.0[1]));
    }
}

/// A key is a hash already.
#[derive(Debug, Clone, Copy, Default)]
struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    learned: u32,
    stuck: u32,
    holders: [u16; HOLDERS_MAX],
    stuck_to: u16,
    count: u8,
    /// All live candidates were asked, and there are no more holders than these.
    is_complete: bool,
}

impl Entry {
    fn empty(now_ms: u64) -> Self {
        Self {
            learned: tick(now_ms),
            stuck: 0,
            holders: [0; HOLDERS_MAX],
            stuck_to: u16::MAX,
            count: 0,
            is_complete: false,
        }
    }

    fn nodes(&self) -> &[u16] {
        &self.holders[..usize::from(self.count)]
    }

    fn add(&mut self, node: NodeId) {
        if self.nodes().contains(&node.0) {
            return;
        }
        match self.holders.get_mut(usize::from(self.count)) {
            Some(free) => {
                *free = node.0;
                self.count += 1;
            }
            None => self.is_complete = false,
        }
    }

    fn remove(&mut self, node: NodeId) {
        let Some(place) = self.nodes().iter().position(|held| *held == node.0) else {
            return;
        };
        self.count -= 1;
        self.holders.swap(place, usize::from(self.count));
    }
}

fn tick(now_ms: u64) -> u32 {
    (now_ms >> TICK_BITS) as u32
}

/// Milliseconds since a tick began: what was learned in it may be as old. A location that counted
/// as younger than it is would be believed although its node has been forgotten since.
fn age_ms(then: u32, now_ms: u64) -> u64 {
    let within_ms = now_ms & ((1 << TICK_BITS) - 1);
    (u64::from(tick(now_ms).wrapping_sub(then)) << TICK_BITS) + within_ms
}

/// What is known about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing that is still believed: the nodes have to be asked.
    Nothing,
    /// No node has it.
    Absent {
        /// How long ago the nodes said so.
        age_ms: u64,
    },
    /// These nodes have it.
    Held {
        /// The nodes, in no order.
        holders: Vec<NodeId>,
        /// There are no others.
        is_complete: bool,
        /// The node to which readers were sent a moment ago.
        sticky: Option<NodeId>,
        /// How long ago this was learned.
        age_ms: u64,
    },
}

type Table = HashMap<Key, Entry, BuildHasherDefault<Unchanged>>;

/// The names that were asked for lately, and where they are.
#[derive(Debug)]
pub struct Locations {
    keys: [RandomState; 2],
    young: Table,
    old: Table,
    entries_max: usize,
}

impl Locations {
    /// A memory of at most this many bytes, and of at least a few names.
    pub fn new(bytes_max: usize) -> Self {
        let generation = bytes_max / 2 / ENTRY_BYTES;
        // Tables have a power of two of places, and use seven of eight.
        let places = 1_usize << generation.max(16).ilog2();
        let entries_max = places / 8 * 7;
        let table = || Table::with_capacity_and_hasher(entries_max, BuildHasherDefault::default());
        Self {
            keys: [RandomState::new(), RandomState::new()],
            young: table(),
            old: table(),
            entries_max,
        }
    }

    /// Names that are kept.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names that fit.
    pub fn capacity(&self) -> usize {
        2 * self.entries_max
    }

    /// What is known about a name at this time.
    pub fn find(&mut self, path: &LogicalPath, nodes: &Nodes, now_ms: u64) -> Known {
        let Some(entry) = self.entry(path) else {
            return Known::Nothing;
        };
        let age_ms = age_ms(entry.learned, now_ms);
        let learned_ms = now_ms.saturating_sub(age_ms);
        if entry.count == 0 {
            let is_believed = age_ms < ABSENCE_TIME_MS && nodes.came_ms() < learned_ms;
            return match is_believed {
                true => Known::Absent { age_ms },
                false => Known::Nothing,
            };
        }
        if age_ms > LOCATION_TIME_MS {
            return Known::Nothing;
        }
        let is_believed = |id: &NodeId| {
            let node = nodes.get(*id);
            node.is_some_and(|node| {
                let is_fresh = node.tells_changes() || age_ms <= UNTOLD_TIME_MS;
                is_fresh && node.is_present() && node.forgotten_ms() < learned_ms
            })
        };
        let holders: Vec<NodeId> = entry.nodes().iter().copied().map(NodeId).filter(is_believed).collect();
        if holders.is_empty() {
            return Known::Nothing;
        }
        let sticky = NodeId(entry.stuck_to);
        let sticks = self::age_ms(entry.stuck, now_ms) < STICKY_TIME_MS && holders.contains(&sticky);
        Known::Held {
            is_complete: entry.is_complete && nodes.came_ms() < learned_ms && holders.len() == entry.nodes().len(),
            holders,
            sticky: sticks.then_some(sticky),
            age_ms,
        }
    }

    /// The nodes have been asked: these have it. `is_complete` says that all that may hold it
    /// answered; only then is "no node" remembered. Nodes that had it and do not answer still count
    /// as such: they may come back with it.
    pub fn learned(&mut self, path: &LogicalPath, holders: &[NodeId], is_complete: bool, nodes: &Nodes, now_ms: u64) {
        let absent = self.with_absent(path, nodes);
        if holders.is_empty() && absent.is_empty() && !is_complete {
            self.forget(path);
            return;
        }
        let mut entry = Entry::empty(now_ms);
        entry.is_complete = is_complete;
        holders.iter().chain(&absent).for_each(|node| entry.add(*node));
        if let Some(before) = self.entry(path) {
            (entry.stuck, entry.stuck_to) = (before.stuck, before.stuck_to);
        }
        self.keep(path, entry);
    }

    /// Nodes that were known to have a name, and do not answer now.
    pub fn with_absent(&self, path: &LogicalPath, nodes: &Nodes) -> Vec<NodeId> {
        let Some(entry) = self.entry(path) else {
            return Vec::new();
        };
        let held = entry.nodes().iter().copied().map(NodeId);
        held.filter(|id| nodes.get(*id).is_some_and(|node| !node.is_present()))
            .collect()
    }

    /// A node tells that it has a name now.
    pub fn gained(&mut self, path: &LogicalPath, node: NodeId, now_ms: u64) {
        let mut entry = self.entry(path).unwrap_or_else(|| Entry::empty(now_ms));
        if entry.count == 0 {
            entry = Entry::empty(now_ms);
        }
        entry.add(node);
        self.keep(path, entry);
    }

    /// A node tells, or has shown, that it does not have a name any more. Whether another has it
    /// is asked again, unless one is known.
    pub fn lost(&mut self, path: &LogicalPath, node: NodeId) {
        let Some(mut entry) = self.entry(path) else { return };
        entry.remove(node);
        if entry.count == 0 {
            self.forget(path);
        } else {
            self.keep(path, entry);
        }
    }

    /// "No node has it" is not believed any more: a directory came with a file in it.
    pub fn forget_absence(&mut self, path: &LogicalPath) {
        if self.entry(path).is_some_and(|entry| entry.count == 0) {
            self.forget(path);
        }
    }

    /// Nothing is known about a name any more.
    pub fn forget(&mut self, path: &LogicalPath) {
        let key = self.key(path);
        self.young.remove(&key);
        self.old.remove(&key);
    }

    /// A reader was sent to this node; the next ones follow for a while.
    pub fn stick(&mut self, path: &LogicalPath, node: NodeId, now_ms: u64) {
        if let Some(mut entry) = self.entry(path) {
            (entry.stuck, entry.stuck_to) = (tick(now_ms), node.0);
            self.keep(path, entry);
        }
    }

    fn key(&self, path: &LogicalPath) -> Key {
        let [one, other] = [0, 1].map(|half: usize| self.keys[half].hash_one(path.as_str()));
        Key([(one >> 32) as u32, one as u32, (other >> 32) as u32, other as u32])
    }

    fn entry(&self, path: &LogicalPath) -> Option<Entry> {
        let key = self.key(path);
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    fn keep(&mut self, path: &LogicalPath, entry: Entry) {
        let key = self.key(path);
        if self.young.len() >= self.entries_max && !self.young.contains_key(&key) {
            self.old.clear();
            std::mem::swap(&mut self.young, &mut self.old);
        }
        self.old.remove(&key);
        self.young.insert(key, entry);
    }
}

#[cfg(test)]
mod tests;
