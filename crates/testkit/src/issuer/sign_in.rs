//! People who sign in at the issuer with a browser: the authorization code flow with PKCE (OpenID
//! Connect Core 1.0 §3.1, RFC 7636). No one is asked: each browser is signed in at once.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::keys::encoded;
use super::{PUBLIC_CLIENT, Shared, TOKEN_CLIENT, TokenAlgorithm, TokenDraft};

/// How the issuer answers those who sign in.
#[derive(Debug, Clone, Default)]
pub struct SignInAnswers {
    /// Claims of the ID token, in place of what they would be; `null` removes one.
    pub claims: Map<String, Value>,
    /// How the ID token is signed.
    pub algorithm: TokenAlgorithm,
    /// The word and the sentence with which the browser is sent back instead of a code.
    pub error: Option<(String, String)>,
    /// The issuer that the answer names (`iss`), in place of its own name.
    pub named: Option<String>,
    /// The answer names no issuer, although the discovery document says that it does.
    pub is_nameless: bool,
}

/// What belongs to a code.
#[derive(Debug)]
pub(super) struct Code {
    client: String,
    redirect: String,
    challenge: String,
    nonce: String,
}

/// Where the browser is sent that asks for this query; `None`: it stays here, since the request is
/// not of a client that is known.
pub(super) fn authorize(shared: &Shared, query: &str) -> Option<String> {
    let query: HashMap<String, String> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let field = |name: &str| query.get(name).cloned().unwrap_or_default();
    let is_known = [PUBLIC_CLIENT, TOKEN_CLIENT.0].contains(&field("client_id").as_str());
    let is_asked = field("response_type") == "code" && field("code_challenge_method") == "S256";
    let is_openid = field("scope").split(' ').any(|scope| scope == "openid");
    if !is_known || !is_asked || !is_openid {
        return None;
    }
    let mut place = url::Url::parse(&field("redirect_uri")).ok()?;
    let own = shared.url();
    let mut state = shared.state();
    let endpoint = &mut state.endpoint;
    let answers = endpoint.sign_in.clone();
    let mut answer = place.query_pairs_mut();
    answer.append_pair("state", &field("state"));
    if !answers.is_nameless {
        answer.append_pair("iss", answers.named.as_deref().unwrap_or(&own));
    }
    if let Some((word, sentence)) = &answers.error {
        answer
            .append_pair("error", word)
            .append_pair("error_description", sentence);
    } else {
        endpoint.number += 1;
        let code = format!("authorization-code-of-the-issuer-{:06}", endpoint.number);
        crate::secrets::note("a code of the issuer", &code);
        answer.append_pair("code", &code);
        let asked = Code {
            client: field("client_id"),
            redirect: field("redirect_uri"),
            challenge: field("code_challenge"),
            nonce: field("nonce"),
        };
        endpoint.codes.insert(code, asked);
    }
    drop(answer);
    Some(place.into())
}

/// The answer to a code, as status and body.
pub(super) fn redeem(shared: &Shared, form: &HashMap<String, String>, is_client: bool) -> (u16, Value) {
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let mut state = shared.state();
    if !is_client {
        state.endpoint.grants.refused += 1;
        return (401, json!({"error": "invalid_client"}));
    }
    let code = state.endpoint.codes.remove(field("code"));
    let challenge = encoded(digest(&SHA256, field("code_verifier").as_bytes()).as_ref());
    let fits = |code: &Code| code.redirect == field("redirect_uri") && code.challenge == challenge;
    let Some(code) = code.filter(fits) else {
        state.endpoint.grants.refused += 1;
        return (400, json!({"error": "invalid_grant"}));
    };
    state.endpoint.grants.signed_in += 1;
    let answers = state.endpoint.sign_in.clone();
    drop(state);
    let now = super::token::now_s();
    let mut claims = json!({"iss": shared.url(), "sub": "jane", "aud": code.client, "nonce": code.nonce,
        "iat": now, "exp": now + 300});
    if let Some(claims) = claims.as_object_mut() {
        claims.extend(answers.claims);
        claims.retain(|_, value| !value.is_null());
    }
    let token = TokenDraft::of(shared, claims).algorithm(answers.algorithm).mint();
    let access = TokenDraft::of(shared, super::token::claims(&shared.url())).mint();
    (
        200,
        json!({"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": token}),
    )
}
