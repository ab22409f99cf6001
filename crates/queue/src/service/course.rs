//! The course of a copy: what its progress has marked, as times of day.

use catalog::{ChecksumMode, Claimed, CopyFacts, Span};
use transfer::Progress;
use types::Phase;

use super::CopyLimits;
use crate::clock::now_ms;
use crate::copy::time_limit;

/// The course of a copy that ends now. It began at `started_ms`, and its file has so many attempts
/// after the first if its job names no number.
pub(super) fn course(
    claimed: &Claimed,
    progress: &Progress,
    started_ms: i64,
    retries: u16,
    limits: &CopyLimits,
) -> CopyFacts {
    let options = &claimed.job.options;
    let ended_ms = now_ms().max(started_ms);
    let elapsed_ms = i64::try_from(progress.elapsed().as_millis()).unwrap_or(i64::MAX);
    let marks: Vec<Mark> = progress
        .marks()
        .into_iter()
        .map(|(phase, after)| Mark {
            phase,
            at_ms: (ended_ms - elapsed_ms + i64::try_from(after.as_millis()).unwrap_or(i64::MAX)).max(started_ms),
        })
        .collect();
    let asks_source = matches!(options.checksum_mode, ChecksumMode::Source | ChecksumMode::Both);
    let connections = progress.connections();
    CopyFacts {
        whole: Span {
            from_ms: started_ms,
            to_ms: ended_ms,
        },
        transfer: span(&marks, Phase::Transfer, ended_ms),
        // The source is asked for it together with its size.
        source_checksum: match asks_source {
            true => span(&marks, Phase::Open, ended_ms),
            false => Span::default(),
        },
        destination_checksum: span(&marks, Phase::Checksum, ended_ms),
        timeout_s: time_limit(options.timeout_s, progress.total_bytes(), limits).as_secs(),
        retries_max: options.retries.unwrap_or(retries),
        is_ipv6: (!connections.is_empty()).then(|| connections.iter().any(|peer| peer.ip().to_canonical().is_ipv6())),
    }
}

/// The beginning of a phase.
struct Mark {
    phase: Phase,
    at_ms: i64,
}

/// A phase, until the next one or the end.
fn span(marks: &[Mark], phase: Phase, ended_ms: i64) -> Span {
    let Some(place) = marks.iter().position(|mark| mark.phase == phase) else {
        return Span::default();
    };
    Span {
        from_ms: marks[place].at_ms,
        to_ms: marks.get(place + 1).map_or(ended_ms, |next| next.at_ms),
    }
}
