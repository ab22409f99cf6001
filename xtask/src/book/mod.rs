//! The manual: the pages below `docs/` in the order of `docs/SUMMARY.md`, as HTML in
//! `target/manual`, and a check of all links in the repository's documents.
//!
//! The source is that of an mdBook (`book.toml`, `SUMMARY.md`, includes), and Markdown is read by
//! mdBook's own parser. The pages are ours: mdBook's have inline scripts and styles, which the
//! servers that show the manual forbid, and its crates would be a fifth of all that we compile.

mod links;
mod page;
mod source;
mod summary;
mod template;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::tidy::{Finding, Rule};
use source::{Sources, directory_of, joined};
use summary::Summary;
use template::Frame;

const BOOK_FILE: &str = "book.toml";
const SUMMARY_FILE: &str = "docs/SUMMARY.md";
/// Where the pages are.
const PAGES: &str = "docs/";
/// Where the manual is written.
const OUTPUT: &str = "target/manual";

/// Writes the manual.
///
/// # Errors
/// Dead links, or why a file cannot be read or written.
pub(crate) fn write(root: &Path) -> Result<String, String> {
    let book = Book::read(root)?;
    let pages = book.pages()?;
    let output = root.join(OUTPUT);
    let _ = fs::remove_dir_all(&output);
    for (path, content) in &pages {
        let place = output.join(path);
        let directory = place.parent().unwrap_or(&output);
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        fs::write(&place, content).map_err(|error| format!("{}: {error}", place.display()))?;
    }
    Ok(format!("book: {} files in {OUTPUT}", pages.len()))
}

/// Makes the manual without writing it.
///
/// # Errors
/// As [`write`].
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let pages = Book::read(root)?.pages()?;
    Ok(format!("book: {} files, and no link is dead", pages.len()))
}

/// The findings of `tidy`: dead links, and pages that the summary lacks.
pub(crate) fn findings(root: &Path) -> Vec<Finding> {
    match Book::read(root) {
        Ok(book) => book.findings(),
        Err(reason) => vec![Finding::new(SUMMARY_FILE, 1, Rule::Links, reason)],
    }
}

/// The documents of the repository, and which of them are pages.
struct Book {
    title: String,
    summary: Summary,
    sources: Sources,
}

impl Book {
    fn read(root: &Path) -> Result<Self, String> {
        let sources = Sources::read(root)?;
        let text = fs::read_to_string(root.join(BOOK_FILE)).map_err(|error| format!("{BOOK_FILE}: {error}"))?;
        let table: toml::Table = text.parse().map_err(|error| format!("{BOOK_FILE}: {error}"))?;
        let title = table.get("book").and_then(|book| book.get("title"));
        let summary =
            Summary::parse(sources.text(SUMMARY_FILE)).map_err(|reason| format!("{SUMMARY_FILE}: {reason}"))?;
        Ok(Self {
            title: title.and_then(toml::Value::as_str).unwrap_or_default().to_owned(),
            summary,
            sources,
        })
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = links::dead(&self.sources);
        findings.extend(links::chapters(&self.sources, &self.summary));
        findings
    }

    /// All files of the manual by their paths in it.
    fn pages(&self) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let findings: Vec<String> = self.findings().iter().map(Finding::to_string).collect();
        if !findings.is_empty() {
            return Err(findings.join("\n"));
        }
        let places = self.places();
        let mut pages = BTreeMap::new();
        pages.insert("manual.css".to_owned(), template::STYLE.as_bytes().to_vec());
        for (index, chapter) in self.summary.chapters.iter().enumerate() {
            let source = chapter.source();
            let (text, base) = self.sources.expanded(&source);
            let output = output_of(&source);
            let up = "../".repeat(output.matches('/').count());
            let html = page::render(&text, |target| {
                self.href(&places, &source, base.as_deref(), &up, target)
            });
            let frame = Frame {
                book: &self.title,
                summary: &self.summary,
                current: index,
                up: &up,
                sections: &page::sections(&text),
            };
            pages.insert(output, frame.around(&html).into_bytes());
        }
        for path in self
            .sources
            .files()
            .filter(|path| path.starts_with(PAGES) && path.ends_with(".json"))
        {
            pages.insert(path[PAGES.len()..].to_owned(), self.sources.bytes(path)?);
        }
        Ok(pages)
    }

    /// Where each source is in the manual, those that a page includes too.
    fn places(&self) -> BTreeMap<String, String> {
        let mut places = BTreeMap::new();
        for chapter in &self.summary.chapters {
            let source = chapter.source();
            let output = output_of(&source);
            for included in self.sources.included(&source) {
                places.insert(included, output.clone());
            }
            places.insert(source, output);
        }
        places
    }

    /// The place of a link in the manual; `None` for files that are only in the repository.
    fn href(
        &self,
        places: &BTreeMap<String, String>,
        source: &str,
        base: Option<&str>,
        up: &str,
        target: &str,
    ) -> Option<String> {
        if links::is_elsewhere(target) || target.starts_with('#') {
            return Some(target.to_owned());
        }
        let (path, fragment) = links::split(target);
        let from = base.unwrap_or_else(|| directory_of(source));
        let file = joined(from, path)?;
        let fragment = if fragment.is_empty() {
            String::new()
        } else {
            format!("#{fragment}")
        };
        match places.get(&file) {
            Some(place) => Some(format!("{up}{place}{fragment}")),
            None if file.starts_with(PAGES) && file.ends_with(".json") => Some(format!("{up}{}", &file[PAGES.len()..])),
            None => None,
        }
    }
}

/// The HTML file of a page; as mdBook does it, a README is the index of its directory.
fn output_of(source: &str) -> String {
    let path = source.strip_prefix(PAGES).unwrap_or(source);
    let stem = path.strip_suffix(".md").unwrap_or(path);
    match stem.strip_suffix("README") {
        Some(directory) => format!("{directory}index.html"),
        None => format!("{stem}.html"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_whole_and_without_scripts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = Book::read(&root).and_then(|book| book.pages()).expect("the manual");
        assert!(
            pages.contains_key("index.html") && pages.contains_key("manual.css"),
            "{:?}",
            pages.keys()
        );
        assert!(pages.len() > 30, "{}", pages.len());
        for (path, content) in pages.iter().filter(|(path, _)| path.ends_with(".html")) {
            let text = String::from_utf8_lossy(content);
            for forbidden in ["<script", " style=\"", " onclick", "javascript:", "<!-- run"] {
                assert!(!text.contains(forbidden), "{path} has {forbidden}");
            }
        }
    }

    #[test]
    fn a_readme_is_an_index() {
        assert_eq!(output_of("docs/README.md"), "index.html");
        assert_eq!(output_of("docs/experiments/README.md"), "experiments/index.html");
        assert_eq!(output_of("docs/queue.md"), "queue.html");
    }
}
