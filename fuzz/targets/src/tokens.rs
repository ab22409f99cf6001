//! Targets for JSON Web Tokens, the keys of their issuers, and the files that say what they are
//! worth.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::limits::{GRANT_SCOPES_MAX, ISSUER_KEYS_MAX, TOKEN_BYTES_MAX, TOKEN_GROUPS_MAX};
use credentials::{
    IssuerRules, KeySet, NameMap, SciTokensConfig, TokenRules, UnverifiedToken, inspect, is_user_name, key_set_place,
};
use serde_json::json;
use types::LogicalPath;

/// Pieces of the claims of a token.
pub(crate) const CLAIM_WORDS: &[&str] = &[
    "{\"iss\":\"https://i\"",
    ",\"sub\":\"s\"",
    ",\"aud\":\"https://se\"",
    ",\"aud\":[\"ANY\",",
    ",\"exp\":4000000000",
    ",\"iat\":1",
    ",\"nbf\":1",
    ",\"jti\":\"j\"",
    ",\"wlcg.ver\":\"1.0\"",
    ",\"ver\":\"scitoken:2.0\"",
    ",\"scope\":\"storage.read:/",
    "storage.modify:/a",
    "read:/",
    " ",
    "%2e",
    "%2f",
    "..",
    ",\"wlcg.groups\":[\"/a\"]",
    "\"",
    "}",
    "1e300",
];

/// Pieces of a token in compact form.
pub(crate) const TOKEN_WORDS: &[&str] = &[
    "eyJhbGciOiJSUzI1NiJ9",
    "eyJpc3MiOiJpIn0",
    ".",
    "e30",
    "eyJhbGciOiJub25lIn0",
    "Bearer ",
    "=",
];

/// Pieces of a key set.
pub(crate) const KEY_WORDS: &[&str] = &[
    "{\"keys\":[",
    "]}",
    "{\"kty\":\"RSA\"",
    "{\"kty\":\"EC\",\"crv\":\"P-256\"",
    ",\"kid\":\"k\"",
    ",\"n\":\"",
    ",\"e\":\"AQAB\"",
    ",\"x\":\"",
    ",\"y\":\"",
    ",\"use\":\"sig\"",
    ",\"alg\":\"RS256\"",
    "}",
    ",",
];

/// Pieces of what an issuer says of itself.
pub(crate) const DOCUMENT_WORDS: &[&str] = &[
    "{\"issuer\":\"https://i/\"",
    ",\"jwks_uri\":\"https://",
    "http://",
    "https://u@h:1/",
    "[[[[",
    "\"",
    "}",
];

/// Pieces of `scitokens.cfg` and of a file that maps names.
pub(crate) const FILE_WORDS: &[&str] = &[
    "[Global]\n",
    "[Issuer a]\n",
    "issuer = https://i\n",
    "base_path = /a, /b\n",
    "restricted_path = /c\n",
    "audience_json = [\"a\"]\n",
    "authorization_strategy = capability\n",
    "[{\"sub\":\"a\",",
    "\"group\":\"/a\",",
    "\"result\":\"u\"}]",
];

/// A token of sound form names an issuer and is not believed without a key; whatever it is, it can
/// be looked into.
pub(crate) fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = inspect(text, 0).to_string();
    match UnverifiedToken::parse(text) {
        Ok(token) => {
            assert!(!token.issuer().is_empty() && text.len() <= TOKEN_BYTES_MAX);
            assert!(token.check_signature(&KeySet::default()).is_err());
        }
        Err(error) => assert!(error.code().name().starts_with("token_"), "{error}"),
    }
}

/// Whatever the claims say, what they grant lies below the issuer's base path.
pub(crate) fn token_claims(data: &[u8]) {
    let text = format!("eyJhbGciOiJSUzI1NiJ9.{}.YQ", URL_SAFE_NO_PAD.encode(data));
    read_with_base(&text);
}

/// The same for any scope in a token that is sound otherwise.
pub(crate) fn token_scope(data: &[u8]) {
    let Ok(scope) = std::str::from_utf8(data) else { return };
    for version in [json!({"wlcg.ver": "1.0"}), json!({"ver": "scitoken:2.0"})] {
        let mut claims = json!({"iss": "https://i", "sub": "s", "aud": "https://se", "exp": 4_000_000_000_u64, "iat": 1,
            "nbf": 1, "jti": "j", "scope": scope});
        for (name, value) in version.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        token_claims(claims.to_string().as_bytes());
    }
}

fn read_with_base(text: &str) {
    let Ok(token) = UnverifiedToken::parse(text) else {
        return;
    };
    let Ok(base) = LogicalPath::parse("/base") else { return };
    let issuer = IssuerRules {
        base_paths: vec![base.clone()],
        map_subject: true,
        ..IssuerRules::new(token.issuer())
    };
    let rules = TokenRules {
        issuers: Vec::new(),
        audiences: vec!["https://se".to_owned()],
        skew_s: 60,
    };
    let Ok(verified) = token.read(&rules, &issuer, 1000) else {
        return;
    };
    assert!(verified.expires_s > 1000 && verified.not_before_s.is_none_or(|from_s| from_s <= 1000));
    assert!(verified.principal.groups.len() <= TOKEN_GROUPS_MAX);
    assert!(verified.principal.user.as_deref().is_none_or(is_user_name));
    if let Some(grant) = verified.grant {
        assert!(verified.principal.groups.is_empty(), "scopes make groups not count");
        assert!(grant.scopes.len() <= GRANT_SCOPES_MAX && grant.expires_s.is_some());
        assert!(grant.scopes.iter().all(|scope| scope.path.is_within(&base)));
    }
}

/// A key set that is accepted has keys, and not too many.
pub(crate) fn key_set(data: &[u8]) {
    if let Ok(keys) = KeySet::parse(data) {
        assert!((1..=ISSUER_KEYS_MAX).contains(&keys.count()));
    }
}

/// Keys are fetched over https only, and only where the issuer itself says.
pub(crate) fn issuer_document(data: &[u8]) {
    if let Ok(place) = key_set_place("https://i/", "https://i/d", data) {
        assert!(place.starts_with("https://"));
        let document: serde_json::Value = serde_json::from_slice(data).unwrap_or_default();
        assert_eq!(
            (document["issuer"].as_str(), document["jwks_uri"].as_str()),
            (Some("https://i/"), Some(&*place))
        );
    }
}

/// Issuers of an accepted file have base paths and are https URLs; a map gives sound names only.
pub(crate) fn token_files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(config) = SciTokensConfig::parse(text) {
        for (issuer, _) in config.issuers {
            assert!(issuer.url.starts_with("https://") && !issuer.base_paths.is_empty());
        }
    }
    if let Ok((map, _)) = NameMap::parse(text) {
        assert!(map.user(Some("a"), None, &["/a".to_owned()]).is_none_or(is_user_name));
    }
}
