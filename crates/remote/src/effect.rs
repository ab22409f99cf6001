//! Which requests are sent again when a kept connection breaks before any answer, and what the
//! caller learns about the others (RFC 9110 §9.2.2).
//!
//! The server may have closed an idle connection just as we used it again, or it may have begun and
//! then failed: both look the same. So only a request that may run twice is sent again. The others
//! use a kept connection only if it was used a moment ago, when no server closes it for being idle.

use std::time::Duration;

use types::{Error, ErrorCode, Phase};

use crate::limits::{IDLE_PEER_TIMEOUT, JUST_USED};
use crate::resource::Resource;

/// What a request does at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A second run changes nothing, and is answered like the first.
    Repeatable,
    /// It may not run twice, and leaves nothing behind if it is not answered.
    Once,
    /// It changes what the server stores. Without an answer the outcome is unknown.
    Lasting,
}

impl Effect {
    /// How long a connection may have been idle that such a request uses.
    pub(crate) fn idle_max(self) -> Duration {
        match self {
            Self::Repeatable => IDLE_PEER_TIMEOUT,
            Self::Once | Self::Lasting => JUST_USED,
        }
    }

    /// The error of such a request to `at` that was sent and not answered because of `why`.
    pub(crate) fn unanswered(self, at: &Resource, phase: Phase, why: Error) -> Error {
        let is_lost = matches!(why.code(), ErrorCode::PeerClosed | ErrorCode::PeerStalled);
        match self {
            Self::Lasting if is_lost => lost(at, phase, &why),
            _ => why,
        }
    }
}

/// The connection to `at` is lost after it got an order, so the outcome is unknown. A copy that it
/// makes may continue: it notices that its client has gone when it next writes to it, and some
/// servers ignore that.
pub(crate) fn lost(at: &Resource, phase: Phase, why: &Error) -> Error {
    let detail = match why.detail() {
        Some(detail) => format!("{}: {detail}", why.code().meaning()),
        None => why.code().meaning().to_owned(),
    };
    at.error(ErrorCode::OutcomeUnknown, phase).with_detail(detail)
}
