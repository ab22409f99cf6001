//! The failure of a copy in the words of FTS's messages.

use catalog::Problem;
use types::{Error, ErrorCode, Phase, Side};

/// Longest error message in FTS's messages, in bytes.
const WORDS_BYTES_MAX: usize = 1024;

/// What a message says of a failure; empty words and zero for none.
#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) errno: i32,
    pub(super) scope: String,
    pub(super) category: &'static str,
    pub(super) phase: &'static str,
    pub(super) words: String,
}

impl Failure {
    /// The failure that is stored with a file.
    pub(super) fn of(problem: Option<&Problem>) -> Self {
        let Some(problem) = problem else {
            return Self::default();
        };
        let (scope, rest) = problem.reason.split_once(" [").unwrap_or_default();
        let errno = rest.split(']').next().and_then(|number| number.parse().ok());
        Self {
            errno: errno.unwrap_or(0),
            scope: scope.to_owned(),
            category: category(&problem.code),
            phase: phase(&problem.phase),
            words: printable(&problem.reason),
        }
    }
}

/// The category of a code of ours; empty for one of another release.
fn category(code: &str) -> &'static str {
    let known = ErrorCode::ALL.iter().find(|known| known.name() == code);
    known.map_or("", |code| Error::new(*code, Side::Queue, Phase::Queued).fts_category())
}

/// FTS's phase of a copy for ours.
fn phase(name: &str) -> &'static str {
    let known = Phase::ALL.into_iter().find(|phase| phase.name() == name);
    match known {
        Some(Phase::Transfer) => "TRANSFER",
        Some(Phase::Checksum | Phase::Commit | Phase::Cleanup | Phase::Archiving) => "TRANSFER_FINALIZATION",
        _ => "TRANSFER_PREPARATION",
    }
}

/// Printable ASCII without quotes, as FTS cuts its reasons.
fn printable(words: &str) -> String {
    let plain = words.chars().filter(|letter| !matches!(letter, '\'' | '"' | '\n'));
    let plain = plain.map(|letter| match letter {
        ' '..='~' => letter,
        _ => ' ',
    });
    plain.take(WORDS_BYTES_MAX).collect()
}
