//! A copy that another server makes.

use std::fmt;

use http_wire::CopyProgress;
use types::Result;

use crate::protocol::Pending;

/// A copy that another server makes, in one protocol. Dropping it ends the copy, where the server
/// notices that.
pub trait OrderedCopy: fmt::Debug + Send {
    /// As [`Copying::next`].
    fn next(&mut self) -> Pending<'_, Option<CopyProgress>>;

    /// As [`Copying::progress`].
    fn progress(&self) -> &CopyProgress;
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
    /// `cancelled` when it was cancelled there; `outcome_unknown` without a marker for too long,
    /// and when the connection is lost or the answer ends without a result.
    pub async fn next(&mut self) -> Result<Option<CopyProgress>> {
        self.0.next().await
    }

    /// The progress so far.
    #[must_use]
    pub fn progress(&self) -> &CopyProgress {
        self.0.progress()
    }
}
