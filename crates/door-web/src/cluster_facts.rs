//! What the page of a redirector shows; the server gathers it.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use serde::Serialize;
use serde_json::Value;
use types::{LogicalPath, Result};

use crate::words::Words;

/// An answer of the redirector.
pub type ClusterFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A redirector and its nodes.
pub trait Cluster: Send + Sync + 'static {
    /// The nodes; `None`: this server is no redirector now.
    fn nodes(&self) -> Option<Vec<ClusterNode>>;
    /// Where a file is, and where its client is sent. Nothing is done for it.
    fn why<'a>(&'a self, question: &'a WhyQuestion) -> ClusterFuture<'a, WhyAnswer>;
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClusterNode {
    /// Its name: the URL under which it is configured.
    pub name: Words,
    /// Whether it answers.
    pub is_present: bool,
    /// Whether it answers, and is used as configured.
    pub is_well: bool,
    /// Its state, as a sentence.
    pub says: Words,
    /// Since when it answers, or does not, in milliseconds since 1970; `None`: nothing is known.
    pub since_ms: Option<i64>,
    /// What it is used for: `active`, `no_writes` or `no_reads`.
    pub drain: &'static str,
    /// How busy it is: 0 is idle, 1 is as much as it can do.
    pub busy: f64,
    /// What it told lately.
    pub load: Option<NodeLoad>,
    /// Its site.
    pub site: Option<Words>,
    /// Clients that were sent there since the redirector started.
    pub sent: u64,
}

/// What a node told of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeLoad {
    /// Transfers that run.
    pub transfers: u32,
    /// Bytes per second that arrive.
    pub in_bytes_per_s: u64,
    /// Bytes per second that leave.
    pub out_bytes_per_s: u64,
    /// Room that is left, in bytes.
    pub free_bytes: u64,
    /// Room in all, in bytes.
    pub total_bytes: u64,
}

/// What a client wants with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhyPurpose {
    /// Read it.
    #[default]
    Read,
    /// Change it where it is.
    Update,
    /// Store it.
    Write,
}

/// A question where a client is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyQuestion {
    /// The file.
    pub path: LogicalPath,
    /// What the client wants with it.
    pub purpose: WhyPurpose,
    /// The size of a file that it stores, in bytes.
    pub size_bytes: Option<u64>,
    /// Whether the client speaks the XRootD protocol.
    pub is_xrootd: bool,
    /// Whether the nodes are asked again.
    pub refreshes: bool,
    /// Where the client is.
    pub address: IpAddr,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct WhyAnswer {
    /// As `crossload why --json` has it.
    pub value: Value,
    /// As `crossload why` prints it.
    pub lines: Vec<Words>,
}
