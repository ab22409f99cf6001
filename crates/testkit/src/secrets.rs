//! The secrets of a test run, and the search for them.
//!
//! Code that makes a secret for a test (a key, a token, a macaroon, a proxy) notes it here. When a
//! process of ours ends, its output is searched for all of them, and the test that ended it fails
//! if one is found. The search looks for a unique part: the end of a token, where its signature is,
//! or a line from the middle of a key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Shorter texts may well stand somewhere by chance.
const SECRET_BYTES_MIN: usize = 20;
/// How much of a secret is looked for.
const PIECE_BYTES: usize = 32;

/// What is looked for, and what it is a piece of.
static REGISTER: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Notes a secret; `what` names it in the message of a test that fails. Ignores texts that are too
/// short to be unique.
pub fn note(what: &str, secret: &str) {
    let keys = private_keys(secret);
    let pieces = match keys.is_empty() {
        true => piece_of(secret.trim()).into_iter().collect(),
        false => keys,
    };
    let mut register = REGISTER.lock().unwrap_or_else(PoisonError::into_inner);
    let register = register.get_or_insert_default();
    for piece in pieces {
        register.entry(piece).or_insert_with(|| what.to_owned());
    }
}

/// The end of a text, where the signature of a token is. Padding says nothing.
fn piece_of(secret: &str) -> Option<String> {
    let secret = secret.trim_end_matches('=');
    if secret.len() < SECRET_BYTES_MIN || !secret.is_ascii() {
        return None;
    }
    Some(secret[secret.len().saturating_sub(PIECE_BYTES)..].to_owned())
}

/// A line from the middle of each private key in a PEM text.
fn private_keys(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for block in text.split("-----BEGIN ").skip(1) {
        let Some((label, rest)) = block.split_once("-----") else {
            continue;
        };
        let body = rest.split("-----END").next().unwrap_or_default();
        let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if label.ends_with("PRIVATE KEY") {
            pieces.extend(lines.get(lines.len() / 2).and_then(|line| piece_of(line)));
        }
    }
    pieces
}

/// The names of the secrets that stand in a text.
#[must_use]
pub fn found_in(text: &str) -> Vec<String> {
    let register = REGISTER.lock().unwrap_or_else(PoisonError::into_inner);
    let found = register
        .iter()
        .flatten()
        .filter(|(piece, _)| text.contains(piece.as_str()));
    found.map(|(_, what)| what.clone()).collect()
}

/// Demands that no secret stands in a text. Says nothing while a test is failing already.
///
/// # Panics
/// When one does, with its name and where it was found, and without the secret.
#[track_caller]
pub fn demand_none(place: &str, text: &str) {
    if std::thread::panicking() {
        return;
    }
    let found = found_in(text);
    assert!(found.is_empty(), "{place} shows a secret: {}", found.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_token_and_the_middle_of_a_key_are_found() {
        let token = "head-of-a-token-of-this-test.payload.signature-of-a-token-of-this-test==";
        note("a token", token);
        assert_eq!(found_in(&format!("x {token} y")), ["a token"]);
        assert_eq!(found_in("only: payload.signature-of-a-token-of-this-test"), ["a token"]);
        assert!(found_in("head-of-a-token-of-this-test.payload.").is_empty());
        let key = "-----BEGIN CERTIFICATE-----\npublic0public0public0public0public0\n-----END CERTIFICATE-----\n\
                   -----BEGIN EC PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nprivate0private0private0private0\n\
                   -----END EC PRIVATE KEY-----\n";
        note("a key", key);
        assert_eq!(found_in("private0private0private0private0"), ["a key"]);
        assert!(found_in("public0public0public0public0public0").is_empty());
        note("short", "hunter2");
        assert!(found_in("hunter2").is_empty());
    }

    #[test]
    #[should_panic(expected = "the log shows a secret: a leaked one")]
    fn a_secret_in_a_text_fails_the_test() {
        note("a leaked one", "a-secret-that-this-test-tells-everybody");
        demand_none("the log", "it was a-secret-that-this-test-tells-everybody all along");
    }
}
