//! The methods that this door offers.

use http_wire::Method;

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
    Method::Proppatch,
    Method::Post,
    Method::Lock,
    Method::Unlock,
];

/// How many of them, at the end, are about locks.
const LOCK_METHODS: usize = 2;

/// The methods that are offered at a path, by whether locks can be taken there.
pub(crate) fn methods(has_locks: bool) -> &'static [Method] {
    match has_locks {
        true => METHODS,
        false => &METHODS[..METHODS.len() - LOCK_METHODS],
    }
}
