//! What is stored here and who may use it: the layer that all doors share.
//!
//! [`Exports`] maps a path to its store, [`Exports::authorize`] decides whether a client may do
//! something there, and [`Found`] says what exists. Files are used through a [`Store`]. When an
//! upload is committed, its [`Permit`] and the WebDAV [`Locks`] are checked once more.
//! [`FairShare`] limits how much of all this one client can take.
#![forbid(unsafe_code)]

mod activity;
mod authorize;
mod checksums;
mod client_memory;
pub mod clock;
mod drain;
mod elsewhere;
mod export_path;
mod exports;
mod fair_share;
mod found;
mod gate;
mod hand_over;
mod idle;
pub mod ids;
pub mod limits;
mod link_limit;
mod link_targets;
mod links;
mod listings;
mod lock_checks;
mod locks;
mod name_changes;
mod own_uploads;
mod permit;
mod record;
mod refusals;
mod requester;
mod reread;
mod store;
mod time_limits;
mod trees;
mod upstream;
mod users;
mod visible;

pub use activity::{ActiveTransfer, Activity};
pub use authorize::{Granted, Holder};
pub use checksums::ChecksumRequester;
pub use client_memory::ClientMemory;
pub use drain::DrainGate;
pub use elsewhere::{Direction, Elsewhere, OtherServers, Purpose, Relayed, SharedSpace, Spoken, Target, Wanted};
pub use export_path::{ExportPath, StoredPath};
pub use exports::{Export, Exports, PathTarget, SharedExports};
pub use fair_share::{ClientId, FairShare, Share, ShareEvents, ShareKind, ShareLimits, ShareUsedUp};
pub use found::{Found, check_apart, is_missing, refusal};
pub use gate::{Gate, OpenConnection};
pub use hand_over::{Decided, HandOver, HandOverSettings, Recipient, Shown, allow_by_capability, xrootd_door_of};
pub use idle::IdleConnection;
pub use link_limit::LinkLimit;
pub use locks::{
    Change, Changing, LockFacts, LockHolder, LockKeys, Locks, NewLock, Unusable, lock_timeout, locked, new_lock_token,
};
pub use name_changes::NameChanges;
pub use permit::Permit;
pub use record::{
    DelegationStep, Ending, ErrorFacts, Moved, PeerCredential, Protocol, RequestLog, RequestRecord, StepTime,
    TransferOutcome, TransferRecord, TransferStart, elapsed_us, span_of, trace_for,
};
pub use refusals::Refusals;
pub use requester::Requester;
pub use store::{Pages, Store};
pub use time_limits::TimeLimits;
pub use upstream::{UpstreamClient, UpstreamFacts, UpstreamIdentity, explain_upstream};
pub use users::{UserSettings, Users};
