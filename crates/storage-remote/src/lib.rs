//! Another server as a store: an endpoint in front of it (a data transfer node) serves its files
//! through all of our doors and copies.
//!
//! A [`RemoteStore`] asks the server through [`remote::Client`] and knows no protocol: what it has
//! to know is in [`remote::Abilities`]. It keeps nothing, neither content nor decisions, except
//! for a minute which client may read a file that a cache has ([`readable`]). A file is
//! read as an open download where its reader goes from front to back, and by ranges where it does
//! not ([`file`]). An upload is sent on as it comes, in an order that the server takes, and is
//! acknowledged when the server has stored it and its checksum agrees ([`upload`]). What differs at
//! servers of objects (S3) is in [`objects`]. Where clients name the server, a [`ForwardingStore`]
//! has a [`RemoteStore`] for each of those that the configuration allows.
//!
//! Errors name the server as [`types::Side::Upstream`], and its refusals keep their meaning
//! ([`fault`]): 404 stays 404, and only failures of the hop itself are answered with 502 and 504.
#![forbid(unsafe_code)]

mod confirm;
mod copies;
mod fault;
mod file;
mod forwarding;
mod judge;
pub mod limits;
mod listing;
mod look;
mod minter;
mod objects;
mod readable;
mod renaming;
mod replacing;
mod stale;
mod stat;
mod store;
mod unfinished;
mod upload;
mod upstream;
mod window;

pub use forwarding::{Forwarding, ForwardingStore, allowed};
pub use look::Found;
pub use minter::Minter;
pub use stat::{DIRECTORY_MODE, FILE_MODE, stat};
pub use store::RemoteStore;
pub use upstream::{Counts, Credential, Identity, Upstream, WeakCredential, is_for, is_shown_to};
