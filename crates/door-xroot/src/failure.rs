//! Why a request is not carried out: the house's error, and what this protocol needs beside it.

use types::Error;
use xroot_wire::{ErrorNumber, Refusal};

/// An error and how it is answered.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The number to answer with.
    pub(crate) number: ErrorNumber,
    /// Nothing behind it can be understood, so the connection ends with the answer.
    pub(crate) closes: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The same, answered with a number that is not that of the code.
    pub(crate) fn numbered(self, number: ErrorNumber) -> Self {
        Self { number, ..self }
    }

    /// The same, behind which the connection ends.
    pub(crate) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            number: error.code().into(),
            closes: false,
            error,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            error: refusal.to_error(),
            number: refusal.number,
            closes: refusal.closes,
        }
    }
}
