//! Why a request is not carried out: the error, and what this protocol adds to it.

use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::{ErrorNumber, Refusal};

/// An error, and how to answer with it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The error number of the answer.
    pub(crate) number: ErrorNumber,
    /// Whether the connection ends with the answer, because what follows cannot be parsed.
    pub(crate) closes: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The same with another error number.
    pub(crate) fn numbered(self, number: ErrorNumber) -> Self {
        Self { number, ..self }
    }

    /// The same; the connection ends with the answer.
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

/// The server does not offer this request.
pub(crate) fn not_offered() -> Failure {
    Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open)
        .with_detail("the server does not offer this request")
        .into()
}

/// Whether nothing more can be sent on the connection.
pub(crate) fn is_torn(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::ClientGone | ErrorCode::BodyStalled)
}

/// The words of an error for the client.
pub(crate) fn error_words(error: &Error) -> String {
    format!("{} [{}]", error.public(), error.code().name())
}
