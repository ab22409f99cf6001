//! What is answered to a request that cannot be carried out as it stands.

use types::{Error, ErrorCode, Phase, Side};

use crate::error_number::ErrorNumber;

/// A request refused before anything was done: what to answer, and whether the connection can go
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The house's code for it.
    pub code: ErrorCode,
    /// The number to answer with: that of the code, except where clients depend on another one.
    pub number: ErrorNumber,
    /// The connection is out of step, or the client broke the rules, and it must be closed behind
    /// the answer.
    pub closes: bool,
    /// The part of the request that is at fault.
    pub detail: &'static str,
}

impl Refusal {
    /// A refusal after which the connection goes on.
    #[must_use]
    pub fn new(code: ErrorCode, detail: &'static str) -> Self {
        Self {
            code,
            number: code.into(),
            closes: false,
            detail,
        }
    }

    /// The same, answered with a number that is not the code's own.
    #[must_use]
    pub fn numbered(self, number: ErrorNumber) -> Self {
        Self { number, ..self }
    }

    /// The same, after which the connection is closed.
    #[must_use]
    pub fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// As an error of the house.
    #[must_use]
    pub fn to_error(&self) -> Error {
        Error::new(self.code, Side::Client, Phase::Open).with_detail(self.detail)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.to_error()
    }
}

/// A malformed request.
pub(crate) fn malformed(detail: &'static str) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, detail)
}

/// A request without the argument that it needs.
pub(crate) fn argument_missing() -> Refusal {
    Refusal::new(ErrorCode::ArgumentMissing, "the request has no payload")
}

/// An answer of a peer that cannot be understood. This crate does not know which side the peer is
/// on, so it says `source`; the caller corrects it with [`Error::at_side`].
pub(crate) fn misbehaved(detail: &'static str) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Open).with_detail(detail)
}
