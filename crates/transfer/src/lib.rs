//! The copy engine. All payload moves through this crate.
//!
//! Every transfer copies a [`Source`] into a [`Sink`]. [`copy`] does this for every pair of local
//! and remote files: it asks both sides, moves the data, resumes, verifies, and commits or cleans
//! up. Below it, three movers carry the bytes: [`receive`] into a store, [`serve`] out of a store,
//! [`relay`] between two servers. A copy that other servers make on our order is a [`ThirdParty`];
//! [`BetweenServers`] tries the ways of a plan; a third-party copy is one of them.
//!
//! Every future may be dropped at any time: an uncommitted upload removes its part.
#![forbid(unsafe_code)]

mod assembly;
mod between;
mod budget;
mod engine;
mod events;
mod file_slots;
mod growth;
pub mod limits;
mod local;
mod local_tree;
mod mover;
mod options;
mod pace;
mod pages;
mod part_file;
mod patience;
mod pieces;
mod pipe;
mod progress;
mod rate;
mod rest;
pub mod route;
mod running;
mod site;
mod stopped;
mod third_party;
mod verify;

pub use assembly::Assembly;
pub use between::{BetweenServers, Copied, News, WayNews};
pub use budget::{Budget, Flow};
pub use engine::{
    BeginOptions, Begun, INPUT_NAME, Incoming, InputSource, OutputSink, RemoteSink, RemoteSource, Sink, SinkAbilities,
    SinkFacts, Source, SourceAbilities, SourceFacts, StoreSink, StoreSource, UploadStream, copy, refusal_or,
    refuses_to_tell,
};
pub use events::{Events, NoEvents, TransferEvents};
pub use file_slots::{FileSlot, FileSlots};
pub use local::LocalCopy;
pub use mover::{Drain, Payload, Received, receive, relay, serve};
pub use options::{Order, Outcome, Streams, Uncompared, Verification, Verified};
pub use pages::{PagesPart, serve_pages};
pub use part_file::PartFile;
pub use pieces::{Pieces, serve_pieces};
pub use pipe::send_from;
pub use progress::{FlowMark, Progress, Replaced};
pub use rate::RateLimit;
pub use running::{CopyJob, RunningCopy, Slot, Slots};
pub use site::{CopySettings, ForwardTo, Site};
pub use stopped::remove_stopped;
pub use third_party::{Comparison, ThirdParty, ThirdPartyOutcome};
