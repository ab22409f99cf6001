//! Files of Java's properties, in which dCache and StoRM keep their settings.

use std::iter::Peekable;
use std::str::{Chars, Lines};

use crate::limits::LINES_MAX;

/// A line of such a file, together with those that continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where it begins, counted from one.
    pub(crate) number: usize,
    /// As it stands there.
    pub(crate) text: String,
    /// What it says.
    pub(crate) content: Content,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// `[name]`, which only dCache's layouts have.
    Section(String),
    /// A key and its value, escapes replaced.
    Setting {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
}

/// Reads a file. Comments and empty lines are left out.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    let mut read = Vec::new();
    let mut number = 0;
    while let Some(first) = lines.next().filter(|_| number < LINES_MAX) {
        number += 1;
        let begin = number;
        let first = first.trim_start();
        if first.trim_end().is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let text = whole(first, &mut lines, &mut number);
        let content = match section(&text) {
            Some(name) => Content::Section(name.to_owned()),
            None => setting(&text),
        };
        read.push(Line {
            number: begin,
            text,
            content,
        });
    }
    read
}

/// A line with those that continue it. `number` is that of the last one.
fn whole(first: &str, lines: &mut Lines<'_>, number: &mut usize) -> String {
    let mut text = first.to_owned();
    while is_continued(&text) {
        text.pop();
        let Some(next) = lines.next() else { break };
        *number += 1;
        text.push_str(next.trim_start());
    }
    text
}

/// Whether an odd number of backslashes ends it.
fn is_continued(text: &str) -> bool {
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

fn section(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    (!name.is_empty()).then_some(name)
}

/// The key ends at the first `=`, `:` or blank that no backslash hides.
fn setting(text: &str) -> Content {
    let mut end = text.len();
    let mut is_hidden = false;
    for (at, character) in text.char_indices() {
        if !is_hidden && (character == '=' || character == ':' || character.is_whitespace()) {
            end = at;
            break;
        }
        is_hidden = character == '\\' && !is_hidden;
    }
    let (key, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    Content::Setting {
        key: unescaped(key),
        value: unescaped(value.trim()),
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => plain.extend(code_unit(&mut characters)),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

/// The character of four hexadecimal digits. Halves of pairs (UTF-16) are left out.
fn code_unit(characters: &mut Peekable<Chars<'_>>) -> Option<char> {
    let mut code = 0;
    for _ in 0..4 {
        code = code * 16 + characters.next_if(char::is_ascii_hexdigit)?.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Vec<(usize, String, String)> {
        let lines = parse(text).into_iter();
        lines
            .map(|line| match line.content {
                Content::Section(name) => (line.number, format!("[{name}]"), String::new()),
                Content::Setting { key, value } => (line.number, key, value),
            })
            .collect()
    }

    #[test]
    fn keys_end_at_the_first_separator_and_lines_go_on_behind_a_backslash() {
        let text = "# a = b\n! c\n\na.b = 1\n  c: two words \nd three\ne\n[dom/webdav] \nf = x \\\n   y\\\n  z\n\
            g = end\\\\\nh\\=i = \\u0041\\t\\q\n";
        let expected = [
            (4, "a.b", "1"),
            (5, "c", "two words"),
            (6, "d", "three"),
            (7, "e", ""),
            (8, "[dom/webdav]", ""),
            (9, "f", "x yz"),
            (12, "g", "end\\"),
            (13, "h=i", "A\tq"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, key, value)| (*line, (*key).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn broken_ends_are_harmless() {
        assert_eq!(settings("a = b\\"), [(1, "a".to_owned(), "b".to_owned())]);
        assert_eq!(settings("a = \\u12"), [(1, "a".to_owned(), "".to_owned())]);
        assert_eq!(settings("\\"), [(1, String::new(), String::new())]);
        assert_eq!(settings("[]\n[ ]\n").len(), 2);
    }
}
