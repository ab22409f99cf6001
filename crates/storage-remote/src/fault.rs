//! What an error of the server means to a client of ours.

use remote::is_in_use;
use types::{Error, ErrorCode, Location, PeerStatus, Side};

/// What the server was shown, for the words of its refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownCredential {
    /// Nothing.
    Nothing,
    /// A credential of this server, or one that it has minted.
    Own,
    /// The client's own.
    Clients,
}

impl ShownCredential {
    /// Who has no right there.
    fn refused(self) -> &'static str {
        match self {
            Self::Nothing => "it refuses this server, which is anonymous there",
            Self::Own => "it gives the credential of this server no right to this",
            Self::Clients => "it gives the client's credential no right to this",
        }
    }
}

/// The same error as one of a store: what the server refuses is refused here for the same reason.
/// Failures of the hop itself keep their codes, which are answered with 502 and 504. A server that
/// does not accept our credential is such a failure: the client's is not at fault. With the
/// client's own it is.
pub(crate) fn translate(error: &Error, server: &Location, shown: ShownCredential) -> Error {
    let code = match error.code() {
        ErrorCode::PeerNotFound if lacks_bucket(error) => ErrorCode::PeerFailed,
        ErrorCode::PeerNotFound => ErrorCode::NotFound,
        ErrorCode::PeerExists => ErrorCode::Exists,
        ErrorCode::PeerForbidden => ErrorCode::Forbidden,
        ErrorCode::PeerDenied if shown == ShownCredential::Clients => ErrorCode::Forbidden,
        // The server works, and there is no credential that it could refuse.
        ErrorCode::PeerDenied if shown == ShownCredential::Nothing && is_answer(error) => ErrorCode::Forbidden,
        ErrorCode::PeerNoSpace => ErrorCode::NoSpace,
        ErrorCode::PeerUnsupported => ErrorCode::NotImplemented,
        ErrorCode::PeerFailed if is_in_use(error) => ErrorCode::Busy,
        other => other,
    };
    let why = error
        .detail()
        .or((code == ErrorCode::Forbidden).then(|| shown.refused()));
    let told = Error::new(code, Side::Upstream, error.phase())
        .with_detail(detail(error, server, why))
        .with_peer(error.peer_status(), error.peer_words().unwrap_or_default())
        .with_retry_after(error.retry_after());
    match error.private() {
        Some(private) => told.with_private(private),
        None => told,
    }
}

/// The same of a forwarding proxy: an address that is refused is not on the list of hosts.
pub(crate) fn of_proxy(error: &Error) -> Error {
    if error.code() != ErrorCode::PeerAddressRefused {
        return error.clone();
    }
    let what = error.detail().unwrap_or("the address is not listed");
    Error::new(ErrorCode::HostNotAllowed, error.side(), error.phase())
        .with_detail(format!(
            "{what}: hosts at private addresses must be listed by name, those at addresses of this server by address"
        ))
        .with_subject(error.subject().unwrap_or_default())
}

/// Whether an S3 storage says that there is no such bucket: a mistake in the configuration, and not
/// a missing file.
pub(crate) fn lacks_bucket(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default();
    error.code() == ErrorCode::PeerNotFound && words.starts_with("NoSuchBucket")
}

/// Whether the server or the way to it failed, and not the request.
pub(crate) fn is_of_hop(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PeerUnresolved
            | ErrorCode::PeerUnreachable
            | ErrorCode::PeerConnectTimeout
            | ErrorCode::PeerTlsFailed
            | ErrorCode::PeerUntrusted
            | ErrorCode::PeerDenied
            | ErrorCode::PeerFailed
            | ErrorCode::PeerMisbehaved
            | ErrorCode::PeerClosed
            | ErrorCode::PeerStalled
            | ErrorCode::PeerSizeDiffers
            | ErrorCode::OutcomeUnknown
            | ErrorCode::TooManyRedirects
    )
}

/// Whether a server answers a request so; a login that fails is no request.
fn is_answer(error: &Error) -> bool {
    matches!(error.peer_status(), Some(PeerStatus::Http(_)))
}

/// The other server that failed, to which this one redirected.
pub(crate) fn redirected_to(error: &Error, server: &Location) -> Option<String> {
    let failed = error.subject().and_then(|subject| Location::parse(subject).ok())?;
    Some(failed.authority()).filter(|failed| *failed != server.authority())
}

/// Why it failed, and the server; if another one did, to which it redirected, also that one.
fn detail(error: &Error, server: &Location, why: Option<&str>) -> String {
    let host = server.authority();
    let host = match redirected_to(error, server) {
        Some(failed) => format!("{host} redirected to {failed}"),
        None => host,
    };
    match why {
        _ if lacks_bucket(error) => format!("{host}: the bucket of this export does not exist"),
        Some(why) if why.contains(&host) => why.to_owned(),
        Some(why) => format!("{host}: {why}"),
        None => host,
    }
}

/// An error of the hop.
pub(crate) fn fault(code: ErrorCode, phase: types::Phase, server: &Location, words: &str) -> Error {
    let error = Error::new(code, Side::Upstream, phase);
    error.with_detail(format!("{}: {words}", server.authority()))
}

#[cfg(test)]
mod tests {
    use types::Phase;

    use super::*;

    #[test]
    fn refusals_keep_their_meaning_and_failures_of_the_hop_are_told_as_such() {
        let server = Location::parse("https://disk.example.org:8443/data").unwrap();
        for (theirs, ours, http) in [
            (ErrorCode::PeerNotFound, ErrorCode::NotFound, 404),
            (ErrorCode::PeerForbidden, ErrorCode::Forbidden, 403),
            (ErrorCode::PeerNoSpace, ErrorCode::NoSpace, 507),
            (ErrorCode::PeerExists, ErrorCode::Exists, 412),
            (ErrorCode::ParentMissing, ErrorCode::ParentMissing, 409),
            (ErrorCode::PeerUnsupported, ErrorCode::NotImplemented, 501),
            (ErrorCode::PeerFailed, ErrorCode::Busy, 423),
            (ErrorCode::PeerDenied, ErrorCode::PeerDenied, 502),
            (ErrorCode::PeerUnreachable, ErrorCode::PeerUnreachable, 502),
            (ErrorCode::PeerStalled, ErrorCode::PeerStalled, 504),
        ] {
            let theirs = Error::new(theirs, Side::Upstream, Phase::Open)
                .with_subject("https://disk.example.org:8443/data/f")
                .with_peer(Some(PeerStatus::Http(http)), "their words")
                .with_private("for the log");
            let error = translate(&theirs, &server, ShownCredential::Own).with_subject("/f");
            assert_eq!((error.code(), error.code().row().http), (ours, http));
            assert_eq!(is_of_hop(ours), http == 502 || http == 504);
            assert_eq!((error.side(), error.private()), (Side::Upstream, Some("for the log")));
            let text = error.public();
            let (begin, words) = ("upstream open: ", format!("the peer answered {http}: \"their words\""));
            assert!(text.starts_with(begin) && text.contains(&words), "{text}");
            let named = match ours {
                ErrorCode::Forbidden => {
                    "(disk.example.org:8443: it gives the credential of this server no right to this), /f"
                }
                _ => "(disk.example.org:8443), /f",
            };
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn who_was_refused_decides_whose_fault_it_is() {
        let server = Location::parse("https://disk.example.org/data").unwrap();
        let told = |status: Option<PeerStatus>, shown| {
            let error = Error::new(ErrorCode::PeerDenied, Side::Upstream, Phase::Authenticate);
            let error = translate(&error.with_peer(status, ""), &server, shown);
            (error.code(), error.detail().unwrap().to_owned())
        };
        let web = Some(PeerStatus::Http(401));
        let (code, words) = told(web, ShownCredential::Clients);
        assert!(
            code == ErrorCode::Forbidden && words.contains("the client's"),
            "{words}"
        );
        // One file that is not for everybody.
        let (code, words) = told(web, ShownCredential::Nothing);
        assert!(
            code == ErrorCode::Forbidden && words.contains("anonymous there"),
            "{words}"
        );
        // The login needs a credential, or this one is not accepted.
        assert_eq!(told(None, ShownCredential::Nothing).0, ErrorCode::PeerDenied);
        assert_eq!(told(web, ShownCredential::Own).0, ErrorCode::PeerDenied);
    }

    #[test]
    fn a_missing_bucket_is_no_missing_file() {
        let server = Location::parse("s3s://s3.example.org/bucket").unwrap();
        let told = |words: &str| {
            let error = Error::new(ErrorCode::PeerNotFound, Side::Upstream, Phase::Open);
            let error = error.with_peer(Some(PeerStatus::Http(404)), words);
            translate(&error, &server, ShownCredential::Own)
        };
        let error = told("NoSuchBucket: The specified bucket does not exist");
        assert!(error.code().row().http == 502 && is_of_hop(error.code()));
        let text = error.public();
        assert!(text.contains("the bucket of this export does not exist"), "{text}");
        assert_eq!(told("NoSuchKey").code(), ErrorCode::NotFound);
    }

    #[test]
    fn a_server_to_which_another_redirected_is_named() {
        let server = Location::parse("root://disk.example.org//data").unwrap();
        let error = Error::new(ErrorCode::PeerUnreachable, Side::Upstream, Phase::Connect);
        let error = error.with_subject("root://node7.example.org:1095//data/f");
        let text = translate(&error, &server, ShownCredential::Own).public();
        assert!(
            text.contains("(disk.example.org redirected to node7.example.org:1095)"),
            "{text}"
        );
    }
}
