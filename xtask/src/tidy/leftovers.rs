//! What was meant to be temporary: unfinished work, silenced warnings, skipped tests, paths of one
//! machine.

use super::source::{Kind, SourceFile, Token};
use super::{Finding, Rule};

/// Macros that stand for work not done. Clippy knows some of them, but not in every build.
const UNFINISHED_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Marks of unfinished work; put together here so that this file does not carry them.
const MARKS: [&str; 3] = [concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO")];

/// Beginnings of paths that exist on one machine only, put together for the same reason.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

/// Checks the text of any file of the project.
pub(crate) fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_code = [".rs", ".toml", ".sh", ".yml", "dev", ".ci/run"]
        .iter()
        .any(|end| path.ends_with(end));
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS.iter().filter(|mark| is_code && has_word(line, mark)) {
            findings.push(Finding::new(path, index + 1, Rule::Leftovers, format!("`{mark}`")));
        }
        for start in MACHINE_PATHS.iter().filter(|start| begins_path(line, start)) {
            findings.push(Finding::new(
                path,
                index + 1,
                Rule::MachinePaths,
                format!("a path under `{start}`"),
            ));
        }
    }
    findings
}

/// Checks the tokens of a source file.
pub(crate) fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for window in source.tokens.windows(4) {
        if let Some(detail) = leftover_at(window) {
            findings.push(Finding::new(&source.path, window[0].line, Rule::Leftovers, detail));
        }
    }
    findings
}

fn leftover_at(window: &[Token]) -> Option<String> {
    let ident = |index: usize| match &window[index].kind {
        Kind::Ident(word) => word.as_str(),
        _ => "",
    };
    let sign = |index: usize, expected: char| window[index].kind == Kind::Other(expected);
    if UNFINISHED_MACROS.contains(&ident(0)) && sign(1, '!') {
        return Some(format!("`{}!`", ident(0)));
    }
    if ident(0) == "allow" && sign(1, '(') && ident(2) == "dead_code" {
        return Some("`allow(dead_code)`: remove what nothing uses".to_owned());
    }
    if sign(0, '#') && sign(1, '[') && ident(2) == "ignore" && sign(3, ']') {
        return Some("`#[ignore]` without a reason".to_owned());
    }
    None
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })
}

fn is_word_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Whether an absolute path with this beginning stands in the line; a path that merely contains it
/// does not count.
fn begins_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|character| is_word_char(character) || matches!(character, '/' | '.' | '-' | '}' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    const PATH: &str = "crates/net/src/a.rs";

    fn rules(line: &str) -> Vec<Rule> {
        findings_in(PATH, &format!("//! Doc.\n{line}\n"))
            .into_iter()
            .map(|(rule, _)| rule)
            .collect()
    }

    #[test]
    fn unfinished_work_is_found() {
        for line in [
            "fn f() { todo!() }",
            "fn f() { dbg!(1); }",
            "#[allow(dead_code)] fn f() {}",
            "#[ignore] fn f() {}",
        ] {
            assert_eq!(rules(line), [Rule::Leftovers], "{line}");
        }
        for mark in MARKS {
            assert_eq!(rules(&format!("// {mark}: later")), [Rule::Leftovers], "{mark}");
        }
    }

    #[test]
    fn finished_work_is_not() {
        for line in [
            "#[ignore = \"needs a tape robot\"] fn f() {}",
            "fn todo() {}",
            "// made by mktemp XXXXXX",
        ] {
            assert!(rules(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn only_absolute_paths_of_a_machine_count() {
        let start = MACHINE_PATHS[0];
        assert_eq!(rules(&format!("const A: &str = \"{start}me\";")), [Rule::MachinePaths]);
        assert!(rules(&format!("const A: &str = \"https://se.example.org{start}me\";")).is_empty());
    }
}
