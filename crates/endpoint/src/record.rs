//! What doors tell about errors and third-party copies, whatever their protocol. The binary makes
//! log lines and metrics of it.
//!
//! A record holds no secret: paths without queries, credentials by kind and name only.

use std::net::SocketAddr;

use serde::Serialize;
use types::{Error, PeerStatus};

/// An error, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorFacts {
    /// The stable code.
    pub code: &'static str,
    /// The side at fault.
    pub side: &'static str,
    /// What was being done.
    pub phase: &'static str,
    /// What the client was told.
    pub message: String,
    /// What only the log may know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<String>,
    /// The status of the peer, when it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_status: Option<u32>,
    /// What the administrator can do.
    pub next: &'static str,
}

impl From<&Error> for ErrorFacts {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code().name(),
            side: error.side().name(),
            phase: error.phase().name(),
            message: error.public(),
            private: error.private().map(str::to_owned),
            peer_status: error.peer_status().map(PeerStatus::number),
            next: error.code().for_administrator(),
        }
    }
}

/// A third-party copy as it begins.
#[derive(Clone, Debug, Serialize)]
pub struct TransferStart {
    /// Its name.
    pub transfer_id: String,
    /// The name of the request that ordered it.
    pub request_id: String,
    /// `pull` or `push`.
    pub mode: &'static str,
    /// The path here.
    pub path: String,
    /// The other side's URL without its query.
    pub remote: String,
    /// Who ordered it.
    pub client: SocketAddr,
    /// The kind of credential of whoever ordered it.
    pub credential: &'static str,
    /// For whom that credential was issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the client says about its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_info: Option<String>,
    /// The trace that its requests are part of.
    pub traceparent: String,
    /// The flow's tag (SciTags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}

/// How a third-party copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferOutcome {
    /// The file is complete and in its place.
    Success,
    /// It failed; the destination is as it was.
    Failure,
    /// The client went away.
    ClientGone,
    /// This server was shut down.
    Aborted,
}

impl TransferOutcome {
    /// The word in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::ClientGone => "client_gone",
            Self::Aborted => "aborted",
        }
    }
}

/// A third-party copy that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct TransferRecord {
    /// What was begun.
    #[serde(flatten)]
    pub start: TransferStart,
    /// How it ended.
    pub outcome: TransferOutcome,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFacts>,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Size of the file, where it was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Connections that carried payload at the same time; 0 when it failed.
    pub streams: u32,
    /// How often it went on from what it had already.
    pub resumed: u32,
    /// The checksum that both sides agree on, as `algorithm:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<String>,
    /// When each phase began, in microseconds since the start.
    pub phases_us: Vec<(&'static str, u64)>,
    /// How long it took, in microseconds.
    pub total_us: u64,
}
