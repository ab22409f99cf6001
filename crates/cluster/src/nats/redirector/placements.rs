//! New files that clients were sent to nodes with. A node's notice of a new file takes a moment,
//! and its client may ask for the file sooner: the node is asked about it whatever its filter says.

use std::collections::{HashMap, VecDeque};

use types::LogicalPath;

use crate::nats::limits::PLACEMENTS_MAX;
use crate::node::NodeId;

/// The latest placements, at most [`PLACEMENTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Placements {
    nodes: HashMap<LogicalPath, NodeId>,
    order: VecDeque<LogicalPath>,
}

impl Placements {
    /// A client was sent there.
    pub(super) fn note(&mut self, path: &LogicalPath, node: NodeId) {
        if self.nodes.insert(path.clone(), node).is_some() {
            return;
        }
        self.order.push_back(path.clone());
        // Those whose file has come still have their place in the order.
        while self.order.len() > PLACEMENTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.nodes.remove(&oldest);
            }
        }
    }

    /// The file has come.
    pub(super) fn came(&mut self, path: &LogicalPath, node: NodeId) {
        if self.nodes.get(path) == Some(&node) {
            self.nodes.remove(path);
        }
    }

    /// Where the file is expected.
    pub(super) fn find(&self, path: &LogicalPath) -> Option<NodeId> {
        self.nodes.get(path).copied()
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
