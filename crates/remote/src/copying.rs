//! A copy that another server makes, whatever the protocol.

use http_wire::Progress;
use types::Result;

use crate::{http, root};

/// A copy that another server makes. Dropping it closes the connection, on which that server gives
/// the copy up.
#[derive(Debug)]
pub struct Copying(pub(crate) Way);

/// By which protocol.
#[derive(Debug)]
pub(crate) enum Way {
    /// Ordered by the method COPY.
    Http(Box<http::Copying>),
    /// Ordered by a third-party copy of the XRootD protocol.
    Root(Box<root::Copying>),
}

impl Copying {
    /// Waits for news: how far the copy is, or `None` when it has succeeded.
    ///
    /// # Errors
    /// The active server's own words when it failed, with the side and code that they tell;
    /// `cancelled` when it was given up there; `peer_stalled` without a marker for too long;
    /// `peer_closed` or `peer_misbehaved` when the answer ends without saying how the copy went.
    pub async fn next(&mut self) -> Result<Option<Progress>> {
        match &mut self.0 {
            Way::Http(copying) => copying.next().await,
            Way::Root(copying) => copying.next().await,
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        match &self.0 {
            Way::Http(copying) => copying.progress(),
            Way::Root(copying) => copying.progress(),
        }
    }
}
