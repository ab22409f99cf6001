//! A file on its way to a peer, whatever the protocol.

use std::net::SocketAddr;

use net::{Outgoing, Stream};
use types::{Error, Result};

use crate::options::Stored;
use crate::{http, root};

/// A file on its way to a peer. Dropping it before [`Outlet::finish`] closes the connection, which
/// tells the peer that the file is not whole.
#[derive(Debug)]
pub struct Outlet(pub(crate) Way);

/// By which protocol.
#[derive(Debug)]
pub(crate) enum Way {
    /// Over HTTP.
    Http(Box<http::Outlet>),
    /// Over the XRootD protocol.
    Root(Box<root::Outlet>),
}

impl Outlet {
    /// The address of the server that stores.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Way::Http(outlet) => outlet.peer_address(),
            Way::Root(outlet) => outlet.peer_address(),
        }
    }

    /// Payload bytes sent so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        match &self.0 {
            Way::Http(outlet) => outlet.sent_bytes(),
            Way::Root(outlet) => outlet.sent_bytes(),
        }
    }

    /// Room for the next payload, to be filled and given to [`Outlet::send`].
    ///
    /// # Errors
    /// What the peer has answered meanwhile, or that the connection is lost.
    pub async fn outgoing(&mut self) -> Result<Outgoing> {
        match &mut self.0 {
            Way::Http(outlet) => outlet.outgoing().await,
            Way::Root(outlet) => outlet.outgoing().await,
        }
    }

    /// Sends the first `filled` bytes of the room.
    ///
    /// # Errors
    /// The peer's answer where there is one, else that the connection is lost or stalled; `internal`
    /// when more is sent than was announced.
    pub async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        match &mut self.0 {
            Way::Http(outlet) => outlet.send(outgoing, filled).await,
            Way::Root(outlet) => outlet.send(outgoing, filled).await,
        }
    }

    /// The connection itself, for sending pieces of a file over it, which may be encrypted: only where the
    /// protocol lets content follow without a word in between. What goes this way is told to
    /// [`Outlet::sent`]; between pieces [`Outlet::check_answer`] hears a refusal, and
    /// [`Outlet::explain`] makes the best of a broken connection.
    pub fn bare_stream(&mut self) -> Option<&mut Stream> {
        match &mut self.0 {
            Way::Http(outlet) => outlet.bare_stream(),
            Way::Root(_) => None,
        }
    }

    /// Counts payload that was sent over [`Outlet::bare_stream`].
    pub fn sent(&mut self, bytes: u64) {
        match &mut self.0 {
            Way::Http(outlet) => outlet.sent(bytes),
            // It is never sent over the bare connection.
            Way::Root(_) => {}
        }
    }

    /// Whether the peer has refused meanwhile.
    ///
    /// # Errors
    /// The refusal, or that the connection is lost.
    pub async fn check_answer(&mut self) -> Result<()> {
        match &mut self.0 {
            Way::Http(outlet) => outlet.check_answer().await,
            Way::Root(outlet) => outlet.check_answer().await,
        }
    }

    /// The best explanation of a connection that broke while sending: the peer's answer, if one has
    /// still come, else the break itself.
    pub async fn explain(&mut self, cause: Error) -> Error {
        match &mut self.0 {
            Way::Http(outlet) => outlet.explain(cause).await,
            Way::Root(outlet) => outlet.explain(cause).await,
        }
    }

    /// Ends the content and waits until the peer has stored the file.
    ///
    /// # Errors
    /// The peer's refusal, a lost connection, no answer in time; `internal` when fewer bytes were
    /// sent than announced.
    pub async fn finish(self) -> Result<Stored> {
        match self.0 {
            Way::Http(outlet) => Box::pin(outlet.finish()).await,
            Way::Root(outlet) => Box::pin(outlet.finish()).await,
        }
    }
}
