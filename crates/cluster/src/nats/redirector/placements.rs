//! New files that clients were sent to nodes with, and new directories. A node's notice of a new
//! name takes a moment, and its client may ask for it sooner: nodes are asked about it whatever
//! their filters say.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use types::LogicalPath;

use crate::nats::limits::{NEW_DIRECTORIES_MAX, PLACEMENTS_MAX};
use crate::nats::message::above;
use crate::node::NodeId;

/// The latest placements, at most [`PLACEMENTS_MAX`], and the latest directories, at most
/// [`NEW_DIRECTORIES_MAX`]. Names are kept as hashes with a secret key.
#[derive(Debug, Default)]
pub(super) struct Placements {
    keys: RandomState,
    nodes: HashMap<u64, NodeId>,
    order: VecDeque<u64>,
    directories: HashSet<u64>,
    directory_order: VecDeque<u64>,
}

impl Placements {
    /// A client was sent there.
    pub(super) fn note(&mut self, path: &LogicalPath, node: NodeId) {
        self.note_directories(above(path));
        let name = self.hash(path);
        if self.nodes.insert(name, node).is_some() {
            return;
        }
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
        if self.nodes.get(&name) == Some(&node) {
            self.nodes.remove(&name);
        }
    }

    /// Where the file is expected.
    pub(super) fn find(&self, path: &LogicalPath) -> Option<NodeId> {
        self.nodes.get(&self.hash(path)).copied()
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
        assert_eq!(placements.find(&path("/a")), Some(NodeId(1)));
        placements.came(&path("/a"), NodeId(1));
        assert_eq!(placements.find(&path("/a")), None);
        placements.note(&path("/b"), NodeId(1));
        (0..PLACEMENTS_MAX).for_each(|number| placements.note(&path(&format!("/{number}")), NodeId(2)));
        assert_eq!(placements.find(&path("/b")), None);
        assert!(placements.order.len() <= PLACEMENTS_MAX && placements.nodes.len() <= PLACEMENTS_MAX);
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
