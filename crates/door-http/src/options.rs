//! OPTIONS: what is offered here.

use endpoint::Place;
use http_wire::Method;
use types::Result;

use crate::exchange::Exchange;

/// The methods of this door.
const METHODS: &[Method] = &[
    Method::Options,
    Method::Get,
    Method::Head,
    Method::Put,
    Method::Delete,
    Method::Mkcol,
    Method::Move,
    Method::Copy,
    Method::Propfind,
    Method::Proppatch,
    Method::Post,
    Method::Lock,
    Method::Unlock,
];

/// How many of them, at the end, are about locks.
const LOCK_METHODS: usize = 2;

/// The methods of this door where locks can be taken, or not.
pub(crate) fn methods(has_locks: bool) -> &'static [Method] {
    match has_locks {
        true => METHODS,
        false => &METHODS[..METHODS.len() - LOCK_METHODS],
    }
}

impl Exchange<'_> {
    /// Whether locks can be taken at the path of the request; above all exports, whether they can in any of them.
    pub(crate) fn has_locks(&self) -> bool {
        match self.place(&self.path) {
            Place::Stored(spot) => spot.has_locks,
            // Windows and macOS ask here before they look at a path below.
            Place::Above(_) => self.exports.list().iter().any(|export| export.rules.has_locks()),
            Place::Nowhere => false,
        }
    }
}

/// Answers OPTIONS. It takes no rights: it says nothing about any file.
pub(crate) async fn answer(exchange: &mut Exchange<'_>) -> Result<()> {
    let has_locks = exchange.has_locks();
    exchange
        .whole(200, &[], |head| head.allow(methods(has_locks)).dav(has_locks))
        .await
}
