//! The entries of a directory elsewhere, whatever the protocol.

use types::Result;

use crate::Entry;
use crate::{http, root};

/// A listing on its way from a peer, in constant memory. Dropping it early closes the connection.
#[derive(Debug)]
pub struct Listing(pub(crate) Way);

/// By which protocol.
#[derive(Debug)]
pub(crate) enum Way {
    /// Over WebDAV.
    Http(Box<http::Listing>),
    /// Over the XRootD protocol.
    Root(Box<root::Listing>),
}

impl Listing {
    /// The next entries, at least one; `None` when all have come. The directory itself is not among
    /// them.
    ///
    /// # Errors
    /// `not_directory` when a file was listed; an answer that cannot be understood, or a lost
    /// connection.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        match &mut self.0 {
            Way::Http(listing) => listing.next().await,
            Way::Root(listing) => listing.next().await,
        }
    }

    /// What the server says about the listing as a whole, once all have come: that it leaves something out.
    /// Over the XRootD protocol only our servers can say so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        match &self.0 {
            Way::Http(listing) => listing.description(),
            Way::Root(listing) => listing.description(),
        }
    }
}
