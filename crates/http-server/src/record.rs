//! The record of a request, as it begins.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use endpoint::ids::{foreign_id, fresh_id};
use endpoint::{Protocol, RequestLog, RequestRecord, elapsed_us, span_of, trace_for};
use http_wire::RequestHead;
use net::http::Connection;
use types::LogicalPath;

/// Characters that the log keeps of what a client says about itself, and of a path that is refused.
const LOGGED_CHARS: usize = 256;

/// The record of a request that has just arrived: without `head` when that cannot be read, and
/// without `path` when its path cannot.
pub(crate) fn record_of(
    head: Option<&RequestHead>,
    path: Option<&LogicalPath>,
    connection: &Connection,
    peer: SocketAddr,
    began: Instant,
    log: &dyn RequestLog,
) -> RequestRecord {
    let unread = || "-".to_owned();
    let parent = head.and_then(RequestHead::traceparent);
    RequestRecord {
        request_id: fresh_id(),
        method: Cow::Owned(head.map_or_else(unread, |head| for_log(head.method.name()))),
        path: match (head, path) {
            (Some(_), Some(path)) => path.as_str().to_owned(),
            // As sent, since it cannot be read, but without the query, which may hold a secret.
            (Some(head), None) => for_log(&head.target.path_raw),
            (None, _) => unread(),
        },
        head_us: Some(elapsed_us(began)),
        user_agent: head.and_then(RequestHead::user_agent).map(for_log),
        client_info: head.and_then(RequestHead::client_info).map(for_log),
        traceparent: Some(trace_for(log, parent)),
        parent_span: span_of(parent),
        scitag: head.and_then(RequestHead::scitag),
        redirect_id: head.and_then(|head| head.target.redirect_id()).and_then(foreign_id),
        ..RequestRecord::new(Protocol::Http, peer, connection.stream.security())
    }
}

fn for_log(text: &str) -> String {
    // The usual case, without a look at each character.
    if text.len() <= LOGGED_CHARS {
        return text.to_owned();
    }
    text.chars().take(LOGGED_CHARS).collect()
}
