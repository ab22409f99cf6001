//! The token endpoint of the issuer: refresh (RFC 6749 §6) and exchange (RFC 8693). A refresh
//! token is good for one use, and its answer has the next one.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Shared, TokenDraft};

/// The client that may renew tokens, and its secret.
pub const TOKEN_CLIENT: (&str, &str) = ("crossload-queue", "a-secret-of-the-queue");

/// What became of requests for tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Tokens that were exchanged for a refresh token.
    pub exchanged: usize,
    /// Refresh tokens that were used.
    pub refreshed: usize,
    /// Requests that were refused.
    pub refused: usize,
    /// The form of the latest request, without its tokens.
    pub latest: Vec<String>,
}

/// The state of the endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) grants: Grants,
    pub(super) life_s: i64,
    /// `expires_in` of the answers, if it is not that.
    pub(super) answered_life_s: Option<i64>,
    pub(super) loses_answer: bool,
    /// Claims of the access tokens that a refresh token gives.
    refresh: HashMap<String, Value>,
    number: usize,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            grants: Grants::default(),
            life_s: 3600,
            answered_life_s: None,
            loses_answer: false,
            refresh: HashMap::new(),
            number: 0,
        }
    }
}

/// The answer to a form, as status and body; `None`: it is lost.
pub(super) fn answer(shared: &Shared, form: &HashMap<String, String>, is_client: bool) -> Option<(u16, Value)> {
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let mut state = shared.state();
    let endpoint = &mut state.endpoint;
    let shown = form.iter().filter(|(name, _)| !name.ends_with("_token"));
    endpoint.grants.latest = shown.map(|(name, value)| format!("{name}={value}")).collect();
    endpoint.grants.latest.sort();
    let claims = match field("grant_type") {
        _ if !is_client => None,
        "refresh_token" => endpoint.refresh.remove(field("refresh_token")),
        _ => claims_of(field("subject_token")),
    };
    let Some(mut claims) = claims else {
        endpoint.grants.refused += 1;
        let word = if is_client { "invalid_grant" } else { "invalid_client" };
        return Some((if is_client { 400 } else { 401 }, json!({"error": word})));
    };
    match field("grant_type") {
        "refresh_token" => endpoint.grants.refreshed += 1,
        _ => endpoint.grants.exchanged += 1,
    }
    endpoint.number += 1;
    let refresh = format!("refresh-token-of-the-issuer-{:06}", endpoint.number);
    crate::secrets::note("a refresh token of the issuer", &refresh);
    endpoint.refresh.insert(refresh.clone(), claims.clone());
    let (life_s, number) = (endpoint.life_s, endpoint.number);
    let answered_life_s = endpoint.answered_life_s.unwrap_or(life_s);
    let is_lost = std::mem::take(&mut endpoint.loses_answer);
    drop(state);
    claims["scope"] = field("scope").replace("offline_access", "").trim().into();
    let token = TokenDraft::of(shared, claims)
        .lifetime_s(life_s)
        .claim("jti", format!("renewed-{number}"))
        .mint();
    let answer = json!({"access_token": token, "token_type": "Bearer", "expires_in": answered_life_s,
        "refresh_token": refresh, "scope": field("scope")});
    (!is_lost).then_some((200, answer))
}

/// The claims of a token that has not expired.
fn claims_of(token: &str) -> Option<Value> {
    use base64::Engine as _;
    let body = token.split('.').nth(1)?;
    let body = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(body).ok()?;
    let claims: Value = serde_json::from_slice(&body).ok()?;
    (claims["exp"].as_i64()? > super::token::now_s()).then_some(claims)
}
