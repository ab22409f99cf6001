//! What those may read of a failure who may not read its file: the code's own sentence, without
//! URLs and the words of a storage, which often name files and users.

use catalog::Problem;
use types::{Error, ErrorCode, Phase, Side};

use crate::copy;

/// The same failure, without what is about its file.
pub(super) fn general(problem: &Problem) -> Problem {
    let code = ErrorCode::ALL.iter().find(|code| code.name() == problem.code);
    let side = Side::ALL.into_iter().find(|side| side.name() == problem.side);
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == problem.phase);
    let reason = match (code, side, phase) {
        (Some(code), Some(side), Some(phase)) => copy::problem(&Error::new(*code, side, phase)).reason,
        // Of another release.
        _ => problem.code.clone(),
    };
    Problem {
        reason,
        ..problem.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_urls_nor_the_words_of_a_storage_are_general() {
        let error = Error::new(ErrorCode::PeerNoSpace, Side::Destination, Phase::Transfer)
            .with_subject("https://b/users/jane/thesis")
            .with_peer(None, "jane has used 7 GB")
            .with_detail("/users/jane");
        let full = copy::problem(&error);
        assert!(full.reason.contains("jane"));
        let general = general(&full);
        assert!(
            general.reason.starts_with("DESTINATION [28] No space left on device"),
            "{}",
            general.reason
        );
        assert!(
            !general.reason.contains("jane") && general.code == full.code,
            "{}",
            general.reason
        );
        let unknown = Problem {
            code: "later_code".to_owned(),
            ..full
        };
        assert_eq!(super::general(&unknown).reason, "later_code");
    }
}
