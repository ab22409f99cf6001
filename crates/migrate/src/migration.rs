//! What a migration has made so far.

use markup::visible;
use toml::Value;

use crate::document::{Document, DocumentKind, Entry};
use crate::remark::{Outcome, Remark};
use crate::source::Source;

/// A file beside the configuration, such as a list of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Its name, without a directory.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The result: configuration files of ours, and what became of each line.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    /// Configuration files, in the order in which they were begun.
    pub documents: Vec<Document>,
    /// Other files.
    pub texts: Vec<TextFile>,
    /// A remark for each line that was read.
    pub remarks: Vec<Remark>,
}

impl Migration {
    /// A configuration file, which is begun if it is missing.
    pub fn document(&mut self, kind: DocumentKind) -> &mut Document {
        let found = self.documents.iter().position(|document| document.kind == kind);
        let index = found.unwrap_or_else(|| {
            self.documents.push(Document::new(kind));
            self.documents.len() - 1
        });
        &mut self.documents[index]
    }

    /// A configuration file, if it was begun.
    #[must_use]
    pub fn find(&self, kind: DocumentKind) -> Option<&Document> {
        self.documents.iter().find(|document| document.kind == kind)
    }

    /// Sets a key: `place` is `section.key`.
    pub fn set(&mut self, kind: DocumentKind, place: &str, value: impl Into<Value>, source: &Source) -> &mut Entry {
        let (section, key) = place.split_once('.').unwrap_or(("server", place));
        self.document(kind).section(section).set(key, value, source)
    }

    /// Adds an item to a key whose value is a list: `place` is `section.key`.
    pub fn push(&mut self, kind: DocumentKind, place: &str, item: impl Into<Value>, source: &Source) -> &mut Entry {
        let (section, key) = place.split_once('.').unwrap_or(("server", place));
        self.document(kind).section(section).push(key, item, source)
    }

    /// Notes that a line was taken over; `words` say where it is now.
    pub fn taken(&mut self, source: &Source, words: impl Into<String>) {
        self.note(Outcome::TakenOver, source, words, None);
    }

    /// Notes that only part of a line was taken over.
    pub fn in_part(&mut self, source: &Source, words: impl Into<String>, advice: impl Into<String>) {
        self.note(Outcome::InPart, source, words, Some(advice.into()));
    }

    /// Notes that a line is not needed here.
    pub fn not_needed(&mut self, source: &Source, why: impl Into<String>) {
        self.note(Outcome::NotNeeded, source, why, None);
    }

    /// Notes that we have no equivalent.
    pub fn no_equivalent(&mut self, source: &Source, words: impl Into<String>, advice: impl Into<String>) {
        self.note(Outcome::NoEquivalent, source, words, Some(advice.into()));
    }

    /// Notes a line that is unknown.
    pub fn unknown(&mut self, source: &Source, words: impl Into<String>, advice: impl Into<String>) {
        self.note(Outcome::Unknown, source, words, Some(advice.into()));
    }

    /// Notes what became of a line. Values of its file that are in the words stay on one line, and
    /// no terminal obeys them.
    pub fn note(&mut self, outcome: Outcome, source: &Source, words: impl Into<String>, advice: Option<String>) {
        let plain = |text: String| visible(&text).into_owned();
        self.remarks.push(Remark {
            source: source.clone(),
            outcome,
            words: plain(words.into()),
            advice: advice.map(plain),
        });
    }

    /// How many remarks have this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.remarks.iter().filter(|remark| remark.outcome == outcome).count()
    }

    /// Whether the administrator has nothing left to decide.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.remarks.iter().all(|remark| !remark.outcome.is_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_one_line_whatever_the_file_says() {
        let mut migration = Migration::default();
        migration.in_part(&Source::new("f", 1, "x"), "a\nb\u{1b}[2J", "c\rd");
        assert!(
            !migration.remarks[0].line().contains(char::is_control),
            "{}",
            migration.remarks[0].line()
        );
    }
}
