//! Files elsewhere: the client side of HTTP, WebDAV, the XRootD protocol, and of the third-party
//! copies that they know.
//!
//! The transfer engine reads from a [`Download`] and writes to an [`Outlet`]; the command line also
//! lists, removes, renames, and asks servers to copy between themselves ([`Copying`]). The scheme of
//! a [`Resource`]'s location decides which protocol is spoken; above this crate nobody needs to know.
//! All of it follows the same rules: redirects are followed by hand, because a credential must not
//! follow them everywhere; every connected address is checked; every wait has an end; and when a peer
//! refuses, its own words come back in the error.
#![forbid(unsafe_code)]

mod client;
mod copying;
mod download;
mod http;
pub mod limits;
mod listing;
mod opened;
mod options;
mod outlet;
mod pool;
mod ranges;
mod resource;
mod root;
mod shown_in_copy;

pub use client::{Client, ClientOptions};
pub use copying::Copying;
pub use download::Download;
pub use http_wire::Progress;
/// An entry of a listing, or what is known of one file or directory.
pub use http_wire::webdav::RemoteEntry as Entry;
pub use listing::Listing;
pub use opened::Opened;
pub use options::{CopyOrder, Direction, GetOptions, PutOptions, Stored};
pub use outlet::Outlet;
pub use ranges::Ranges;
pub use resource::{Access, Facts, Resource, Validator};
pub use shown_in_copy::ShownInCopy;
/// The space of a directory tree of an XRootD server.
pub use xroot_wire::response::SpaceUsage as Space;
