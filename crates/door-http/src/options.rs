//! OPTIONS: what is offered here.

use http_wire::Method;
use types::Result;

use crate::exchange::Exchange;

/// The methods of this door.
pub(crate) const METHODS: &[Method] = &[
    Method::Options,
    Method::Get,
    Method::Head,
    Method::Put,
    Method::Delete,
    Method::Mkcol,
    Method::Move,
    Method::Copy,
    Method::Propfind,
    Method::Post,
];

/// Answers OPTIONS. It takes no rights: it says nothing about any file.
pub(crate) async fn answer(exchange: &mut Exchange<'_>) -> Result<()> {
    exchange.whole(200, &[], |head| head.allow(METHODS).dav()).await
}
