//! Nodes for the tests of this crate.

use types::LogicalPath;

use crate::node::{NodeConfig, NodeId, Nodes, Status};

pub(crate) fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

pub(crate) fn config(number: usize, export: &str) -> NodeConfig {
    NodeConfig {
        name: format!("https://d{number}:1094"),
        exports: vec![path(export)],
        site: None,
        weight: 1.0,
    }
}

/// This number of nodes, each with the export `/`, after they reported this status at 100 ms.
pub(crate) fn nodes(count: usize, status: impl Fn(usize) -> Option<Status>) -> Nodes {
    let mut nodes = Nodes::new((0..count).map(|number| config(number, "/")));
    for number in 0..count {
        nodes.told(NodeId(number as u16), status(number), 100);
    }
    nodes
}

/// Room on a node.
pub(crate) fn room(total_bytes: u64, free_bytes: u64) -> Status {
    Status {
        total_bytes,
        free_bytes,
        ..Status::default()
    }
}
