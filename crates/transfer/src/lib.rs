//! The copy engine: the only place that moves payload.
//!
//! Every transfer is the same act: a [`Source`] is copied into a [`Sink`]. [`copy`] does it for every pair of a file of a
//! store and a file on another server: it asks both sides, moves the data, resumes, verifies, and publishes or cleans up.
//! Below it three movers carry the bytes: [`receive`] into a store, [`serve`] out of one, [`relay`] between two servers.
//!
//! Everything here can be dropped at any moment: an upload that is not committed removes its part.
#![forbid(unsafe_code)]

mod assembly;
mod budget;
mod engine;
mod events;
mod growth;
pub mod limits;
mod mover;
mod options;
mod pace;
mod pages;
mod patience;
mod pieces;
mod pipe;
mod progress;
mod rest;
pub mod route;
mod running;
mod site;
mod verify;

pub use assembly::Assembly;
pub use budget::Budget;
pub use engine::{
    BeginOptions, Begun, Incoming, InputSource, OutputSink, PartFile, RemoteSink, RemoteSource, Sink, SinkAbilities,
    SinkFacts, Source, SourceAbilities, SourceFacts, StoreSink, StoreSource, UploadStream, copy, refusal_or,
    refuses_to_tell,
};
pub use events::{Events, NoEvents, TransferEvents};
pub use mover::{Drain, Payload, Received, receive, relay, serve};
pub use options::{Order, Outcome, Streams, Verification, Verified};
pub use pages::{PagesPart, serve_pages};
pub use pieces::{Pieces, serve_pieces};
pub use pipe::send_from;
pub use progress::Progress;
pub use running::{CopyJob, Running, Slot, Slots};
pub use site::{CopySettings, ForwardTo, Site, SiteLimits};
