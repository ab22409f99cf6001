//! New files that clients were sent to nodes with, and new directories. A node's notice of a new
//! name takes a moment, and its client may ask for it sooner: nodes are asked about it whatever
//! their filters say.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use types::LogicalPath;

use crate::nats::limits::{COMING_A_SECOND, FLOOD_TIME_MS, NEW_DIRECTORIES_MAX, PLACEMENTS_MAX};
use crate::nats::message::above;
use crate::node::NodeId;

/// The latest placements, at most [`PLACEMENTS_MAX`], and the latest directories, at most
/// [`NEW_DIRECTORIES_MAX`]. Names are kept as hashes with a secret key.
#[derive(Debug, Default)]
pub(super) struct Placements {
    keys: RandomState,
    nodes: HashMap<u64, Placed>,
    order: VecDeque<u64>,
    directories: HashSet<u64>,
    directory_order: VecDeque<u64>,
    /// When the current second began, and how much other redirectors have told in it.
    second_ms: u64,
    heard: u32,
    flooded_ms: Option<u64>,
}

/// Where a new file is expected. What others tell does not replace what we know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// Where this redirector has sent a client.
    by_us: Option<NodeId>,
    /// Where another one has.
    by_others: Option<NodeId>,
}

impl Placed {
    /// Whether the file may come to this node.
    pub(super) fn is_at(self, node: NodeId) -> bool {
        [self.by_us, self.by_others].contains(&Some(node))
    }
}

impl Placements {
    /// A client was sent there.
    pub(super) fn note(&mut self, path: &LogicalPath, node: NodeId) {
        self.place(path, |placed| placed.by_us = Some(node));
    }

    /// Another redirector has sent a client there.
    pub(super) fn hear(&mut self, path: &LogicalPath, node: NodeId) {
        self.place(path, |placed| placed.by_others = Some(node));
    }

    /// Whether another message of other redirectors is read. Of more than
    /// [`COMING_A_SECOND`], the rest of the second is left out.
    pub(super) fn takes(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.second_ms) >= 1_000 {
            (self.second_ms, self.heard) = (now_ms, 0);
        }
        self.heard += 1;
        let takes = self.heard <= COMING_A_SECOND;
        if !takes {
            self.flooded_ms = Some(now_ms);
        }
        takes
    }

    /// Whether messages of other redirectors were left out lately: any node may have a new file of
    /// which we have not heard.
    pub(super) fn is_flooded(&self, now_ms: u64) -> bool {
        self.flooded_ms
            .is_some_and(|flooded_ms| now_ms.saturating_sub(flooded_ms) < FLOOD_TIME_MS)
    }

    fn place(&mut self, path: &LogicalPath, place: impl FnOnce(&mut Placed)) {
        self.note_directories(above(path));
        let name = self.hash(path);
        if let Some(placed) = self.nodes.get_mut(&name) {
            return place(placed);
        }
        let mut placed = Placed::default();
        place(&mut placed);
        self.nodes.insert(name, placed);
        self.order.push_back(name);
        // Those whose file has come still have their place in the order.
        while self.order.len() > PLACEMENTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.nodes.remove(&oldest);
            }
        }
    }

    /// A directory was made, on any node.
    pub(super) fn made(&mut self, directory: &LogicalPath) {
        self.note_directories(std::iter::once(directory.clone()).chain(above(directory)));
    }

    fn note_directories(&mut self, nearest_first: impl Iterator<Item = LogicalPath>) {
        for directory in nearest_first {
            // Those above it were noted with it.
            let name = self.hash(&directory);
            if !self.directories.insert(name) {
                break;
            }
            self.directory_order.push_back(name);
        }
        while self.directory_order.len() > NEW_DIRECTORIES_MAX {
            if let Some(oldest) = self.directory_order.pop_front() {
                self.directories.remove(&oldest);
            }
        }
    }

    /// Whether it may be a directory that some nodes have not announced yet.
    pub(super) fn is_new_directory(&self, path: &LogicalPath) -> bool {
        self.directories.contains(&self.hash(path))
    }

    /// The file has come.
    pub(super) fn came(&mut self, path: &LogicalPath, node: NodeId) {
        let name = self.hash(path);
        let Some(placed) = self.nodes.get_mut(&name) else {
            return;
        };
        for expected in [&mut placed.by_us, &mut placed.by_others] {
            *expected = expected.filter(|expected| *expected != node);
        }
        if *placed == Placed::default() {
            self.nodes.remove(&name);
        }
    }

    /// Where the file is expected.
    pub(super) fn find(&self, path: &LogicalPath) -> Placed {
        self.nodes.get(&self.hash(path)).copied().unwrap_or_default()
    }

    fn hash(&self, path: &LogicalPath) -> u64 {
        self.keys.hash_one(path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    #[test]
    fn a_placement_lasts_until_the_file_comes_or_many_others_do() {
        let mut placements = Placements::default();
        placements.note(&path("/a"), NodeId(1));
        placements.came(&path("/a"), NodeId(2));
        assert!(placements.find(&path("/a")).is_at(NodeId(1)));
        placements.came(&path("/a"), NodeId(1));
        assert_eq!(placements.find(&path("/a")), Placed::default());
        placements.note(&path("/b"), NodeId(1));
        (0..PLACEMENTS_MAX).for_each(|number| placements.note(&path(&format!("/{number}")), NodeId(2)));
        assert_eq!(placements.find(&path("/b")), Placed::default());
        assert!(placements.order.len() <= PLACEMENTS_MAX && placements.nodes.len() <= PLACEMENTS_MAX);
    }

    #[test]
    fn others_replace_nothing_of_ours_and_tell_no_more_than_is_read() {
        let mut placements = Placements::default();
        let name = path("/a");
        placements.note(&name, NodeId(1));
        placements.hear(&name, NodeId(2));
        placements.hear(&name, NodeId(3));
        let placed = placements.find(&name);
        assert_eq!([1, 2, 3].map(|node| placed.is_at(NodeId(node))), [true, false, true]);
        let taken = |placements: &mut Placements, now_ms| {
            let messages = 0..COMING_A_SECOND + 10;
            messages.filter(|_| placements.takes(now_ms)).count()
        };
        assert!(!placements.is_flooded(5_000));
        assert_eq!(taken(&mut placements, 5_000), COMING_A_SECOND as usize);
        assert!(placements.is_flooded(5_000 + FLOOD_TIME_MS - 1) && !placements.is_flooded(5_000 + FLOOD_TIME_MS));
        assert!(!placements.takes(5_999) && placements.takes(6_000));
    }

    #[test]
    fn new_directories_are_known_with_those_above_them_and_are_bounded() {
        let mut placements = Placements::default();
        placements.note(&path("/d/a/f"), NodeId(1));
        placements.made(&path("/d/b"));
        for directory in ["/d", "/d/a", "/d/b"] {
            assert!(placements.is_new_directory(&path(directory)), "{directory}");
        }
        assert!(!placements.is_new_directory(&path("/d/a/f")));
        (0..NEW_DIRECTORIES_MAX).for_each(|number| placements.made(&path(&format!("/{number}"))));
        assert!(!placements.is_new_directory(&path("/d/a")));
        assert_eq!(placements.directories.len(), NEW_DIRECTORIES_MAX);
        assert_eq!(placements.directory_order.len(), NEW_DIRECTORIES_MAX);
    }
}
