//! The decisions of a copy, without any act: where a file goes, and which way it travels.

use types::Result;

use super::super::place::Place;
use crate::command_line::Mode;

/// A way between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The destination fetches.
    Pull,
    /// The source sends.
    Push,
    /// Through this machine.
    Stream,
}

impl Way {
    /// The word in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Stream => "stream",
        }
    }
}

/// The ways to try, in gfal's order.
pub(super) fn ways(mode: Mode) -> &'static [Way] {
    match mode {
        Mode::Auto => &[Way::Pull, Way::Push, Way::Stream],
        Mode::Pull => &[Way::Pull],
        Mode::Push => &[Way::Push],
        Mode::Stream => &[Way::Stream],
    }
}

/// Where a source goes: to the destination itself, or under its own name below it.
///
/// # Errors
/// When the source has no name of its own to go by.
pub(super) fn target_of(source: &Place, destination: &Place, into: bool) -> Result<Place> {
    if !into || *destination == Place::Stdio {
        return Ok(destination.clone());
    }
    destination.child(&source.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Error, ErrorCode, PeerStatus, Phase, Side};

    fn error(code: ErrorCode) -> Error {
        Error::new(code, Side::Destination, Phase::Open)
    }

    #[test]
    fn ways_are_tried_in_gfals_order() {
        assert_eq!(ways(Mode::Auto), [Way::Pull, Way::Push, Way::Stream]);
        assert_eq!(ways(Mode::Push), [Way::Push]);
    }

    #[test]
    fn a_server_that_cannot_be_active_is_passed_over_and_a_refusal_is_final() {
        for code in [
            ErrorCode::PeerUnsupported,
            ErrorCode::NotImplemented,
            ErrorCode::PeerFailed,
            ErrorCode::PeerUnreachable,
            ErrorCode::PeerClosed,
            ErrorCode::PeerStalled,
            ErrorCode::PeerTlsFailed,
            ErrorCode::PeerAddressRefused,
        ] {
            assert!(error(code).another_way(), "{code:?}");
        }
        for code in [
            ErrorCode::PeerDenied,
            ErrorCode::PeerForbidden,
            ErrorCode::PeerNotFound,
            ErrorCode::PeerExists,
            ErrorCode::PeerNoSpace,
            ErrorCode::Cancelled,
            ErrorCode::ChecksumMismatch,
        ] {
            assert!(!error(code).another_way(), "{code:?}");
        }
        let conflict = error(ErrorCode::PeerFailed).with_peer(Some(PeerStatus::Http(409)), "");
        assert!(!conflict.another_way());
    }

    #[test]
    fn names_are_appended_below_directories_only() {
        let place = |text| Place::parse(text).unwrap();
        let (source, destination) = (place("https://a/d/f%20x"), place("https://b/e"));
        assert_eq!(target_of(&source, &destination, false).unwrap(), destination);
        let below = target_of(&source, &destination, true).unwrap();
        assert_eq!(below.to_string(), "https://b/e/f%20x");
        assert_eq!(target_of(&source, &Place::Stdio, true).unwrap(), Place::Stdio);
        assert!(
            target_of(&place("https://a/"), &destination, true).is_err(),
            "the root has no name"
        );
    }
}
