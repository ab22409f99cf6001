//! Refusals: the answer to an error. The error table says its status and its sentences; this says
//! its headers.

use endpoint::ids;
use http_wire::{BearerChallenge, ContentType, ResponseBuilder};
use net::{Role, Stream};
use tokio::net::TcpStream;
use types::{Error, ErrorCode, Phase, Side};

use crate::limits::{REFUSED_BODY_BYTES_MAX, RETRY_AFTER_S};
use crate::server::Server;

/// The body of an error's answer: what happened, what the client can do, and the name under which
/// the log has the request.
pub(crate) fn error_text(error: &Error, request_id: &str) -> String {
    format!(
        "{}\n{}\n[{}] {request_id}\n",
        error.public(),
        advice(error),
        error.code().name()
    )
}

/// What the client can do about an error.
#[must_use]
pub fn advice(error: &Error) -> &'static str {
    match (error.code(), error.side()) {
        // With the client's own credential this would be `forbidden`.
        (ErrorCode::PeerDenied, Side::Upstream) => {
            "The server's own credential for its storage is refused; tell its administrator."
        }
        (ErrorCode::Forbidden, Side::Upstream) => {
            "The storage behind this server refuses it: use a credential with rights there, or ask the administrator."
        }
        (code, _) => code.for_client(),
    }
}

/// Adds the headers that an error asks for: the challenge of a missing or insufficient token
/// (RFC 6750 §3), and when to try again (RFC 9110 §10.2.3).
pub(crate) fn refusal_head(head: ResponseBuilder, error: &Error, realm: &str, bears_token: bool) -> ResponseBuilder {
    let head = match challenge(error, bears_token) {
        Some(challenge) => head.www_authenticate(realm, challenge),
        None => head,
    };
    match error.code() {
        ErrorCode::Overloaded
        | ErrorCode::ShareUsedUp
        | ErrorCode::Draining
        | ErrorCode::ChecksumPending
        | ErrorCode::Cancelled => head.retry_after(RETRY_AFTER_S),
        // The redirector knows it within milliseconds, or a second.
        ErrorCode::NotHere | ErrorCode::JustStarted => head.retry_after(1),
        _ => match error.retry_after() {
            Some(after) => head.retry_after(after.as_secs().max(1)),
            None => head,
        },
    }
}

fn challenge(error: &Error, bears_token: bool) -> Option<BearerChallenge> {
    match error.code() {
        ErrorCode::Unauthenticated => Some(BearerChallenge::Missing),
        code if code.refuses_token() => Some(BearerChallenge::InvalidToken),
        ErrorCode::Forbidden if bears_token && error.phase() == Phase::Authorize => {
            Some(BearerChallenge::InsufficientScope)
        }
        _ => None,
    }
}

impl Server {
    /// Answers a client in clear text, whose connection is not accepted, with the reason.
    pub async fn turn_away(&self, tcp: TcpStream, error: &Error) {
        let id = ids::fresh_id();
        let body = error_text(error, &id);
        let head = ResponseBuilder::new(error.code().http_status())
            .server(&self.server_name)
            .request_id(&id)
            .retry_after(RETRY_AFTER_S)
            .content_type(ContentType::Text)
            .content_length(body.len() as u64)
            .keep_alive(false);
        let mut stream = Stream::clear(tcp, Role::Client, self.limits.waits());
        stream.queue(&head.finish());
        stream.queue(body.as_bytes());
        stream.close_lingering(REFUSED_BODY_BYTES_MAX as usize).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(code: ErrorCode, phase: Phase, bears_token: bool) -> String {
        let error = Error::new(code, Side::Client, phase);
        let head = refusal_head(ResponseBuilder::new(code.http_status()), &error, "us", bears_token);
        String::from_utf8(head.finish()).unwrap()
    }

    #[test]
    fn a_challenge_tells_what_is_wrong_with_the_token() {
        let missing = head_of(ErrorCode::Unauthenticated, Phase::Authenticate, false);
        assert!(missing.contains("Bearer realm=\"us\"\r\n"), "{missing}");
        let invalid = head_of(ErrorCode::InvalidToken, Phase::Authenticate, false);
        assert!(invalid.contains("error=\"invalid_token\""), "{invalid}");
        let narrow = head_of(ErrorCode::Forbidden, Phase::Authorize, true);
        assert!(narrow.contains("error=\"insufficient_scope\""), "{narrow}");
        let other = head_of(ErrorCode::Forbidden, Phase::Authorize, false);
        assert!(!other.contains("Bearer"), "{other}");
    }

    #[test]
    fn a_client_is_not_asked_for_the_servers_own_credential() {
        let told = |side| error_text(&Error::new(ErrorCode::PeerDenied, side, Phase::Authenticate), "id");
        assert!(told(Side::Upstream).contains("tell its administrator"));
        let behind = Error::new(ErrorCode::Forbidden, Side::Upstream, Phase::Authorize);
        assert!(error_text(&behind, "id").contains("rights there"));
        assert!(told(Side::Source).contains("Give a valid credential"));
    }

    #[test]
    fn only_what_passes_is_to_be_tried_again() {
        for code in [ErrorCode::Overloaded, ErrorCode::Draining] {
            assert!(head_of(code, Phase::Open, false).contains("Retry-After: 10"));
        }
        assert!(!head_of(ErrorCode::NotFound, Phase::Open, false).contains("Retry-After"));
    }
}
