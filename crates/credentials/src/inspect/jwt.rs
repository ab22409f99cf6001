//! What a JSON Web Token says (RFC 7519; WLCG Common JWT Profiles 1.3; SciTokens).

use serde_json::{Map, Value};

use super::scope::{is_capability, meaning_of};
use super::{Inspection, TokenKind, time_in_words};
use crate::duration::duration_in_words;
use crate::macaroon::decode_base64;
use crate::token::{ANY_AUDIENCE, Profile, SCITOKENS_ANY_AUDIENCE, is_access_token};

/// Difference of clocks that servers put up with, in seconds (WLCG Common JWT Profiles).
const SKEW_S: i64 = 60;
/// Longest lifetime that the WLCG profile recommends for an access token, in seconds.
const LIFETIME_S_MAX: i64 = 6 * 3600;
/// Audiences that mean every server.
const ANYBODY: [&str; 2] = [ANY_AUDIENCE, SCITOKENS_ANY_AUDIENCE];
/// Claims that have a line of their own.
const SHOWN_APART: [&str; 12] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "scope",
    "scp",
    "wlcg.ver",
    "wlcg.groups",
    "ver",
];

pub(super) fn inspect(token: &str, now_s: i64) -> Inspection {
    let mut parts = token.split('.');
    let mut object = || parts.next().and_then(decode_base64).and_then(|json| read_object(&json));
    let (Some(header), Some(claims)) = (object(), object()) else {
        let words = "it has the two dots of a JSON Web Token, but its parts are not JSON objects in base64";
        return Inspection::unknown(words, now_s);
    };
    let mut inspection = Inspection::new(TokenKind::Jwt, now_s);
    let typed = header.get("typ").and_then(Value::as_str).is_some_and(is_access_token);
    let profile = Profile::of(&claims, typed);
    inspection.fact("read as", profile.name());
    tell_header(&mut inspection, &header);
    tell_identity(&mut inspection, &claims, profile);
    tell_times(&mut inspection, &claims);
    tell_rights(&mut inspection, &claims, profile);
    for (name, value) in claims.iter().filter(|(name, _)| !SHOWN_APART.contains(&name.as_str())) {
        inspection.fact(name, text_of(value));
    }
    if parts.next().is_none_or(str::is_empty) {
        inspection.warn("it is not signed: every server refuses it");
    }
    inspection.claims = Some(claims);
    inspection
}

fn read_object(json: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

fn tell_header(inspection: &mut Inspection, header: &Map<String, Value>) {
    for (name, label) in [("alg", "algorithm"), ("kid", "key"), ("typ", "type")] {
        if let Some(value) = header.get(name) {
            inspection.fact(label, text_of(value));
        }
    }
    match header.get("alg").and_then(Value::as_str) {
        Some("RS256" | "ES256") => {}
        Some(name) if name.eq_ignore_ascii_case("none") => {
            inspection.warn("its algorithm is \"none\": it is not signed, and every server refuses it");
        }
        Some(name) if name.starts_with("HS") => {
            inspection.warn("its algorithm takes a shared secret, which servers refuse");
        }
        Some(_) => inspection.warn("storage servers take RS256 and ES256, not every one another algorithm"),
        None => inspection.warn("its header names no algorithm"),
    }
    if !header.contains_key("kid") {
        inspection
            .warn("its header does not say with which key it is signed; that works only while the issuer has one key");
    }
}

fn tell_identity(inspection: &mut Inspection, claims: &Map<String, Value>, profile: Profile) {
    let own = [("iss", "issuer"), ("sub", "subject"), ("jti", "identifier")];
    let versions = [("wlcg.ver", "WLCG version"), ("ver", "version")];
    for (name, label) in own.into_iter().chain(versions) {
        if let Some(value) = claims.get(name) {
            inspection.fact(label, text_of(value));
        }
    }
    if claims.get("iss").and_then(Value::as_str).is_none() {
        inspection.warn("it names no issuer: every server refuses it");
    }
    let audiences = words_in(claims.get("aud"), false);
    if audiences.is_empty() {
        if profile != Profile::SciTokens1 {
            inspection.warn("it names no audience: servers refuse it");
        }
    } else {
        inspection.fact("audience", audiences.join(", "));
    }
    if audiences.iter().any(|audience| ANYBODY.contains(&audience.as_str())) {
        inspection.warn("every server is its audience: any server that receives it can use it elsewhere");
    }
    if let Some(version) = claims.get("wlcg.ver").and_then(Value::as_str)
        && !version.starts_with("1.")
    {
        inspection.warn("its WLCG version is not 1: servers refuse it");
    }
}

fn tell_times(inspection: &mut Inspection, claims: &Map<String, Value>) {
    let now_s = inspection.now_s;
    let time_s = |name: &str| claims.get(name).and_then(whole_seconds);
    let (issued_s, from_s, expires_s) = (time_s("iat"), time_s("nbf"), time_s("exp"));
    for (label, time_s) in [("issued", issued_s), ("valid from", from_s), ("expires", expires_s)] {
        if let Some(time_s) = time_s {
            inspection.fact(label, time_in_words(time_s, now_s));
        }
    }
    inspection.expires_s = expires_s;
    match expires_s {
        Some(expires_s) if expires_s <= now_s => {
            inspection.warn(format!(
                "it expired {} ago",
                duration_in_words(now_s.abs_diff(expires_s))
            ));
        }
        Some(_) => {}
        None => inspection.warn("it has no time of expiry: servers refuse it"),
    }
    let starts_s = from_s
        .max(issued_s)
        .filter(|start_s| *start_s > now_s.saturating_add(SKEW_S));
    if let Some(starts_s) = starts_s {
        let words = duration_in_words(starts_s.abs_diff(now_s));
        inspection.warn(format!(
            "it is not valid yet, only in {words}; or this machine's clock is wrong"
        ));
    }
    if let (Some(issued_s), Some(expires_s)) = (issued_s, expires_s)
        && expires_s.saturating_sub(issued_s) > LIFETIME_S_MAX
    {
        inspection.warn("it lives longer than 6 h, the most that WLCG recommends");
    }
}

fn tell_rights(inspection: &mut Inspection, claims: &Map<String, Value>, profile: Profile) {
    let mut scopes = words_in(claims.get("scope"), true);
    scopes.extend(words_in(claims.get("scp"), true));
    for scope in &scopes {
        let (meaning, is_known) = meaning_of(scope, profile);
        inspection.part(scope, meaning, is_known);
    }
    let groups = words_in(claims.get("wlcg.groups"), false);
    if !groups.is_empty() {
        inspection.fact("groups", groups.join(", "));
        if scopes.iter().any(|scope| is_capability(scope)) {
            inspection.warn("its scopes give rights, so that its groups do not count (WLCG)");
        }
    }
    if scopes.is_empty() && groups.is_empty() {
        inspection.warn("it has neither scopes nor groups: it can only say who the bearer is");
    }
}

/// A text or a list of texts; a text is divided at blanks where it is a list written as one.
fn words_in(value: Option<&Value>, divided: bool) -> Vec<String> {
    match value {
        Some(Value::String(text)) if divided => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// A time in seconds since 1970; a fraction is dropped (RFC 7519 §2, NumericDate).
fn whole_seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
