//! An issuer's refusals in plain words.

use crate::limits::ISSUER_WORDS_SHOWN_MAX;

/// What an error in the answer to the browser means (RFC 6749 §4.1.2.1, OpenID Connect Core 1.0
/// §3.1.2.6).
pub(crate) fn plain(word: &str) -> &'static str {
    match word {
        "access_denied" => "you have declined, or it does not let you use this server",
        "login_required" | "interaction_required" | "account_selection_required" | "consent_required" => {
            "you must sign in at its own pages first"
        }
        "invalid_scope" => "it does not give one of the scopes that web.oidc_scopes names",
        "unauthorized_client" | "invalid_client" => {
            "it does not let this server sign people in; compare web.oidc_client_id with what is registered there"
        }
        "server_error" | "temporarily_unavailable" => "it cannot sign people in at the moment; try again later",
        "invalid_request" | "unsupported_response_type" | "request_not_supported" | "request_uri_not_supported" => {
            "it does not accept the request of this server; compare the keys web.oidc_* with what is registered there"
        }
        _ => "it refuses, and its reason is not one of the standard",
    }
}

/// What an error at the token endpoint means (RFC 6749 §5.2).
pub(crate) fn refusal_words(word: &str) -> String {
    let words = match word {
        "invalid_grant" => "it no longer accepts the code of this sign-in",
        "invalid_client" => "it does not accept the name and secret of this server (web.oidc_client_id)",
        "unauthorized_client" | "unsupported_grant_type" => {
            "it does not let this server redeem codes; allow the authorization code grant there"
        }
        _ => "it gives no token for the code",
    };
    format!("{words} ({})", bounded(word))
}

/// The beginning of an issuer's words, without characters that would be obeyed.
pub(crate) fn bounded(words: &str) -> String {
    let readable = words.chars().filter(|character| !character.is_control());
    readable.take(ISSUER_WORDS_SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bounded_and_each_error_has_its_own() {
        assert_eq!(bounded("a\r\nb\u{0}"), "ab");
        assert_eq!(bounded(&"é".repeat(1000)).chars().count(), ISSUER_WORDS_SHOWN_MAX);
        let known = [
            "access_denied",
            "login_required",
            "invalid_scope",
            "server_error",
            "else",
        ];
        let mut words: Vec<&str> = known.iter().map(|word| plain(word)).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), known.len());
        assert!(refusal_words("invalid_grant").ends_with("(invalid_grant)"));
    }
}
