//! Variables: `set NAME = VALUE`, and `$NAME`, `$(NAME)`, `${NAME}`, `$[NAME]` in words.

use std::collections::BTreeMap;

use crate::limits::VALUE_BYTES_MAX;

/// A word with its variables replaced, and the names of those that are not set.
pub(crate) fn replaced(word: &str, variables: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let (mut out, mut missing) = (String::new(), Vec::new());
    let mut rest = word;
    while let Some(at) = rest.find(['$', '\\']) {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest.as_bytes()[at] == b'\\' {
            // It stands for the next character.
            let next = after.chars().next();
            out.extend(next);
            rest = &after[next.map_or(0, char::len_utf8)..];
            continue;
        }
        let Some((name, is_optional, length)) = name_in(after) else {
            out.push('$');
            rest = after;
            continue;
        };
        match variables.get(name) {
            Some(value) => out.push_str(value),
            None if is_optional => {}
            None => missing.push(name.to_owned()),
        }
        rest = &after[length..];
        if out.len() > VALUE_BYTES_MAX {
            break;
        }
    }
    out.push_str(rest);
    while out.len() > VALUE_BYTES_MAX {
        out.pop();
    }
    (out, missing)
}

/// The name behind a dollar sign, whether it may be missing, and the length of all that.
fn name_in(text: &str) -> Option<(&str, bool, usize)> {
    let close = match text.chars().next()? {
        '(' => Some(')'),
        '{' => Some('}'),
        '[' => Some(']'),
        first if first.is_ascii_alphanumeric() => None,
        _ => return None,
    };
    let begin = usize::from(close.is_some());
    let name = &text[begin..];
    let end = name
        .find(|letter: char| !letter.is_ascii_alphanumeric())
        .unwrap_or(name.len());
    let name = &name[..end];
    match close {
        None => Some((name, false, end)),
        Some(close) if text[begin + end..].starts_with(close) => Some((name, close == ']', begin + end + 1)),
        Some(_) => None,
    }
}

/// Name and value of `NAME = VALUE`, in all the ways to put blanks. `None` for options such as `-v`
/// and for values from files.
pub(crate) fn assignment(words: &[String]) -> Option<(String, String)> {
    let text = words.join(" ");
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_in_all_their_forms() {
        let known = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b2".to_owned(), "/x/y".to_owned())]);
        for (word, out) in [
            ("$a", "1"),
            ("$(b2)/z", "/x/y/z"),
            ("${a}g:$[a]", "1g:1"),
            ("$[none]z", "z"),
            ("a$", "a$"),
            ("$(a", "$(a"),
            ("\\$a", "$a"),
            ("$a_b", "1_b"),
            ("x\\", "x"),
        ] {
            assert_eq!(replaced(word, &known), (out.to_owned(), Vec::new()), "{word}");
        }
        assert_eq!(
            replaced("/$(none)/ä", &known),
            ("//ä".to_owned(), vec!["none".to_owned()])
        );
        let long = BTreeMap::from([("a".to_owned(), "x".repeat(60_000))]);
        assert!(replaced("$a$a$a", &long).0.len() <= VALUE_BYTES_MAX);
    }

    #[test]
    fn assignments_are_read_with_and_without_blanks() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assignment(&words)
        };
        let pair = Some(("a".to_owned(), "/x".to_owned()));
        for line in ["a = /x", "a=/x", "a= /x", "a =/x"] {
            assert_eq!(read(line), pair, "{line}");
        }
        assert_eq!(read("a = b = c"), Some(("a".to_owned(), "b = c".to_owned())));
        for line in ["-v", "a < file", "", "= x"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
