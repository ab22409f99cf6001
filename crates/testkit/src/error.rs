//! The two ways in which a test's surroundings can let it down.

use std::fmt;
use std::io;

/// Why a piece of the test's surroundings could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The machine lacks a program or a right. The test cannot run here, which says nothing about
    /// the code under test.
    Missing(String),
    /// Something that should work did not.
    Failed(String),
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure that happened while doing `what`.
    pub(crate) fn during(what: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::Failed(format!("{what}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(reason) => write!(out, "not available here: {reason}"),
            Self::Failed(reason) => out.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Self::Failed(cause.to_string())
    }
}

impl From<rcgen::Error> for Error {
    fn from(cause: rcgen::Error) -> Self {
        Self::Failed(format!("certificate: {cause}"))
    }
}
