//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! It begins with what failed, goes on with the matrices, and ends with every link and its steps.
//! Whatever leads somewhere is a link to a place on the page, and what is long is folded
//! (`details`), so that a keyboard is enough. It is well-formed XML as well as HTML.

mod endpoints;
mod links;
mod matrix;
mod spark;

use std::fmt::Write as _;

use markup::{Escaped, THEME, style_source};

use crate::group::{Common, Group};
use crate::limits::PAGE_MEMBERS_SHOWN;
use crate::text::{key_of, server_said, subject};
use crate::view::{Tally, View};
use crate::words::{counted, duration, moment};

/// The looks of matrices.
pub const MATRIX_STYLE: &str = include_str!("matrix.css");
const STYLE: &str = concat!(include_str!("style.css"), include_str!("matrix.css"));

/// The whole page.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let mut out = String::new();
    head(&mut out, view);
    out.push_str("<main>\n");
    failures(&mut out, view);
    matrix::write(&mut out, view, "");
    endpoints::write(&mut out, view);
    links::write(&mut out, view);
    let _ = writeln!(
        out,
        "</main>\n<footer><p>{}, {} to {}</p></footer>\n</body>\n</html>",
        Escaped(&view.run.program),
        moment(view.run.started_ms),
        moment(view.run.ended_ms)
    );
    out
}

/// The matrices alone, for a page that has [`THEME`] and [`MATRIX_STYLE`]. What they lead to is on
/// the whole page, which is at this path.
#[must_use]
pub fn matrix(view: &View<'_>, page: &str) -> String {
    let mut out = String::new();
    matrix::write(&mut out, view, page);
    out
}

/// What the page may load and run: nothing but its own style (Content Security Policy 3).
#[must_use]
pub fn security_policy() -> String {
    let style = style_source(&format!("\n{THEME}{STYLE}"));
    format!("default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'")
}

fn head(out: &mut String, view: &View<'_>) {
    let run = view.run;
    let title = format!("{} of {}", run.instrument.name(), run.title);
    let took = duration(run.ended_ms.saturating_sub(run.started_ms));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"referrer\" content=\"no-referrer\"/>\n<title>{}</title>\n\
         <style>\n{THEME}{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n\
         <p class=\"sub\">{}, took {took}</p>\n",
        Escaped(&security_policy()),
        Escaped(&title),
        Escaped(&title),
        moment(run.started_ms),
    );
    counts(out, view);
    if let Some(words) = view.early_end() {
        let _ = writeln!(out, "<p class=\"warning\">{}</p>", Escaped(&words));
    }
    out.push_str("<nav>");
    let places = [
        (!view.groups.is_empty(), "failures", "Failures"),
        (true, "matrix", "Matrix"),
        (true, "endpoints", "Endpoints"),
        (true, "links", "Links"),
    ];
    for (_, place, words) in places.iter().filter(|(is_there, ..)| *is_there) {
        let _ = write!(out, "<a href=\"#{place}\">{words}</a> ");
    }
    out.push_str("</nav>\n</header>\n");
}

fn counts(out: &mut String, view: &View<'_>) {
    let Tally {
        passed,
        failed,
        skipped,
        not_applicable,
    } = view.tally;
    let counts = [
        ("f", "✕", failed, "failed"),
        ("p", "✓", passed, "passed"),
        ("s", "–", skipped, "skipped"),
        ("n", "·", not_applicable, "not applicable"),
    ];
    out.push_str("<ul class=\"counts\">");
    for (class, shape, count, words) in counts.iter().filter(|(.., count, _)| *count > 0) {
        let _ = write!(out, "<li class=\"{class}\"><b>{shape}\u{a0}{count}</b> {words}</li>");
    }
    let endpoints = counted(view.names.len() as u64, "endpoint");
    let _ = writeln!(out, "<li>{endpoints}</li></ul>");
}

fn failures(out: &mut String, view: &View<'_>) {
    if view.groups.is_empty() {
        return;
    }
    out.push_str("<section id=\"failures\">\n<h2>What failed</h2>\n");
    if !view.faults.is_empty() {
        out.push_str("<p class=\"sub\">who is at fault</p>\n<ul>\n");
        for fault in &view.faults {
            let _ = writeln!(out, "<li>{}</li>", Escaped(fault));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("<p class=\"sub\">grouped by what the cells have in common</p>\n");
    for (at, group) in view.groups.iter().enumerate() {
        one_group(out, view, at, group);
    }
    out.push_str("</section>\n");
}

fn one_group(out: &mut String, view: &View<'_>, at: usize, group: &Group) {
    let _ = write!(
        out,
        "<details class=\"group\"><summary><b class=\"key\">✕{}</b> <b>{}</b> <span class=\"kind\">{}</span>\
         <span class=\"says\">{}</span></summary>\n<div id=\"g{at}\">\n",
        key_of(at),
        Escaped(&subject(group)),
        Escaped(&group.kind()),
        Escaped(&group.first.says)
    );
    if let Some(words) = server_said(group) {
        let _ = writeln!(out, "<p>{}</p>", Escaped(&words));
    }
    commands(out, &group.first.reproduce);
    members(out, view, group);
    out.push_str("</div></details>\n");
}

/// Links to the cells of a group, way by way, named by their partners.
fn members(out: &mut String, view: &View<'_>, group: &Group) {
    let mut cells = group.cells.clone();
    cells.sort_by_key(|cell| view.plane_of[*cell]);
    let mut way = None;
    for cell in cells.iter().take(PAGE_MEMBERS_SHOWN) {
        if way != Some(view.plane_of[*cell]) {
            let end = if way.is_some() { "</p>\n" } else { "" };
            let name = view.plane(*cell).name();
            let _ = write!(out, "{end}<p class=\"members\">{}: ", Escaped(&name));
            way = Some(view.plane_of[*cell]);
        }
        let link = &view.run.cells[*cell].link;
        let partner = match group.common {
            Common::Source(_) => format!("to {}", link.destination),
            Common::Destination(_) => format!("from {}", link.source),
            Common::Endpoint(_) | Common::Link { .. } => "steps".to_owned(),
        };
        let _ = write!(out, "<a href=\"#c{cell}\">{}</a> ", Escaped(&partner));
    }
    let left = group.cells.len().saturating_sub(PAGE_MEMBERS_SHOWN);
    if left > 0 {
        let _ = write!(out, "and {left} more");
    }
    out.push_str("</p>\n");
}

/// Lines for a shell.
fn commands(out: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str("<pre tabindex=\"0\">");
    for line in lines {
        let _ = writeln!(out, "{}", Escaped(line));
    }
    out.push_str("</pre>\n");
}

#[cfg(test)]
mod tests;
