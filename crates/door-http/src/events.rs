//! What the door tells about itself: one record for each request and each third-party copy. The
//! binary makes log lines and metrics of it.
//!
//! A record holds no secret: paths without queries, credentials by kind and name only.

use std::net::SocketAddr;

use endpoint::{ErrorFacts, TransferRecord};
use serde::Serialize;
use transfer::TransferEvents;
use types::{LogicalPath, Unlisted};

/// Who is told. All calls must return at once.
pub trait Events: TransferEvents {
    /// A request has been answered, or given up.
    fn request(&self, record: &RequestRecord);

    /// A directory was listed, and the listing leaves names out that are in it.
    fn names_unlisted(&self, _directory: &LogicalPath, _unlisted: &Unlisted) {}
}

/// For whoever does not want to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn request(&self, _record: &RequestRecord) {}
}

impl TransferEvents for NoEvents {
    fn transfer(&self, _record: &TransferRecord) {}
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFacts>,
    /// Payload that came in, in bytes.
    pub bytes_in: u64,
    /// Payload that went out, in bytes.
    pub bytes_out: u64,
    /// When the head had come.
    pub head_us: u64,
    /// When policy had decided for the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorized_us: Option<u64>,
    /// When the head of the answer was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    /// When a stored file had been published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_us: Option<u64>,
    /// When all was done.
    pub total_us: u64,
    /// The kind of credential.
    pub credential: &'static str,
    /// For whom the credential was issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Who issued the credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The first of the virtual organisations that vouch for its holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vo: Option<String>,
    /// The credential's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// Why attributes of VOMS in the certificate were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribute_faults: Option<String>,
    /// The name of the token that was issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_token_id: Option<String>,
    /// The third-party copy that this request was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<String>,
    /// The client's name for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// What the client says about its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_info: Option<String>,
    /// The trace that this request is part of (W3C Trace Context).
    pub traceparent: String,
    /// The flow's tag (SciTags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}
