//! The documents of the repository, and what they include.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree;

/// All files by their paths, and the text of those in Markdown.
pub(crate) struct Sources {
    root: PathBuf,
    files: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Sources {
    /// # Errors
    /// When the tree cannot be listed.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let files = tree::files(root).map_err(|error| format!("the tree cannot be listed: {error}"))?;
        let documents = files.iter().filter(|path| path.ends_with(".md"));
        let texts = documents.filter_map(|path| Some((path.clone(), fs::read_to_string(root.join(path)).ok()?)));
        Ok(Self {
            root: root.to_owned(),
            texts: texts.collect(),
            files: files.into_iter().collect(),
        })
    }

    #[cfg(test)]
    pub(crate) fn of(documents: &[(&str, &str)]) -> Self {
        let texts = documents
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let texts: BTreeMap<String, String> = texts.collect();
        Self {
            root: PathBuf::new(),
            files: texts.keys().cloned().collect(),
            texts,
        }
    }

    /// Paths of all files, sorted.
    pub(crate) fn files(&self) -> impl Iterator<Item = &String> {
        self.files.iter()
    }

    /// All documents.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&String, &String)> {
        self.texts.iter()
    }

    /// Whether a path is a file or a directory of the repository.
    pub(crate) fn has(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        self.files.contains(path) || self.files.iter().any(|file| file.starts_with(&inside))
    }

    /// The text of a document; empty without one.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }

    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root.join(path)).map_err(|error| format!("{path}: {error}"))
    }

    /// The documents that a page includes.
    pub(crate) fn included(&self, path: &str) -> Vec<String> {
        let from = directory_of(path);
        let lines = self.text(path).lines();
        lines
            .filter_map(include)
            .filter_map(|target| joined(from, target))
            .collect()
    }

    /// A page with what it includes, and the directory to which the links in that are relative.
    pub(crate) fn expanded(&self, path: &str) -> (String, Option<String>) {
        let mut base = None;
        let mut text = String::new();
        for line in self.text(path).lines() {
            match include(line).and_then(|target| joined(directory_of(path), target)) {
                Some(file) => {
                    text.push_str(self.text(&file));
                    base = Some(directory_of(&file).to_owned());
                }
                None => text.push_str(line),
            }
            text.push('\n');
        }
        (text, base)
    }
}

/// The file in mdBook's `{{#include FILE}}`.
pub(crate) fn include(line: &str) -> Option<&str> {
    line.trim()
        .strip_prefix("{{#include ")?
        .strip_suffix("}}")
        .map(str::trim)
}

/// The directory of a path; empty: the root.
pub(crate) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// A relative path, from a directory of the repository; `None` if it leads outside.
pub(crate) fn joined(directory: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_within_the_repository() {
        assert_eq!(joined("docs", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(
            joined("docs/experiments", "../queue.md").as_deref(),
            Some("docs/queue.md")
        );
        assert_eq!(joined("", "docs/").as_deref(), Some("docs"));
        assert_eq!(joined("docs", "../../x"), None);
    }

    #[test]
    fn a_page_includes_another_document() {
        let sources = Sources::of(&[("docs/news.md", "{{#include ../NEWS.md}}\n"), ("NEWS.md", "# News\n")]);
        assert_eq!(sources.included("docs/news.md"), ["NEWS.md"]);
        let (text, base) = sources.expanded("docs/news.md");
        assert_eq!((text.trim(), base.as_deref()), ("# News", Some("")));
    }
}
