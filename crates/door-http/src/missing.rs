//! Clients that a redirector sent here for a file that is gone: it was removed without a door, and
//! the redirector does not know.
//!
//! They are not redirected back. The node would have to take the redirector's URL from the request,
//! and anyone could let it send a client, with its token, to any place.

use endpoint::PathTarget;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::exchange::FileExchange;

/// Lets such a client ask the redirector again, and tells redirectors that the file is not here.
/// "Not found" would be final for the client, though another node may have the file.
pub(crate) fn answered(exchange: &FileExchange<'_, '_>, result: Result<()>) -> Result<()> {
    let path = &exchange.http.path;
    match result {
        Err(error) if error.code() == ErrorCode::NotFound && was_sent(exchange) => {
            exchange.exports.name_changes().report_missing(path);
            Err(Error::new(ErrorCode::NotHere, Side::Active, Phase::Open).with_subject(path))
        }
        result => result,
    }
}

/// Whether a redirector sent the client here, and files of this path are here.
fn was_sent(exchange: &FileExchange<'_, '_>) -> bool {
    let is_here = |target| matches!(target, PathTarget::Stored(place) if place.store.elsewhere().is_none());
    exchange.http.record.redirect_id.is_some() && is_here(exchange.place(&exchange.http.path))
}
