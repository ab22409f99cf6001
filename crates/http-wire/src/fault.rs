//! How the faults met here become errors: a request is the client's fault, an answer the peer's.

use types::{Error, ErrorCode, Phase, Side};

/// A request that cannot be understood; `detail` names the part.
pub(crate) fn bad_request(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(detail)
}

/// A request refused with another code than `bad_request`.
pub(crate) fn refused(code: ErrorCode, detail: impl Into<String>) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(detail)
}

/// An answer that cannot be understood. This crate does not know which side the peer is on, so it
/// says `source`; the caller corrects it with [`Error::at_side`].
pub(crate) fn misbehaved(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Open).with_detail(detail)
}
