//! The loads. Each is an async function of a [`Ground`](crate::Ground) and its own parameters that
//! returns [`Measured`](crate::Measured): what it measured, complete or until it was stopped.
//! Faults of one target are noted in its row, and the others continue.

pub mod bulk;
pub mod data;
mod handshake;
pub mod latency;
pub mod measure;
pub mod metadata;
pub mod mixed;
pub mod overwrite;
mod peak;
pub mod redirector;
pub mod tally;
pub mod third_party;
mod timeline;
pub mod tls;
pub mod tpc;
pub mod vector;
