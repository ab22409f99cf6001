//! Finds the lines of keys in the files of a configuration.

#[cfg(test)]
use std::path::Path;

use config::{Configuration, KeyPath, Sources};
use toml::de::DeValue;

use super::finding::Position;

/// The texts of a configuration.
pub(crate) struct Lines(Sources);

impl Lines {
    /// From the files.
    pub(crate) fn of_sources(sources: Sources) -> Self {
        Self(sources)
    }

    /// From the text of one file.
    #[cfg(test)]
    pub(crate) fn new(file: &Path, text: String) -> Self {
        Self(Sources::of(&file.display().to_string(), &text))
    }

    /// The names of the files, the main one first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }

    /// The line of a key; that of its section if the key is missing; none if the section is
    /// missing.
    pub(crate) fn of(&self, section: &str, key: &str) -> Position {
        self.of_item(section, 0, key)
    }

    /// As [`Lines::of`], for a known key.
    pub(crate) fn of_place(&self, place: &KeyPath) -> Position {
        self.of_item(place.section, place.index, place.key.name)
    }

    /// As [`Lines::of`], in the section of that name with this index.
    pub(crate) fn of_item(&self, section: &str, index: usize, key: &str) -> Position {
        let found = self.offset(section, index, key);
        let found = found.map(|offset| self.0.position(offset));
        Position {
            file: found.map_or(self.0.main(), |(file, _)| file).to_owned(),
            line: found.map(|(_, line)| line),
            key: format!("{section}.{key}"),
        }
    }

    /// Whether a file has the key.
    pub(crate) fn is_written(&self, section: &str, key: &str) -> bool {
        let Some(root) = self.0.merged_for::<Configuration>() else {
            return false;
        };
        let value = root.get(section);
        let table = value.and_then(|value| value.get_ref().as_table());
        table.is_some_and(|table| table.contains_key(key))
    }

    fn offset(&self, section: &str, index: usize, key: &str) -> Option<usize> {
        let root = self.0.merged_for::<Configuration>()?;
        let value = root.get(section)?;
        let (table, begin) = match value.get_ref() {
            DeValue::Table(table) => (table, value.span().start),
            DeValue::Array(list) => {
                let item = list.get(index)?;
                (item.get_ref().as_table()?, item.span().start)
            }
            _ => return None,
        };
        let known = table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        Some(known.map_or(begin, |(name, _)| name.span().start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_missing_ones_are_where_they_belong() {
        let text =
            "# A comment\n[server]\nkey = \"k\"\n\n[[export]]\npath = \"/a\"\n\n[[export]]\ndirectory = \"/d\"\n";
        let lines = Lines::new(Path::new("c.toml"), text.to_owned());
        assert_eq!(lines.of("server", "key").line, Some(3));
        assert_eq!(lines.of("server", "certificate").line, Some(2));
        assert_eq!(lines.of_item("export", 1, "directory").line, Some(9));
        assert_eq!(lines.of_item("export", 1, "path").line, Some(8));
        let position = lines.of("trust", "system");
        assert_eq!(
            (position.line, position.key.as_str(), position.file.as_str()),
            (None, "trust.system", "c.toml")
        );
    }
}
