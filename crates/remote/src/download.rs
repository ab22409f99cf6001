//! A file on its way from a peer, whatever the protocol.

use std::net::SocketAddr;

use net::Batch;
use types::{ByteRange, Result};

use crate::resource::Facts;
use crate::{http, root};

/// A file, or a part of it, on its way from a peer. Dropping it early closes the connection.
#[derive(Debug)]
pub struct Download(pub(crate) Way);

/// By which protocol.
#[derive(Debug)]
pub(crate) enum Way {
    /// Over HTTP.
    Http(Box<http::Download>),
    /// Over the XRootD protocol.
    Root(Box<root::Download>),
}

impl Download {
    /// What the peer says of the file. Checksums that come behind the content are there once
    /// [`Download::next`] has returned `None`.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        match &self.0 {
            Way::Http(download) => download.facts(),
            Way::Root(download) => download.facts(),
        }
    }

    /// Which bytes come. When the whole file was asked for and the peer does not say its size, the
    /// end is `u64::MAX`.
    #[must_use]
    pub fn range(&self) -> ByteRange {
        match &self.0 {
            Way::Http(download) => download.range(),
            Way::Root(download) => download.range(),
        }
    }

    /// The address of the server that sends.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Way::Http(download) => download.peer_address(),
            Way::Root(download) => download.peer_address(),
        }
    }

    /// The next bytes in order; `None` when all have come.
    ///
    /// # Errors
    /// `peer_closed` or `peer_size_differs` when not exactly the announced bytes come, `peer_stalled`,
    /// and the peer's own verdict where it sends one.
    pub async fn next(&mut self) -> Result<Option<Batch>> {
        match &mut self.0 {
            Way::Http(download) => download.next().await,
            Way::Root(download) => download.next().await,
        }
    }
}
