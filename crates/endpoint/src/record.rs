//! What doors report about requests, errors and third-party copies. The binary turns it into log
//! lines and metrics.
//!
//! A record contains no secret: paths have no queries, and credentials appear by kind and name
//! only.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use credentials::format_time;
use policy::Explanation;
use serde::Serialize;
use types::{Error, ErrorCode, PeerStatus, Side, SpanContext};

use crate::authorize::Holder;
use crate::clock::now_s;
use crate::ids::{child_trace, sampled_trace};
use crate::refusals::Refusals;
use crate::upstream::UpstreamFacts;

/// An error, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorFacts {
    /// The stable code.
    pub code: &'static str,
    /// The side at fault.
    pub side: &'static str,
    /// The phase.
    pub phase: &'static str,
    /// The message for the client.
    pub message: String,
    /// The detail for the log only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<String>,
    /// The status of the peer's answer, if it answered.
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
            next: next(error),
        }
    }
}

/// What the administrator can do. What an upstream server refuses is about the export's own
/// credential there, unless clients show theirs.
fn next(error: &Error) -> &'static str {
    match (error.code(), error.side()) {
        (ErrorCode::PeerDenied, Side::Upstream) => {
            "Correct the credential of the export: remote_token_file, remote_certificate, \
             remote_macaroon_secret_file or s3_secret_key_file; `crossload check` says which."
        }
        (ErrorCode::Forbidden, Side::Upstream) => {
            "Give the credential of the export rights at the upstream server, or give the export a credential; where \
             remote_identity shows clients, give the rights to the client."
        }
        (code, _) => code.for_administrator(),
    }
}

/// The protocol of a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP and WebDAV, which log lines do not name.
    Http,
    /// XRootD.
    Xroot,
}

impl Protocol {
    fn is_http(&self) -> bool {
        matches!(self, Self::Http)
    }
}

/// What a login did about a delegated proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelegationStep {
    /// The client was asked for one.
    Asked,
    /// The client sent one, which is kept.
    Received,
    /// The client sent none, or one that is not accepted.
    Refused,
    /// The client was not asked, although it would have signed one.
    NotAsked,
}

impl DelegationStep {
    /// The name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Received => "received",
            Self::Refused => "refused",
            Self::NotAsked => "not_asked",
        }
    }
}

/// One request and its answer. Times are microseconds since its head began to arrive.
#[derive(Clone, Debug, Serialize)]
pub struct RequestRecord {
    /// The protocol of the door that answered it.
    #[serde(skip_serializing_if = "Protocol::is_http")]
    pub protocol: Protocol,
    /// The request's name, which errors show to the client.
    pub request_id: String,
    /// The address of the client.
    pub peer: SocketAddr,
    /// Protocol version of TLS, or `clear`.
    pub security: &'static str,
    /// What was requested, such as `GET` or `open`; `-` when the head could not be read.
    pub method: Cow<'static, str>,
    /// The path, without its query; empty or `-` where there is none.
    pub path: String,
    /// The status of the answer: HTTP's, or XRootD's error number, which is 0 for success. `None`
    /// when the client went away before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFacts>,
    /// Payload that came in, in bytes. When an XRootD file is closed: all that came in for it.
    pub bytes_in: u64,
    /// Payload that went out, in bytes. When an XRootD file is closed: all that went out of it.
    pub bytes_out: u64,
    /// When the head was complete. HTTP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_us: Option<u64>,
    /// When policy made its last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorized_us: Option<u64>,
    /// When the head of the answer was ready. HTTP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    /// When a stored file was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_us: Option<u64>,
    /// When everything was done.
    pub total_us: u64,
    /// When an XRootD file is closed: how long it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_us: Option<u64>,
    /// The kind of credential.
    pub credential: &'static str,
    /// The subject of the credential.
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
    /// What the login did about a delegated proxy. XRootD only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationStep>,
    /// Why the login goes on without a delegated proxy. XRootD only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_error: Option<ErrorFacts>,
    /// The name of the token that was issued. HTTP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_token_id: Option<String>,
    /// The request at the redirector that sent the client here: its name in the log there. It is
    /// not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_id: Option<String>,
    /// The node of a cluster to which the client was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<String>,
    /// The host and port of the server that has the file, if this one has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Who the client is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_identity: Option<&'static str>,
    /// The host and port of the server that has sent the file, if the one that has it redirected
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_redirected_to: Option<String>,
    /// The third-party copy that this request was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<String>,
    /// The user that an XRootD client named, unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client's name for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// What the client says about its job. HTTP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_info: Option<String>,
    /// The trace that this request is part of (W3C Trace Context).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The client's span, to which this request belongs, if the client named one.
    #[serde(skip)]
    pub parent_span: Option<u64>,
    /// The flow's tag (SciTags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}

/// Where records of requests go.
pub trait RequestLog: Send + Sync + 'static {
    /// A request has been answered, or given up. Must return at once. Requests that move data of
    /// open files are not reported one by one: they are part of the record of the file's close.
    fn request(&self, record: &RequestRecord);

    /// Whether the spans of this trace are exported. Must return at once.
    fn samples(&self, _traceparent: &str) -> bool {
        false
    }

    /// A connection broke outside of any request, in the TLS handshake for instance. Must return at
    /// once.
    fn connection_failed(&self, _peer: SocketAddr, _error: &Error) {}

    /// A connection was refused because there are too many. Must return at once.
    fn connection_refused(&self, _peer: SocketAddr, _error: &Error) {}
}

/// The trace context of the work for a request: a child of the client's, or a new one. It says
/// whether its spans are exported.
#[must_use]
pub fn trace_for(log: &(impl RequestLog + ?Sized), parent: Option<&str>) -> String {
    let trace = child_trace(parent);
    match log.samples(&trace) {
        true => sampled_trace(trace),
        false => trace,
    }
}

/// The span of a trace context.
#[must_use]
pub fn span_of(traceparent: Option<&str>) -> Option<u64> {
    traceparent.and_then(SpanContext::parse).map(|context| context.span)
}

impl RequestRecord {
    /// A request of an anonymous client that has not been answered.
    #[must_use]
    pub fn new(protocol: Protocol, peer: SocketAddr, security: &'static str) -> Self {
        Self {
            protocol,
            request_id: String::new(),
            peer,
            security,
            method: Cow::Borrowed("-"),
            path: String::new(),
            status: None,
            error: None,
            bytes_in: 0,
            bytes_out: 0,
            head_us: None,
            authorized_us: None,
            first_byte_us: None,
            committed_us: None,
            total_us: 0,
            open_us: None,
            credential: "anonymous",
            subject: None,
            issuer: None,
            vo: None,
            token_id: None,
            attribute_faults: None,
            delegation: None,
            delegation_error: None,
            issued_token_id: None,
            redirect_id: None,
            sent_to: None,
            upstream: None,
            upstream_identity: None,
            upstream_redirected_to: None,
            transfer_id: None,
            user: None,
            user_agent: None,
            client_info: None,
            traceparent: None,
            parent_span: None,
            scitag: None,
        }
    }

    /// Notes who the client is at the server that has the file.
    pub fn note_upstream(&mut self, facts: UpstreamFacts) {
        self.upstream = Some(facts.server);
        self.upstream_identity = Some(facts.identity);
    }

    /// Keeps why the request was refused, if policy has not: by the server that has the file, or
    /// because that server could be shown nothing.
    pub fn keep_refusal(&self, refusals: &Refusals) {
        let Some(error) = &self.error else { return };
        let code = ErrorCode::ALL.iter().find(|code| code.name() == error.code);
        let is_refusal = code.is_some_and(|code| code.denies_access());
        if is_refusal && !self.request_id.is_empty() && refusals.find(&self.request_id).is_empty() {
            refusals.keep(&self.request_id, explanation_of(self, error));
        }
    }

    /// Who made the request, for those who watch the use of files. `local` is our address on its
    /// connection.
    #[must_use]
    pub fn client(&self, local: Option<SocketAddr>) -> telemetry::Client {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        telemetry::Client {
            spoken: match self.protocol {
                Protocol::Http => telemetry::Spoken::Http,
                Protocol::Xroot => telemetry::Spoken::Xroot,
            },
            peer: self.peer,
            local,
            user: text(&self.user),
            program: text(&self.user_agent),
            credential: self.credential,
            subject: text(&self.subject),
            issuer: text(&self.issuer),
            organisation: text(&self.vo),
        }
    }

    /// Notes who made the request.
    pub fn note_holder(&mut self, holder: Holder) {
        self.credential = holder.credential;
        self.subject = holder.subject;
        self.issuer = holder.issuer;
        self.vo = holder.vo;
        self.token_id = holder.token_id;
        self.attribute_faults = holder.attribute_faults;
    }
}

fn explanation_of(record: &RequestRecord, error: &ErrorFacts) -> Explanation {
    let (asked, peer) = (format!("{} {}", record.method, record.path), record.peer.ip());
    let upstream = record.upstream.as_ref().map(|server| {
        let identity = record.upstream_identity.unwrap_or("nothing");
        format!("the files are at {server}; who the client is there: {identity}")
    });
    let decided_by = match error.side == Side::Upstream.name() {
        true => "decided by the upstream server",
        false => "decided by this server, after its rules allowed it",
    };
    Explanation {
        asked: format!("{asked}, from {}, at {}", peer.to_canonical(), format_time(now_s())),
        received: vec![format!("credential: {}", record.credential)],
        read: Vec::new(),
        rules: Vec::new(),
        upstream: upstream.into_iter().collect(),
        allowed: false,
        code: Some(error.code),
        decision: format!("refused, {}: {}; {decided_by}", error.code, error.message),
        remedies: vec![error.next.to_owned()],
    }
}

/// Microseconds since a moment, as records hold them.
#[must_use]
pub fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A request that moved data of an open file. The record of the file's close counts it.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// What was requested, such as `read`.
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
    /// It failed, and has a record of its own.
    Told,
    /// It failed with this code, through the fault of this side, and has no record.
    Failed(&'static str, &'static str),
}

/// What a copy shows to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerCredential {
    /// The proxy that the client has delegated.
    DelegatedProxy,
    /// A token, or another header, from the client.
    Token,
    /// The rendezvous key of an XRootD third-party copy.
    Key,
}

/// The beginning of a third-party copy.
#[derive(Clone, Debug, Serialize)]
pub struct TransferStart {
    /// Its ID.
    pub transfer_id: String,
    /// The ID of the request that ordered it.
    pub request_id: String,
    /// `pull` or `push`.
    pub mode: &'static str,
    /// The path here.
    pub path: String,
    /// The other side's URL without its query.
    pub remote: String,
    /// The client that ordered it.
    pub client: SocketAddr,
    /// The same client with all that is known of it, as at its login.
    #[serde(skip)]
    pub ordered_by: telemetry::Client,
    /// The scheme in which it named the file here, in the words of XRootD's monitoring: `https`,
    /// `http` or `xroot`.
    #[serde(skip)]
    pub own_scheme: &'static str,
    /// The kind of the client's credential.
    pub credential: &'static str,
    /// The subject of the client's credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the other side is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_credential: Option<PeerCredential>,
    /// What the client says about its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_info: Option<String>,
    /// The trace context of its requests.
    pub traceparent: String,
    /// The span of the request that ordered it, if that has one.
    #[serde(skip)]
    pub parent_span: Option<u64>,
    /// The tag of the flow (SciTags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}

/// How a third-party copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferOutcome {
    /// The file is complete and committed.
    Success,
    /// It failed; the destination is unchanged.
    Failure,
    /// The client disconnected.
    ClientGone,
    /// This server was shut down.
    Aborted,
}

impl TransferOutcome {
    /// The name in logs and metrics.
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

/// A finished third-party copy.
#[derive(Clone, Debug, Serialize)]
pub struct TransferRecord {
    /// The beginning.
    #[serde(flatten)]
    pub start: TransferStart,
    /// How it ended.
    pub outcome: TransferOutcome,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFacts>,
    /// Bytes moved.
    pub bytes: u64,
    /// Size of the file, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Most streams that carried payload at the same time; 0 when it failed.
    pub streams: u32,
    /// How often it resumed from data that it already had.
    pub resumed: u32,
    /// The checksum that both sides agree on, as `algorithm:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<String>,
    /// When each phase began, in microseconds from the start.
    pub phases_us: Vec<(&'static str, u64)>,
    /// The steps of its connections, and its wait for the first byte.
    #[serde(skip)]
    pub steps: Vec<StepTime>,
    /// Duration in microseconds.
    pub total_us: u64,
}

/// A step of a copy, in microseconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Its name.
    pub name: &'static str,
    /// When it began.
    pub began_us: u64,
    /// When it ended.
    pub ended_us: u64,
}

#[cfg(test)]
mod tests {
    use types::Phase;

    use super::*;

    #[test]
    fn the_administrator_is_sent_to_the_credential_of_the_export() {
        let next = |code, side| ErrorFacts::from(&Error::new(code, side, Phase::Open)).next;
        assert!(next(ErrorCode::PeerDenied, Side::Upstream).contains("remote_token_file"));
        assert!(next(ErrorCode::Forbidden, Side::Upstream).contains("rights at the upstream server"));
        assert!(!next(ErrorCode::PeerDenied, Side::Source).contains("remote_"));
    }

    #[test]
    fn a_refusal_by_the_server_that_has_the_file_is_known_too() {
        let refusals = Refusals::default();
        let note = |id: &str, code, side| {
            let mut record = RequestRecord::new(Protocol::Http, ([127, 0, 0, 1], 1).into(), "clear");
            record.request_id = id.to_owned();
            record.error = Some((&Error::new(code, side, Phase::Open)).into());
            record.keep_refusal(&refusals);
        };
        note("a", ErrorCode::Forbidden, Side::Upstream);
        note("b", ErrorCode::NotFound, Side::Upstream);
        refusals.keep("c", Explanation::clone(&refusals.find("a")[0]));
        note("c", ErrorCode::Forbidden, Side::Client);
        let found = refusals.find("a");
        assert!(
            found[0].decision.starts_with("refused, forbidden:")
                && found[0].decision.ends_with("decided by the upstream server"),
            "{found:?}"
        );
        assert!(refusals.find("b").is_empty(), "no credential would help");
        assert_eq!(refusals.find("c").len(), 1);
    }
}
