//! A JSON Web Token taken apart (RFC 7519, RFC 7515 §3.1), before anything in it is believed.

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_KEY_NAME_BYTES_MAX, TOKEN_VALUES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use types::{Error, ErrorCode};

use super::keys::{Algorithm, KeySet};
use super::{json, refused};
use crate::inspect::shown;

/// A token whose form is sound. Nothing of what it says is verified.
#[derive(Clone)]
pub struct UnverifiedToken {
    algorithm: Algorithm,
    key_name: Option<String>,
    is_access_token: bool,
    claims: Map<String, Value>,
    issuer: String,
    /// What is signed: the first two parts, as they were sent.
    signed: String,
    signature: Vec<u8>,
}

impl std::fmt::Debug for UnverifiedToken {
    /// Without the signature, which would let a reader use it.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UnverifiedToken")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl UnverifiedToken {
    /// Takes it apart.
    ///
    /// # Errors
    /// `token_too_large`, `token_malformed`, `token_algorithm` for another algorithm than RS256 and
    /// ES256, `token_profile` for a type that is none of an access token, `token_claims` without an
    /// issuer.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > TOKEN_BYTES_MAX {
            let words = format!("it has {} bytes, and {TOKEN_BYTES_MAX} are allowed", text.len());
            return Err(refused(ErrorCode::TokenTooLarge, words));
        }
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("it does not have the three parts of a JSON Web Token"));
        };
        let signed = text[..header.len() + 1 + claims.len()].to_owned();
        let header = part(header, "header")?;
        let algorithm = algorithm(&header)?;
        check_type(&header)?;
        let key_name = key_name(&header)?;
        let claims = part(claims, "body")?;
        let signature = decoded(signature, "signature")?;
        let issuer = match claims.get("iss") {
            Some(Value::String(issuer)) if !issuer.is_empty() => issuer.clone(),
            _ => return Err(refused(ErrorCode::TokenClaims, "it names no issuer (iss)")),
        };
        Ok(Self {
            algorithm,
            key_name,
            is_access_token: header.get("typ").and_then(Value::as_str).is_some_and(is_access_token),
            claims,
            issuer,
            signed,
            signature,
        })
    }

    /// The issuer that it names.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The name of the key that it says to be signed with.
    #[must_use]
    pub fn key_name(&self) -> Option<&str> {
        self.key_name.as_deref()
    }

    /// Its claims, not verified yet.
    #[must_use]
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Whether its header says that it is an OAuth access token (RFC 9068 §2.1).
    pub(super) fn is_access_token(&self) -> bool {
        self.is_access_token
    }

    /// Checks the signature with the issuer's keys.
    ///
    /// # Errors
    /// `token_key_unknown` when the key is not among them, which fresher keys may change;
    /// `token_algorithm` when the key is of another kind than the algorithm; `token_signature`.
    pub fn check_signature(&self, keys: &KeySet) -> Result<(), Error> {
        keys.verify(self.key_name(), self.algorithm, self.signed.as_bytes(), &self.signature)
    }
}

fn malformed(why: &str) -> Error {
    refused(ErrorCode::TokenMalformed, why)
}

/// Base64url without padding (RFC 7515 §2), and no other form: one token has one text.
fn decoded(text: &str, name: &str) -> Result<Vec<u8>, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|_| malformed(&format!("its {name} is not base64url text without padding")))
}

fn part(text: &str, name: &str) -> Result<Map<String, Value>, Error> {
    let bytes = decoded(text, name)?;
    json::object(&bytes, TOKEN_VALUES_MAX).map_err(|why| malformed(&format!("its {name} {why}")))
}

fn algorithm(header: &Map<String, Value>) -> Result<Algorithm, Error> {
    let refuse = |words: String| refused(ErrorCode::TokenAlgorithm, words);
    let Some(name) = header.get("alg").and_then(Value::as_str) else {
        return Err(refuse("its header names no algorithm".to_owned()));
    };
    if let Some(algorithm) = Algorithm::from_name(name) {
        return Ok(algorithm);
    }
    Err(refuse(if name.eq_ignore_ascii_case("none") {
        "its algorithm is \"none\": anybody could have written it".to_owned()
    } else if name.starts_with("HS") {
        format!(
            "its algorithm {} takes a shared secret, and this server shares none with an issuer",
            shown(name)
        )
    } else {
        format!("its algorithm is {}", shown(name))
    }))
}

/// A token made for another purpose is none of ours, however well it is signed (RFC 8725 §3.11).
/// What the header's `crit` names must be understood (RFC 7515 §4.1.11), and nothing of that kind
/// is.
fn check_type(header: &Map<String, Value>) -> Result<(), Error> {
    if header.contains_key("crit") {
        return Err(malformed("its header demands an extension that is not known here"));
    }
    match header.get("typ") {
        None => Ok(()),
        Some(Value::String(kind)) if is_access_token(kind) || kind.eq_ignore_ascii_case("jwt") => Ok(()),
        Some(Value::String(kind)) => {
            let words = format!("its type is {}, which is no access token", shown(kind));
            Err(refused(ErrorCode::TokenProfile, words))
        }
        Some(_) => Err(malformed("its type is not a text")),
    }
}

/// RFC 9068 §2.1.
pub(crate) fn is_access_token(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("at+jwt") || kind.eq_ignore_ascii_case("application/at+jwt")
}

fn key_name(header: &Map<String, Value>) -> Result<Option<String>, Error> {
    match header.get("kid") {
        None => Ok(None),
        Some(Value::String(name)) if name.len() <= TOKEN_KEY_NAME_BYTES_MAX => Ok(Some(name.clone())),
        Some(_) => Err(malformed("the name of its key (kid) is not a short text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        format!("{header}.{claims}.c2ln")
    }

    #[test]
    fn each_fault_of_form_has_its_code_and_reason() {
        let good = r#"{"iss":"https://i"}"#;
        let deep = format!(r#"{{"iss":"i","x":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        let huge = format!(r#"{{"iss":"i","x":"{}"}}"#, "y".repeat(TOKEN_BYTES_MAX));
        let long = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(300));
        let rs256 = r#"{"alg":"RS256"}"#;
        for (text, code, words) in [
            (token(rs256, &huge), ErrorCode::TokenTooLarge, "are allowed"),
            (token(rs256, &deep), ErrorCode::TokenMalformed, "deeper"),
            ("a.b".to_owned(), ErrorCode::TokenMalformed, "three parts"),
            ("a.b.c.d".to_owned(), ErrorCode::TokenMalformed, "three parts"),
            ("!.b.c".to_owned(), ErrorCode::TokenMalformed, "header is not base64"),
            (
                token("[]", good),
                ErrorCode::TokenMalformed,
                "header is not a JSON object",
            ),
            (token("{}", good), ErrorCode::TokenAlgorithm, "names no algorithm"),
            (token(r#"{"alg":"none"}"#, good), ErrorCode::TokenAlgorithm, "anybody"),
            (token(r#"{"alg":"nOnE"}"#, good), ErrorCode::TokenAlgorithm, "anybody"),
            (
                token(r#"{"alg":"HS256"}"#, good),
                ErrorCode::TokenAlgorithm,
                "shared secret",
            ),
            (token(r#"{"alg":"RS512"}"#, good), ErrorCode::TokenAlgorithm, "RS512"),
            (
                token(r#"{"alg":["RS256"]}"#, good),
                ErrorCode::TokenAlgorithm,
                "names no algorithm",
            ),
            (token(&long, good), ErrorCode::TokenMalformed, "kid"),
            (
                token(r#"{"alg":"RS256","crit":["b64"]}"#, good),
                ErrorCode::TokenMalformed,
                "extension",
            ),
            (
                token(r#"{"alg":"RS256","typ":"logout+jwt"}"#, good),
                ErrorCode::TokenProfile,
                "logout",
            ),
            (token(rs256, "{}"), ErrorCode::TokenClaims, "iss"),
            (token(rs256, r#"{"iss":7}"#), ErrorCode::TokenClaims, "iss"),
            (
                token(rs256, r#"{"iss":"a","iss":"b"}"#),
                ErrorCode::TokenMalformed,
                "twice",
            ),
        ] {
            let error = UnverifiedToken::parse(&text).unwrap_err();
            assert_eq!(error.code(), code, "{words}: {error}");
            assert!(error.public().contains(words), "{error}");
        }
    }

    #[test]
    fn a_token_has_one_text_only() {
        let text = token(r#"{"alg":"ES256"}"#, r#"{"iss":"https://i"}"#);
        assert!(UnverifiedToken::parse(&text).is_ok());
        let mut parts: Vec<&str> = text.split('.').collect();
        // Padded, of the other alphabet, and with bits set that say nothing.
        for signature in ["c2ln=", "c2lnYQ==", "c2l+", "c2l/", "c2l"] {
            parts[2] = signature;
            let error = UnverifiedToken::parse(&parts.join(".")).unwrap_err();
            assert!(
                error.public().contains("signature is not base64url"),
                "{signature}: {error}"
            );
        }
        let padded = format!("{}=.{}", parts[0], parts[1..].join("."));
        assert!(UnverifiedToken::parse(&padded).is_err());
    }

    #[test]
    fn a_sound_one_is_taken_apart_and_shows_no_signature() {
        let text = token(r#"{"alg":"ES256","kid":"k","typ":"AT+JWT"}"#, r#"{"iss":"https://i"}"#);
        let parsed = UnverifiedToken::parse(&text).unwrap();
        assert_eq!((parsed.issuer(), parsed.key_name()), ("https://i", Some("k")));
        assert!(parsed.is_access_token());
        assert!(!format!("{parsed:?}").contains("sig"));
    }
}
