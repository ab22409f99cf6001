//! A configuration file of ours, with the origin of each key as a comment above it.

use std::path::Path;

use config::{ClientConfiguration, Configuration, Mistake, Sections as _};
use toml::Value;

use crate::limits::COMMENTS_MAX;
use crate::source::Source;

/// Which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentKind {
    /// Of `crossload serve`.
    Endpoint,
    /// Of `crossload redirector`.
    Redirector,
    /// Of `crossload queue serve`.
    Queue,
    /// Of the client's commands: named remotes.
    Client,
}

impl DocumentKind {
    /// Its usual file name.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Endpoint => "crossload.toml",
            Self::Redirector => "redirector.toml",
            Self::Queue => "queue.toml",
            Self::Client => "client.toml",
        }
    }

    /// The names of its sections, in the order of the manual.
    fn sections(self) -> Vec<&'static str> {
        let sections = match self {
            Self::Client => ClientConfiguration::SECTIONS,
            _ => Configuration::SECTIONS,
        };
        sections.iter().map(|section| section.name).collect()
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// The lines that it comes from.
    pub sources: Vec<Source>,
    /// What the administrator should know or check, above the key.
    pub note: Option<String>,
}

/// A section: `[name]` or `[[name]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Whether it is one of several, `[[name]]`.
    pub is_repeated: bool,
    /// What the administrator should know, above the section.
    pub note: Option<String>,
    /// Its keys.
    pub entries: Vec<Entry>,
}

impl Section {
    /// An empty section `[[name]]`.
    #[must_use]
    pub fn repeated(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_repeated: true,
            note: None,
            entries: Vec::new(),
        }
    }

    /// Sets a key. A value from before is replaced.
    pub fn set(&mut self, key: &str, value: impl Into<Value>, source: &Source) -> &mut Entry {
        let index = self.index(key);
        let entry = &mut self.entries[index];
        entry.value = value.into();
        entry.sources = vec![source.clone()];
        entry
    }

    /// Adds an item to a key whose value is a list. An item that is there already is not repeated.
    pub fn push(&mut self, key: &str, item: impl Into<Value>, source: &Source) -> &mut Entry {
        let index = self.index(key);
        let entry = &mut self.entries[index];
        let item = item.into();
        match &mut entry.value {
            Value::Array(items) if items.contains(&item) => {}
            Value::Array(items) => items.push(item),
            other => *other = Value::Array(vec![item]),
        }
        if !entry.sources.contains(source) {
            entry.sources.push(source.clone());
        }
        entry
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    fn index(&mut self, key: &str) -> usize {
        if let Some(index) = self.entries.iter().position(|entry| entry.key == key) {
            return index;
        }
        self.entries.push(Entry {
            key: key.to_owned(),
            value: Value::Array(Vec::new()),
            sources: Vec::new(),
            note: None,
        });
        self.entries.len() - 1
    }

    fn write(&self, text: &mut String) {
        if let Some(note) = &self.note {
            comment(text, note);
        }
        let (open, close) = if self.is_repeated { ("[[", "]]") } else { ("[", "]") };
        text.push_str(&format!("{open}{}{close}\n", self.name));
        for entry in &self.entries {
            for source in entry.sources.iter().take(COMMENTS_MAX) {
                comment(text, &format!("from {source}"));
            }
            if let Some(more) = entry.sources.len().checked_sub(COMMENTS_MAX).filter(|more| *more > 0) {
                comment(text, &format!("and {more} more"));
            }
            if let Some(note) = &entry.note {
                comment(text, note);
            }
            text.push_str(&format!("{} = {}\n", entry.key, entry.value));
        }
    }
}

/// A configuration file of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Which one.
    pub kind: DocumentKind,
    /// Its sections.
    pub sections: Vec<Section>,
}

impl Document {
    /// An empty one.
    #[must_use]
    pub fn new(kind: DocumentKind) -> Self {
        Self {
            kind,
            sections: Vec::new(),
        }
    }

    /// The section `[name]`, which is made if it is missing.
    pub fn section(&mut self, name: &str) -> &mut Section {
        let found = self
            .sections
            .iter()
            .position(|section| section.name == name && !section.is_repeated);
        let index = found.unwrap_or_else(|| {
            self.sections.push(Section {
                is_repeated: false,
                ..Section::repeated(name)
            });
            self.sections.len() - 1
        });
        &mut self.sections[index]
    }

    /// The section `[name]`, if it is there.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Adds a section `[[name]]`.
    pub fn add(&mut self, name: &str) -> &mut Section {
        self.sections.push(Section::repeated(name));
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    /// The text of the file, with the sections in the order of the manual. `origin` is what it was
    /// made from, for its first line.
    #[must_use]
    pub fn render(&self, origin: &str) -> String {
        let mut text = String::new();
        comment(&mut text, &format!("Made by \"crossload migrate\" from {origin}."));
        let verb = match self.kind {
            DocumentKind::Client => "Used by the client's commands.".to_owned(),
            kind => format!("Check it: crossload check --config {}", kind.file_name()),
        };
        comment(&mut text, &verb);
        let order = self.kind.sections();
        let place = |section: &&Section| order.iter().position(|name| *name == section.name);
        let mut sections: Vec<&Section> = self
            .sections
            .iter()
            .filter(|section| !section.entries.is_empty())
            .collect();
        sections.sort_by_key(place);
        for section in sections {
            text.push('\n');
            section.write(&mut text);
        }
        text
    }

    /// The mistakes that our own reading finds in the text, whose directory will be `base`.
    #[must_use]
    pub fn mistakes(&self, text: &str, base: &Path) -> Vec<Mistake> {
        let file = base.join(self.kind.file_name());
        let read = match self.kind {
            DocumentKind::Client => ClientConfiguration::parse(text, &file).map(drop),
            kind => Configuration::parse(text, base, kind.file_name()).map(drop),
        };
        read.err().map(|faults| faults.0).unwrap_or_default()
    }
}

/// Appends a comment; its line ends and other control characters are spaces.
fn comment(text: &mut String, words: &str) {
    let plain: String = words
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    text.push_str(&format!("# {plain}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_names_its_lines_and_the_file_is_read_by_us() {
        let source = |line: usize, text: &str| Source::new("x.cfg", line, text);
        let mut document = Document::new(DocumentKind::Endpoint);
        let export = document.add("export");
        export.set("path", "/data", &source(2, "all.export /data"));
        export.set("directory", "/srv/\"d\"", &source(3, "oss.localroot /srv/\"d\""));
        let server = document.section("server");
        for line in 1..8 {
            server.push("listen", format!("[::]:{line}"), &source(line, "xrd.port"));
        }
        server.push("listen", "[::]:1", &source(1, "xrd.port")).note = Some("one\ntwo".to_owned());
        let text = document.render("x.cfg");
        let begin = text.find("[server]").unwrap();
        assert!(begin < text.find("[[export]]").unwrap(), "{text}");
        assert!(
            text.contains("# from x.cfg:2: all.export /data\npath = \"/data\"\n"),
            "{text}"
        );
        assert!(
            text.contains("# and 3 more\n# one two\nlisten = [\"[::]:1\", "),
            "{text}"
        );
        assert_eq!(document.mistakes(&text, Path::new("/etc")), []);
        document.section("server").set("lisen", true, &source(1, ""));
        assert_eq!(document.mistakes(&document.render("x"), Path::new("/etc")).len(), 1);
    }

    #[test]
    fn every_kind_of_value_is_one_line_of_toml() {
        for value in [
            Value::from("a\nb\"c\\d\u{1}'''"),
            Value::from(vec!["a", "b\n"]),
            Value::from(3_i64),
            Value::from(true),
            Value::from(vec![Value::from(vec!["a"])]),
        ] {
            let mut document = Document::new(DocumentKind::Client);
            document.section("s").set("k", value.clone(), &Source::of_file("f"));
            let text = document.render("f");
            let table: toml::Table = text.parse().unwrap();
            assert_eq!(table["s"]["k"], value, "{text}");
        }
    }
}
