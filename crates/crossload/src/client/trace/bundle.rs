//! What was found, as one file for a ticket.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::Found;
use super::line::Line;
use crate::failure::Failure;
use crate::token::now_s;

/// Names of people are in it.
const BUNDLE_MODE: u32 = 0o600;
/// What stands for something that others must not see.
const HIDDEN: &str = "[removed]";
/// What the names of members and parameters end with whose values give access.
const SECRET_NAMES: [&str; 14] = [
    "authz",
    "capability",
    "cookie",
    "credentials",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pw",
    "pwd",
    "secret",
    "signature",
    "token",
    "ztn",
];
/// The header whose value, to its end, is a list of secrets; so is that of `Set-Cookie`.
const COOKIE: &str = "cookie";
/// How the line before or behind a private key ends (RFC 7468).
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
/// Schemes of an `Authorization` header: a credential follows.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
/// What ends a word, besides blanks.
const WORD_ENDS: &str = ",;()<>\"'|&";
/// What stands between a name and its value, or around a value.
const MARKS: [char; 6] = [':', '=', '[', ']', '{', '}'];
/// What ends a query in a text: a blank, or what cannot stand in one.
const QUERY_ENDS: &str = "\"<>|";
/// Characters of a macaroon of the second format, at least: its signature alone has 43.
const MACAROON_BYTES_MIN: usize = 60;
/// How often a text may be percent-encoded.
const ENCODINGS_MAX: usize = 3;

/// Writes a new file.
///
/// # Errors
/// It exists, or cannot be written.
pub(super) fn write(file: &Path, id: &str, found: &Found) -> Result<(), Failure> {
    let silent = found
        .silent
        .iter()
        .map(|(name, silence)| json!({"source": name, "why": silence.why}));
    let document = without_secrets(json!({
        "id": id,
        "identifiers": found.ids,
        "written": http_wire::format_iso_date(now_s()),
        "version": env!("CARGO_PKG_VERSION"),
        "not_asked": silent.collect::<Vec<_>>(),
        "left_out": found.left_out,
        "timeline": found.lines.iter().map(Line::as_json).collect::<Vec<_>>(),
    }));
    let failed = |cause| Failure::system(file.display(), &cause);
    let mut options = OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(BUNDLE_MODE)
        .open(file)
        .map_err(failed)?;
    let text = format!("{document:#}\n");
    opened
        .write_all(text.as_bytes())
        .and_then(|()| opened.sync_all())
        .map_err(failed)
}

/// The value without what gives access: queries of URLs, passwords in them, tokens, and members
/// named as secrets. Our logs have none; those of other programs might.
fn without_secrets(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(all) => all.into_iter().map(without_secrets).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(_) | Value::Array(_) | Value::Object(_) if is_secret_name(&name) => {
                    (clean(&name), HIDDEN.into())
                }
                value => (clean(&name), without_secrets(value)),
            })
            .collect(),
        other => other,
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // The header of HTTP, and those of proxies.
    name.contains("authoriz") || SECRET_NAMES.iter().any(|secret| name.ends_with(secret))
}

/// The text without what gives access, however often it is encoded.
pub(super) fn clean(text: &str) -> String {
    let mut shown = hide(text);
    let mut plain = shown.clone();
    for _ in 0..ENCODINGS_MAX {
        let decoded = percent_decode_str(&plain).decode_utf8_lossy().into_owned();
        plain = hide(&decoded);
        if plain != decoded {
            shown.clone_from(&plain);
        }
    }
    shown
}

fn hide(text: &str) -> String {
    if text.contains(PRIVATE_KEY) {
        return HIDDEN.to_owned();
    }
    let (text, cookies) = text.split_at(cookies_at(text));
    let mut hidden = hide_words(&hide_queries(&hide_users(text)));
    if !cookies.is_empty() {
        hidden.push_str(HIDDEN);
    }
    hidden
}

/// Where the values of a header with cookies begin: it may have any number, under any names.
/// Without such a header, the end of the text.
fn cookies_at(text: &str) -> usize {
    let lower = text.to_ascii_lowercase();
    let mut headers = lower.match_indices(COOKIE).filter_map(|(at, name)| {
        let rest = &lower[at + name.len()..];
        let behind = rest.trim_start_matches(['"', ' ']).strip_prefix(':')?;
        Some(text.len() - behind.trim_start().len())
    });
    headers.next().unwrap_or(text.len())
}

/// Hides user names and passwords before the hosts of URLs.
fn hide_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |letter: char| letter.is_whitespace() || "/?#".contains(letter) || QUERY_ENDS.contains(letter);
        let (authority, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
        hidden.push_str("://");
        match authority.rsplit_once('@') {
            Some((_, host)) => hidden.push_str(&format!("{HIDDEN}@{host}")),
            None => hidden.push_str(authority),
        }
        hidden.push_str(rest);
    }
    hidden
}

/// Hides all that follows a question mark within a word.
fn hide_queries(text: &str) -> String {
    let mut parts = text.split('?');
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |letter: char| letter.is_whitespace() || QUERY_ENDS.contains(letter);
        let query_bytes = part.find(is_end).unwrap_or(part.len());
        hidden.push('?');
        if query_bytes > 0 {
            hidden.push_str(HIDDEN);
        }
        hidden.push_str(&part[query_bytes..]);
    }
    hidden
}

/// Hides tokens, values of parameters named as secrets, and what follows a credential's scheme.
fn hide_words(text: &str) -> String {
    let (mut hidden, mut rest, mut is_next_secret) = (String::new(), text, false);
    while !rest.is_empty() {
        let is_end = |letter: char| letter.is_whitespace() || WORD_ENDS.contains(letter);
        let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        let ends = behind.find(|letter| !is_end(letter)).unwrap_or(behind.len());
        // `"key": "value"` has a colon between the two.
        let is_mark = word.trim_matches(MARKS).is_empty();
        let mut names = word.match_indices(['=', ':']).map(|(at, _)| at);
        let value_at = names.find(|at| is_secret_name(&word[..*at])).map(|at| at + 1);
        let shown = match value_at.filter(|at| *at < word.len()) {
            _ if is_next_secret && !is_mark => HIDDEN.to_owned(),
            Some(at) => format!("{}{HIDDEN}", &word[..at]),
            None if is_token(word) => HIDDEN.to_owned(),
            None => word.to_owned(),
        };
        if !is_mark {
            let is_scheme = SCHEMES.contains(&word.to_ascii_lowercase().as_str());
            let is_quoted = is_secret_name(word) && behind.starts_with("\":");
            is_next_secret = is_scheme || is_quoted || value_at == Some(word.len());
        }
        hidden.push_str(&shown);
        hidden.push_str(&behind[..ends]);
        rest = &behind[ends..];
    }
    hidden
}

/// Each part of a JWT (RFC 7519 §3) begins with `{"` in base64url.
fn is_token(word: &str) -> bool {
    (word.contains("eyJ") && word.matches('.').count() >= 2) || has_macaroon(word)
}

/// A macaroon in base64url begins with the length of its first packet in four hexadecimal digits
/// and the name of this packet, or, in its second format, with 2 and a field of type 1 or 2.
fn has_macaroon(word: &str) -> bool {
    let decoded = |at: usize, count: usize| {
        let front = word.as_bytes().get(at..at + count)?;
        URL_SAFE_NO_PAD.decode(front).ok()
    };
    let is_first = |at: usize| {
        decoded(at, 8).is_some_and(|bytes| {
            let (length, name) = bytes.split_at(4);
            length.iter().all(u8::is_ascii_hexdigit) && name[0].is_ascii_lowercase()
        })
    };
    let is_second = |at: usize| {
        let is_long = word.len() - at >= MACAROON_BYTES_MIN;
        is_long && decoded(at, 4).is_some_and(|bytes| bytes[0] == 2 && matches!(bytes[1], 1 | 2))
    };
    let mut first = word.match_indices("MD").map(|(at, _)| at);
    let mut second = word.match_indices("Ag").map(|(at, _)| at);
    first.any(is_first) || second.any(is_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_access_is_removed_wherever_it_stands() {
        let line = json!({"path": "/d/f?authz=abc", "list": ["root://jane:pw@h//f why?", "Bearer eyJa.eyJb.c"], "n": 1,
            "authorization": "Basic amFuZTpwdw==", "secret_key": ["abc"], "token": null, "has_token": true});
        let clean = json!({"path": "/d/f?[removed]", "list": ["root://[removed]@h//f why?", "Bearer [removed]"], "n": 1,
            "authorization": "[removed]", "secret_key": "[removed]", "token": null, "has_token": true});
        assert_eq!(without_secrets(line), clean);
    }

    #[test]
    fn names_of_members_are_cleaned_too() {
        let line = json!({"f?authz=abc": "x", "Bearer eyJa.eyJb.c": 1, "credentials": "abc", "credential": "token"});
        let clean =
            json!({"f?[removed]": "x", "Bearer [removed]": 1, "credentials": "[removed]", "credential": "token"});
        assert_eq!(without_secrets(line), clean);
    }

    #[test]
    fn no_spelling_hides_what_gives_access() {
        for (text, cleaned) in [
            (
                "/f&crossload.capability=abc&n=1",
                "/f&crossload.capability=[removed]&n=1",
            ),
            ("xrd.ztn=abc", "xrd.ztn=[removed]"),
            ("pw=abc passphrase: abc", "pw=[removed] passphrase: [removed]"),
            ("sent Cookie: a=b; other=abc", "sent Cookie: [removed]"),
            ("Set-Cookie:a=b; Path=/", "Set-Cookie:[removed]"),
            ("{\"cookie\": \"a=b; c=d\"}", "{\"cookie\": [removed]"),
            ("Cookie%3A%20a%3Db%3B%20c%3Dd", "Cookie: [removed]"),
            ("read -----BEGIN PRIVATE KEY-----\nabc", "[removed]"),
            ("abc\n-----END RSA PRIVATE KEY-----", "[removed]"),
            ("https://h/f?TOKEN", "https://h/f?[removed]"),
            ("https://a/f,https://u:pw@h/f", "https://a/f,https://[removed]@h/f"),
            ("https://u:p;w@h/f", "https://[removed]@h/f"),
            ("tpc.key=abc&oss.asize=3", "tpc.key=[removed]&oss.asize=3"),
            ("/f;authz=abc;x=1", "/f;authz=[removed];x=1"),
            ("token=MDAxabc", "token=[removed]"),
            ("said MDAxY2xhYmVs, then", "said [removed], then"),
            // "003blocation https://dcache-door", and a long location.
            (
                "said MDAzYmxvY2F0aW9uIGh0dHBzOi8vZGNhY2hlLWRvb3I, then",
                "said [removed], then",
            ),
            ("said xMDEwMWxvY2F0aW9u, then", "said [removed], then"),
            (
                "AgEFTEFCX2ICJDczZjhmMjExLWJjMGYtNDk4YS04ODViLTVmNjBjZmQ1YjBiMwACCW5h",
                "[removed]",
            ),
            ("https%3A%2F%2Fu%3Apw%40h%2Ff", "https://[removed]@h/f"),
            ("%zz https%253A%252F%252Fu%253Apw%2540h", "%zz https://[removed]@h"),
            ("authorization: Basic abc", "authorization: [removed] [removed]"),
            (
                "{\"token\":\"abc\",\"n\":\"1\"}",
                "{\"token\":\"[removed]\",\"n\":\"1\"}",
            ),
            ("token=a%20b", "token=[removed]"),
        ] {
            assert_eq!(clean(text), cleaned, "{text}");
        }
        for plain in [
            "/d/100%/a%20b",
            "request PUT /d/f 507: No space left",
            "server commit: monkeys, why?",
            "/CMD/MDAT/Agenda MD5SUMS AgEFTEFC",
        ] {
            assert_eq!(clean(plain), plain);
        }
    }
}
