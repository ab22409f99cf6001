//! Errors as FTS's REST API answers them: a status and one sentence.
//!
//! Clients show the sentence, and Rucio and DIRAC match some of them. They are part of the
//! protocol, so they stand here and not in the error table. Source: answers of fts-rest-flask 3.13.

use std::fmt;

/// An error of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FtsError {
    /// The HTTP status.
    pub status: u16,
    /// The sentence.
    pub message: String,
}

impl FtsError {
    /// An error with this status.
    #[must_use]
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message }
    }

    /// A malformed request.
    #[must_use]
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// A value that cannot be used.
    pub(crate) fn invalid(what: impl fmt::Display) -> Self {
        Self::bad(format!("Invalid value within the request: {what}"))
    }
}

impl fmt::Display for FtsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.status, self.message)
    }
}

impl std::error::Error for FtsError {}
