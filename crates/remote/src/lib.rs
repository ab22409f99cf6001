//! Files elsewhere: the client side of HTTP, WebDAV and HTTP third-party copy.
//!
//! The transfer engine reads from a [`Download`] and writes to an [`Outlet`]; the command line also
//! lists, removes, renames, and asks servers to copy between themselves ([`Copying`]). All of it
//! follows the same rules: redirects are followed by hand, because a credential must not follow them
//! to another origin; every connected address is checked; every wait has an end; and when a peer
//! refuses, its own words come back in the error.
#![forbid(unsafe_code)]

mod answer;
mod client;
mod copy;
mod download;
mod exchange;
mod listing;
mod macaroon;
mod namespace;
mod outlet;
mod pool;
mod resource;
mod verdict;

pub use client::{Client, ClientOptions};
pub use copy::{CopyOrder, Copying, Direction};
pub use download::{Download, GetOptions};
pub use http_wire::Progress;
/// An entry of a listing, or what is known of one file or directory.
pub use http_wire::webdav::RemoteEntry as Entry;
pub use listing::Listing;
pub use outlet::{Outlet, PutOptions, Stored};
pub use resource::{Access, Facts, Resource, Validator};
