//! The token endpoint of the issuer: refresh (RFC 6749 §6), exchange (RFC 8693) and device codes
//! (RFC 8628), to which the user agrees after the first question. A refresh token is good for one
//! use, and its answer has the next one.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::sign_in::{Code, SignInAnswers};
use super::{Shared, TokenDraft};

/// The client that may renew tokens, and its secret.
pub const TOKEN_CLIENT: (&str, &str) = ("crossload-queue", "a-secret-of-the-queue");

/// A client without a secret, which may ask for device codes.
pub const PUBLIC_CLIENT: &str = "crossload-cli";

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// What became of requests for tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Tokens that were exchanged for a refresh token.
    pub exchanged: usize,
    /// Device codes that became tokens.
    pub agreed: usize,
    /// Codes of browsers that became tokens.
    pub signed_in: usize,
    /// Refresh tokens that were used.
    pub refreshed: usize,
    /// Refresh tokens that were revoked while they were valid.
    pub revoked: usize,
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
    /// What it answers to all forms, if that is not its own.
    pub(super) answer: Option<Value>,
    /// Claims of the access tokens that a refresh token gives.
    refresh: HashMap<String, Value>,
    /// Device codes with the claims of their tokens, and whether they were asked about.
    devices: HashMap<String, (Value, bool)>,
    /// Codes with which browsers were sent back.
    pub(super) codes: HashMap<String, Code>,
    /// How those who sign in are answered.
    pub(super) sign_in: SignInAnswers,
    pub(super) number: usize,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            grants: Grants::default(),
            life_s: 3600,
            answered_life_s: None,
            loses_answer: false,
            answer: None,
            refresh: HashMap::new(),
            devices: HashMap::new(),
            codes: HashMap::new(),
            sign_in: SignInAnswers::default(),
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
    if let Some(answer) = &endpoint.answer {
        return Some((200, answer.clone()));
    }
    if field("grant_type") == "authorization_code" {
        drop(state);
        return Some(super::sign_in::redeem(shared, form, is_client));
    }
    if field("grant_type") == DEVICE && endpoint.is_pending(field("device_code")) {
        return Some((400, json!({"error": "authorization_pending"})));
    }
    let claims = match field("grant_type") {
        _ if !is_client => None,
        DEVICE => endpoint.devices.remove(field("device_code")).map(|(claims, _)| claims),
        "refresh_token" => endpoint.refresh.remove(field("refresh_token")),
        _ => claims_of(field("subject_token")),
    };
    let Some(mut claims) = claims else {
        endpoint.grants.refused += 1;
        let word = if is_client { "invalid_grant" } else { "invalid_client" };
        return Some((if is_client { 400 } else { 401 }, json!({"error": word})));
    };
    match field("grant_type") {
        DEVICE => endpoint.grants.agreed += 1,
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
    // Without a wish the scopes stay as they were granted (RFC 6749 §6).
    if !field("scope").is_empty() {
        claims["scope"] = field("scope").replace("offline_access", "").trim().into();
    }
    let token = TokenDraft::of(shared, claims)
        .lifetime_s(life_s)
        .claim("jti", format!("renewed-{number}"))
        .mint();
    let answer = json!({"access_token": token, "token_type": "Bearer", "expires_in": answered_life_s,
        "refresh_token": refresh, "scope": field("scope")});
    (!is_lost).then_some((200, answer))
}

/// Takes a refresh token back (RFC 7009 §2), for a client that is known; the status.
pub(super) fn revoke(shared: &Shared, form: &HashMap<String, String>, is_client: bool) -> u16 {
    let mut state = shared.state();
    let endpoint = &mut state.endpoint;
    if !is_client {
        endpoint.grants.refused += 1;
        return 401;
    }
    let token = form.get("token").map(String::as_str).unwrap_or_default();
    endpoint.grants.revoked += usize::from(endpoint.refresh.remove(token).is_some());
    200
}

/// The answer to a form at the device authorization endpoint (RFC 8628 §3.2).
pub(super) fn device(shared: &Shared, form: &HashMap<String, String>) -> Value {
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let mut claims = super::token::claims(&shared.url());
    claims["scope"] = field("scope").replace("offline_access", "").trim().into();
    if !field("audience").is_empty() {
        claims["aud"] = field("audience").into();
    }
    let page = format!("{}/device", shared.url());
    let mut state = shared.state();
    let endpoint = &mut state.endpoint;
    if let Some(answer) = &endpoint.answer {
        return answer.clone();
    }
    endpoint.number += 1;
    let code = format!("device-code-of-the-issuer-{:06}", endpoint.number);
    crate::secrets::note("a device code of the issuer", &code);
    endpoint.devices.insert(code.clone(), (claims, false));
    json!({"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code=ABCD-EFGH"), "expires_in": 600, "interval": 1})
}

impl Endpoint {
    /// Whether this is the first question about a device code.
    fn is_pending(&mut self, code: &str) -> bool {
        let known = self.devices.get_mut(code);
        known.is_some_and(|(_, was_asked)| !std::mem::replace(was_asked, true))
    }
}

/// The claims of a token that has not expired.
fn claims_of(token: &str) -> Option<Value> {
    use base64::Engine as _;
    let body = token.split('.').nth(1)?;
    let body = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(body).ok()?;
    let claims: Value = serde_json::from_slice(&body).ok()?;
    (claims["exp"].as_i64()? > super::token::now_s()).then_some(claims)
}
