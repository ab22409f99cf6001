//! Files of EUGridPMA that say for which names an authority may issue certificates
//! (`HASH.namespaces`, format version 1).
//!
//! ```text
//! TO Issuer "/C=CH/O=Example/CN=Example CA" \
//!   PERMIT Subject "/C=CH/O=Example/.*"
//! TO Issuer SELF DENY Subject "/C=CH/O=Example/CN=Robot.*"
//! ```
//!
//! The statements about an issuer are tried in order, the first that matches decides, and a name
//! that none of them matches is not permitted.

use crate::limits::{NAME_PATTERN_BYTES_MAX, NAME_RULES_MAX};

use crate::signing_policy::clip;
use crate::{Malformed, dn, malformed};

/// Of whom a statement speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceIssuer {
    /// The authority whose file it is.
    Own,
    /// The authority with this name in one line, in the form of [`dn::canonical`].
    Named(String),
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRule {
    /// Of whom it speaks.
    pub issuer: NamespaceIssuer,
    /// Whether it permits or denies.
    pub permits: bool,
    /// A regular expression (in the dialect of Perl) that matches the whole name, in the form of
    /// [`dn::canonical`].
    pub subject: String,
}

/// Reads a file.
///
/// # Errors
/// When a statement cannot be understood, a pattern is longer than [`NAME_PATTERN_BYTES_MAX`], or
/// there are more than [`NAME_RULES_MAX`] statements.
pub fn parse(text: &str) -> Result<Vec<NamespaceRule>, Malformed> {
    let mut rules = Vec::new();
    for statement in statements(text) {
        if rules.len() == NAME_RULES_MAX {
            return Err(malformed("there are too many statements"));
        }
        rules.push(rule(&statement)?);
    }
    if rules.is_empty() {
        return Err(malformed("there is no statement in it"));
    }
    Ok(rules)
}

/// Lines without comments, those that end in a backslash joined with the next.
fn statements(text: &str) -> Vec<String> {
    let mut whole = Vec::new();
    let mut open = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') || (line.is_empty() && open.is_empty()) {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => {
                open.push_str(part);
                open.push(' ');
            }
            None => {
                open.push_str(line);
                whole.push(std::mem::take(&mut open));
            }
        }
    }
    if !open.trim().is_empty() {
        whole.push(open);
    }
    whole
}

fn rule(statement: &str) -> Result<NamespaceRule, Malformed> {
    let not_understood = || malformed(format!("a statement is not understood: {}", clip(statement)));
    let mut rest = statement;
    let mut next = || word(&mut rest).ok_or_else(not_understood);
    if !(next()?.is("TO") && next()?.is("Issuer")) {
        return Err(not_understood());
    }
    let issuer = match next()? {
        Word::Quoted(name) => NamespaceIssuer::Named(dn::canonical(name)),
        plain if plain.is("SELF") => NamespaceIssuer::Own,
        Word::Plain(_) => return Err(not_understood()),
    };
    let action = next()?;
    let permits = action.is("PERMIT");
    if !(permits || action.is("DENY")) || !next()?.is("Subject") {
        return Err(not_understood());
    }
    let Word::Quoted(subject) = next()? else {
        return Err(not_understood());
    };
    if word(&mut rest).is_some_and(|word| !matches!(word, Word::Plain(text) if text.starts_with('#'))) {
        return Err(not_understood());
    }
    if subject.len() > NAME_PATTERN_BYTES_MAX {
        return Err(malformed("a pattern is too long"));
    }
    Ok(NamespaceRule {
        issuer,
        permits,
        subject: dn::canonical(subject),
    })
}

/// A word of a statement.
enum Word<'t> {
    Plain(&'t str),
    Quoted(&'t str),
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Word::Plain(word) if word.eq_ignore_ascii_case(keyword))
    }
}

fn word<'t>(rest: &mut &'t str) -> Option<Word<'t>> {
    let text = rest.trim_start();
    if let Some(quoted) = text.strip_prefix('"') {
        let (inside, after) = quoted.split_once('"')?;
        *rest = after;
        return Some(Word::Quoted(inside));
    }
    let (plain, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    *rest = after;
    (!plain.is_empty()).then_some(Word::Plain(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_over_several_lines_are_read() {
        let text = "# comment\nTO Issuer \"/C=CH/CN=X CA\" \\\n  PERMIT Subject \"/C=CH/.*\"\n\nto issuer self deny subject \"/Email=x\"\n";
        let rules = parse(text).unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].issuer, NamespaceIssuer::Named("/C=CH/CN=X CA".to_owned()));
        assert!(rules[0].permits && !rules[1].permits);
        assert_eq!(rules[0].subject, "/C=CH/.*");
        assert_eq!(rules[1].issuer, NamespaceIssuer::Own);
        assert_eq!(rules[1].subject, "/emailAddress=x");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "TO Issuer SELF PERMIT Subject",
            "TO Issuer SELF ALLOW Subject \"x\"",
            "TO Issuer OTHER PERMIT Subject \"x\"",
            "TO Issuer \"x PERMIT Subject y",
            "TO Issuer SELF PERMIT Subject \"x\" more",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
