//! What the door tells about itself. The binary makes log lines and metrics of it.
//!
//! A record holds no secret: paths without their CGI, credentials by kind and name only.

use std::net::SocketAddr;
use std::time::Duration;

use endpoint::{ErrorFacts, TransferRecord};
use serde::Serialize;
use transfer::TransferEvents;
use types::{LogicalPath, Unlisted};

/// Who is told. All calls must return at once.
pub trait Events: TransferEvents {
    /// A request has been answered, or given up. Requests that move data of open files are not told
    /// one by one: they are part of what is told when the file is closed.
    fn request(&self, record: &RequestRecord);

    /// Data of an open file has been moved for a request.
    fn moved(&self, _moved: &Moved) {}

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

/// A request that moved data of an open file.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// What was asked for, such as `read`.
    pub method: &'static str,
    /// Payload that came in, in bytes.
    pub bytes_in: u64,
    /// Payload that went out, in bytes.
    pub bytes_out: u64,
    /// From the request's header to the end of its answer.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// How a request ended that moved data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was answered.
    Answered,
    /// It failed, which is told as a request by itself.
    Told,
    /// It failed for this code and the fault of this side, which is told nowhere else.
    Failed(&'static str, &'static str),
}

/// One request and its answer. Times are microseconds since the request's header was read.
#[derive(Clone, Debug, Serialize)]
pub struct RequestRecord {
    /// `xroot`.
    pub protocol: &'static str,
    /// The request's name.
    pub request_id: String,
    /// Whence it came.
    pub peer: SocketAddr,
    /// Protocol version of TLS, or `clear`.
    pub security: &'static str,
    /// What was asked for, such as `open`.
    pub method: &'static str,
    /// The path, without its CGI; empty where there is none.
    pub path: String,
    /// The error number of the answer, 0 when all was well; `None` when the client went away before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFacts>,
    /// Payload that came in, in bytes. When a file is closed: all that came in for it.
    pub bytes_in: u64,
    /// Payload that went out, in bytes. When a file is closed: all that went out of it.
    pub bytes_out: u64,
    /// When policy had decided for the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorized_us: Option<u64>,
    /// When a stored file had been published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_us: Option<u64>,
    /// When all was done.
    pub total_us: u64,
    /// When a file is closed: how long it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_us: Option<u64>,
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
    /// The user that the client named. Nobody verified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client's name for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The third-party copy that this request was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<String>,
}
