//! Tokens as a whole: keys, signatures, claims, and what is made of them.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use types::LogicalPath;

use super::Strategy;
use super::*;
use crate::activity::{Activities, Activity};

const NOW_S: i64 = 1_800_000_000;
const ISSUER: &str = "https://issuer.example.org/";
const AUDIENCE: &str = "https://se.example.org";

struct Keys {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl Keys {
    fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    fn entries(&self) -> Vec<Value> {
        let point = self.ec.public_key().as_ref();
        vec![
            json!({"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256",
                "n": encoded(self.rsa.public_key().modulus().big_endian_without_leading_zero()),
                "e": encoded(self.rsa.public_key().exponent().big_endian_without_leading_zero())}),
            json!({"kty": "EC", "kid": "e", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..])}),
        ]
    }

    fn set(&self) -> KeySet {
        KeySet::parse(json!({"keys": self.entries()}).to_string().as_bytes()).unwrap()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!(
            "{}.{}",
            encoded(header.to_string().as_bytes()),
            encoded(claims.to_string().as_bytes())
        );
        let random = SystemRandom::new();
        let signature = if header["alg"] == "ES256" {
            self.ec.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec()
        } else {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa
                .sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
                .unwrap();
            signature
        };
        format!("{message}.{}", encoded(&signature))
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn claims(changes: &Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "iat": NOW_S, "nbf": NOW_S,
        "exp": NOW_S + 600, "jti": "t1", "wlcg.ver": "1.3"});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn rules() -> TokenRules {
    TokenRules {
        issuers: vec![IssuerRules {
            vo: Some("wlcg".to_owned()),
            ..IssuerRules::new(ISSUER)
        }],
        audiences: vec![AUDIENCE.to_owned()],
        skew_s: 60,
    }
}

/// Reads a token with these changes to a sound one, without its signature.
fn read_with(issuer: &IssuerRules, changes: &Value) -> Result<VerifiedToken, Error> {
    let header = encoded(br#"{"alg":"RS256"}"#);
    let text = format!("{header}.{}.YQ", encoded(claims(changes).to_string().as_bytes()));
    UnverifiedToken::parse(&text)?.read(&rules(), issuer, NOW_S)
}

fn read(changes: &Value) -> Result<VerifiedToken, Error> {
    read_with(&rules().issuers[0], changes)
}

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

#[test]
fn both_algorithms_verify_and_nothing_else_does() {
    let keys = Keys::new();
    let good = claims(&json!({"scope": "storage.read:/"}));
    let verify = |text: &str| {
        let token = UnverifiedToken::parse(text)?;
        verify_token(&token, &rules(), |_| Ok(Arc::new(keys.set())), NOW_S)
    };
    for header in [
        json!({"alg": "RS256", "kid": "r"}),
        json!({"alg": "ES256", "kid": "e"}),
        json!({"alg": "RS256"}),
    ] {
        let verified = verify(&keys.token(&header, &good)).unwrap();
        assert_eq!(verified.principal.subject.as_deref(), Some("ann"));
        assert_eq!(verified.principal.vos, ["wlcg"]);
    }
    let other = Keys::new();
    let sound = keys.token(&json!({"alg": "RS256", "kid": "r"}), &good);
    let (front, signature) = sound.rsplit_once('.').unwrap();
    let (header, _) = front.split_once('.').unwrap();
    let forged = claims(&json!({"scope": "storage.modify:/"})).to_string();
    let moved = format!("{header}.{}.{signature}", encoded(forged.as_bytes()));
    let strange = claims(&json!({"iss": "https://issuer.example.org"}));
    for (text, code) in [
        (
            other.token(&json!({"alg": "RS256", "kid": "r"}), &good),
            ErrorCode::TokenSignature,
        ),
        (moved, ErrorCode::TokenSignature),
        (format!("{front}."), ErrorCode::TokenSignature),
        (
            keys.token(&json!({"alg": "RS256", "kid": "x"}), &good),
            ErrorCode::TokenKeyUnknown,
        ),
        (
            keys.token(&json!({"alg": "RS256", "kid": "e"}), &good),
            ErrorCode::TokenAlgorithm,
        ),
        (
            keys.token(&json!({"alg": "ES256", "kid": "r"}), &good),
            ErrorCode::TokenAlgorithm,
        ),
        (
            keys.token(&json!({"alg": "HS256", "kid": "r"}), &good),
            ErrorCode::TokenAlgorithm,
        ),
        (keys.token(&json!({"alg": "none"}), &good), ErrorCode::TokenAlgorithm),
        (
            keys.token(&json!({"alg": "RS256", "kid": "r"}), &strange),
            ErrorCode::TokenIssuerUnknown,
        ),
    ] {
        let error = verify(&text).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

#[test]
fn a_key_set_gives_the_keys_that_can_be_used() {
    let keys = Keys::new();
    let mut entries = keys.entries();
    let short = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let modulus = short.public_key().modulus().big_endian_without_leading_zero();
    entries.extend([
        json!({"kty": "oct", "kid": "secret", "k": "AAAA"}),
        json!({"kty": "EC", "crv": "P-384", "kid": "c", "x": "AA", "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "kid": "d", "x": "AA", "y": "AA"}),
        json!({"kty": "RSA", "kid": "small", "n": encoded(&modulus[..128]), "e": "AQAB"}),
        json!({"kty": "RSA", "kid": "enc", "use": "enc", "n": encoded(modulus), "e": "AQAB"}),
        json!({"kty": "RSA", "kid": "pss", "alg": "PS256", "n": encoded(modulus), "e": "AQAB"}),
        json!({"kty": "RSA", "kid": "wrap", "key_ops": ["wrapKey"], "n": encoded(modulus), "e": "AQAB"}),
        json!({"kty": "RSA", "kid": 7, "n": encoded(modulus), "e": "AQAB"}),
        json!("key"),
    ]);
    let set = KeySet::parse(json!({"keys": entries}).to_string().as_bytes()).unwrap();
    assert_eq!((set.count(), set.passed_over().len()), (2, 9));
    assert_eq!(set.names().collect::<Vec<_>>(), ["r", "e"]);
    let many: Vec<Value> = (0..65).map(|_| keys.entries().remove(0)).collect();
    let large = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(300_000));
    for (text, words) in [
        (json!({"keys": many}).to_string(), "more than 64 keys"),
        (large, "larger than"),
        ("{}".to_owned(), "no list"),
        ("[]".to_owned(), "not a JSON object"),
        ("<html>".to_owned(), "not JSON"),
        (r#"{"keys":[]}"#.to_owned(), "empty"),
        (r#"{"keys":[{"kty":"oct"}]}"#.to_owned(), "of a kind"),
    ] {
        let error = KeySet::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::TokenIssuerUnreachable);
        assert!(error.public().contains(words), "{error}");
    }
    // With two keys for its algorithm a token must say which.
    let mut two = keys.entries();
    two.push(json!({"kty": "RSA", "kid": "s", "n": encoded(modulus), "e": "AQAB"}));
    let set = KeySet::parse(json!({"keys": two}).to_string().as_bytes()).unwrap();
    let token = UnverifiedToken::parse(&keys.token(&json!({"alg": "RS256"}), &claims(&json!({})))).unwrap();
    assert_eq!(
        token.check_signature(&set).unwrap_err().code(),
        ErrorCode::TokenKeyUnknown
    );
}

#[test]
fn each_claim_that_is_wrong_has_its_code() {
    for (changes, code) in [
        (json!({"wlcg.ver": "2.0"}), ErrorCode::TokenProfile),
        (json!({"sub": null}), ErrorCode::TokenClaims),
        (json!({"jti": null}), ErrorCode::TokenClaims),
        (json!({"iat": null}), ErrorCode::TokenClaims),
        (json!({"exp": null}), ErrorCode::TokenClaims),
        (json!({"aud": null}), ErrorCode::TokenClaims),
        (json!({"exp": "soon"}), ErrorCode::TokenClaims),
        (json!({"sub": 7}), ErrorCode::TokenClaims),
        (json!({"scope": {"a": 1}}), ErrorCode::TokenClaims),
        (json!({"exp": NOW_S}), ErrorCode::TokenExpired),
        (json!({"exp": NOW_S - 1}), ErrorCode::TokenExpired),
        (json!({"exp": -1e300}), ErrorCode::TokenExpired),
        (json!({"nbf": NOW_S + 61}), ErrorCode::TokenNotYetValid),
        (json!({"iat": NOW_S + 61}), ErrorCode::TokenNotYetValid),
        (json!({"aud": "https://se.example.org/"}), ErrorCode::TokenAudience),
        (
            json!({"aud": ["https://SE.example.org", "x"]}),
            ErrorCode::TokenAudience,
        ),
        (json!({"aud": []}), ErrorCode::TokenAudience),
        (json!({"aud": "ANY"}), ErrorCode::TokenAudience),
        (json!({"aud": [7]}), ErrorCode::TokenClaims),
        (json!({"aud": vec!["x"; 100]}), ErrorCode::TokenTooLarge),
        (json!({"scope": "storage.read"}), ErrorCode::TokenScope),
        (json!({"scope": "openid storage.read:/a/../b"}), ErrorCode::TokenScope),
        (json!({"scope": "s ".repeat(300)}), ErrorCode::TokenTooLarge),
    ] {
        let error = read(&changes).unwrap_err();
        assert_eq!(error.code(), code, "{changes}: {error}");
    }
    for changes in [
        json!({"nbf": NOW_S + 60, "iat": NOW_S + 60}),
        json!({"nbf": null}),
        json!({"exp": NOW_S + 1}),
        json!({"exp": NOW_S as f64 + 1.9}),
        json!({"aud": ["x", AUDIENCE]}),
        json!({"aud": "https://wlcg.cern.ch/jwt/v1/any"}),
        json!({"scope": "openid"}),
    ] {
        assert!(read(&changes).is_ok(), "{changes}");
    }
}

#[test]
fn scitokens_and_access_tokens_keep_to_their_own_profiles() {
    let scitoken2 = |more: Value| {
        let mut changes = json!({"wlcg.ver": null, "ver": "scitoken:2.0", "jti": null, "sub": null});
        changes
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        read(&changes)
    };
    let verified = scitoken2(json!({"aud": "ANY", "scope": "read:/a write"})).unwrap();
    let grant = verified.grant.unwrap();
    assert_eq!(grant.scopes.len(), 2);
    assert!(
        grant
            .activities_on(&path("/b"))
            .contains(Activities::of(&[Activity::Delete]))
    );
    assert_eq!(
        scitoken2(json!({"nbf": null})).unwrap_err().code(),
        ErrorCode::TokenClaims
    );
    assert_eq!(
        scitoken2(json!({"aud": null})).unwrap_err().code(),
        ErrorCode::TokenClaims
    );
    let any = json!({"aud": "https://wlcg.cern.ch/jwt/v1/any"});
    assert_eq!(scitoken2(any).unwrap_err().code(), ErrorCode::TokenAudience);

    let plain = |more: Value| {
        let mut changes = json!({"wlcg.ver": null, "jti": null, "iat": null, "nbf": null, "aud": null});
        changes
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        read(&changes)
    };
    assert!(plain(json!({"scope": "read:/a"})).unwrap().grant.is_some());
    assert!(plain(json!({"scp": ["read:/a"]})).unwrap().grant.is_some());
    assert_eq!(
        plain(json!({"scope": "read:/a", "max": 1})).unwrap_err().code(),
        ErrorCode::TokenProfile
    );
    assert_eq!(
        plain(json!({"scope": "read:/a", "aud": "ANY"})).unwrap_err().code(),
        ErrorCode::TokenAudience
    );
    assert_eq!(
        plain(json!({"scope": "openid"})).unwrap_err().code(),
        ErrorCode::TokenAudience
    );
    assert!(
        plain(json!({"scope": "openid", "aud": AUDIENCE, "max": 1}))
            .unwrap()
            .grant
            .is_none()
    );
}

#[test]
fn groups_count_only_without_capabilities_and_where_the_site_wants_them() {
    let groups = json!(["/wlcg", "/wlcg/test"]);
    let of =
        |issuer: &IssuerRules, scope: &str| read_with(issuer, &json!({"wlcg.groups": groups, "scope": scope})).unwrap();
    let issuer = rules().issuers.remove(0);
    let with_groups = of(&issuer, "openid wlcg.groups");
    assert!(with_groups.grant.is_none());
    assert_eq!(with_groups.principal.groups, ["/wlcg", "/wlcg/test"]);
    for scope in ["storage.read:/a", "compute.read", "storage.poll:/", "storage.later:/x"] {
        let token = of(&issuer, scope);
        assert!(token.principal.groups.is_empty() && token.grant.is_some(), "{scope}");
    }
    assert!(of(&issuer, "compute.read").grant.unwrap().scopes.is_empty());
    let scopes_only = IssuerRules {
        strategy: Strategy::parse(["capability"]).unwrap(),
        ..issuer.clone()
    };
    let token = of(&scopes_only, "openid");
    assert!(token.grant.unwrap().scopes.is_empty() && token.principal.groups.is_empty());
    let no_scopes = IssuerRules {
        strategy: Strategy::parse(["group"]).unwrap(),
        ..issuer
    };
    // What says what it may be used for is never worth more than that.
    assert!(of(&no_scopes, "storage.read:/a").grant.unwrap().scopes.is_empty());
    assert!(of(&no_scopes, "openid").grant.is_none());
}

#[test]
fn users_come_from_rules_claims_and_defaults_in_this_order() {
    let (name_map, _) = NameMap::parse(r#"[{"sub":"ann","group":"/a","result":"mapped"}]"#).unwrap();
    let issuer = IssuerRules {
        name_map,
        username_claim: Some("posix".to_owned()),
        map_subject: true,
        default_user: Some("nobody".to_owned()),
        ..IssuerRules::new(ISSUER)
    };
    let user = |issuer: &IssuerRules, changes: Value| read_with(issuer, &changes).map(|token| token.principal.user);
    assert_eq!(
        user(&issuer, json!({"wlcg.groups": ["/a"]})).unwrap().as_deref(),
        Some("mapped")
    );
    assert_eq!(
        user(&issuer, json!({"posix": "ann1"})).unwrap().as_deref(),
        Some("ann1")
    );
    assert_eq!(user(&issuer, json!({})).unwrap().as_deref(), Some("ann"));
    assert_eq!(
        user(&issuer, json!({"posix": "../x"})).unwrap_err().code(),
        ErrorCode::TokenClaims
    );
    let default = IssuerRules {
        map_subject: false,
        ..issuer
    };
    assert_eq!(user(&default, json!({})).unwrap().as_deref(), Some("nobody"));
    let none = IssuerRules {
        strategy: Strategy::parse(["capability", "group"]).unwrap(),
        ..default
    };
    assert_eq!(user(&none, json!({"wlcg.groups": ["/a"]})).unwrap(), None);
}

proptest! {
    /// Whatever the scopes say, what is granted lies below their paths and below the issuer's.
    #[test]
    fn no_scope_reaches_outside_of_its_path(
        scope in prop::sample::select(vec!["storage.read", "storage.create", "storage.modify", "storage.stage"]),
        written in "(/|//|\\.|\\.\\.|%2e|%2E|%252e|%2f|%5c|\\\\|a|b|%61|%00|%){0,8}/?",
        asked in "(/(a|b|ab|\\.x)){0,4}",
    ) {
        let issuer = IssuerRules { base_paths: vec![path("/vo")], ..IssuerRules::new(ISSUER) };
        let Ok(token) = read_with(&issuer, &json!({"scope": format!("{scope}:/{written}")})) else { return Ok(()) };
        let grant = token.grant.expect("a scope of storage is a capability");
        let asked = path(&format!("/{asked}"));
        if !grant.activities_on(&asked).is_empty() {
            prop_assert!(asked.is_within(&path("/vo")));
            for scope in &grant.scopes {
                prop_assert!(asked.is_within(&scope.path));
                prop_assert!(!scope.path.as_str().contains(['%', '\\']));
            }
        }
    }

    /// No text makes the decoders panic, and none is believed without a key.
    #[test]
    fn any_text_is_refused_with_a_code_of_its_own(text in "\\PC{0,40}(\\.\\PC{0,40}){0,3}") {
        if let Err(error) = UnverifiedToken::parse(&text) {
            prop_assert!(error.code().name().starts_with("token_"));
        }
    }
}
