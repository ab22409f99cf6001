//! A third-party copy that another server performs: the client is redirected to it with the same
//! request.
//!
//! A site may let only some of its servers perform third-party copies, while all of them serve the
//! same files.

use http_wire::RequestHead;
use types::{Location, Result};

use crate::elsewhere;
use crate::exchange::FileExchange;

/// Redirects the client to `server`, with the same path and query.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, server: &Location) -> Result<()> {
    let place = elsewhere::url(exchange, head, &server.with_path(&head.target.path_raw));
    exchange
        .http
        .whole(307, &[], |head| head.location(place.expose()).no_store())
        .await
}
