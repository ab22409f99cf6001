//! Tokens, sound ones and all others.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::keys::encoded;
use super::{Shared, TokenIssuer};

/// How a token is signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// RSA with SHA-256.
    #[default]
    Rs256,
    /// P-256 with SHA-256.
    Es256,
    /// RSA with SHA-384: genuine, but not of the profiles.
    Rs384,
    /// Not at all.
    None,
    /// HMAC, with the public RSA key as the secret: everybody could do that.
    Hs256WithPublicKey,
}

impl TokenAlgorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Rs384 => "RS384",
            Self::None => "none",
            Self::Hs256WithPublicKey => "HS256",
        }
    }
}

/// A token that is not signed yet.
#[derive(Debug, Clone)]
pub struct TokenDraft<'a> {
    shared: &'a Shared,
    algorithm: TokenAlgorithm,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl<'a> TokenDraft<'a> {
    pub(super) fn new(issuer: &'a TokenIssuer) -> Self {
        Self::of(&issuer.shared, claims(&issuer.url()))
    }

    /// With these claims, signed by the issuer with this state.
    pub(super) fn of(shared: &'a Shared, claims: Value) -> Self {
        Self {
            shared,
            algorithm: TokenAlgorithm::default(),
            header: Map::from_iter([("typ".to_owned(), "JWT".into())]),
            claims: claims.as_object().cloned().unwrap_or_default(),
        }
    }

    /// Without any claim that only the WLCG profile has: a SciToken of version 2, for every
    /// audience.
    #[must_use]
    pub fn scitoken(self) -> Self {
        self.without("wlcg.ver")
            .claim("ver", "scitoken:2.0")
            .claim("aud", "ANY")
    }

    /// With this claim, in place of what it was.
    #[must_use]
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.claims.insert(name.to_owned(), value.into());
        self
    }

    /// Without this claim.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.claims.remove(name);
        self
    }

    /// With these scopes, separated by blanks.
    #[must_use]
    pub fn scope(self, scopes: &str) -> Self {
        self.claim("scope", scopes)
    }

    /// For this audience.
    #[must_use]
    pub fn audience(self, audience: &str) -> Self {
        self.claim("aud", audience)
    }

    /// With these groups (`wlcg.groups`).
    #[must_use]
    pub fn groups(self, groups: &[&str]) -> Self {
        self.claim("wlcg.groups", groups.to_vec())
    }

    /// Good for so many seconds from now; a negative number makes one that has expired.
    #[must_use]
    pub fn lifetime_s(self, seconds: i64) -> Self {
        self.claim("exp", now_s() + seconds)
    }

    /// With this entry in its header, in place of what it would be.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.header.insert(name.to_owned(), value.into());
        self
    }

    /// Signed so.
    #[must_use]
    pub fn algorithm(mut self, algorithm: TokenAlgorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Signs it: the token in compact form (RFC 7515 §3.1).
    #[must_use]
    pub fn mint(&self) -> String {
        let keys = self.shared.keys();
        let mut header = self.header.clone();
        header.entry("alg").or_insert_with(|| self.algorithm.name().into());
        header
            .entry("kid")
            .or_insert_with(|| keys.key_name(self.algorithm).into());
        header.retain(|_, value| !value.is_null());
        let parts = [header, self.claims.clone()].map(|part| encoded(Value::Object(part).to_string().as_bytes()));
        let message = parts.join(".");
        let signature = keys.sign(self.algorithm, message.as_bytes());
        let token = format!("{message}.{}", encoded(&signature));
        crate::secrets::note("a token of the issuer", &token);
        token
    }
}

/// The claims of a token of the WLCG profile without scopes.
pub(super) fn claims(issuer: &str) -> Value {
    let now = now_s();
    json!({
        "iss": issuer,
        "sub": "11111111-2222-3333-4444-555555555555",
        "aud": "https://wlcg.cern.ch/jwt/v1/any",
        "iat": now,
        "nbf": now,
        "exp": now + 3600,
        "jti": format!("t-{now}"),
        "wlcg.ver": "1.0",
    })
}

pub(super) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
