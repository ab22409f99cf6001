//! What a node's membership asks of its server, and tells it.

use std::future::Future;
use std::pin::Pin;

use futures_util::Stream;
use types::LogicalPath;

use crate::locator::Says;
use crate::nats::bus::{Access, BusEvent};
use crate::nats::subjects::{BusName, Subjects};
use crate::node::Status;

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name, without the directory's.
    pub name: String,
    /// What it is, or what a symbolic link leads to.
    pub kind: Kind,
    /// What tells two directories apart, such as the number of its inode. Links can make circles:
    /// a directory is read once, and under its other names the node is asked about every name.
    pub identity: Option<u64>,
}

/// A directory, page by page; an error says in words why it cannot be read.
pub type Listing = Pin<Box<dyn Stream<Item = Result<Vec<Named>, String>> + Send>>;

/// The server of a node.
pub trait NodeFacts: Send + Sync + 'static {
    /// Its load, room and drain now. It must not wait for anything.
    fn status(&self) -> Status;

    /// What there is under this name, regardless of who asks. It must answer within milliseconds.
    fn has(&self, path: &LogicalPath) -> impl Future<Output = Says> + Send;

    /// The entries of a directory.
    fn list(&self, directory: &LogicalPath) -> Listing;

    /// Something happened, for the log.
    fn note(&self, event: &Event);
}

/// What happens to a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection to the bus.
    Bus(BusEvent),
    /// A filter with all names of the exports is complete.
    NamesRead {
        /// How many.
        names: u64,
        /// The size of the filter.
        bytes: usize,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A walk through the exports was given up, and the node is asked about every name.
    NamesUnread {
        /// Why.
        reason: String,
    },
}

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The bus.
    pub access: Access,
    /// The subjects of the cluster.
    pub subjects: Subjects,
    /// Its name, which the permissions of its user bind it to.
    pub name: BusName,
    /// The program's version.
    pub version: String,
    /// URLs of its doors.
    pub doors: Vec<String>,
    /// The trees that it answers for.
    pub exports: Vec<LogicalPath>,
    /// Trees in them to which others write, not through a door: redirectors always ask for them.
    pub unfiltered: Vec<LogicalPath>,
    /// Time after which all names are read again, in milliseconds
    /// ([`REBUILD_INTERVAL_MS`](crate::nats::limits::REBUILD_INTERVAL_MS)).
    pub rebuild_ms: u64,
}
