//! The errors of tape as they are stored: FTS says `STAGING` and `ARCHIVING` where others name the
//! side at fault.

use catalog::Problem;
use types::{Error, ErrorCode, Phase, Side};

use crate::copy::problem;
use crate::urls::without_secrets;

/// An error of the tape system, before the copy.
pub(super) fn staging_problem(error: &Error) -> Problem {
    scoped(problem(error), "STAGING")
}

/// An error of the tape system, after the copy.
pub(super) fn archiving_problem(error: &Error) -> Problem {
    scoped(problem(error), "ARCHIVING")
}

/// The same problem with another scope before its number, and without secrets that the tape system
/// quotes.
fn scoped(problem: Problem, scope: &str) -> Problem {
    let behind = problem.reason.find(" [").map_or(0, |place| place);
    Problem {
        reason: format!("{scope}{}", without_secrets(&problem.reason[behind..])),
        ..problem
    }
}

/// An error of the source's tape system about one file.
pub(super) fn staging(code: ErrorCode, detail: impl Into<String>) -> Error {
    Error::new(code, Side::Source, Phase::Staging).with_detail(detail)
}

/// An error of the destination's tape system about one file.
pub(super) fn archiving(code: ErrorCode, detail: impl Into<String>) -> Error {
    Error::new(code, Side::Destination, Phase::Archiving).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_begin_as_fts_writes_them() {
        let refused = Error::new(ErrorCode::PeerForbidden, Side::Source, Phase::Staging);
        let reason = staging_problem(&refused).reason;
        assert!(reason.starts_with("STAGING [1] "), "{reason}");
        let late = staging_problem(&staging(ErrorCode::StagingExpired, "3600 s")).reason;
        assert!(
            late.starts_with("STAGING [110] bring-online timeout has been exceeded"),
            "{late}"
        );
        let words = "no pin for https://tape/p?X-Amz-Signature=5f01";
        for problem in [
            staging_problem(&staging(ErrorCode::StagingFailed, words)),
            archiving_problem(&archiving(ErrorCode::ArchivingFailed, words)),
        ] {
            assert!(
                problem.reason.contains("/p?X-Amz-Signature=hidden"),
                "{}",
                problem.reason
            );
        }
        let late = archiving_problem(&archiving(ErrorCode::ArchivingExpired, "5 s"));
        assert_eq!(late.phase, "archiving");
        let late = late.reason;
        assert!(
            late.starts_with("ARCHIVING [110] archiving timeout has been exceeded"),
            "{late}"
        );
    }
}
