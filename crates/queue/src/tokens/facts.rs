//! What a token says of itself, and the name of what it is renewed with.

use aws_lc_rs::digest::{Context, SHA256};
use catalog::{Login, Owner};
use credentials::UnverifiedToken;
use serde_json::Value;
use types::Secret;

use crate::clock::milliseconds;
use crate::limits::TOKEN_LEFT_MIN;

/// Scopes that a storage understands (WLCG profile 1.2 §Scope-based attributes). Only these are
/// asked for, with their paths, so that a renewed token allows nothing more than the given one.
const STORAGE_SCOPES: &str = "storage.";
/// The scope for a refresh token (OpenID Connect Core §11).
const OFFLINE: &str = "offline_access";

/// What a token says. Nothing of it is verified here: the issuer does that when it renews it, and
/// the storage when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenFacts {
    pub(super) issuer: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    pub(super) audiences: Vec<String>,
    /// When it ends, in milliseconds since 1970.
    pub(super) expires_ms: Option<i64>,
}

impl TokenFacts {
    /// Reads a JSON Web Token; `None` for any other.
    pub(super) fn of(token: &Secret) -> Option<Self> {
        let token = UnverifiedToken::parse(token.expose()).ok()?;
        let claims = token.claims();
        let mut scopes = words(claims.get("scope"));
        if scopes.iter().any(|scope| scope.starts_with(STORAGE_SCOPES)) {
            scopes.retain(|scope| scope.starts_with(STORAGE_SCOPES));
        }
        scopes.retain(|scope| scope != OFFLINE);
        Some(Self {
            issuer: token.issuer().to_owned(),
            subject: claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned(),
            scopes,
            audiences: words(claims.get("aud")),
            expires_ms: claims
                .get("exp")
                .and_then(seconds)
                .map(|end_s| end_s.saturating_mul(1000)),
        })
    }

    /// Whether a copy that begins now can use it: it lasts for [`TOKEN_LEFT_MIN`], or has ended, so
    /// that nothing renews it any more, or does not say.
    pub(super) fn is_usable(&self, now_ms: i64) -> bool {
        let soon_ms = now_ms.saturating_add(milliseconds(TOKEN_LEFT_MIN));
        !self
            .expires_ms
            .is_some_and(|end_ms| end_ms > now_ms && end_ms <= soon_ms)
    }

    /// The name of the grant that renews it. All tokens of one user, issuer, subject, scope and
    /// audience share it. The user is part of it because the claims are not verified: no user gets
    /// at another user's tokens with made-up claims.
    pub(super) fn grant(&self, owner: &Owner) -> String {
        let login = match owner.login {
            Login::Certificate => "certificate",
            Login::Token => "token",
            Login::Anonymous => "anonymous",
        };
        let mut hash = Context::new(&SHA256);
        let (scopes, audiences) = (self.scopes.join(" "), self.audiences.join(" "));
        for part in [
            login,
            &owner.user,
            &owner.delegation_id,
            &self.issuer,
            &self.subject,
            &scopes,
            &audiences,
        ] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finish();
        digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Words of a text or of a list, sorted, each once.
fn words(value: Option<&Value>) -> Vec<String> {
    let mut words: Vec<String> = match value {
        Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    words.sort();
    words.dedup();
    words
}

/// A time may be written with a fraction (RFC 7519 §2).
fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(claims: &Value) -> Secret {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Secret::new(format!(
            "{}.{}.{}",
            part("{\"alg\": \"RS256\"}"),
            part(&claims.to_string()),
            part("signature")
        ))
    }

    fn owner(user: &str) -> Owner {
        Owner {
            user: user.to_owned(),
            delegation_id: "1".to_owned(),
            vo: "vo".to_owned(),
            login: Login::Token,
        }
    }

    #[test]
    fn the_order_of_scopes_does_not_count_and_only_those_of_storages_are_asked_for() {
        let read = |scope: &str, aud: Value| {
            let claims = serde_json::json!({"iss": "https://i", "sub": "s", "scope": scope, "aud": aud, "exp": 5.5});
            TokenFacts::of(&token(&claims)).unwrap()
        };
        let one = read("storage.read:/a openid offline_access storage.modify:/b", "x y".into());
        let other = read("storage.modify:/b storage.read:/a fts", serde_json::json!(["y", "x"]));
        assert_eq!(one.scopes, ["storage.modify:/b", "storage.read:/a"]);
        assert_eq!(one.expires_ms, Some(5000));
        assert_eq!(one.grant(&owner("jane")), other.grant(&owner("jane")));
        assert_ne!(one.grant(&owner("jane")), one.grant(&owner("john")));
        let narrower = read("storage.read:/a/b", "x".into());
        assert_ne!(one.grant(&owner("jane")), narrower.grant(&owner("jane")));
        assert_eq!(read("fts offline_access", "x".into()).scopes, ["fts"]);
        assert!(TokenFacts::of(&Secret::new("MDAxxx")).is_none());
    }
}
