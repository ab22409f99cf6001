//! Exports whose files are on other servers, to which clients are sent.
//!
//! A door that finds [`Elsewhere`] at a path asks it where a request belongs, and redirects the
//! client. What moves no data (listings, properties, new directories, removals) goes through the
//! export's [`Store`](crate::Store) as in any other export.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use storage::{Answer, Space, UploadOptions, WriteHandle};
use types::{Checksum, ChecksumAlgorithm, Location, LogicalPath, Secret};

/// What a client wants to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read it.
    Read,
    /// Change it where it is.
    Update,
    /// Store a whole file: a new one, or instead of an old one.
    Store {
        /// Its size in bytes, if it was announced.
        size_bytes: Option<u64>,
        /// It must not replace a file.
        is_new: bool,
    },
}

/// The protocol that a client speaks, and therefore the door of the other server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// HTTP.
    Http,
    /// The XRootD protocol.
    Xrootd,
}

/// A client's request for a file.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The name that the client uses.
    pub path: &'a LogicalPath,
    /// What for.
    pub purpose: Purpose,
    /// How it speaks.
    pub spoken: Spoken,
    /// Its address.
    pub address: IpAddr,
    /// Servers that it has tried in vain, each a host or `host:port`.
    pub tried: &'a [String],
    /// What is known is not believed: the servers are asked.
    pub refresh: bool,
}

/// Where a client is sent.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file at its server, without a query.
    pub location: Location,
    /// The URL by which the server knows itself, as the audience of a capability.
    pub endpoint: Box<Location>,
    /// Whether it has shown that it is a server of ours.
    pub is_ours: bool,
    /// Whether a server has the file already.
    pub exists: bool,
    /// The server's number.
    pub number: u16,
    /// The server's name, for logs.
    pub node: Arc<str>,
}

/// An upload that passes through this server.
#[derive(Debug)]
pub struct Relayed<'a> {
    /// What the client wants.
    pub wanted: &'a Wanted<'a>,
    /// Where it belongs.
    pub target: &'a Target,
    /// The URL of the request there, if it carries more than the file's name.
    pub url: Option<Secret>,
    /// Whether the URL has what the node needs to accept the request: nothing else is shown.
    pub is_judged: bool,
    /// The client's own token.
    pub bearer: Option<Secret>,
    /// A tree in which the client has the same rights everywhere: symbolic links lead nowhere else.
    pub same_rights: Option<LogicalPath>,
    /// How the file is created.
    pub options: &'a UploadOptions,
}

/// Where a request belongs.
#[derive(Clone, Debug)]
pub enum Direction {
    /// Another server.
    Server(Target),
    /// The name is a directory, which may be spread over several servers: answer from the store.
    Directory,
}

/// The room of several servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSpace {
    /// All of them together.
    pub space: Space,
    /// The most that is free on one of them, in bytes.
    pub largest_free_bytes: u64,
    /// How many take new files.
    pub nodes: u64,
    /// How many have told their room.
    pub heard: u64,
    /// How many may have files there, and have not told their room: it is missing.
    pub unheard: u64,
}

/// Other servers that have the files of an export.
pub trait OtherServers: Send + Sync {
    /// Where the client belongs.
    ///
    /// Errors: `not_found` if no server has the file, `nodes_silent` if some that may have it do
    /// not answer, `no_node` if all that have it, or all that take new files, are drained, away or
    /// tried in vain, `no_space` with the room that there is, `overloaded`.
    fn direct<'a>(&'a self, wanted: &'a Wanted<'a>) -> Answer<'a, Direction>;

    /// All servers that have the file, or the directory.
    ///
    /// Errors: as [`OtherServers::direct`].
    fn locate<'a>(&'a self, wanted: &'a Wanted<'a>) -> Answer<'a, Vec<Target>>;

    /// Begins an upload that passes through this server, because its client would not follow a
    /// redirect.
    ///
    /// Errors: the node's refusal.
    fn relay<'a>(&'a self, relayed: &'a Relayed<'a>) -> Answer<'a, Arc<dyn WriteHandle>>;

    /// The room for files below a path.
    fn space<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, SharedSpace>;

    /// Whether a server that may have a name has gone just now and may be back in a moment, as when
    /// it is started again.
    fn may_return(&self, path: &LogicalPath) -> bool;

    /// The checksum of a file, asked of its server in the name of a client that cannot show there
    /// what it got here. `location` is the URL of that question.
    ///
    /// Errors: the server's refusal; `checksum_unavailable` if it has none of this kind.
    fn checksum<'a>(
        &'a self,
        target: &'a Target,
        location: Location,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Checksum>;

    /// What is known about a name, who was asked, and where clients are sent: for people and
    /// programs. `shows_servers`: with the load of the servers, and what they said or did instead
    /// of answering.
    fn explain<'a>(&'a self, wanted: &'a Wanted<'a>, shows_servers: bool) -> Answer<'a, Value>;
}

/// The other servers of an export.
pub type Elsewhere = Arc<dyn OtherServers>;
