//! Exports whose files are on other servers: the client is redirected there with the same request.
//!
//! Reading, writing and third-party copies happen on the server that has the file. Where rights
//! depend on whether the file exists, they are asked before and after that is known: a client
//! without them learns nothing.

use credentials::capability::CapabilityUse;
use std::sync::Arc;

use endpoint::{Decided, Direction, Elsewhere, Found, Granted, Purpose, Relayed, Spoken, Target, Wanted};
use http_wire::{Method, RequestHead, url_with_redirect_id};
use policy::Operation;
use storage::{Overwrite, UploadOptions, WriteHandle};
use types::{ErrorCode, Location, Result, Secret};

use crate::exchange::FileExchange;

/// Sends a reader to a server that has the file. Returns false for a directory, which is answered
/// here.
pub(crate) async fn read(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    elsewhere: &Elsewhere,
    operation: Operation,
) -> Result<bool> {
    let path = exchange.http.path.clone();
    let granted = exchange.authorize(operation.clone(), &path, None)?;
    let target = match direct(exchange, elsewhere, Purpose::Read).await? {
        Direction::Server(target) => target,
        Direction::Directory => return Ok(false),
    };
    // Clients such as davix send a GET to where a HEAD was redirected, so it may read what the
    // client may read.
    let may_read = operation == Operation::Read || {
        let exports = &exchange.exports;
        exports.would_allow(exchange.requester(), Operation::Read, &path, None)
    };
    let decided = Decided {
        usage: if may_read {
            CapabilityUse::Read
        } else {
            CapabilityUse::Look
        },
        size_bytes: u64::MAX,
        may_replace: false,
        may_read: false,
        granted: &granted,
    };
    redirect(exchange, head, &target, &decided).await.map(|()| true)
}

/// Sends a client that stores a file to the server that has it, or to one that takes new files.
pub(crate) async fn store(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    elsewhere: &Elsewhere,
    size_bytes: Option<u64>,
) -> Result<()> {
    let is_new = head.must_not_exist();
    let path = exchange.http.path.clone();
    let may = |exchange: &FileExchange<'_, '_>, operation| {
        let exports = &exchange.exports;
        exports.would_allow(exchange.requester(), operation, &path, size_bytes)
    };
    if !may(exchange, Operation::Overwrite) {
        exchange.authorize(Operation::Create, &path, size_bytes)?;
    }
    let target = match direct(exchange, elsewhere, Purpose::Store { size_bytes, is_new }).await? {
        Direction::Server(target) => target,
        Direction::Directory => return Err(endpoint::refusal(ErrorCode::IsDirectory, &path)),
    };
    let operation = match target.exists {
        true => Operation::Overwrite,
        false => Operation::Create,
    };
    let granted = exchange.authorize(operation, &path, size_bytes)?;
    let decided = Decided {
        usage: CapabilityUse::Write,
        size_bytes: size_bytes.or(granted.max_upload_bytes).unwrap_or(u64::MAX),
        may_replace: exchange.may_replace(target.exists, size_bytes),
        may_read: false,
        granted: &granted,
    };
    redirect(exchange, head, &target, &decided).await
}

/// What is known to exist before an upload that passes through. What a server that is away may have
/// is no reason to refuse a new file, as with a redirect: [`relay`] learns whether it had this one.
/// A condition needs an answer.
pub(crate) fn before_relay(found: Found, head: &RequestHead) -> Found {
    match found {
        Found::Trouble(error)
            if matches!(error.code(), ErrorCode::NodesSilent | ErrorCode::NodesRefuse) && !head.has_conditions() =>
        {
            Found::Nothing
        }
        found => found,
    }
}

/// Begins an upload that passes through to the server that takes it, for a client that is sending
/// its body already.
pub(crate) async fn relay(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    elsewhere: &Elsewhere,
    options: &UploadOptions,
    granted: &Granted,
) -> Result<Arc<dyn WriteHandle>> {
    let path = exchange.http.path.clone();
    let size_bytes = options.size_bytes;
    let wanted = Wanted {
        path: &path,
        purpose: Purpose::Store {
            size_bytes,
            is_new: options.overwrite == Overwrite::Refuse,
        },
        spoken: Spoken::Http,
        address: exchange.http.peer.ip(),
        tried: &[],
        refresh: false,
    };
    let Direction::Server(target) = elsewhere.direct(&wanted).await? else {
        return Err(endpoint::refusal(ErrorCode::IsDirectory, &path));
    };
    exchange.http.record.sent_to = Some(target.node.to_string());
    let decided = Decided {
        usage: CapabilityUse::Write,
        size_bytes: size_bytes.or(granted.max_upload_bytes).unwrap_or(u64::MAX),
        may_replace: options.overwrite == Overwrite::Allow,
        may_read: false,
        granted,
    };
    // What came encrypted does not leave in clear text.
    let is_exposed = exchange.http.connection.stream.is_encrypted() && !target.location.is_encrypted();
    let id = &exchange.http.record.request_id;
    let sealed = exchange.own_node_url(head, &decided, &target);
    let is_judged = sealed.is_some();
    let plain = || Secret::new(target.location.to_wire());
    let relayed = Relayed {
        wanted: &wanted,
        target: &target,
        url: match target.is_ours {
            true => Some(url_with_redirect_id(&sealed.unwrap_or_else(plain), id)),
            false => sealed,
        },
        is_judged,
        bearer: head.bearer().filter(|_| !is_exposed),
        same_rights: exchange.exports.same_rights_around(exchange.requester(), &path),
        options,
    };
    elsewhere.relay(&relayed).await
}

async fn direct(exchange: &FileExchange<'_, '_>, elsewhere: &Elsewhere, purpose: Purpose) -> Result<Direction> {
    let wanted = Wanted {
        path: &exchange.http.path,
        purpose,
        spoken: Spoken::Http,
        address: exchange.http.peer.ip(),
        tried: &[],
        refresh: false,
    };
    elsewhere.direct(&wanted).await
}

async fn redirect(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    target: &Target,
    decided: &Decided<'_>,
) -> Result<()> {
    exchange.http.record.sent_to = Some(target.node.to_string());
    // A copy is made with the client's own credential, which the other side may need too.
    let sealed = match head.method {
        Method::Copy => None,
        _ => exchange.node_url(head, decided, target),
    };
    let mut place = sealed.unwrap_or_else(|| url(exchange, head, &target.location));
    // Servers of others get nothing that they do not know: it might be part of what a URL's
    // signature covers.
    if target.is_ours {
        place = url_with_redirect_id(&place, &exchange.http.record.request_id);
    }
    exchange
        .http
        .whole(307, &[], |head| head.location(place.expose()).no_store())
        .await
}

/// The URL of the same request at another place. Many clients do not send `Authorization` to
/// another host: where both connections are encrypted, the token goes along in the URL, as XRootD
/// does it. What came encrypted does not leave in clear text.
pub(crate) fn url(exchange: &FileExchange<'_, '_>, head: &RequestHead, place: &Location) -> Secret {
    let came_encrypted = exchange.http.connection.stream.is_encrypted();
    let target = match (came_encrypted, place.is_encrypted(), head.bearer()) {
        (true, true, Some(token)) => head.target.text_with_token(&token),
        (true, false, _) => Secret::new(head.target.text_without_token()),
        _ => Secret::new(head.target.text()),
    };
    match target.expose().split_once('?') {
        Some((_, query)) => Secret::new(format!("{}?{query}", place.to_wire())),
        None => Secret::new(place.to_wire()),
    }
}
