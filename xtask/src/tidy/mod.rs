//! The tidy checks: house rules that neither rustc nor clippy can see.
//!
//! Each rule is a function from sources to findings, and each finding is printed with the reason of
//! its rule. There are no exceptions: a rule that is wrong somewhere is changed, with its test.

mod circles;
mod floors;
mod leftovers;
mod names;
mod prose;
mod rule;
mod shape;
mod source;
mod statics;
mod unsafety;

pub(crate) use rule::{Finding, Rule};

use crate::{book, docs, tree};
use circles::Circles;
use prose::Prose;
use source::SourceFile;
use std::fs;
use std::path::Path;

/// Runs all checks over the tree at `root`; the summary on success, the list of findings otherwise.
///
/// # Errors
/// The findings, one per line with its reason below, or why the tree could not be read.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let paths = tree::files(root).map_err(|error| format!("the tree cannot be listed: {error}"))?;
    let glossary = fs::read_to_string(root.join(prose::GLOSSARY)).unwrap_or_default();
    let prose = Prose::new(&glossary);
    let mut findings = Vec::new();
    let mut circles = Circles::default();
    let mut sources = 0_usize;
    for path in &paths {
        let Ok(text) = fs::read_to_string(root.join(path)) else {
            continue; // Not text (a corpus entry, an image): nothing here applies.
        };
        findings.extend(leftovers::check_text(path, &text));
        if path.ends_with("Cargo.toml") {
            findings.extend(floors::check(path, &text));
        }
        if path.ends_with(".md") {
            findings.extend(prose.check_document(path, &text));
        }
        if path.ends_with(".rs") {
            sources += 1;
            match SourceFile::parse(path, &text) {
                Ok(source) => {
                    findings.extend(check_source(&source));
                    findings.extend(prose.check_source(&source));
                    circles.add(&source);
                }
                Err(finding) => findings.push(finding),
            }
        }
    }
    findings.extend(circles.findings());
    findings.extend(docs::findings(root));
    findings.extend(book::findings(root));
    if findings.is_empty() {
        return Ok(format!(
            "tidy: {sources} source files of {} files, nothing to report",
            paths.len()
        ));
    }
    Err(report(findings))
}

/// All rules that look at one Rust source file.
fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(shape::check(source));
    findings.extend(unsafety::check(source));
    findings.extend(names::check(source));
    findings.extend(statics::check(source));
    findings.extend(leftovers::check_source(source));
    findings
}

/// The findings in order of place, then each broken rule's reason once.
fn report(mut findings: Vec<Finding>) -> String {
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    let mut text = String::new();
    for finding in &findings {
        text.push_str(&format!("{finding}\n"));
    }
    let mut rules: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
    rules.sort();
    rules.dedup();
    text.push_str("\nwhy:\n");
    for rule in rules {
        text.push_str(&format!("  {}: {}\n", rule.name(), rule.reason()));
    }
    text.push_str(&format!("\ntidy: {} findings", findings.len()));
    text
}

#[cfg(test)]
pub(crate) fn findings_in(path: &str, text: &str) -> Vec<(Rule, usize)> {
    let source = SourceFile::parse(path, text).expect("the snippet parses");
    let mut findings = check_source(&source);
    findings.extend(leftovers::check_text(path, text));
    findings.iter().map(|finding| (finding.rule, finding.line)).collect()
}
