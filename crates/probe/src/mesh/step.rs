//! The steps of a cell, each with its time and its end.

use std::time::{Duration, Instant};

use history::{Failure, Outcome, Step};
use types::{Error, ErrorCode, Location, PeerStatus, Phase, Result, Side};

/// What a cell consists of, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepName {
    /// The file is stored at the source.
    Seed,
    /// It is copied.
    Copy,
    /// The destination tells its size.
    Size,
    /// The destination tells its checksum.
    Checksum,
    /// It is removed at the destination.
    Remove,
}

impl StepName {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Copy => "copy",
            Self::Size => "size",
            Self::Checksum => "checksum",
            Self::Remove => "remove",
        }
    }

    pub(super) fn step(self, took: Duration, outcome: Outcome) -> Step {
        Step {
            name: self.name().to_owned(),
            took_ms: milliseconds(took),
            outcome,
        }
    }
}

/// A time in whole milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How a step ended, and how long it took.
pub(super) struct Timed<T> {
    pub(super) result: Result<T>,
    pub(super) took: Duration,
}

/// Runs a step that must end in time. After that, `side` counts as the one at fault.
pub(super) async fn timed<T>(
    limit: Duration,
    side: Side,
    file: &Location,
    step: impl Future<Output = Result<T>>,
) -> Timed<T> {
    let started = Instant::now();
    let result = tokio::time::timeout(limit, step).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorCode::PeerStalled, side, Phase::Transfer).with_subject(file);
        Err(error.with_detail(format!("not done after {} s", limit.as_secs())))
    });
    Timed {
        result,
        took: started.elapsed(),
    }
}

/// A failure as results tell it. `note` says what else was odd.
pub(super) fn failure(error: &Error, note: Option<&str>, reproduce: Vec<String>) -> Failure {
    let mut says = error.code().meaning().to_owned();
    for words in error.detail().into_iter().chain(note) {
        says.push_str(&format!(" ({words})"));
    }
    Failure {
        side: error.side(),
        phase: error.phase(),
        code: error.code().name().to_owned(),
        says: without_tokens(&says),
        server_status: error.peer_status().map(PeerStatus::number),
        server_words: error.peer_words().map(without_tokens),
        reproduce,
    }
}

/// The shortest run of letters that may be a token; names of files and hosts are mostly shorter.
const TOKEN_BYTES_MIN: usize = 40;

/// Words without what may be a token: results are kept, shown and mailed, and some servers quote
/// the credential that they refuse.
pub(crate) fn without_tokens(words: &str) -> String {
    let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || "_-.~+=".contains(letter);
    let mut clean = String::with_capacity(words.len());
    let mut rest = words;
    while !rest.is_empty() {
        let length = rest.find(|letter| !is_of_token(letter)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(length);
        clean.push_str(if run.len() < TOKEN_BYTES_MIN { run } else { "…" });
        let next = behind.chars().next();
        clean.extend(next);
        rest = &behind[next.map_or(0, char::len_utf8)..];
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_a_server_quotes_are_left_out() {
        let token = format!("eyJhbGciOiJFUzI1NiJ9.{}.c2lnbmF0dXJl", "YWJj".repeat(9));
        let words = format!("denied: credential Bearer {token}, “go away”");
        assert_eq!(without_tokens(&words), "denied: credential Bearer …, “go away”");
        let usual = "no such file: https://d1.example.org:1094/data/crossload-mesh/file (404)";
        assert_eq!(without_tokens(usual), usual);
    }
}
