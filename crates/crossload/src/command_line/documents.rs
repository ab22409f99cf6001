//! The manual's command lines and configuration files: those that the program would refuse.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::*;

/// Stands for what a shell would put into a word.
const VALUE: &str = "6d9c1f0e";
/// Words after which a command begins.
const BEFORE_COMMANDS: [&str; 12] = [
    "|", "||", "&&", ";", "&", "if", "then", "else", "do", "!", "exec", "while",
];

/// The documents by their names.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).expect("the manual");
    let pages = pages.map(|page| page.expect("a page").path());
    let others: Vec<PathBuf> = vec![root.join("README.md")];
    let documents = pages
        .chain(others)
        .filter(|path| path.extension().is_some_and(|end| end == "md"));
    documents
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("text"))
        })
        .collect()
}

/// The lines of shell in a document, those that go on joined.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut kind: Option<&str> = None;
    let mut goes_on = false;
    for line in text.lines().map(str::trim) {
        match (kind, line.strip_prefix("```")) {
            (None, Some(begin)) => kind = Some(begin),
            (Some(_), Some(_)) => (kind, goes_on) = (None, false),
            (Some("sh" | "console"), None) => {
                let command = match kind {
                    Some("console") if !goes_on => line.strip_prefix("$ "),
                    _ => Some(line),
                };
                let Some(command) = command else { continue };
                let (words, more) = match command.strip_suffix('\\') {
                    Some(words) => (words, true),
                    None => (command, false),
                };
                match lines.last_mut().filter(|_| goes_on) {
                    Some(last) => last.push_str(words),
                    None => lines.push(words.to_owned()),
                }
                goes_on = more;
            }
            _ => {}
        }
    }
    lines
}

/// A line without a comment, with values in place of what the shell would put there.
fn with_values(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or_default();
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        rest = match after.strip_prefix("(cat ").and_then(|inside| inside.split_once(')')) {
            Some((_, behind)) => {
                text.push_str(VALUE);
                behind
            }
            None if after.starts_with('(') => {
                // The command inside is one of its own.
                text.push_str(" ; ");
                &after[1..]
            }
            None => {
                let name = after
                    .bytes()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                    .count();
                text.push_str(VALUE);
                &after[name..]
            }
        };
    }
    text.push_str(rest);
    text.replace("JOB", VALUE).replace("; ", " ; ")
}

/// The commands of ours in a line of shell.
fn commands(line: &str) -> Vec<Vec<String>> {
    let Ok(words) = shell_words::split(&with_values(line)) else {
        return Vec::new();
    };
    let mut found: Vec<Vec<String>> = Vec::new();
    let (mut may_begin, mut is_ours) = (true, false);
    for word in words {
        let is_redirection = word
            .trim_start_matches(|byte: char| byte.is_ascii_digit())
            .starts_with(['>', '<']);
        if BEFORE_COMMANDS.contains(&word.as_str()) {
            (may_begin, is_ours) = (true, false);
        } else if is_redirection {
            (may_begin, is_ours) = (false, false);
        } else if may_begin && word == "crossload" {
            found.push(vec![word]);
            (may_begin, is_ours) = (false, true);
        } else if is_ours {
            let ends = word.ends_with(')') && !word.contains('(');
            let word = if ends {
                word.trim_end_matches(')')
            } else {
                word.as_str()
            };
            found.last_mut().expect("one has begun").push(word.to_owned());
            is_ours = !ends;
        } else {
            // What sets a variable may stand before a command.
            may_begin &= word.contains('=');
        }
    }
    found
}

#[test]
fn each_command_line_of_the_manual_is_valid() {
    let mut count = 0;
    let mut faults = Vec::new();
    for (name, text) in documents() {
        for line in shell_lines(&text) {
            for command in commands(&line) {
                count += 1;
                let parsed = CommandLine::of(command.iter().map(OsString::from));
                let refusal = parsed
                    .err()
                    .filter(|error| !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
                faults.extend(refusal.map(|error| format!("{name}: {line}\n{error}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 200, "{count}");
}

#[test]
fn each_configuration_of_the_manual_is_valid() {
    let mut count = 0;
    for (name, text) in documents() {
        for block in text.split("<!-- configuration -->\n```toml\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            let read = config::Configuration::parse(block, Path::new("/etc/crossload"), "crossload.toml");
            if let Err(faults) = read {
                panic!("{name}: {faults}\n{block}");
            }
            count += 1;
        }
    }
    assert!(count > 4, "{count}");
}

#[test]
fn commands_are_found_where_a_shell_would_start_them() {
    let found = |line: &str| -> Vec<String> { commands(line).iter().map(|words| words.join(" ")).collect() };
    assert_eq!(found("crossload ls 'a b' # words"), ["crossload ls a b"]);
    assert_eq!(found("systemctl restart crossload"), [""; 0]);
    assert_eq!(
        found("date | X=1 crossload copy - b 2> said || crossload rm b"),
        ["crossload copy - b", "crossload rm b"]
    );
    assert_eq!(found("id=$(crossload sum a | cut -f 2)"), ["crossload sum a"]);
    assert_eq!(
        found("export X=y; crossload queue why $(cat job)"),
        [format!("crossload queue why {VALUE}")]
    );
    assert_eq!(
        found("crossload queue log JOB:12"),
        [format!("crossload queue log {VALUE}:12")]
    );
    assert_eq!(
        shell_lines("```sh\na \\\n  b\n```\n```console\n$ c\nout\n```\n"),
        ["a b", "c"]
    );
}
