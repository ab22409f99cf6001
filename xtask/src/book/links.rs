//! Dead links: pages, anchors and files of the repository. Nothing is asked over the network.

use std::collections::{BTreeMap, BTreeSet};

use super::page;
use super::source::{Sources, directory_of, include, joined};
use super::summary::Summary;
use crate::tidy::{Finding, Rule};

/// Whether a link leads out of the repository.
pub(crate) fn is_elsewhere(target: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// A link's path and anchor.
pub(crate) fn split(target: &str) -> (&str, &str) {
    target.split_once('#').unwrap_or((target, ""))
}

/// Links that lead nowhere, and HTML that no page shows, in all documents.
pub(crate) fn dead(sources: &Sources) -> Vec<Finding> {
    let anchors: BTreeMap<&str, BTreeSet<String>> = sources
        .documents()
        .map(|(path, text)| {
            let sections = page::sections(text).into_iter();
            (path.as_str(), sections.map(|section| section.anchor).collect())
        })
        .collect();
    let mut findings = Vec::new();
    for (path, text) in sources.documents() {
        for link in page::links(text) {
            if let Some(fault) = fault(sources, &anchors, path, &link.target) {
                findings.push(Finding::new(path, link.line, Rule::Links, fault));
            }
        }
        for line in page::raw_html(text) {
            let detail = "HTML in a document; write Markdown, or `code` for a word in angle brackets";
            findings.push(Finding::new(path, line, Rule::Links, detail));
        }
    }
    findings
}

fn fault(sources: &Sources, anchors: &BTreeMap<&str, BTreeSet<String>>, path: &str, target: &str) -> Option<String> {
    if is_elsewhere(target) {
        return None;
    }
    let (place, anchor) = split(target);
    let file = match place.is_empty() {
        true => path.to_owned(),
        false => match joined(directory_of(path), place) {
            Some(file) => file,
            None => return Some(format!("`{target}` leads out of the repository")),
        },
    };
    if !sources.has(&file) {
        return Some(format!("`{target}`: no such file"));
    }
    let is_there = anchor.is_empty() || anchors.get(file.as_str()).is_none_or(|all| all.contains(anchor));
    (!is_there).then(|| format!("`{target}`: no such heading"))
}

/// Chapters without a page or twice, and pages without a chapter.
pub(crate) fn chapters(sources: &Sources, summary: &Summary) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for chapter in &summary.chapters {
        let source = chapter.source();
        let fault = match (sources.text(&source).is_empty(), seen.contains(&source)) {
            (true, _) => Some(format!("`{source}`: no such page")),
            (_, true) => Some(format!("`{source}` is a chapter already")),
            _ => None,
        };
        findings.extend(fault.map(|fault| Finding::new(super::SUMMARY_FILE, chapter.line, Rule::Links, fault)));
        seen.insert(source);
    }
    for (path, text) in sources.documents() {
        let is_page = path.starts_with(super::PAGES) && path != super::SUMMARY_FILE;
        if is_page && !seen.contains(path) {
            let detail = format!("no chapter of {}; add it where its readers look", super::SUMMARY_FILE);
            findings.push(Finding::new(path, 1, Rule::Links, detail));
        }
        let missing = text.lines().filter_map(include).filter(|target| {
            let file = joined(directory_of(path), target);
            is_page && file.is_none_or(|file| sources.text(&file).is_empty())
        });
        for target in missing {
            findings.push(Finding::new(
                path,
                1,
                Rule::Links,
                format!("`{target}` is included: no such file"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(documents: &[(&str, &str)]) -> Vec<String> {
        dead(&Sources::of(documents))
            .into_iter()
            .map(|finding| finding.detail)
            .collect()
    }

    #[test]
    fn dead_links_are_found() {
        let there = ("docs/b.md", "# Heading of B\n");
        let good = "[a](b.md) [b](b.md#heading-of-b) [c](#top) [d](https://x.example/y) [e](../docs)\n# Top\n";
        assert_eq!(faults(&[("docs/a.md", good), there]), [""; 0]);
        let bad = "[a](c.md) [b](b.md#x) [c](#y) [d](../../z)\n";
        let expected = [
            "`c.md`: no such file",
            "`b.md#x`: no such heading",
            "`#y`: no such heading",
            "`../../z` leads out of the repository",
        ];
        assert_eq!(faults(&[("docs/a.md", bad), there]), expected);
    }

    #[test]
    fn each_page_is_a_chapter_once() {
        let sources = Sources::of(&[("docs/a.md", "# A\n"), ("docs/b.md", "# B\n{{#include ../C.md}}\n")]);
        let summary = Summary::parse("# Summary\n- [A](a.md)\n- [A](a.md)\n- [D](d.md)\n").expect("a summary");
        let findings: Vec<(usize, String)> = chapters(&sources, &summary)
            .into_iter()
            .map(|finding| (finding.line, finding.detail))
            .collect();
        let expected = [
            (3, "`docs/a.md` is a chapter already"),
            (4, "`docs/d.md`: no such page"),
            (1, "no chapter of docs/SUMMARY.md; add it where its readers look"),
            (1, "`../C.md` is included: no such file"),
        ];
        let expected: Vec<(usize, String)> = expected
            .iter()
            .map(|(line, text)| (*line, (*text).to_owned()))
            .collect();
        assert_eq!(findings, expected);
    }
}
