//! What does a token say? Everything that can be read of it without trusting it, in plain words.
//!
//! Nothing is verified here: the token may claim anything. Neither the token
//! nor its signature is part of the answer, so that the answer can be shown to others.

mod jwt;
mod macaroon;
mod scope;

use std::fmt;

use serde_json::{Map, Value, json};
use types::limits::MACAROON_BYTES_MAX;

use crate::duration::duration_in_words;

/// Characters of one value that are shown; of longer ones the beginning.
const SHOWN_CHARS_MAX: usize = 256;

/// What sort of token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A macaroon, in any of its serialisations.
    Macaroon,
    /// A JSON Web Token (RFC 7519) in compact form.
    Jwt,
    /// Neither.
    Unknown,
}

impl TokenKind {
    /// The word in JSON. Never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Macaroon => "macaroon",
            Self::Jwt => "jwt",
            Self::Unknown => "unknown",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Macaroon => "a macaroon",
            Self::Jwt => "a JSON Web Token",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing that the token says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about, such as `issuer`; also the name in JSON.
    pub name: String,
    /// What it says.
    pub value: String,
}

/// A caveat or a scope, and what it means to a storage server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// As it stands in the token.
    pub text: String,
    /// In plain words.
    pub meaning: String,
    /// Whether this version knows it.
    pub is_known: bool,
}

/// What a token says. Its `Display` is the text for people, of several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What sort of token it is.
    pub kind: TokenKind,
    /// What it says about itself, in the order in which it is shown.
    pub facts: Vec<Fact>,
    /// The caveats of a macaroon in their order, or the scopes of a JSON Web Token.
    pub parts: Vec<Meaning>,
    /// Valid before this time, in seconds since 1970; `None`: it does not expire, or says nothing.
    pub expires_s: Option<i64>,
    /// What is wrong with it, or dangerous.
    pub warnings: Vec<String>,
    /// The time of the inspection, in seconds since 1970.
    pub now_s: i64,
    /// The claims of a JSON Web Token as they stand there.
    pub claims: Option<Map<String, Value>>,
}

impl Inspection {
    fn new(kind: TokenKind, now_s: i64) -> Self {
        Self {
            kind,
            facts: Vec::new(),
            parts: Vec::new(),
            expires_s: None,
            warnings: Vec::new(),
            now_s,
            claims: None,
        }
    }

    fn unknown(why: impl Into<String>, now_s: i64) -> Self {
        let mut inspection = Self::new(TokenKind::Unknown, now_s);
        inspection.warn(why);
        inspection
    }

    fn fact(&mut self, name: &str, value: impl AsRef<str>) {
        self.facts.push(Fact {
            name: shown(name),
            value: shown(value.as_ref()),
        });
    }

    fn part(&mut self, text: &str, meaning: impl Into<String>, is_known: bool) {
        self.parts.push(Meaning {
            text: shown(text),
            meaning: meaning.into(),
            is_known,
        });
    }

    fn warn(&mut self, words: impl Into<String>) {
        self.warnings.push(words.into());
    }

    /// The same for programs: `kind`, `facts`, `caveats` or `scopes`, `expires_s`, `seconds_left`,
    /// `warnings` and, of a JSON Web Token, `claims`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let facts: Map<String, Value> = self
            .facts
            .iter()
            .map(|fact| (fact.name.clone(), fact.value.clone().into()))
            .collect();
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|part| json!({"text": part.text, "meaning": part.meaning, "known": part.is_known}))
            .collect();
        let mut value = json!({
            "kind": self.kind.name(),
            "facts": facts,
            "expires_s": self.expires_s,
            "seconds_left": self.expires_s.map(|expires_s| expires_s.saturating_sub(self.now_s)),
            "warnings": self.warnings,
        });
        match self.kind {
            TokenKind::Macaroon => value["caveats"] = parts.into(),
            TokenKind::Jwt => value["scopes"] = parts.into(),
            TokenKind::Unknown => {}
        }
        if let Some(claims) = &self.claims {
            value["claims"] = claims.clone().into();
        }
        value
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.facts.iter().map(|fact| fact.name.len()).max().unwrap_or(0);
        let width = width.max("token".len());
        write!(out, "{:width$}  {}", "token", self.kind.words())?;
        for fact in &self.facts {
            write!(out, "\n{:width$}  {}", fact.name, fact.value)?;
        }
        if !self.parts.is_empty() {
            let head = if self.kind == TokenKind::Jwt {
                "scopes"
            } else {
                "caveats"
            };
            write!(out, "\n{head}")?;
        }
        for part in &self.parts {
            let mark = if part.is_known { " " } else { "?" };
            write!(out, "\n {mark} {}\n      {}", part.text, part.meaning)?;
        }
        for warning in &self.warnings {
            write!(out, "\nwarning: {warning}")?;
        }
        if self.kind != TokenKind::Unknown {
            write!(out, "\nNone of this is verified: that needs the issuer's key.")?;
        }
        Ok(())
    }
}

/// Reads all that a token says at the time `now_s` (seconds since 1970). A word `Bearer` in front
/// of it, as in a header, is passed over.
///
/// A JSON Web Token has exactly two dots (RFC 7515 §3.1), a macaroon in base64 has none.
#[must_use]
pub fn inspect(token: &str, now_s: i64) -> Inspection {
    let token = without_scheme(token.trim());
    if token.is_empty() {
        return Inspection::unknown("there is no token: the text is empty", now_s);
    }
    if token.len() > MACAROON_BYTES_MAX {
        let words = format!("it is longer than {MACAROON_BYTES_MAX} bytes, which no server takes");
        return Inspection::unknown(words, now_s);
    }
    if token.starts_with('{') {
        return macaroon::inspect(token, now_s);
    }
    match token.bytes().filter(|byte| *byte == b'.').count() {
        0 => macaroon::inspect(token, now_s),
        2 => jwt::inspect(token, now_s),
        4 => Inspection::unknown(
            "it has the form of an encrypted JSON Web Token (RFC 7516), which only its audience can read",
            now_s,
        ),
        _ => Inspection::unknown("it is neither a macaroon nor a JSON Web Token", now_s),
    }
}

fn without_scheme(text: &str) -> &str {
    match text.split_once(char::is_whitespace) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim_start(),
        _ => text,
    }
}

/// A text from outside as it may be put on a terminal: short, and without characters that steer
/// one.
pub(crate) fn shown(text: &str) -> String {
    let steers = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == SHOWN_CHARS_MAX {
            out.push('…');
            break;
        }
        if steers(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// A time with how far away it is: `2026-11-21T19:31:25Z (in 25 min)`.
fn time_in_words(time_s: i64, now_s: i64) -> String {
    let distance = duration_in_words(time_s.abs_diff(now_s));
    let written = crate::caveat::format_time(time_s);
    if time_s > now_s {
        format!("{written} (in {distance})")
    } else {
        format!("{written} ({distance} ago)")
    }
}

#[cfg(test)]
mod tests;
