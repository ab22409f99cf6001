//! A mail as a small page. Mail programs remove styles and follow no anchors: it has neither.

use std::fmt::Write as _;

use markup::Escaped;

use super::content::{Content, Item, Section};

/// The whole page.
pub(super) fn write(content: &Content) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{0}</title></head><body>\n<h1>{0}</h1>",
        Escaped(&content.title)
    );
    paragraphs(&mut out, &content.head);
    for one in &content.sections {
        section(&mut out, one);
    }
    let _ = writeln!(out, "<p>{}</p>\n</body></html>", Escaped(&content.program));
    out
}

fn paragraphs(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "<p>{}</p>", Escaped(line));
    }
}

fn section(out: &mut String, section: &Section) {
    let (heading, about) = (Escaped(&section.heading), Escaped(&section.about));
    let _ = writeln!(out, "<h2>{heading}</h2>\n<p>{about}</p>");
    if !section.problems.is_empty() {
        out.push_str("<ul>\n");
        section.problems.iter().for_each(|problem| item(out, problem));
        out.push_str("</ul>\n");
    }
    paragraphs(out, &section.more);
}

fn item(out: &mut String, problem: &Item) {
    let (subject, kind) = (Escaped(&problem.subject), Escaped(&problem.kind));
    let _ = write!(out, "<li><b>{subject}</b>: {kind}");
    for line in &problem.lines {
        let _ = write!(out, "<br/>{}", Escaped(line));
    }
    for line in &problem.commands {
        let _ = write!(out, "<br/><code>{}</code>", Escaped(line));
    }
    out.push_str("</li>\n");
}
