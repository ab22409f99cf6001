//! A mail as plain text.

use std::fmt::Write as _;

use super::content::{Content, Item};

/// The whole text.
pub(super) fn write(content: &Content) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", content.title);
    for line in &content.head {
        let _ = writeln!(out, "{line}");
    }
    for section in &content.sections {
        let _ = writeln!(out, "\n{}\n  {}", section.heading, section.about);
        for problem in &section.problems {
            item(&mut out, problem);
        }
        for line in &section.more {
            let _ = writeln!(out, "  {line}");
        }
    }
    let _ = writeln!(out, "\n-- \n{}", content.program);
    out
}

fn item(out: &mut String, problem: &Item) {
    let _ = writeln!(out, "\n  {}: {}", problem.subject, problem.kind);
    for line in &problem.lines {
        let _ = writeln!(out, "    {line}");
    }
    for line in &problem.commands {
        let _ = writeln!(out, "    $ {line}");
    }
}
