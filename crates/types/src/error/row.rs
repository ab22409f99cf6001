//! What the table records about an error code.

use super::code::ErrorCode;
use super::fts::Fts;
use super::s3::S3;

/// Whether a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It fails again until the cause is removed.
    No,
    /// It depends on the peer's status.
    PeerDecides,
    /// The same attempt may succeed later.
    Yes,
}

/// Whether the file may arrive another way: by push instead of pull, or streamed through the
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnotherWay {
    /// Every way meets the same obstacle, such as a full disk or a missing source.
    No,
    /// It depends on the peer's status.
    PeerDecides,
    /// The obstacle is specific to this way or to its active server.
    Yes,
}

/// One row of the table.
///
/// Meanings use the operating system's usual phrases where one exists, because transfer services
/// classify failures by them.
#[derive(Debug)]
pub struct Row {
    /// The code.
    pub code: ErrorCode,
    /// Its name in logs, metrics and JSON; it never changes.
    pub name: &'static str,
    /// The status of an HTTP answer.
    pub http: u16,
    /// The error number of an XRootD answer. Where servers differ, the number that clients map to
    /// the right `errno`.
    pub xrootd: u16,
    /// How the FTS3 transfer service reports it.
    pub fts: Fts,
    /// The error of an S3 answer.
    pub s3: S3,
    /// The client's exit code: the `errno` that gfal's tools use for the same case.
    pub exit: u8,
    /// Whether a retry can help.
    pub retry: Retry,
    /// Whether the file may arrive another way.
    pub another_way: AnotherWay,
    /// What happened, as one sentence without a full stop.
    pub meaning: &'static str,
    /// What the user of any client can do.
    pub for_client: &'static str,
    /// Options of our client that help; empty where none does.
    pub client_options: &'static str,
    /// What the administrator of the server can do, in terms of configuration keys.
    pub for_administrator: &'static str,
}
