//! A third-party copy that another server is to make: the client is sent there with the same request.
//!
//! A site may let only some of its servers take part in third-party copies, while all of them serve
//! the same files.

use http_wire::RequestHead;
use types::{Location, Result, Secret};

use crate::exchange::FileExchange;

/// Sends the client to `server`, for the same path and query.
///
/// Many clients keep their `Authorization` to themselves when the host changes. Where both ways are
/// encrypted the token goes along in the URL, as XRootD's servers hand it on.
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
