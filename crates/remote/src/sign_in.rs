//! People who sign in at an issuer in their browser: the authorization code flow (OpenID Connect
//! Core 1.0 §3.1, RFC 6749 §4.1) with PKCE (RFC 7636).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::timeout;
use types::{ErrorCode, Result, Secret};

use crate::limits::ISSUER_ANSWER_TIME;
use crate::token_issuer::{IssuedTokens, TokenDenial, TokenIssuer};

/// What goes with one sign-in.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// Where the issuer sends the browser afterwards. The issuer compares it with what is
    /// registered for us there (RFC 9700 §2.1).
    pub redirect_url: String,
    /// Binds the answer to the request (RFC 6749 §10.12).
    pub state: Secret,
    /// Binds the ID token to the request (OpenID Connect Core 1.0 §3.1.2.1).
    pub nonce: Secret,
    /// Proves that the code is redeemed by the one who asked for it: 43 to 128 characters of
    /// letters, digits and `-._~` (RFC 7636 §4.1).
    pub verifier: Secret,
}

impl TokenIssuer {
    /// The page of the issuer where a person signs in. It has the request's state, so that it is
    /// for one browser only.
    ///
    /// # Errors
    /// `token_issuer_unreachable`: the issuer does not say where that page is, or not in time.
    pub async fn sign_in_url(&self, request: &SignInRequest, scopes: &[String]) -> Result<Secret> {
        let mut page = self.in_time(self.discovery.sign_in_page()).await?;
        // The issuer's own query stays (RFC 6749 §3.1).
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.provider.client_id)
            .append_pair("redirect_uri", &request.redirect_url)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", request.state.expose())
            .append_pair("nonce", request.nonce.expose())
            .append_pair("code_challenge", &challenge(&request.verifier))
            .append_pair("code_challenge_method", "S256");
        Ok(Secret::new(page.to_string()))
    }

    /// Tokens for the code with which the browser came back (RFC 6749 §4.1.3, RFC 7636 §4.5).
    ///
    /// # Errors
    /// The issuer refuses, or cannot be asked.
    pub async fn redeem(
        &self,
        code: &Secret,
        request: &SignInRequest,
    ) -> std::result::Result<IssuedTokens, TokenDenial> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &request.redirect_url),
            ("code_verifier", request.verifier.expose()),
        ];
        self.tokens(&fields, "", &[]).await
    }

    /// Whether an answer that names this issuer (`iss`), or none, is its answer (RFC 9207 §2.4):
    /// an issuer that says that it names itself must do so.
    ///
    /// # Errors
    /// As [`Self::sign_in_url`].
    pub async fn is_answer_of(&self, named: Option<&str>) -> Result<bool> {
        match named {
            Some(named) => Ok(named == self.provider.issuer),
            None => {
                let must_name = self.in_time(self.discovery.names_itself()).await?;
                if must_name {
                    // Perhaps it said so by mistake.
                    self.discovery.forget();
                }
                Ok(!must_name)
            }
        }
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = timeout(ISSUER_ANSWER_TIME, asked).await;
        let found = asked.unwrap_or_else(|_| Err(self.unusable("it does not answer")));
        found.map_err(|error| match error.code() {
            ErrorCode::TokenIssuerUnreachable => error,
            _ => self.unusable(&error.public()),
        })
    }
}

/// What the issuer gets to know of the verifier (RFC 7636 §4.2, `S256`).
fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.expose().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
