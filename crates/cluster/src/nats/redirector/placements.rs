//! New files that clients were sent to nodes with. A node's notice of a new file takes a moment,
//! and its client may ask for the file sooner: the node is asked about it whatever its filter says.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use types::LogicalPath;

use crate::nats::limits::PLACEMENTS_MAX;
use crate::node::NodeId;

/// The latest placements, at most [`PLACEMENTS_MAX`]. Names are kept as hashes with a secret key.
#[derive(Debug, Default)]
pub(super) struct Placements {
    keys: RandomState,
    nodes: HashMap<u64, NodeId>,
    order: VecDeque<u64>,
}

impl Placements {
    /// A client was sent there.
    pub(super) fn note(&mut self, path: &LogicalPath, node: NodeId) {
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
}
