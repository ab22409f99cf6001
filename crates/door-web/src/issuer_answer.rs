//! What the issuer lets the browser bring back, in the query of the redirect URL.

use types::Secret;

/// An answer to an authentication request (RFC 6749 §4.1.2, RFC 9207 §2, OpenID Connect Core 1.0
/// §3.1.2.5).
#[derive(Debug)]
pub(crate) struct IssuerAnswer {
    /// What the request was sent with.
    pub(crate) state: Secret,
    /// What is redeemed for tokens.
    pub(crate) code: Option<Secret>,
    /// The name of the issuer that answers.
    pub(crate) issuer: Option<String>,
    /// Why there is no code (RFC 6749 §4.1.2.1).
    pub(crate) error: Option<String>,
    /// The same in words.
    pub(crate) words: Option<String>,
}

impl IssuerAnswer {
    /// Reads the query. A parameter without a value is none (RFC 6749 §3.1).
    ///
    /// # Errors
    /// Why it is no answer: a parameter occurs twice (RFC 6749 §3.1), or it has no state.
    pub(crate) fn read(query: &str) -> Result<Self, &'static str> {
        let (mut state, mut code, mut issuer, mut error, mut words) = (None, None, None, None, None);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let place = match name.as_ref() {
                "state" => &mut state,
                "code" => &mut code,
                "iss" => &mut issuer,
                "error" => &mut error,
                "error_description" => &mut words,
                // Such as `session_state`: others must be ignored.
                _ => continue,
            };
            if value.is_empty() {
                continue;
            }
            if place.replace(value.into_owned()).is_some() {
                return Err("the answer of the issuer says something twice");
            }
        }
        Ok(Self {
            state: state
                .map(Secret::new)
                .ok_or("the answer of the issuer does not say to which sign-in it belongs (state)")?,
            code: code.map(Secret::new),
            issuer,
            error,
            words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_shows_no_secret() {
        let answer = IssuerAnswer::read("code=a%2Bb&state=s&session_state=x&iss=https%3A%2F%2Fi&x=1&x=2").unwrap();
        assert_eq!(answer.state.expose(), "s");
        assert_eq!(answer.code.as_ref().map(Secret::expose), Some("a+b"));
        assert_eq!(answer.issuer.as_deref(), Some("https://i"));
        assert!(!format!("{answer:?}").contains("a+b"));
        let answer = IssuerAnswer::read("error=access_denied&error_description=no+way&state=s&code=").unwrap();
        assert_eq!(answer.error.as_deref(), Some("access_denied"));
        assert_eq!(answer.words.as_deref(), Some("no way"));
        assert!(answer.code.is_none());
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for query in [
            "",
            "code=a",
            "state=&code=a",
            "state=s&state=t&code=a",
            "state=s&code=a&code=b",
            "state=s&code=a&iss=x&iss=y",
            "state=s&error=a&error=b",
        ] {
            assert!(IssuerAnswer::read(query).is_err(), "{query}");
        }
    }
}
