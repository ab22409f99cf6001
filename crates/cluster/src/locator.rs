//! How nodes are asked, whatever they speak.

use std::pin::Pin;

use futures_util::Stream;
use types::LogicalPath;

use crate::node::NodeId;

/// What a node says about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It has a file of this name.
    File {
        /// Its size, if the node tells it.
        size_bytes: Option<u64>,
    },
    /// It has a directory of this name.
    Directory,
    /// It has nothing of this name.
    Nothing,
    /// The source is certain that it has nothing of this name: it was not asked.
    Excluded,
    /// It does not let us ask: our credential there is not enough.
    Refused(String),
    /// It cannot say.
    Failed(String),
}

impl Says {
    /// It leaves open whether it has the name.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Failed(_))
    }
}

/// The answer of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Which node.
    pub node: NodeId,
    /// What it says.
    pub says: Says,
}

/// The answers of several nodes, in the order of their arrival. It ends when no further one comes.
pub type Answers<'a> = Pin<Box<dyn Stream<Item = Answer> + Send + 'a>>;

/// A way to ask nodes: over their own protocols, or over a bus.
pub trait Locator: Send + Sync {
    /// Asks these nodes about a name, all at once. If the source is certain that a node does not
    /// have the name, it answers without asking that node. A node without an answer counts as one
    /// that cannot tell.
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a>;

    /// A client was sent to a node with a new file. The node must be asked about that name from now
    /// on, even if the source has been certain that it does not have it.
    fn placed(&self, _path: &LogicalPath, _node: NodeId) {}

    /// A directory was made on some nodes: all must be asked about it from now on.
    fn made(&self, _directory: &LogicalPath) {}
}
