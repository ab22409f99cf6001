//! A mail as a small page. Mail programs remove styles and follow no anchors: it has neither.

use std::fmt::Write as _;

use super::text::{others_words, state_words};
use super::{Entry, Problem, State};
use crate::escape::Escaped;
use crate::limits::MAIL_PROBLEMS_MAX;
use crate::text::{members, server_said, subject};
use crate::view::View;
use crate::words::moment;

/// The whole page.
pub(super) fn write(view: &View<'_>, entries: &[Entry<'_>]) -> String {
    let run = view.run;
    let title = format!("Your endpoints in the {} of {}", run.instrument.name(), run.title);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{0}</title></head><body>\n<h1>{0}</h1>\n<p>{1} to {2}</p>",
        Escaped(&title),
        moment(run.started_ms),
        moment(run.ended_ms)
    );
    if !run.is_complete {
        out.push_str("<p>The run was interrupted: these are the results until then.</p>\n");
    }
    for entry in entries {
        one(&mut out, view, entry);
    }
    let _ = writeln!(out, "<p>{}</p>\n</body></html>", Escaped(&run.program));
    out
}

fn one(out: &mut String, view: &View<'_>, entry: &Entry<'_>) {
    let endpoint = entry.endpoint;
    let software = endpoint.software.as_deref().unwrap_or("software not known");
    let _ = writeln!(
        out,
        "<h2>{}: {}</h2>\n<p>{}; {}</p>",
        Escaped(&endpoint.name),
        Escaped(&state_words(entry)),
        Escaped(software),
        entry.tally.words()
    );
    if let State::Problematic(problems) = &entry.state {
        out.push_str("<ul>\n");
        for problem in problems.iter().take(MAIL_PROBLEMS_MAX) {
            one_problem(out, view, problem);
        }
        out.push_str("</ul>\n");
    }
    if entry.others_failed > 0 {
        let _ = writeln!(out, "<p>{}</p>", others_words(entry));
    }
}

fn one_problem(out: &mut String, view: &View<'_>, problem: &Problem<'_>) {
    let group = problem.group;
    let new = if problem.is_new { "NEW: " } else { "" };
    let _ = write!(
        out,
        "<li><b>{new}{}</b>: {}<br/>{}",
        Escaped(&subject(group)),
        Escaped(&group.kind()),
        Escaped(&group.first.says)
    );
    if let Some(words) = server_said(group) {
        let _ = write!(out, "<br/>{}", Escaped(&words));
    }
    let _ = write!(out, "<br/>{}", Escaped(&members(view, group)));
    for line in &group.first.reproduce {
        let _ = write!(out, "<br/><code>{}</code>", Escaped(line));
    }
    out.push_str("</li>\n");
}
