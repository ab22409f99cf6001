//! The client side of the XRootD protocol (`root://`, `roots://`).

mod ask;
mod at_end;
mod attributes;
mod copy;
mod download;
mod gsi;
mod held;
mod listing;
mod lite;
mod login;
mod many;
mod namespace;
mod opened;
mod outlet;
mod pool;
mod prepare;
mod protocol;
mod route;
mod session;
mod unclosed;
mod vector;
mod verdict;

pub(crate) use ask::Client;
pub(crate) use outlet::Outlet;
