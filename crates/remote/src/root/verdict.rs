//! What a refusal means, and whether another server may answer instead.

use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::ErrorNumber;

use super::session::Refused;
use crate::resource::{ADDRESS_REFUSED_WORDS, PATH_NOT_EXPORTED, Resource, says_delegation_expired, says_not_exported};

/// The reason that a redirector gets for a server that was unreachable or broke off.
pub(super) const BROKEN: &str = "srverr";

/// The reason that a redirector gets for a server that refused, before it is asked for another one;
/// `None` when any other would refuse as well. The list is that of the reference client.
pub(super) fn reason_to_go_back(number: ErrorNumber) -> Option<&'static str> {
    Some(match number {
        ErrorNumber::NOT_FOUND => "enoent",
        ErrorNumber::INPUT_OUTPUT => "ioerr",
        ErrorNumber::FILE_SYSTEM => "fserr",
        ErrorNumber::SERVER | ErrorNumber::NO_MEMORY | ErrorNumber::OVERLOADED => BROKEN,
        _ => return None,
    })
}

/// Whether another server may be reachable although this one was not.
pub(super) fn may_be_elsewhere(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerUnresolved
            | ErrorCode::PeerUnreachable
            | ErrorCode::PeerConnectTimeout
            | ErrorCode::PeerClosed
            | ErrorCode::PeerStalled
    )
}

/// The error for a refusal, with the server's own words.
pub(super) fn refused(file: &Resource, refusal: &Refused, is_encrypted: bool) -> Error {
    let error = refusal.number.to_peer_error(&refusal.words);
    let error = Error::at_side(error, file.side).with_subject(&file.location);
    if says_address_refused(&refusal.words) {
        return recoded(&error, ErrorCode::PeerAddressRefused, file);
    }
    if says_delegation_expired(&refusal.words) {
        return recoded(&error, ErrorCode::DelegationExpired, file);
    }
    if refusal.words.contains(ErrorCode::EndedByOperator.meaning()) {
        return recoded(&error, ErrorCode::EndedByOperator, file);
    }
    if refusal.number != ErrorNumber::NOT_AUTHORIZED {
        return error;
    }
    if says_not_exported(&refusal.words) {
        return error.with_detail(PATH_NOT_EXPORTED);
    }
    if file.access.bearer.is_some() && !is_encrypted {
        return recoded(&error, ErrorCode::PeerDenied, file)
            .with_detail("the token is not sent in clear text; use roots://");
    }
    // A user can give another credential. A store has shown in the login what it has.
    let may_have_more = file.side != Side::Upstream;
    if may_have_more && file.access.bearer.is_none() && file.location.query().is_none() {
        return recoded(&error, ErrorCode::PeerDenied, file);
    }
    error
}

/// Whether a server has refused the address of the other side of a copy, and not the file. Our
/// servers use the same number for both.
fn says_address_refused(words: &str) -> bool {
    words.to_ascii_lowercase().contains(ADDRESS_REFUSED_WORDS)
}

/// The same refusal with another code.
pub(super) fn recoded(error: &Error, code: ErrorCode, file: &Resource) -> Error {
    let phase = match code {
        ErrorCode::PeerDenied | ErrorCode::DelegationExpired => Phase::Authenticate,
        _ => error.phase(),
    };
    file.error(code, phase)
        .with_peer(error.peer_status(), error.peer_words().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use types::{Location, PeerStatus};

    use super::*;
    use crate::resource::Access;

    #[test]
    fn a_store_that_was_let_in_lacks_rights_and_no_credential() {
        let code = |side| {
            let file = Resource {
                location: Location::parse("root://a//f").unwrap(),
                access: Access::default(),
                side,
            };
            let words = "permission denied".to_owned();
            let number = ErrorNumber::NOT_AUTHORIZED;
            let error = refused(&file, &Refused { number, words }, false);
            (error.code(), error.phase())
        };
        assert_eq!(code(Side::Source), (ErrorCode::PeerDenied, Phase::Authenticate));
        assert_eq!(code(Side::Upstream), (ErrorCode::PeerForbidden, Phase::Authorize));
    }

    #[test]
    fn a_server_whose_delegated_proxy_ended_says_so() {
        let file = Resource {
            location: Location::parse("root://a//f").unwrap(),
            access: Access::default(),
            side: Side::Destination,
        };
        let ours = Error::new(ErrorCode::DelegationExpired, Side::Source, Phase::Authenticate);
        for (words, code) in [
            (
                format!("{} [delegation_expired]", ours.public()),
                ErrorCode::DelegationExpired,
            ),
            ("permission denied".to_owned(), ErrorCode::PeerDenied),
        ] {
            let number = ErrorNumber::NOT_AUTHORIZED;
            let error = refused(&file, &Refused { number, words }, false);
            assert_eq!((error.code(), error.phase()), (code, Phase::Authenticate));
            assert_eq!(error.peer_status(), Some(PeerStatus::Xrootd(3010)));
        }
    }

    #[test]
    fn no_credential_helps_with_a_path_that_is_not_exported() {
        let file = Resource {
            location: Location::parse("root://a//x").unwrap(),
            access: Access::default(),
            side: Side::Source,
        };
        for (words, is_about_path) in [
            ("Stating path '/x' is disallowed.", true),
            ("Opening relative path 'x' is disallowed.", true),
            ("Unable to stat /is disallowed; permission denied", false),
        ] {
            let (number, words) = (ErrorNumber::NOT_AUTHORIZED, words.to_owned());
            let error = refused(&file, &Refused { number, words }, false);
            let found = (error.code(), error.detail());
            match is_about_path {
                true => assert_eq!(found, (ErrorCode::PeerForbidden, Some(PATH_NOT_EXPORTED))),
                false => assert_eq!(found, (ErrorCode::PeerDenied, None)),
            }
        }
    }
}
