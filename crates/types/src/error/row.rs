//! What the table says of one error code.

use super::code::ErrorCode;
use super::fts::Fts;
use super::s3::S3;

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It fails again until its cause is removed.
    No,
    /// It depends on the peer's status.
    PeerDecides,
    /// The same attempt may succeed later.
    Yes,
}

/// Whether the file may arrive by another way: pushed where it could not be pulled, or through the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnotherWay {
    /// Every way meets the same obstacle, such as a full disk or a missing source.
    No,
    /// It depends on the peer's status.
    PeerDecides,
    /// The obstacle belongs to the way or to its active server.
    Yes,
}

/// One row of the table.
///
/// Meanings use the operating system's customary phrases where one exists, because transfer
/// services classify failures by such phrases.
#[derive(Debug)]
pub struct Row {
    /// The code.
    pub code: ErrorCode,
    /// Its name in logs, metrics and JSON; never changes.
    pub name: &'static str,
    /// The status of an HTTP answer.
    pub http: u16,
    /// The error number of an XRootD answer. Where servers differ, the one that clients turn into the fitting `errno`.
    pub xrootd: u16,
    /// How the FTS3 transfer service reports it.
    pub fts: Fts,
    /// The error of an S3 answer.
    pub s3: S3,
    /// The client's exit code: the `errno` that gfal's tools use for the same case.
    pub exit: u8,
    /// Whether another attempt can help.
    pub retry: Retry,
    /// Whether the file may arrive by another way.
    pub another_way: AnotherWay,
    /// What happened, as one sentence without its full stop.
    pub meaning: &'static str,
    /// What the user of any client can do.
    pub for_client: &'static str,
    /// Which options of our client help; empty where none does.
    pub client_options: &'static str,
    /// What the administrator of the server can do; names configuration keys.
    pub for_administrator: &'static str,
}
