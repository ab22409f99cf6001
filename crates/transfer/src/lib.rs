//! The copy engine: the only place that moves payload.
//!
//! Every transfer is the same act, a source copied into a sink. A source is a file of a store or a
//! stream that comes in; a sink is a file of a store or a stream that goes out. Four movers
//! ([`receive`], [`serve`], [`relay`], and the store's own copy) do all four pairs; [`pull`],
//! [`push`] and [`stream`] are whole third-party copies made of them: they ask the source first,
//! follow progress, resume, verify, and publish or clean up.
//!
//! Everything here can be dropped at any moment: an upload that is not committed removes its part.
#![forbid(unsafe_code)]

mod assembly;
mod budget;
mod fetch;
mod growth;
mod job;
mod mover;
mod options;
mod pace;
mod pages;
mod patience;
mod pieces;
mod pipe;
mod progress;
mod pull;
mod push;
mod rest;
mod running;
mod streams;
mod verify;

pub use assembly::Assembly;
pub use budget::Budget;
pub use mover::{Drain, Payload, Received, receive, relay, serve};
pub use options::{Order, Outcome, Streams, Verification, Verified};
pub use pages::{PagesPart, serve_pages};
pub use pieces::{Pieces, serve_pieces};
pub use pipe::{send_from, write_to};
pub use progress::Progress;
pub use pull::{is_refused_look, pull, refusal_or};
pub use push::{push, refuses_to_tell, stream};
pub use running::{CopyJob, Running, Slot, Slots, TransferEvents};
