//! Where something comes from: a line of a file of the other program.

use std::fmt;

use markup::visible;

use crate::limits::COMMENT_CHARACTERS_MAX;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from one; 0 for the file as a whole.
    pub line: usize,
    /// The line as it stands there, on one line and without secrets.
    pub text: String,
}

impl Source {
    /// A line. `text` goes into comments and remarks: leave secrets out ([`Source::hidden`]).
    #[must_use]
    pub fn new(file: &str, line: usize, text: &str) -> Self {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut text: String = visible(&words).chars().take(COMMENT_CHARACTERS_MAX).collect();
        if text.len() < visible(&words).len() {
            text.push('…');
        }
        Self {
            file: visible(file).into_owned(),
            line,
            text,
        }
    }

    /// A line whose value is a secret: only `name` is shown.
    #[must_use]
    pub fn hidden(file: &str, line: usize, name: &str) -> Self {
        Self::new(file, line, &format!("{name} (value not shown)"))
    }

    /// The file as a whole.
    #[must_use]
    pub fn of_file(file: &str) -> Self {
        Self::new(file, 0, "")
    }

    /// `FILE:LINE`, or the file alone.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }
}

/// `FILE:LINE: TEXT`.
impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.is_empty() {
            true => out.write_str(&self.place()),
            false => write!(out, "{}: {}", self.place(), self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_short_line() {
        let source = Source::new("a\nb.cfg", 3, "all.export \t /data\u{1b}[31m\n  # x");
        assert_eq!(source.to_string().lines().count(), 1);
        assert!(source.to_string().contains(":3: all.export /data"), "{source}");
        assert!(!source.to_string().contains('\u{1b}'));
        let long = Source::new("f", 1, &"ä".repeat(1000));
        assert_eq!(long.text.chars().count(), COMMENT_CHARACTERS_MAX + 1);
        assert_eq!(Source::of_file("f").to_string(), "f");
        assert!(!Source::hidden("f", 1, "DbPassword").to_string().contains("secret"));
    }
}
