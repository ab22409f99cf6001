//! A copy that another server makes.

use std::fmt;

use http_wire::Progress;
use types::Result;

use crate::protocol::Pending;

/// A copy that another server makes, in one protocol. Dropping it ends the copy, where the server
/// notices that.
pub trait OrderedCopy: fmt::Debug + Send {
    /// As [`Copying::next`].
    fn next(&mut self) -> Pending<'_, Option<Progress>>;

    /// As [`Copying::progress`].
    fn progress(&self) -> &Progress;
}

/// A copy that another server makes. Dropping it closes the connection, and the server ends the
/// copy.
#[derive(Debug)]
pub struct Copying(Box<dyn OrderedCopy>);

impl Copying {
    /// A copy that was ordered in some protocol.
    #[must_use]
    pub fn new(copying: impl OrderedCopy + 'static) -> Self {
        Self(Box::new(copying))
    }

    /// Waits for news of the copy; `None` when it has succeeded.
    ///
    /// # Errors
    /// The active server's own words when the copy failed, with the side and code that they name;
    /// `cancelled` when it was cancelled there; `peer_stalled` without a marker for too long;
    /// `peer_closed` or `peer_misbehaved` when the answer ends without a result.
    pub async fn next(&mut self) -> Result<Option<Progress>> {
        self.0.next().await
    }

    /// The progress so far.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        self.0.progress()
    }
}
