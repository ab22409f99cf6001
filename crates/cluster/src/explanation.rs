//! Why a client was sent where it was sent: as data, for people and programs.

use types::LogicalPath;

use crate::choice::Why;
use crate::locator::Says;
use crate::near::Nearness;
use crate::node::NodeId;

/// A node that was asked about a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Which node.
    pub node: NodeId,
    /// What it said; none if it did not answer in time.
    pub says: Option<Says>,
    /// When it answered, in milliseconds after the question.
    pub after_ms: f64,
}

/// Where what is known about a name comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Basis {
    /// It was known already, for so long.
    Known {
        /// How long ago the nodes said so.
        age_ms: u64,
    },
    /// The nodes have been asked.
    Asked(Vec<Asked>),
}

/// Why a node was chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// For a reader, among those that have the file.
    Reader(Why),
    /// It has the file, and is the only one that may change it.
    Holder,
    /// Another client was sent there with a new file of this name.
    Expected,
    /// For a new file.
    Placed {
        /// Its fill level, 0 to 1.
        fill: Option<f64>,
        /// How busy it is.
        busy: f64,
        /// Nodes that were possible.
        candidates: usize,
    },
}

/// Where a client is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Directed {
    /// The node.
    pub node: NodeId,
    /// Why this one.
    pub reason: Reason,
    /// How near it is to the client, if that counted.
    pub nearness: Nearness,
    /// All nodes that are known to have the file.
    pub holders: Vec<NodeId>,
    /// How that is known.
    pub basis: Basis,
}

/// Why a client is sent nowhere.
#[derive(Debug, Clone, PartialEq)]
pub enum Undirected {
    /// No node has a file of this name: all that may have it have said so.
    NotFound(Basis),
    /// It is a directory.
    Directory(Basis),
    /// This name above it is a file, or one of this name is on its way.
    BelowFile(LogicalPath),
    /// A file below this name is on its way, or a directory of this name.
    AboveFile,
    /// A rename is about to give this name to another file.
    Claimed,
    /// Several nodes have it: a change of one would make them differ.
    Several {
        /// Those.
        holders: Vec<NodeId>,
    },
    /// Some nodes that may have it did not answer.
    Unsure {
        /// Those that did not, with what they did instead.
        silent: Vec<Asked>,
    },
    /// All nodes that have the file are drained, away or were tried in vain.
    NoHolder {
        /// The nodes that have it.
        holders: Vec<NodeId>,
    },
    /// Another client was sent with this name to a node that has no room for this file: a second
    /// one elsewhere would be the other's as well.
    Occupied {
        /// That node.
        node: NodeId,
    },
    /// No node may have this name.
    NotExported,
    /// No node takes new files at this moment.
    NoWriter,
    /// No node has room.
    NoRoom {
        /// Room on all nodes.
        sum_bytes: u64,
        /// The largest room on one of them.
        largest_bytes: u64,
    },
    /// Too many names are being asked for.
    Overloaded,
}
