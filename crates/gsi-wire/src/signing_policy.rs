//! Files of Globus that say for which names an authority may issue certificates
//! (`HASH.signing_policy`, an "extended access control list").
//!
//! ```text
//! access_id_CA   X509    '/C=CH/O=Example/CN=Example CA'
//! pos_rights     globus  CA:sign
//! cond_subjects  globus  '"/C=CH/O=Example/*" "/C=CH/O=Other/*"'
//! ```

use crate::limits::NAME_RULES_MAX;

use crate::{Malformed, dn, malformed};

/// What one authority may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningPolicy {
    /// The authority's name in one line, in the form of [`dn::canonical`].
    pub authority: String,
    /// Patterns of names: `*` stands for any text, `?` for one character.
    pub subjects: Vec<String>,
}

impl SigningPolicy {
    /// Whether a name in one line is one that the authority may sign.
    #[must_use]
    pub fn permits(&self, subject: &str) -> bool {
        let subject = dn::canonical(subject);
        self.subjects.iter().any(|pattern| matches_pattern(pattern, &subject))
    }
}

/// Reads a file. A block whose rights are not `CA:sign` grants nothing and is left out.
///
/// # Errors
/// When a line cannot be understood, or there are more than [`NAME_RULES_MAX`] patterns.
pub fn parse(text: &str) -> Result<Vec<SigningPolicy>, Malformed> {
    let mut policies: Vec<SigningPolicy> = Vec::new();
    let mut signs = false;
    let mut patterns = 0;
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (keyword, rest) = split_word(line);
        let (domain, value) = split_word(rest);
        match (keyword, domain) {
            ("access_id_CA", "X509") => {
                let (name, rest) = quoted(value)?;
                no_more(rest)?;
                policies.push(SigningPolicy {
                    authority: dn::canonical(name),
                    subjects: Vec::new(),
                });
                signs = false;
            }
            ("pos_rights", "globus") => signs = split_word(value).0 == "CA:sign",
            ("neg_rights", _) => signs = false,
            ("cond_subjects", "globus") => {
                let (list, rest) = quoted(value)?;
                no_more(rest)?;
                let policy = policies
                    .last_mut()
                    .ok_or_else(|| malformed("subjects come before the authority"))?;
                for pattern in subjects(list)? {
                    patterns += 1;
                    if patterns > NAME_RULES_MAX {
                        return Err(malformed("there are too many patterns"));
                    }
                    if signs {
                        policy.subjects.push(dn::canonical(pattern));
                    }
                }
            }
            _ => {
                return Err(malformed(format!(
                    "a line begins with words that are not known: {}",
                    clip(line)
                )));
            }
        }
    }
    if policies.is_empty() {
        return Err(malformed("there is no access_id_CA in it"));
    }
    Ok(policies)
}

/// The patterns in `"a" "b"`; one without double quotes is the whole text.
fn subjects(list: &str) -> Result<Vec<&str>, Malformed> {
    let list = list.trim();
    if !list.starts_with('"') {
        return Ok(vec![list]);
    }
    let mut found = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let (pattern, after) = quoted(rest)?;
        found.push(pattern);
        rest = after.trim_start();
    }
    Ok(found)
}

fn split_word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    line.split_once(char::is_whitespace).unwrap_or((line, ""))
}

/// A text in quotes of either kind, and what comes after it.
fn quoted(text: &str) -> Result<(&str, &str), Malformed> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let quote = quote.ok_or_else(|| malformed(format!("quotes are missing: {}", clip(text))))?;
    text[1..]
        .split_once(quote)
        .ok_or_else(|| malformed(format!("a quote is not closed: {}", clip(text))))
}

fn no_more(rest: &str) -> Result<(), Malformed> {
    if rest.trim().is_empty() || rest.trim_start().starts_with('#') {
        return Ok(());
    }
    Err(malformed(format!("there are words behind the quotes: {}", clip(rest))))
}

pub(crate) fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Whether `text` is what `pattern` describes: `*` stands for any text, `?` for one character, and
/// nothing else means anything. Takes time in proportion to the product of the two lengths at most.
#[must_use]
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match retry {
                Some((after, start)) => {
                    retry = Some((after, start + 1));
                    at = after;
                    from = start + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const IGTF: &str = "# EACL\n access_id_CA      X509         '/C=CH/O=X/CN=X CA'\r\n\
        pos_rights        globus        CA:sign\n cond_subjects     globus     '\"/C=CH/O=X/*\" \"/DC=x/CN=a?c\"'\n";

    #[test]
    fn the_usual_file_is_read() {
        let policies = parse(IGTF).unwrap();
        assert_eq!(policies.len(), 1);
        assert_eq!(policies[0].authority, "/C=CH/O=X/CN=X CA");
        for (name, permitted) in [
            ("/C=CH/O=X/CN=Jane", true),
            ("/C=CH/O=X/", true),
            ("/C=CH/O=XY/CN=Jane", false),
            ("/DC=x/CN=abc", true),
            ("/DC=x/CN=ac", false),
            ("/DC=x/CN=abc/CN=d", false),
        ] {
            assert_eq!(policies[0].permits(name), permitted, "{name}");
        }
    }

    #[test]
    fn one_pattern_needs_no_inner_quotes_and_addresses_have_two_spellings() {
        let text = "access_id_CA X509 '/C=X/Email=ca@x'\npos_rights globus CA:sign\ncond_subjects globus '/C=X/*'\n";
        let policies = parse(text).unwrap();
        assert_eq!(policies[0].authority, "/C=X/emailAddress=ca@x");
        assert!(policies[0].permits("/C=X/CN=y"));
    }

    #[test]
    fn rights_other_than_signing_give_nothing_and_nonsense_is_refused() {
        let other = IGTF.replace("CA:sign", "CA:read");
        assert!(!parse(&other).unwrap()[0].permits("/C=CH/O=X/CN=Jane"));
        for (text, words) in [
            ("", "no access_id_CA"),
            ("hello world", "not known"),
            ("access_id_CA X509 /C=X", "quotes are missing"),
            ("access_id_CA X509 '/C=X", "not closed"),
            ("cond_subjects globus '\"/C\"'", "before the authority"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.0.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(200);
        assert!(!matches_pattern(&pattern, &"a".repeat(199)));
        assert!(matches_pattern(&pattern, &"a".repeat(4000)));
        assert!(matches_pattern("**", ""));
        assert!(!matches_pattern("", "x"));
    }
}
