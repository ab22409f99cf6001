//! Files on other servers: the client side of HTTP, WebDAV, the XRootD protocol and S3, and of
//! third-party copies.
//!
//! The transfer engine reads from a [`Download`] and writes to an [`Outlet`]. The command line also
//! lists, removes and renames, and orders copies between servers ([`Copying`]). The scheme of a
//! [`Resource`]'s location chooses the [`Protocol`], in [`Client`] and nowhere else. What a caller
//! has to know of a protocol is in its [`Abilities`]; how to add one stands in `protocol.rs`.
//!
//! All protocols keep the same rules. They follow redirects by hand, because a credential must not
//! follow them everywhere. They check every address before they connect. Every wait has an end. A
//! server's own words come back in the error when it refuses.
#![forbid(unsafe_code)]

mod activity;
mod attributes;
mod client;
mod copying;
mod delegate;
mod directories;
mod discovery;
mod download;
mod effect;
mod http;
mod journal;
pub mod limits;
mod listing;
mod lost_answer;
mod object_store;
mod opened;
mod options;
mod outlet;
mod packet_mark;
mod parts;
mod pool;
mod protocol;
mod ranges;
mod resource;
mod root;
mod s3;
mod service;
mod shown_in_copy;
mod sign_in;
mod steps;
mod tape;
mod token_issuer;
mod trace;
mod unfinished;

pub use activity::{Activity, ActivityNote};
pub use attributes::{Attribute, AttributeCall};
pub use client::{Client, ClientOptions, PinnedHost};
pub use copying::{Copying, DelegationOutcome, OrderedCopy};
pub use download::{Download, FileDownload};
pub use http_wire::CopyProgress;
/// An entry of a listing, or what is known of one file or directory.
pub use http_wire::webdav::RemoteEntry as Entry;
pub use journal::{Journal, JournalEntry, LostFile, in_journal};
pub use listing::{DirectoryListing, Listing};
pub use object_store::StoreOffers;
pub use opened::{Opened, SharedFile};
pub use options::{
    CopiedWithin, CopyAbilities, CopyOrder, Delegation, Direction, GetOptions, LoginOffer, Offers, PutOptions, Stored,
    WithinOptions,
};
pub use outlet::{CreatedFile, FileUpload, Outlet};
pub use packet_mark::PacketMark;
pub use parts::{Parts, PartsUpload, PartsWriter};
pub use protocol::{Abilities, Boxed, Pending, Protocol};
pub use ranges::{RangeReader, Ranges};
pub use resource::{
    ANSWERS_IN_HTTP, Access, Facts, FileIdentity, JudgeRedirect, PATH_NOT_EXPORTED, Resource, Validator, is_in_use,
};
/// Our account at an S3 storage, and where buckets are in its URLs.
pub use s3_wire::{Account, Addressing};
pub use service::{BodyStream, ServiceAnswer, ServiceCall, ServiceMethod, ServiceStream, Streamed, WebhookHeaders};
pub use shown_in_copy::ShownInCopy;
pub use sign_in::SignInRequest;
pub use steps::{Step, Steps};
pub use tape::{ArchiveState, Locality, StageState, TapeAnswer, TapeCall, TapeSystem, ToStage, tape_path};
pub use token_issuer::{DeviceCode, IssuedTokens, TokenDenial, TokenIssuer, TokenProvider, TokenWish};
pub use trace::Trace;
pub use unfinished::{UnfinishedUpload, UnfinishedUploads, UploadListing};
/// The space of a directory tree of an XRootD server.
pub use xroot_wire::response::SpaceUsage as Space;
