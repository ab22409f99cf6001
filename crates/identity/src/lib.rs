//! Who is on the other side of this connection? The one place that every door asks.
//!
//! `credentials` can tell from bytes, keys and a time; here is what those are taken from: the keys of
//! macaroons, the keys of token issuers (fetched, kept and refreshed), the trust directory (read, and
//! read again when it changes), and the memory of what was verified already.
#![forbid(unsafe_code)]

mod authenticator;

pub use authenticator::{Authenticator, Sources};
