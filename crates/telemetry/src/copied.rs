//! A third-party copy that ended.

use std::time::SystemTime;

use crate::client::Client;

/// A third-party copy that this server made.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Who ordered it.
    pub client: Client,
    /// The scheme in which the client named the file here: `https`, `http` or `xroot`.
    pub own_scheme: &'static str,
    /// Whether this server fetched; otherwise it sent.
    pub is_pull: bool,
    /// The URL of the file at the other server, without its query.
    pub remote: String,
    /// The path of the file here, as clients name it.
    pub path: String,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Most connections at a time.
    pub streams: u32,
    /// 0 for success, otherwise a number of the failure.
    pub result: u32,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
}
