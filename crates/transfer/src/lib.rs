//! The copy engine: the only place that moves payload.
//!
//! Every transfer is the same act, a source copied into a sink. A source is a file of a store or a
//! stream that comes in; a sink is a file of a store or a stream that goes out. Four movers
//! ([`receive`], [`serve`], [`relay`], and the store's own copy) do all four pairs; [`pull`],
//! [`push`] and [`stream`] are whole third-party copies made of them: they ask the source first,
//! follow progress, resume, verify, and publish or clean up.
//!
//! What doors share about stores lives here too, since it is below all of them: which store answers for which
//! path ([`Exports`]), what stands there ([`Found`]), and how errors and copies are told ([`ErrorFacts`]).
//!
//! Everything here can be dropped at any moment: an upload that is not committed removes its part.
#![forbid(unsafe_code)]

mod assembly;
mod authorize;
pub mod chance;
mod checksums;
mod exports;
mod fair_share;
mod fetch;
mod found;
mod gate;
mod growth;
mod habit;
mod job;
mod links;
mod locks;
mod mover;
mod options;
mod own_uploads;
mod pace;
mod pages;
mod patience;
mod permit;
mod pieces;
mod pipe;
mod progress;
mod pull;
mod push;
mod record;
mod refusals;
mod reread;
mod rest;
mod running;
mod shown;
mod store;
mod streams;
mod trees;
mod uploads;
mod users;
mod verify;

pub use assembly::Assembly;
pub use authorize::{Asker, Granted, Holder};
pub use checksums::ChecksumAsker;
pub use exports::{Export, Exports, Place, SharedExports, Spot};
pub use fair_share::{ClientId, FairShare, Share, ShareEvents, ShareKind, ShareLimits, ShareUsedUp};
pub use found::{Found, is_missing, refusal};
pub use gate::{Gate, Visit};
pub use locks::{
    Change, Changing, LockFacts, LockHolder, LockKeys, Locks, NewLock, Unusable, lock_timeout, locked, new_lock_token,
};
pub use mover::{Drain, Payload, Received, receive, relay, serve};
pub use options::{Order, Outcome, Streams, Verification, Verified};
pub use pages::{PagesPart, serve_pages};
pub use permit::Permit;
pub use pieces::{Pieces, serve_pieces};
pub use pipe::{send_from, write_to};
pub use progress::Progress;
pub use pull::{is_refused_look, pull, refusal_or};
pub use push::{push, refuses_to_tell, stream};
pub use record::{ErrorFacts, TransferOutcome, TransferRecord, TransferStart};
pub use refusals::Refusals;
pub use running::{CopyJob, Running, Slot, Slots, TransferEvents};
pub use store::{Pages, Store};
pub use uploads::{ActiveUpload, ActiveUploads};
pub use users::{UserSettings, Users};
