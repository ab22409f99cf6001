//! A copy that another server makes.

use std::fmt;

use http_wire::CopyProgress;
use types::{Error, Result};

use crate::protocol::Pending;

/// An error that came after the active server got no proxy, with that reason too: it may be the
/// cause.
pub(crate) fn without_proxy(error: Error, outcome: Option<&DelegationOutcome>) -> Error {
    let Some(DelegationOutcome::Without(why)) = outcome else {
        return error;
    };
    let detail = match error.detail() {
        Some(detail) => format!("{detail}; {why}"),
        None => why.clone(),
    };
    error.with_detail(detail)
}

/// What became of a delegation that the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegationOutcome {
    /// The active server takes a proxy of ours, or has one from before, and acts for us with it.
    Delegated,
    /// It has got none, for this reason; the copy goes on without.
    Without(String),
}

/// A copy that another server makes, in one protocol. Dropping it ends the copy, where the server
/// notices that.
pub trait OrderedCopy: fmt::Debug + Send {
    /// As [`Copying::next`].
    fn next(&mut self) -> Pending<'_, Option<CopyProgress>>;

    /// As [`Copying::progress`].
    fn progress(&self) -> &CopyProgress;

    /// As [`Copying::delegation`].
    fn delegation(&self) -> Option<&DelegationOutcome> {
        None
    }
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

    /// Whether the active server has got a proxy; `None` if the user did not ask for that.
    #[must_use]
    pub fn delegation(&self) -> Option<&DelegationOutcome> {
        self.0.delegation()
    }
}
