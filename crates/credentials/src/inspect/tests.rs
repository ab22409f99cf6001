//! Tokens as people meet them, and what is said of them.

use super::*;
use crate::macaroon::{Macaroon, MacaroonKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const NOW_S: i64 = 1_800_000_000;
const SIGNATURE: &str = "c2lnbmF0dXJlLXRoYXQtbXVzdC1zdGF5LXVuc2Vlbg";

fn macaroon(caveats: &[&str]) -> String {
    let key = MacaroonKey::new(b"k");
    let made = Macaroon::mint(&key, "se.example.org", "id-1", caveats.iter().copied()).unwrap();
    made.to_text().expose().to_owned()
}

fn jwt(header: &Value, claims: &Value) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{SIGNATURE}", encoded(header), encoded(claims))
}

fn wlcg(more: &Value) -> Inspection {
    let mut claims = json!({"iss": "https://iam.example.org/", "sub": "jdoe", "aud": "https://se.example.org", "jti": "7",
        "wlcg.ver": "1.0", "iat": NOW_S - 60, "nbf": NOW_S - 60, "exp": NOW_S + 1500, "scope": "storage.read:/atlas openid"});
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    inspect(&jwt(&json!({"alg": "RS256", "kid": "k1"}), &claims), NOW_S)
}

fn warned(inspection: &Inspection, words: &str) -> bool {
    inspection.warnings.iter().any(|warning| warning.contains(words))
}

#[test]
fn a_macaroon_is_told_caveat_by_caveat() {
    let before = crate::caveat::format_time(NOW_S + 1500);
    let text = macaroon(&[
        "id:1;2;jdoe",
        "activity:LIST,DOWNLOAD",
        "path:/data",
        "ip:192.0.2.0/24",
        &format!("before:{before}"),
    ]);
    let inspection = inspect(&format!("Bearer {text}\n"), NOW_S);
    assert_eq!(inspection.kind, TokenKind::Macaroon);
    assert_eq!(inspection.expires_s, Some(NOW_S + 1500));
    assert!(inspection.warnings.is_empty(), "{:?}", inspection.warnings);
    let shown = inspection.to_string();
    for words in [
        "location    se.example.org",
        "identifier  id-1",
        "issued to the user jdoe",
        "only to list directories, read files",
        "only /data and what is below it",
        "valid for another 25 min",
        "allows      to list directories, read files, on /data and below",
    ] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
    assert_eq!(inspection.to_json()["seconds_left"], 1500);
}

#[test]
fn what_is_strange_about_a_macaroon_is_told() {
    let strange = inspect(&macaroon(&["root:/x", "path:/a"]), NOW_S);
    assert!(!strange.parts[0].is_known && strange.parts[1].is_known);
    assert!(strange.to_string().contains(" ? root:/x"));
    for words in ["those marked ?", "never expires", "allows everything"] {
        assert!(warned(&strange, words), "{words}: {:?}", strange.warnings);
    }
    let nothing = inspect(&macaroon(&["path:/a", "path:/b", "before:1970-01-01T00:00:00Z"]), NOW_S);
    assert!(nothing.to_string().contains("nothing: its caveats exclude each other"));
    assert!(warned(&nothing, "it has expired"));
    let imposter = inspect(&macaroon(&["activity:LIST", "name:root"]), NOW_S);
    assert!(warned(&imposter, "another identity"), "{:?}", imposter.warnings);
}

#[test]
fn a_token_of_wlcg_is_told_claim_by_claim() {
    let sound = wlcg(&json!({}));
    assert!(sound.warnings.is_empty(), "{:?}", sound.warnings);
    let shown = sound.to_string();
    for words in [
        "read as",
        "WLCG",
        "https://iam.example.org/",
        "jdoe",
        "read and list files, on /atlas and below",
        "(in 25 min)",
    ] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
    for (claim, words) in [
        (json!({"exp": NOW_S}), "it expired 0 s ago"),
        (json!({"exp": null}), "no time of expiry"),
        (json!({"nbf": NOW_S + 61}), "not valid yet"),
        (json!({"iat": NOW_S + 61}), "not valid yet"),
        (json!({"exp": NOW_S + 7 * 3600}), "longer than 6 h"),
        (json!({"aud": null}), "no audience"),
        (
            json!({"aud": ["x", "https://wlcg.cern.ch/jwt/v1/any"]}),
            "every server is its audience",
        ),
        (json!({"iss": null}), "no issuer"),
        (json!({"wlcg.ver": "2.0"}), "version is not 1"),
        (json!({"wlcg.groups": ["/atlas"]}), "groups do not count"),
        (json!({"scope": ""}), "neither scopes nor groups"),
    ] {
        let inspection = wlcg(&claim);
        assert!(warned(&inspection, words), "{claim}: {:?}", inspection.warnings);
    }
    assert!(
        wlcg(&json!({"nbf": NOW_S + 60})).warnings.is_empty(),
        "clocks may differ by a minute"
    );
}

#[test]
fn scopes_mean_what_their_profile_says() {
    let meaning = |scope: &str, version: (&str, &str)| {
        let claims = json!({"scope": scope, version.0: version.1});
        let inspection = inspect(&jwt(&json!({"alg": "ES256", "kid": "k"}), &claims), NOW_S);
        let part = inspection.parts[0].clone();
        (part.meaning, part.is_known)
    };
    let (wlcg, scitoken) = (("wlcg.ver", "1.3"), ("ver", "scitoken:2.0"));
    for (scope, version, words, known) in [
        (
            "storage.modify:/",
            wlcg,
            "everywhere below the issuer's directories",
            true,
        ),
        (
            "storage.create:/a%20b",
            wlcg,
            "neither overwrite nor delete, on /a b and below",
            true,
        ),
        ("storage.read", wlcg, "without a path", true),
        ("storage.read:/a/../b", wlcg, "path is invalid", true),
        ("storage.read:relative", wlcg, "path is invalid", true),
        ("read:/a", wlcg, "nothing: a scope of SciTokens", true),
        ("storage.read:/a", scitoken, "a scope of WLCG", true),
        ("write:/a", scitoken, "write, overwrite and delete", true),
        ("read", scitoken, "everywhere", true),
        ("compute.create", wlcg, "the groups do not count", true),
        ("fly:/a", wlcg, "not known here", false),
        ("storage.fly:/a", wlcg, "not known here", false),
    ] {
        let (meaning, is_known) = meaning(scope, version);
        assert!(meaning.contains(words) && is_known == known, "{scope}: {meaning}");
    }
}

#[test]
fn bad_headers_are_warned_of() {
    let claims = json!({"iss": "i", "exp": NOW_S + 1});
    for (header, words) in [
        (json!({"alg": "none"}), "every server refuses it"),
        (json!({"alg": "HS256"}), "shared secret"),
        (json!({"alg": "PS512"}), "RS256 and ES256"),
        (json!({}), "names no algorithm"),
        (json!({"alg": "RS256"}), "with which key"),
    ] {
        let inspection = inspect(&jwt(&header, &claims), NOW_S);
        assert!(warned(&inspection, words), "{header}: {:?}", inspection.warnings);
    }
    let unsigned = jwt(&json!({"alg": "RS256"}), &claims).replace(SIGNATURE, "");
    assert!(warned(&inspect(&unsigned, NOW_S), "not signed"));
}

#[test]
fn neither_the_token_nor_its_signature_is_shown() {
    let token = jwt(&json!({"alg": "RS256", "kid": "k"}), &json!({"iss": "i"}));
    let text = macaroon(&["path:/a"]);
    let garbage = format!("{SIGNATURE}!");
    let broken = format!("a.b.{SIGNATURE}");
    let mangled = format!("{text}{SIGNATURE}");
    for token in [token.as_str(), &text, &garbage, &broken, &mangled] {
        let inspection = inspect(token, NOW_S);
        let said = format!("{inspection}\n{}\n{inspection:?}", inspection.to_json());
        let tail = &text[text.len() - 30..];
        assert!(
            !said.contains(SIGNATURE) && !said.contains(tail) && !said.contains(token),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_token_is_unknown_and_steers_no_terminal() {
    let long = "A".repeat(MACAROON_BYTES_MAX + 1);
    for text in [
        "",
        "  ",
        "Bearer ",
        "hello",
        "a.b.c",
        "a.b",
        "a.b.c.d.e",
        "{}",
        "é",
        &long,
    ] {
        assert_eq!(inspect(text, NOW_S).kind, TokenKind::Unknown, "{text}");
    }
    let nasty = wlcg(&json!({"sub": "a\u{1b}[2Jb\u{202e}c", "\u{7}name": "x", "long": "y".repeat(2000)}));
    let shown = nasty.to_string();
    let steers = |character: char| (character.is_control() && character != '\n') || character == '\u{202e}';
    assert!(!shown.chars().any(steers), "{shown:?}");
    assert!(!shown.contains(&"y".repeat(300)));
}
