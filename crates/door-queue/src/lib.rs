//! The queue's door: FTS3's REST API, so that Rucio, DIRAC and the `fts3` client need no change,
//! and our own API below `/v1`.
//!
//! The door knows the queue as a trait ([`queue::Queue`]).
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

mod admission;
mod attempt;
mod bounded;
mod door;
pub mod fts;
mod fts_error;
pub mod limits;
mod link;
pub mod messages;
pub mod queue;
mod respond;
mod rest;
pub mod rights;
mod settings;
mod storage_name;
mod storages;
mod term;
mod v1;

pub use door::{door, router};
pub use settings::Settings;
pub use v1::document;
