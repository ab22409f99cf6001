//! The header names that are spelled in more than one place, in the spelling that peers expect.

pub(crate) const AGE: &str = "Age";
pub(crate) const AUTHORIZATION: &str = "Authorization";
pub(crate) const CACHE_CONTROL: &str = "Cache-Control";
pub(crate) const CLIENT_INFO: &str = "ClientInfo";
pub(crate) const CONNECTION: &str = "Connection";
pub(crate) const CONTENT_DIGEST: &str = "Content-Digest";
pub(crate) const CONTENT_ENCODING: &str = "Content-Encoding";
pub(crate) const CONTENT_LENGTH: &str = "Content-Length";
pub(crate) const CONTENT_LOCATION: &str = "Content-Location";
pub(crate) const CONTENT_MD5: &str = "Content-MD5";
pub(crate) const CONTENT_RANGE: &str = "Content-Range";
pub(crate) const CONTENT_TYPE: &str = "Content-Type";
pub(crate) const COPY_FLAGS: &str = "Copy-Flags";
pub(crate) const X_NO_DELEGATE: &str = "X-No-Delegate";
pub(crate) const CREDENTIAL: &str = "Credential";
pub(crate) const DELEGATE_TO: &str = "X-Delegate-To";
pub(crate) const DEPTH: &str = "Depth";
pub(crate) const DESTINATION: &str = "Destination";
pub(crate) const DIGEST: &str = "Digest";
pub(crate) const ETAG: &str = "ETag";
pub(crate) const EXPECT: &str = "Expect";
pub(crate) const HOST: &str = "Host";
/// A client's name for a request that it may repeat (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
pub(crate) const IF_MATCH: &str = "If-Match";
pub(crate) const IF_NONE_MATCH: &str = "If-None-Match";
pub(crate) const IF_RANGE: &str = "If-Range";
/// The last event that a client has seen (HTML, section 9.2.4).
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
pub(crate) const LAST_MODIFIED: &str = "Last-Modified";
/// How far a redirector of ours lets symbolic links lead; no standard has it.
pub(crate) const LINK_LIMIT: &str = "Crossload-Links";
pub(crate) const LOCATION: &str = "Location";
/// Of ownCloud and Nextcloud: the time of a file's last change, in seconds since 1970
/// (<https://docs.nextcloud.com/server/latest/developer_manual/client_apis/WebDAV/basic.html>).
pub(crate) const OC_MTIME: &str = "X-OC-MTime";
pub(crate) const LOCK_TOKEN: &str = "Lock-Token";
pub(crate) const NO_DELEGATE: &str = "X-No-Delegate";
pub(crate) const NUMBER_OF_STREAMS: &str = "X-Number-Of-Streams";
pub(crate) const OVERWRITE: &str = "Overwrite";
pub(crate) const RANGE: &str = "Range";
pub(crate) const REPR_DIGEST: &str = "Repr-Digest";
pub(crate) const REQUIRE_VERIFICATION: &str = "RequireChecksumVerification";
pub(crate) const RETRY_AFTER: &str = "Retry-After";
pub(crate) const SCITAG: &str = "SciTag";
pub(crate) const SECURE_REDIRECTION: &str = "Secure-Redirection";
pub(crate) const SERVER: &str = "Server";
pub(crate) const SOURCE: &str = "Source";
pub(crate) const TE: &str = "TE";
/// The trace that a request is part of (W3C Trace Context §3.2).
pub const TRACEPARENT: &str = "traceparent";
pub(crate) const TRAILER: &str = "Trailer";
pub(crate) const TRANSFER_ENCODING: &str = "Transfer-Encoding";
pub(crate) const TRANSFER_HEADER_PREFIX: &str = "TransferHeader";
pub(crate) const TRANSFER_STATUS: &str = "X-Transfer-Status";
pub(crate) const USER_AGENT: &str = "User-Agent";
/// Standard Webhooks: the message, the same for each attempt.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
/// Standard Webhooks: the signatures of a message.
pub(crate) const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// Standard Webhooks: the time of the attempt, in seconds since 1970.
pub(crate) const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
pub(crate) const WANT_DIGEST: &str = "Want-Digest";
pub(crate) const WANT_REPR_DIGEST: &str = "Want-Repr-Digest";
pub(crate) const WWW_AUTHENTICATE: &str = "WWW-Authenticate";
