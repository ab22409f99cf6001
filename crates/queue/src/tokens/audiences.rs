//! Whether the token of a file is for its storage, by the audiences that it names.

use types::{Location, Secret, Side};

use super::facts::TokenFacts;

/// The audience for all servers (WLCG profile 1.0 §Audience).
const ANY: &str = "https://wlcg.cern.ch/jwt/v1/any";
/// Most audiences that a sentence names.
const NAMED_MAX: usize = 4;

/// A sentence about a token all of whose audiences are other servers than that of `place`. `None`:
/// one of them is, or names no server, such as the name of a client or of a site.
pub(super) fn audience_gap(token: &Secret, place: &Location, side: Side) -> Option<String> {
    let facts = TokenFacts::of(token)?;
    let is_other = |audience: &String| host(audience).is_some_and(|host| !host.eq_ignore_ascii_case(place.host()));
    if facts.audiences.is_empty() || !facts.audiences.iter().all(is_other) {
        return None;
    }
    let named: Vec<&str> = facts.audiences.iter().take(NAMED_MAX).map(String::as_str).collect();
    Some(format!(
        "the token for the {} is for other servers (its audience is {}): {} may refuse it",
        side.name(),
        named.join(", "),
        place.host()
    ))
}

/// The host that an audience names: a URL, or a name with dots and perhaps a port.
fn host(audience: &str) -> Option<&str> {
    if audience == ANY {
        return None;
    }
    let (is_url, rest) = match audience.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, audience),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let is_plain = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte));
    let is_name = is_url || !host.contains(':') && host.trim_matches('.').contains('.');
    (!host.is_empty() && is_plain && is_name).then_some(host)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    fn gap(audience: Value) -> Option<String> {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let claims = json!({"iss": "https://i", "aud": audience}).to_string();
        let head = part("{\"alg\": \"RS256\"}");
        let token = Secret::new(format!("{head}.{}.{}", part(&claims), part("signature")));
        let place = Location::parse("davs://a.example.org:443/vo/f").unwrap();
        audience_gap(&token, &place, Side::Source)
    }

    #[test]
    fn a_token_for_other_servers_is_named_and_one_that_may_fit_is_not() {
        assert_eq!(
            gap(json!(["https://b.example.org", "c.example.org:1094"])).as_deref(),
            Some(
                "the token for the source is for other servers (its audience is c.example.org:1094, \
                 https://b.example.org): a.example.org may refuse it"
            )
        );
        for fits in [
            json!("https://A.example.org:443/vo"),
            json!(["https://b.example.org", "a.example.org"]),
            json!(["https://b.example.org", ANY]),
            json!("ANY"),
            json!("fts-client"),
            json!("0f3d2a5c-5f6c-5d0e-9c1b-0b6a8f4f3a01"),
            json!("urn:site:one.two"),
            Value::Null,
        ] {
            assert_eq!(gap(fits.clone()), None, "{fits}");
        }
    }
}
