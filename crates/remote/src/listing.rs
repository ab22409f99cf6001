//! The entries of a directory on a server.

use std::fmt;

use types::Result;

use crate::Entry;
use crate::protocol::Pending;

/// A listing on its way from a server, in one protocol. Dropping it early ends the listing.
pub trait DirectoryListing: fmt::Debug + Send {
    /// As [`Listing::next`].
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>>;

    /// As [`Listing::description`].
    fn description(&self) -> Option<&str> {
        None
    }
}

/// A listing on its way from a server, in constant memory. Dropping it early closes the connection.
#[derive(Debug)]
pub struct Listing(Box<dyn DirectoryListing>);

impl Listing {
    /// A listing that was begun in some protocol.
    #[must_use]
    pub fn new(listing: impl DirectoryListing + 'static) -> Self {
        Self(Box::new(listing))
    }

    /// The next entries, at least one; `None` when all have come. The directory itself is not among
    /// them.
    ///
    /// # Errors
    /// `not_directory` when a file was listed; an answer that cannot be understood, or a lost
    /// connection.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        self.0.next().await
    }

    /// What the server says about the listing as a whole, once all have come: that it omits
    /// entries. In the XRootD protocol only our servers can say so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description()
    }
}
