//! A third-party copy that another server performs: the client is redirected to it with the same
//! request.
//!
//! A site may let only some of its servers perform third-party copies, while all of them serve the
//! same files.

use http_wire::RequestHead;
use types::{Location, Result, Secret};

use crate::exchange::FileExchange;

/// Redirects the client to `server`, with the same path and query.
///
/// Many clients do not send `Authorization` to another host. Where both connections are encrypted,
/// the token goes along in the URL, as XRootD does it.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, server: &Location) -> Result<()> {
    let both_encrypted = exchange.http.connection.stream.is_encrypted() && server.is_encrypted();
    let target = match head.bearer().filter(|_| both_encrypted) {
        Some(token) => head.target.text_with_token(&token),
        None => Secret::new(head.target.text()),
    };
    let place = Secret::new(server.wire_of(target.expose()));
    exchange
        .http
        .whole(307, &[], |head| head.location(place.expose()).no_store())
        .await
}
