//! How the end of a copy is reported to the queue and to clients of FTS.

use catalog::Problem;
use schedule::optimizer::{End, FailureClass};
use serde_json::Value;
use transfer::route::{Failed, Plan, Way};
use types::{Checksum, Error, ErrorCode, Location, PeerStatus, Phase, Side};

use crate::limits::HOLD_TIME_MAX;
use crate::service::{CopyResult, Failure};
use crate::urls::Concealed;

/// A complete copy.
pub(super) fn finished(size_bytes: u64, way: Way) -> CopyResult {
    CopyResult::Finished {
        size_bytes,
        way: Some(way_words(way).to_owned()),
    }
}

/// A file that the destination has whole from an attempt whose worker was lost.
pub(super) fn found(size_bytes: u64, checksum: &Checksum, destination: &Location) -> CopyResult {
    let words = format!(
        "the worker that copied it was lost before it stored the end; the destination's file has the source's size \
         and its checksum {checksum}, so it was not copied again"
    );
    let error = Error::new(ErrorCode::OutcomeUnknown, Side::Queue, Phase::Open);
    CopyResult::Found {
        size_bytes,
        note: problem(&error.with_detail(words).with_subject(destination)),
    }
}

/// The way in the words of FTS's messages (`transfer_type`).
fn way_words(way: Way) -> &'static str {
    match way {
        Way::DelegatedPull | Way::Pull => "3rd pull",
        Way::Push => "3rd push",
        Way::Stream | Way::Local | Way::Download | Way::Upload | Way::Within => "streamed",
    }
}

/// A failure: of the file, or of a storage that can take or give none now.
pub(super) fn failed(error: &Error, report: Option<Value>) -> CopyResult {
    let of_quota = used_up_quota(error);
    let error = of_quota.as_ref().unwrap_or(error);
    let problem = problem(error);
    match holds(error) {
        true => CopyResult::Hold {
            problem,
            after: error.retry_after().map(|after| after.min(HOLD_TIME_MAX)),
            failure: failure(error),
        },
        false => CopyResult::Failed {
            problem,
            report,
            failure: failure(error),
        },
    }
}

/// The result without what its words must not tell.
pub(super) fn without(concealed: &Concealed, mut result: CopyResult) -> CopyResult {
    match &mut result {
        CopyResult::Hold { problem, .. }
        | CopyResult::Wait { problem, .. }
        | CopyResult::Remains { problem, .. }
        | CopyResult::Failed { problem, .. }
        | CopyResult::Found { note: problem, .. } => {
            problem.reason = concealed.hide(std::mem::take(&mut problem.reason));
        }
        CopyResult::Hop { hop, .. } => {
            hop.given_up_for = hop.given_up_for.take().map(|why| concealed.hide(why));
        }
        CopyResult::Finished { .. } => {}
    }
    result
}

/// Whether an error is that of the present way. If a way was not taken, the error is that of the
/// one before.
pub(super) fn is_of_present_way(plan: &Plan, error: Option<&Error>) -> bool {
    let attempted = plan.attempted().last();
    error
        .zip(attempted)
        .is_none_or(|(error, last)| last.error == Failed::from(error))
}

/// The error of the last way, with those of the ways before it.
pub(super) fn with_earlier_ways(error: Error, plan: &Plan) -> Error {
    let own = Failed::from(&error);
    let earlier = plan.attempted().iter().filter(|attempted| attempted.error != own);
    let earlier =
        earlier.map(|attempted| format!("{} failed before: {}", attempted.way.name(), attempted.error.message));
    let words: Vec<String> = error.detail().map(str::to_owned).into_iter().chain(earlier).collect();
    match words.is_empty() {
        true => error,
        false => error.with_detail(words.join("; ")),
    }
}

/// The error as it is stored. The reason begins as FTS writes it, because Rucio and others compare
/// it; our own sentence follows.
pub(crate) fn problem(error: &Error) -> Problem {
    Problem {
        code: error.code().name().to_owned(),
        side: error.side().name().to_owned(),
        phase: error.phase().name().to_owned(),
        reason: format!("{}: {}", error.fts_reason(), error.public()),
        is_recoverable: error.retry(),
    }
}

/// What the error says of the storages.
fn failure(error: &Error) -> Failure {
    let is_busy = matches!(error.peer_status(), Some(PeerStatus::Http(429 | 503)));
    let is_overload = is_busy || error.code() == ErrorCode::Overloaded;
    let class = match error.code() {
        _ if is_overload => FailureClass::Overload,
        ErrorCode::PeerUnreachable | ErrorCode::PeerConnectTimeout | ErrorCode::PeerUnresolved => {
            FailureClass::EndpointDown
        }
        ErrorCode::PeerStalled | ErrorCode::PeerClosed | ErrorCode::OutcomeUnknown => FailureClass::Stall,
        // A quota is of its user: the storage has room for others.
        ErrorCode::PeerNoSpace | ErrorCode::NoSpace => FailureClass::Full,
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::DelegationMissing => FailureClass::Authorization,
        ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted | ErrorCode::PeerUnsupported => FailureClass::Configuration,
        _ => FailureClass::File,
    };
    let end = match error.side() {
        _ if is_hearsay(error, class) => None,
        Side::Source => Some(End::Source),
        Side::Destination => Some(End::Destination),
        Side::Active | Side::Client | Side::Queue | Side::Upstream => None,
    };
    Failure { class, end }
}

/// Whether only another server says it of the storage at fault: that must not slow the storage's
/// other links. A server that answers is not down either, whatever it says of a connection.
fn is_hearsay(error: &Error, class: FailureClass) -> bool {
    let reports_other = |reporter| reporter != error.side() || class == FailureClass::EndpointDown;
    error.reporter().is_some_and(reports_other)
}

/// The error as `quota_exceeded`, if the destination says that a quota is used up and not its room:
/// by the number of XRootD, the precondition of RFC 4331 §6, or in words.
fn used_up_quota(error: &Error) -> Option<Error> {
    const OVER_QUOTA: PeerStatus = PeerStatus::Xrootd(3021);
    let is_full = error.code() == ErrorCode::PeerNoSpace && error.side() == Side::Destination;
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    let is_quota = error.peer_status() == Some(OVER_QUOTA) || words.contains("quota");
    (is_full && is_quota).then(|| {
        let mut of_quota = Error::new(ErrorCode::QuotaExceeded, error.side(), error.phase())
            .with_peer(error.peer_status(), error.peer_words().unwrap_or_default())
            .with_retry_after(error.retry_after())
            .with_reporter(error.reporter());
        if let Some(detail) = error.detail() {
            of_quota = of_quota.with_detail(detail);
        }
        match error.subject() {
            Some(subject) => of_quota.with_subject(subject),
            None => of_quota,
        }
    })
}

/// Whether the file waits, because the failure is not its own: the destination is full, a quota is
/// used up, or a storage takes no work now.
fn holds(error: &Error) -> bool {
    let is_full =
        matches!(error.code(), ErrorCode::PeerNoSpace | ErrorCode::QuotaExceeded) && error.side() == Side::Destination;
    // A name without address is more often a mistake than an outage: its files fail.
    let is_down = match error.code() {
        ErrorCode::PeerUnreachable | ErrorCode::PeerConnectTimeout => true,
        // It takes connections and never answers. An active server has got an order.
        ErrorCode::PeerStalled => matches!(error.side(), Side::Source | Side::Destination),
        _ => false,
    };
    let before_data = matches!(error.phase(), Phase::Connect | Phase::Open | Phase::Tls);
    is_full || is_down && before_data || error.asks_to_wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_destination_holds_its_link_and_a_missing_file_does_not() {
        let full = Error::new(ErrorCode::PeerNoSpace, Side::Destination, Phase::Transfer);
        assert!(matches!(failed(&full, None), CopyResult::Hold { .. }));
        let down = Error::new(ErrorCode::PeerUnreachable, Side::Source, Phase::Connect);
        assert!(matches!(failed(&down, None), CopyResult::Hold { .. }));
        let unresolved = Error::new(ErrorCode::PeerUnresolved, Side::Source, Phase::Connect);
        assert!(matches!(failed(&unresolved, None), CopyResult::Failed { .. }));
        let missing = Error::new(ErrorCode::PeerNotFound, Side::Source, Phase::Open);
        let CopyResult::Failed { problem, .. } = failed(&missing, None) else {
            panic!("a missing file holds nothing");
        };
        assert!(problem.reason.starts_with("SOURCE [2] "), "{}", problem.reason);
        assert!(!problem.is_recoverable);
    }

    /// What a hold is for; everything else is as the table of errors says.
    fn is_held(code: ErrorCode, side: Side, phase: Phase) -> bool {
        let of_storage = matches!(side, Side::Source | Side::Destination);
        let before_data = matches!(phase, Phase::Connect | Phase::Tls | Phase::Open);
        match code {
            ErrorCode::PeerNoSpace | ErrorCode::QuotaExceeded => side == Side::Destination,
            ErrorCode::PeerUnreachable | ErrorCode::PeerConnectTimeout => before_data,
            ErrorCode::PeerStalled => before_data && of_storage,
            _ => false,
        }
    }

    #[test]
    fn only_what_the_table_of_errors_says_is_tried_again() {
        let places = Side::ALL.iter().flat_map(|side| Phase::ALL.map(|phase| (*side, phase)));
        for ((side, phase), code) in places.flat_map(|place| ErrorCode::ALL.iter().map(move |code| (place, *code))) {
            // The peer says nothing, that it passes, and that it lasts.
            for status in [None, Some(503), Some(410)] {
                let error = Error::new(code, side, phase).with_peer(status.map(PeerStatus::Http), "");
                let expected = (!is_held(code, side, phase)).then(|| error.retry());
                let found = match failed(&error, None) {
                    CopyResult::Failed { problem, .. } => Some(problem.is_recoverable),
                    CopyResult::Hold { .. } => None,
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, expected, "{code:?} {side:?} {phase:?} {status:?}");
            }
        }
    }

    #[test]
    fn what_a_server_says_of_another_concerns_only_their_link() {
        let error = |code, side| Error::new(code, side, Phase::Connect);
        let by_pull = |code, side| error(code, side).with_reporter(Some(Side::Destination));
        let (down, busy) = (ErrorCode::PeerUnreachable, ErrorCode::Overloaded);
        for (noticed, end) in [
            (error(down, Side::Source), Some(End::Source)),
            (error(busy, Side::Destination), Some(End::Destination)),
            (by_pull(busy, Side::Destination), Some(End::Destination)),
            (by_pull(busy, Side::Source), None),
            (by_pull(down, Side::Source), None),
            // It answered, so it was not itself that could not be reached.
            (by_pull(down, Side::Destination), None),
        ] {
            assert_eq!(failure(&noticed).end, end, "{noticed}");
        }
    }

    #[test]
    fn a_quota_is_not_the_room_of_its_storage() {
        for (status, words) in [
            (PeerStatus::Http(507), "Disk quota exceeded"),
            (PeerStatus::Http(507), "<d:error><d:quota-not-exceeded/></d:error>"),
            (PeerStatus::Xrootd(3021), ""),
        ] {
            let error = Error::new(ErrorCode::PeerNoSpace, Side::Destination, Phase::Transfer);
            let error = error.with_peer(Some(status), words).with_subject("https://b/f");
            let CopyResult::Hold { problem, failure, .. } = failed(&error, None) else {
                panic!("it waits");
            };
            assert_eq!(
                (problem.code.as_str(), failure.class),
                ("quota_exceeded", FailureClass::File)
            );
            assert!(problem.reason.starts_with("DESTINATION [122] "), "{}", problem.reason);
            assert!(problem.reason.contains("https://b/f"), "{}", problem.reason);
        }
        let full = Error::new(ErrorCode::PeerNoSpace, Side::Destination, Phase::Transfer);
        let full = full.with_peer(Some(PeerStatus::Http(507)), "No space left on device");
        assert!(used_up_quota(&full).is_none());
    }

    #[test]
    fn a_storage_that_never_answers_holds_its_link_and_one_that_computes_a_checksum_does_not() {
        let silent = |phase| Error::new(ErrorCode::PeerStalled, Side::Source, phase);
        for phase in [Phase::Tls, Phase::Open] {
            assert!(
                matches!(failed(&silent(phase), None), CopyResult::Hold { .. }),
                "{phase:?}"
            );
        }
        for phase in [Phase::Checksum, Phase::Transfer, Phase::Commit] {
            assert!(
                matches!(failed(&silent(phase), None), CopyResult::Failed { .. }),
                "{phase:?}"
            );
        }
        let too_long = Error::new(ErrorCode::PeerStalled, Side::Active, Phase::Open);
        assert!(matches!(failed(&too_long, None), CopyResult::Failed { .. }));
    }

    #[test]
    fn a_refusal_that_quotes_a_signature_does_not_show_it() {
        let concealed = Concealed::of([&types::Secret::new("https://a/p?sig=5f0123abcd")], []);
        for code in [ErrorCode::PeerDenied, ErrorCode::PeerNoSpace] {
            let error = Error::new(code, Side::Destination, Phase::Open);
            let error = error.with_peer(Some(PeerStatus::Http(403)), "no right for /p?sig=5f0123abcd");
            let (CopyResult::Failed { problem, .. } | CopyResult::Hold { problem, .. }) =
                without(&concealed, failed(&error, None))
            else {
                panic!("it has failed");
            };
            assert!(problem.reason.contains("/p?sig=hidden"), "{}", problem.reason);
        }
    }

    #[test]
    fn an_existing_destination_has_the_words_that_rucio_looks_for() {
        let error = Error::new(ErrorCode::PeerExists, Side::Destination, Phase::Open);
        let reason = problem(&error).reason;
        assert!(
            reason.contains("Destination file exists and overwrite is not enabled"),
            "{reason}"
        );
    }
}
