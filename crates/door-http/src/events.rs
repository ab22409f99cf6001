//! What the door tells about itself: one record for each request and each third-party copy, and
//! when connections come and go. The binary makes log lines and metrics of it.
//!
//! A record holds no secret: paths without queries, credentials by kind and name only.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use transfer::Progress;
use types::Error;

/// Who is told. All calls must return at once.
pub trait Events: Send + Sync + 'static {
    /// A request has been answered, or given up.
    fn request(&self, record: &RequestRecord);

    /// A third-party copy has ended.
    fn transfer(&self, record: &TransferRecord);

    /// A third-party copy begins; `progress` can be read until its end is told.
    fn transfer_started(&self, _start: &TransferStart, _progress: &Arc<Progress>) {}

    /// A connection came.
    fn connection_opened(&self, _peer: SocketAddr) {}

    /// A connection went; with the error when it broke outside of any request.
    fn connection_closed(&self, _peer: SocketAddr, _error: Option<&Error>) {}

    /// A connection was turned away because there are too many.
    fn connection_refused(&self, _peer: SocketAddr) {}
}

/// For whoever does not want to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn request(&self, _record: &RequestRecord) {}
    fn transfer(&self, _record: &TransferRecord) {}
}

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
    pub private: Option<String>,
    /// The status of the peer, when it answered.
    pub peer_status: Option<u16>,
}

impl From<&Error> for ErrorFacts {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code().name(),
            side: error.side().name(),
            phase: error.phase().name(),
            message: error.public(),
            private: error.private().map(str::to_owned),
            peer_status: error.peer_status(),
        }
    }
}

/// One request and its answer. Times are microseconds since the head began to arrive.
#[derive(Clone, Debug, Serialize)]
pub struct RequestRecord {
    /// The request's name, which the client was told too.
    pub request_id: String,
    /// Whence it came.
    pub peer: SocketAddr,
    /// Protocol version of TLS, or `clear`.
    pub security: &'static str,
    /// The method; `-` when the head could not be read.
    pub method: String,
    /// The path, without its query; `-` when the head could not be read.
    pub path: String,
    /// The status of the answer; `None` when the client went away before.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<ErrorFacts>,
    /// Payload that came in, in bytes.
    pub bytes_in: u64,
    /// Payload that went out, in bytes.
    pub bytes_out: u64,
    /// When the head had come.
    pub head_us: u64,
    /// When policy had decided for the last time.
    pub authorized_us: Option<u64>,
    /// When the head of the answer was ready.
    pub first_byte_us: Option<u64>,
    /// When a stored file had been published.
    pub committed_us: Option<u64>,
    /// When all was done.
    pub total_us: u64,
    /// The kind of credential.
    pub credential: &'static str,
    /// For whom the credential was issued.
    pub subject: Option<String>,
    /// The credential's own name.
    pub token_id: Option<String>,
    /// The name of the token that was issued.
    pub issued_token_id: Option<String>,
    /// The third-party copy that this request was.
    pub transfer_id: Option<String>,
    /// The client's name for itself.
    pub user_agent: Option<String>,
    /// What the client says about its job.
    pub client_info: Option<String>,
    /// The trace that this request is part of (W3C Trace Context).
    pub traceparent: String,
    /// The flow's tag (SciTags).
    pub scitag: Option<u16>,
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
    pub subject: Option<String>,
    /// What the client says about its job.
    pub client_info: Option<String>,
    /// The trace that its requests are part of.
    pub traceparent: String,
    /// The flow's tag (SciTags).
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
    pub error: Option<ErrorFacts>,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Size of the file, where it was known.
    pub total_bytes: Option<u64>,
    /// Connections that carried payload at the same time; 0 when it failed.
    pub streams: u32,
    /// Attempts after the first one.
    pub resumed: u32,
    /// The checksum that both sides agree on, as `algorithm:value`.
    pub verified: Option<String>,
    /// When each phase began, in microseconds since the start.
    pub phases_us: Vec<(&'static str, u64)>,
    /// How long it took, in microseconds.
    pub total_us: u64,
}
