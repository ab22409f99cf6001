//! URLs with the wrong scheme: `http` where TLS is needed, `https` where there is none.

use types::{ErrorCode, Phase};

use super::session::ClientContext;
use crate::failure::{Advice, Failure};

/// The failure of a command at the server of this URL, with the other scheme as the next step if
/// that is what is wrong.
pub(super) fn advised(session: &ClientContext, url: &str, failure: Failure) -> Failure {
    match advice(session.shows_certificate_only(), url, &failure) {
        Some(advice) => Failure {
            advice: Some(Advice::Own(advice)),
            ..failure
        },
        None => failure,
    }
}

fn advice(shows_certificate_only: bool, url: &str, failure: &Failure) -> Option<String> {
    let code = failure.code?;
    let other = |from: &str, to: &str| Some(format!("{to}{}", url.strip_prefix(from)?));
    let is_refused = code.denies_access() || code == ErrorCode::Unauthenticated;
    if is_refused && shows_certificate_only {
        let other = other("http://", "https://").or_else(|| other("dav://", "davs://"))?;
        return Some(format!("A certificate is not sent over http; write {other}"));
    }
    let is_in_tls = failure.words.contains(&format!(" {}: ", Phase::Tls.name()));
    if code == ErrorCode::PeerClosed && is_in_tls {
        let other = other("https://", "http://").or_else(|| other("davs://", "dav://"))?;
        return Some(format!("If the server has no certificate, write {other}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use types::{Error, Side};

    use super::*;

    fn failure(code: ErrorCode, phase: Phase) -> Failure {
        Failure::from(Error::new(code, Side::Queue, phase))
    }

    #[test]
    fn the_next_step_is_the_other_scheme() {
        for code in [
            ErrorCode::Unauthenticated,
            ErrorCode::PeerDenied,
            ErrorCode::PeerForbidden,
        ] {
            let refused = failure(code, Phase::Authenticate);
            let advice = advice(true, "http://q:8446", &refused).unwrap();
            assert!(advice.ends_with("write https://q:8446"), "{advice}");
            for (only, url) in [(false, "http://q:8446"), (true, "https://q:8446")] {
                assert_eq!(super::advice(only, url, &refused), None);
            }
        }
        let closed = failure(ErrorCode::PeerClosed, Phase::Tls);
        let words = advice(false, "https://q:8446", &closed).unwrap();
        assert!(words.ends_with("write http://q:8446"), "{words}");
        let later = failure(ErrorCode::PeerClosed, Phase::Open);
        assert_eq!(advice(false, "https://q:8446", &later), None);
        assert_eq!(advice(false, "http://q:8446", &closed), None);
    }
}
