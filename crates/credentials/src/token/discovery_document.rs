//! What an issuer says of itself: the document that OpenID Connect Discovery 1.0 and RFC 8414
//! describe.

use serde_json::Value;
use types::{Error, ErrorCode, Location, Scheme};

use super::refused;

/// Characters of another issuer's name that are repeated.
const SHOWN_CHARACTERS_MAX: usize = 256;

/// Where the keys of `issuer` are, as the document says that was found at the URL `place`.
///
/// The document must be about this very issuer (RFC 8414 §3.3): another one's keys must not verify
/// its tokens.
///
/// # Errors
/// `token_issuer_unreachable` for what is not such a document, is about another issuer, or names
/// keys that are not available over https.
pub fn key_set_place(issuer: &str, place: &str, document: &[u8]) -> Result<String, Error> {
    let fault = |why: String| Err(unreachable(format!("{place} {why}")));
    let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(document) else {
        return fault("is not a JSON object".to_owned());
    };
    match members.get("issuer").and_then(Value::as_str) {
        Some(named) if named == issuer => {}
        Some(named) => {
            let named: String = named
                .chars()
                .filter(|character| !character.is_control())
                .take(SHOWN_CHARACTERS_MAX)
                .collect();
            return fault(format!("is about another issuer: \"{named}\" in place of \"{issuer}\""));
        }
        None => return fault("names no issuer".to_owned()),
    }
    match members.get("jwks_uri").and_then(Value::as_str) {
        Some(url) => https_location(url).map(|_| url.to_owned()),
        None => fault("does not say where the keys are (jwks_uri)".to_owned()),
    }
}

/// The location that an https URL names.
///
/// # Errors
/// `token_issuer_unreachable` for any other URL.
pub fn https_location(url: &str) -> Result<Location, Error> {
    let location = Location::parse(url).map_err(|error| unreachable(format!("{url}: {}", error.public())))?;
    if location.scheme() != Scheme::Https || !url.starts_with("https://") {
        return Err(unreachable(format!(
            "{url} is not an https URL, and nothing else is asked for keys"
        )));
    }
    Ok(location)
}

fn unreachable(why: String) -> Error {
    refused(ErrorCode::TokenIssuerUnreachable, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_leads_to_keys_of_its_own_issuer_only() {
        let of = |text: &str| key_set_place("https://i/", "P", text.as_bytes()).map_err(|error| error.public());
        assert_eq!(
            of(r#"{"issuer":"https://i/","jwks_uri":"https://k/x"}"#),
            Ok("https://k/x".to_owned())
        );
        for (text, words) in [
            ("[]", "not a JSON object"),
            (r#"{"jwks_uri":"https://k/x"}"#, "names no issuer"),
            (r#"{"issuer":"https://i","jwks_uri":"https://k/x"}"#, "another issuer"),
            (r#"{"issuer":"https://i/"}"#, "jwks_uri"),
            (r#"{"issuer":"https://i/","jwks_uri":"http://k/x"}"#, "not an https URL"),
        ] {
            let why = of(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
