//! Prose: phrases that no native writer uses, words that the glossary replaces, and long lines.
//!
//! It checks documents, comments, and the strings of the product, but no code spans or code blocks.

use super::source::{Kind, SourceFile};
use super::{Finding, Rule};
use std::collections::HashMap;

/// Made from code, and checked there.
const GENERATED: [&str; 2] = ["docs/configuration.md", "docs/errors.md"];
/// Documents with one entry on each line, however long it is.
const LONG_LINES: [&str; 1] = ["CHANGELOG.md"];
/// The document whose tables name the words not to use.
pub(crate) const GLOSSARY: &str = "docs/glossary.md";

/// The longest line with a comment, and the longest line of a document, in characters.
const COMMENT_COLUMNS: usize = 100;
const DOCUMENT_COLUMNS: usize = 120;

/// Phrases that are refused everywhere, and what to write.
const BANNED: [(&str, &str); 33] = [
    ("whoever", "name the actor: the client, the caller, the reader"),
    ("whomever", "name the actor"),
    ("nobody", "no client, no test, anonymous, unused"),
    ("somebody", "a client, a user, another program"),
    ("cannot be had", "cannot be fetched, is not available"),
    ("can be had", "is available"),
    ("is had", "rewrite with a verb that says what happens"),
    ("is told", "gets, learns, is answered"),
    ("are told", "get, learn, are answered"),
    ("was told", "got, learned, was asked"),
    ("were told", "got, learned, were asked"),
    ("be told", "get, learn, be answered"),
    ("is meant", "is, means, stands for"),
    ("are meant", "are, mean, stand for"),
    ("that which", "what, or the noun itself"),
    ("those which", "those that"),
    ("as far as", "where, if, up to"),
    ("one may", "a client may, you can"),
    ("one must", "a client must, you must"),
    ("at the most", "at most"),
    ("at the least", "at least"),
    ("for sure", "certainly, or leave it out"),
    ("lets itself", "can be"),
    ("let itself", "be"),
    ("by turns", "in turn, alternately"),
    ("to be had", "available"),
    ("what is more", "leave it out"),
    ("it is looked", "name who looks"),
    ("not any more", "no longer"),
    ("told apart", "distinguished, separate"),
    ("which is said", "which it reports"),
    ("the own", "our, its own"),
    ("not sound", "invalid"),
];

/// All phrases to look for, by their first word.
pub(crate) struct Prose {
    phrases: HashMap<String, Vec<Phrase>>,
}

struct Phrase {
    words: Vec<String>,
    instead: String,
}

/// A word with its line; `None` where a sentence or a span of code ends.
type Word = (Option<String>, usize);

impl Prose {
    /// The banned phrases, and the words that the glossary's tables replace.
    pub(crate) fn new(glossary: &str) -> Self {
        let mut prose = Self {
            phrases: HashMap::new(),
        };
        for (text, instead) in BANNED {
            prose.add(text, instead);
        }
        for (term, text) in replaced_words(glossary) {
            prose.add(&text, &format!("{term} ({GLOSSARY})"));
        }
        prose
    }

    fn add(&mut self, text: &str, instead: &str) {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if let Some(first) = words.first().cloned() {
            let instead = instead.to_owned();
            self.phrases.entry(first).or_default().push(Phrase { words, instead });
        }
    }

    /// Checks a document in Markdown.
    pub(crate) fn check_document(&self, path: &str, text: &str) -> Vec<Finding> {
        if GENERATED.contains(&path) {
            return Vec::new();
        }
        let lines = prose_lines(text);
        let mut findings = Vec::new();
        let is_breakable = |line: &str| !line.starts_with(['|', '#']) && !line.contains("://");
        for (number, line) in lines.iter().filter(|(_, line)| is_breakable(line)) {
            let columns = line.chars().count();
            if columns > DOCUMENT_COLUMNS && !LONG_LINES.contains(&path) {
                findings.push(long_line(path, *number, columns, DOCUMENT_COLUMNS));
            }
        }
        let mut words = Vec::new();
        for (number, line) in &lines {
            words_of(line, *number, &mut words);
        }
        findings.extend(self.phrases_in(path, &words));
        findings
    }

    /// Checks the comments and strings of a source file.
    pub(crate) fn check_source(&self, source: &SourceFile) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut words = Vec::new();
        for (index, line) in source.lines.iter().enumerate() {
            let Some(comment) = comment_of(line) else {
                words.push((None, index + 1));
                continue;
            };
            words_of(comment, index + 1, &mut words);
            let columns = line.chars().count();
            let is_breakable = !comment.trim_start().starts_with('|') && !line.contains("://");
            if columns > COMMENT_COLUMNS && is_breakable {
                findings.push(long_line(&source.path, index + 1, columns, COMMENT_COLUMNS));
            }
        }
        for token in source.product_tokens() {
            if let Kind::Text(text) = &token.kind
                && text.contains(' ')
            {
                words.push((None, token.line));
                words_of(text, token.line, &mut words);
            }
        }
        // The table of what is refused would refuse itself.
        if !source.path.ends_with("tidy/prose.rs") {
            findings.extend(self.phrases_in(&source.path, &words));
        }
        findings
    }

    fn phrases_in(&self, path: &str, words: &[Word]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (index, (word, line)) in words.iter().enumerate() {
            let known = word.as_ref().and_then(|word| self.phrases.get(word));
            for phrase in known.into_iter().flatten() {
                let mut rest = words[index..].iter().map(|(word, _)| word.as_deref());
                if phrase.words.iter().all(|word| rest.next() == Some(Some(word))) {
                    let detail = format!("`{}`: {}", phrase.words.join(" "), phrase.instead);
                    findings.push(Finding::new(path, *line, Rule::Prose, detail));
                }
            }
        }
        findings
    }
}

fn long_line(path: &str, line: usize, columns: usize, limit: usize) -> Finding {
    let detail = format!("{columns} columns of prose, limit {limit}");
    Finding::new(path, line, Rule::Prose, detail)
}

/// The glossary's pairs of a term and a word not to use for it: first and last column of its
/// tables, the latter in code spans.
fn replaced_words(glossary: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for row in glossary.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if let [term, .., avoided] = cells.as_slice() {
            let spans = avoided.split('`').skip(1).step_by(2);
            pairs.extend(spans.map(|word| (term.trim_matches('*').to_owned(), word.to_owned())));
        }
    }
    pairs
}

/// The lines of a document that are prose, with their numbers: no code blocks, and nothing between
/// the marks of a part that a program writes.
fn prose_lines(text: &str) -> Vec<(usize, &str)> {
    let (mut is_code, mut is_generated) = (false, false);
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if line.starts_with("<!--") && line.contains(" begin") {
            is_generated = true;
        } else if line.starts_with("<!--") && line.contains(" end") {
            is_generated = false;
        } else if !is_code && !is_generated {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The text of a comment on the line, if there is one.
fn comment_of(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if let Some(comment) = trimmed.strip_prefix("//") {
        return Some(comment.trim_start_matches(['/', '!']));
    }
    line.split_once(" // ").map(|(_code, comment)| comment)
}

/// Appends the words of a line in lower case. A code span is no word, and separates like the end of
/// a sentence.
fn words_of(line: &str, number: usize, words: &mut Vec<Word>) {
    for (index, piece) in line.split('`').enumerate() {
        if index % 2 == 1 {
            words.push((None, number));
            continue;
        }
        for word in piece.split_whitespace() {
            if word.starts_with("--") || word.starts_with("(--") {
                words.push((None, number));
                continue;
            }
            let bare = word.trim_matches(|character: char| !character.is_alphanumeric());
            if !bare.is_empty() {
                words.push((Some(bare.to_lowercase()), number));
            }
            if word.ends_with(['.', ';', ':', '?', '!']) {
                words.push((None, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "xtask/src/a.rs";
    const TABLE: &str =
        "| term | meaning | not |\n|---|---|---|\n| **part** | a hidden file | `partial file`, `temp file` |\n";

    fn lines_in_source(text: &str) -> Vec<usize> {
        let source = SourceFile::parse(PATH, text).expect("the snippet parses");
        let findings = Prose::new(TABLE).check_source(&source);
        findings.iter().map(|finding| finding.line).collect()
    }

    fn lines_in_document(text: &str) -> Vec<usize> {
        let findings = Prose::new(TABLE).check_document(GLOSSARY, text);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn phrases_are_found_in_comments_and_strings_of_the_product() {
        assert_eq!(lines_in_source("//! For whoever reads.\nfn f() {}\n"), [1]);
        assert_eq!(
            lines_in_source("//! A.\n/// The keys cannot be\n/// had now.\nfn f() {}\n"),
            [2]
        );
        assert_eq!(lines_in_source("//! A.\nconst A: &str = \"it is told so\";\n"), [2]);
        let test = "//! A.\n#[cfg(test)]\nmod tests {\n    const A: &str = \"it is told so\";\n}\n";
        assert!(lines_in_source(test).is_empty());
    }

    #[test]
    fn code_and_names_are_no_prose() {
        assert!(lines_in_source("//! The user `nobody`.\nfn whoever() {}\n").is_empty());
        assert!(lines_in_source("//! A.\nconst USER: &str = \"nobody\";\n").is_empty());
        assert!(lines_in_document("```sh\nwhoever\n```\n").is_empty());
        assert!(lines_in_source("//! As far. As it goes.\n").is_empty());
    }

    #[test]
    fn words_of_the_glossary_are_refused() {
        assert_eq!(lines_in_document("A Temp file stays.\n"), [1]);
        assert!(lines_in_document(TABLE).is_empty());
        let finding = &Prose::new(TABLE).check_document(GLOSSARY, "a temp file")[0];
        assert_eq!(finding.detail, "`temp file`: part (docs/glossary.md)");
    }

    #[test]
    fn long_lines_of_prose_are_found() {
        let comment = |columns: usize| format!("//! A.\n// {}\n", "a".repeat(columns - 3));
        assert!(lines_in_source(&comment(100)).is_empty());
        assert_eq!(lines_in_source(&comment(101)), [2]);
        assert!(lines_in_source(&format!("//! | a | {} |\n", "a".repeat(100))).is_empty());
        assert_eq!(lines_in_document(&"a".repeat(121)), [1]);
        assert!(lines_in_document(&format!("| {} |", "a".repeat(121))).is_empty());
    }

    #[test]
    fn what_a_program_writes_is_left_out() {
        let text = format!(
            "<!-- figures: begin -->\n{}\n<!-- figures: end -->\nnobody\n",
            "a".repeat(200)
        );
        assert_eq!(lines_in_document(&text), [4]);
    }

    #[test]
    fn documents_made_from_code_are_left_out() {
        assert!(Prose::new("").check_document(GENERATED[0], "whoever").is_empty());
    }
}
