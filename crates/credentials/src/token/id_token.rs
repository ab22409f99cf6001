//! The ID token of a sign-in in a browser (OpenID Connect Core 1.0 §2): who the person is, by the
//! word of an issuer, for one client and one sign-in.

use crate::limits::SUBJECT_BYTES_MAX;
use serde_json::{Map, Value};
use types::{Error, ErrorCode};

use super::claims::{Checked, audiences, check_times, text};
use super::issuer::{IssuerRules, TokenRules};
use super::jwt::UnverifiedToken;
use super::refused;
use crate::credential::VerifiedToken;
use crate::inspect::shown;

/// What the ID token of a sign-in must say.
#[derive(Clone, Copy, Debug)]
pub struct IdTokenDemands<'a> {
    /// The issuer at which the person signs in.
    pub issuer: &'a str,
    /// Our name there.
    pub client_id: &'a str,
    /// The nonce of this sign-in.
    pub nonce: &'a str,
}

impl UnverifiedToken {
    /// Who the person is, if the signature is good (OpenID Connect Core 1.0 §3.1.3.7). Groups and
    /// local user are found as those of an access token are ([`UnverifiedToken::read`]); it grants
    /// nothing by itself, whatever scopes it names.
    ///
    /// `issuer` are the rules about the issuer that the token names, `now_s` is the time in seconds
    /// since 1970. The caller checks the signature.
    ///
    /// # Errors
    /// `token_profile` for an access token, `token_issuer_unknown` for another issuer than the one
    /// of the sign-in, `token_audience`, `token_claims`, `token_expired`, `token_not_yet_valid`,
    /// `token_too_large`, in this order.
    pub fn read_id_token(
        &self,
        demands: &IdTokenDemands<'_>,
        rules: &TokenRules,
        issuer: &IssuerRules,
        now_s: i64,
    ) -> Result<VerifiedToken, Error> {
        let claims = self.claims();
        if self.is_access_token() {
            return Err(refused(
                ErrorCode::TokenProfile,
                "it is an access token, not an ID token",
            ));
        }
        if self.issuer() != demands.issuer {
            let words = format!("its issuer is \"{}\"", shown(self.issuer()));
            return Err(refused(ErrorCode::TokenIssuerUnknown, words));
        }
        let audiences = audiences(claims)?;
        check_client(claims, &audiences, demands.client_id)?;
        check_nonce(claims, demands.nonce)?;
        if !claims.contains_key("iat") {
            return Err(refused(ErrorCode::TokenClaims, "an ID token must have \"iat\""));
        }
        let subject = subject(claims)?;
        let (expires_s, not_before_s) = check_times(claims, rules.skew_s, now_s)?;
        let checked = Checked {
            subject: Some(subject),
            has_groups: true,
            expires_s,
            not_before_s,
            audiences,
        };
        self.of_holder(checked, issuer)
    }
}

/// The token is for us: we are its audience, and with several audiences also the party that it was
/// issued to (OpenID Connect Core 1.0 §3.1.3.7, steps 3 to 5).
fn check_client(claims: &Map<String, Value>, audiences: &[String], client_id: &str) -> Result<(), Error> {
    if !audiences.iter().any(|audience| audience == client_id) {
        let named = audiences.first().map_or_else(
            || "it names no audience".to_owned(),
            |audience| format!("its audience is \"{}\"", shown(audience)),
        );
        let words = format!("{named}; this server is the client \"{}\"", shown(client_id));
        return Err(refused(ErrorCode::TokenAudience, words));
    }
    match text(claims, "azp")? {
        Some(party) if party == client_id => Ok(()),
        Some(party) => {
            let words = format!("it was issued to another client (azp), \"{}\"", shown(party));
            Err(refused(ErrorCode::TokenAudience, words))
        }
        None if audiences.len() == 1 => Ok(()),
        None => Err(refused(
            ErrorCode::TokenAudience,
            "it has several audiences, and does not say to which client it was issued (azp)",
        )),
    }
}

/// The token is an answer to this sign-in (OpenID Connect Core 1.0 §3.1.3.7, step 11): one of
/// another sign-in was replayed.
fn check_nonce(claims: &Map<String, Value>, nonce: &str) -> Result<(), Error> {
    match text(claims, "nonce")? {
        Some(named) if types::is_same(named.as_bytes(), nonce.as_bytes()) => Ok(()),
        Some(_) => Err(refused(ErrorCode::TokenClaims, "it belongs to another sign-in (nonce)")),
        None => Err(refused(
            ErrorCode::TokenClaims,
            "it does not say to which sign-in it belongs (nonce)",
        )),
    }
}

/// The person's name at the issuer: required, and short (OpenID Connect Core 1.0 §2).
fn subject(claims: &Map<String, Value>) -> Result<String, Error> {
    match text(claims, "sub")? {
        Some(subject) if !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX => Ok(subject.to_owned()),
        Some(_) => {
            let words = format!("its subject is empty, or longer than {SUBJECT_BYTES_MAX} bytes");
            Err(refused(ErrorCode::TokenClaims, words))
        }
        None => Err(refused(ErrorCode::TokenClaims, "it has no subject")),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    const NOW_S: i64 = 1_000_000;
    const DEMANDS: IdTokenDemands<'static> = IdTokenDemands {
        issuer: "https://i",
        client_id: "pages",
        nonce: "n-1",
    };

    /// Reads a token whose claims differ from a sound one's by these; `null` removes one.
    fn read_with(header: &str, changes: &Value) -> Result<VerifiedToken, (ErrorCode, String)> {
        let mut claims = json!({"iss": "https://i", "sub": "jane", "aud": "pages", "nonce": "n-1",
            "iat": NOW_S, "exp": NOW_S + 300, "scope": "storage.read:/", "wlcg.groups": ["/ops"]});
        let (all, changes) = (claims.as_object_mut().unwrap(), changes.as_object().unwrap());
        all.extend(changes.clone());
        all.retain(|_, value| !value.is_null());
        let [header, claims] = [header, &claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
        let token = UnverifiedToken::parse(&format!("{header}.{claims}.c2ln")).unwrap();
        let rules = TokenRules {
            skew_s: 60,
            ..TokenRules::default()
        };
        let issuer = IssuerRules {
            vo: Some("ops".to_owned()),
            ..IssuerRules::new("https://i")
        };
        let read = token.read_id_token(&DEMANDS, &rules, &issuer, NOW_S);
        read.map_err(|error| (error.code(), error.public()))
    }

    fn read(changes: &Value) -> Result<VerifiedToken, (ErrorCode, String)> {
        read_with(r#"{"alg":"RS256"}"#, changes)
    }

    #[test]
    fn a_person_has_subject_issuer_and_groups_and_no_grant() {
        for changes in [
            json!({}),
            json!({"aud": ["pages"], "azp": "pages"}),
            json!({"aud": ["other", "pages"], "azp": "pages"}),
            json!({"iat": NOW_S + 60}),
        ] {
            let read = read(&changes).unwrap();
            assert!(read.grant.is_none(), "scopes of an ID token give nothing");
            let person = read.principal;
            assert_eq!(
                (person.issuer.as_deref(), person.subject.as_deref()),
                (Some("https://i"), Some("jane"))
            );
            assert_eq!(person.groups, ["/ops"]);
            assert_eq!(person.vos, ["ops"]);
        }
    }

    #[test]
    fn each_refusal_has_its_code_and_reason() {
        for (changes, code, words) in [
            (json!({"iss": "https://j"}), ErrorCode::TokenIssuerUnknown, "https://j"),
            (json!({"aud": "other"}), ErrorCode::TokenAudience, "\"other\""),
            (json!({"aud": null}), ErrorCode::TokenAudience, "names no audience"),
            (json!({"aud": []}), ErrorCode::TokenAudience, "names no audience"),
            (json!({"aud": "page"}), ErrorCode::TokenAudience, "\"page\""),
            (json!({"azp": "other"}), ErrorCode::TokenAudience, "another client"),
            (json!({"aud": ["pages", "other"]}), ErrorCode::TokenAudience, "several"),
            (json!({"azp": 7}), ErrorCode::TokenClaims, "azp"),
            (json!({"nonce": "n-2"}), ErrorCode::TokenClaims, "another sign-in"),
            (json!({"nonce": ""}), ErrorCode::TokenClaims, "another sign-in"),
            (json!({"nonce": null}), ErrorCode::TokenClaims, "which sign-in"),
            (json!({"nonce": ["n-1"]}), ErrorCode::TokenClaims, "nonce"),
            (json!({"iat": null}), ErrorCode::TokenClaims, "iat"),
            (json!({"sub": null}), ErrorCode::TokenClaims, "no subject"),
            (json!({"sub": ""}), ErrorCode::TokenClaims, "empty"),
            (json!({"sub": "s".repeat(256)}), ErrorCode::TokenClaims, "longer"),
            (json!({"exp": null}), ErrorCode::TokenClaims, "expiry"),
            (json!({"exp": NOW_S}), ErrorCode::TokenExpired, "expired"),
            (json!({"iat": NOW_S + 61}), ErrorCode::TokenNotYetValid, "valid in"),
            (json!({"wlcg.groups": 7}), ErrorCode::TokenClaims, "groups"),
        ] {
            let (found, said) = read(&changes).expect_err(words);
            assert_eq!(found, code, "{changes}: {said}");
            assert!(said.contains(words), "{changes}: {said}");
        }
    }

    #[test]
    fn an_access_token_is_no_id_token() {
        let (code, _) = read_with(r#"{"alg":"RS256","typ":"at+jwt"}"#, &json!({})).unwrap_err();
        assert_eq!(code, ErrorCode::TokenProfile);
    }
}
