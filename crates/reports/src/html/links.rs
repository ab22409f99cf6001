//! Every link with its ways to copy: outcome, steps with their times, the failure and how to see it
//! again, the job of the queue.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use history::{Cell, Failure, Outcome, Step};
use markup::Escaped;

use super::{commands, spark};
use crate::limits::{COUNTED_FAILURES_SHOWN, FAILURE_TEXT_BYTES_MAX};
use crate::text::key_of;
use crate::view::{Pair, Tally, View};
use crate::words::{duration, rate};

/// The name on the page of a pair of endpoints.
pub(super) fn pair_id(pair: Pair) -> String {
    format!("l{}-{}", pair.source + 1, pair.destination + 1)
}

/// All links.
pub(super) fn write(out: &mut String, view: &View<'_>) {
    out.push_str("<section id=\"links\">\n<h2>Links</h2>\n");
    let trends = match view.trends.is_empty() {
        true => "",
        false => "; a bar for each of the newest runs is as high as its copy took, or red where it failed",
    };
    let _ = writeln!(
        out,
        "<p class=\"sub\">each way to copy, with the times of its steps{trends}</p>"
    );
    let pairs: BTreeSet<Pair> = view
        .planes
        .iter()
        .flat_map(|plane| plane.cells.keys().copied())
        .collect();
    let begun = out.len();
    for pair in pairs {
        // Texts of failures make up the most of a page where everything fails.
        let has_texts = out.len() - begun < FAILURE_TEXT_BYTES_MAX;
        one_pair(out, view, pair, has_texts);
    }
    out.push_str("</section>\n");
}

fn one_pair(out: &mut String, view: &View<'_>, pair: Pair, has_texts: bool) {
    let cells = view.between(pair);
    let tally = Tally::of(cells.iter().map(|at| &view.run.cells[*at]));
    let class = match tally {
        Tally { failed: 1.., .. } => "f",
        Tally { passed: 1.., .. } => "p",
        Tally { skipped: 1.., .. } => "s",
        _ => "n",
    };
    let (source, destination) = (view.names[pair.source], view.names[pair.destination]);
    let _ = write!(out, "<details class=\"link\"><summary>{}", Escaped(source));
    if source != destination {
        let _ = write!(out, " → {}", Escaped(destination));
    }
    let _ = writeln!(
        out,
        " <span class=\"{class}\">{}</span></summary>\n<table id=\"{}\"><tbody>",
        tally.words(),
        pair_id(pair)
    );
    for at in cells {
        one_cell(out, view, at, has_texts);
    }
    out.push_str("</tbody></table></details>\n");
}

fn one_cell(out: &mut String, view: &View<'_>, at: usize, has_texts: bool) {
    let cell = &view.run.cells[at];
    let (class, shape) = match &cell.outcome {
        Outcome::Passed => ("p", "✓ passed"),
        Outcome::Failed(_) => ("f", "✕ failed"),
        Outcome::Skipped { .. } => ("s", "– skipped"),
        Outcome::NotApplicable { .. } => ("n", "· not applicable"),
    };
    let _ = write!(
        out,
        "<tr id=\"c{at}\"><th scope=\"row\">{}</th><td class=\"{class}\">{shape}</td><td>",
        Escaped(&view.plane(at).name())
    );
    steps(out, &cell.steps);
    figures(out, cell);
    if let Some(runs) = view.trends.get(&cell.link) {
        spark::runs(out, runs);
    }
    match &cell.outcome {
        Outcome::Skipped { why } | Outcome::NotApplicable { why } => {
            let _ = write!(out, "{}", Escaped(why));
        }
        Outcome::Failed(failure) if has_texts => {
            say(out, view, at, failure);
            counted_failures(out, cell);
        }
        Outcome::Failed(_) => group_link(out, view, at),
        Outcome::Passed => {}
    }
    out.push_str("</td></tr>\n");
}

fn steps(out: &mut String, steps: &[Step]) {
    for (at, step) in steps.iter().enumerate() {
        let mark = match step.outcome {
            Outcome::Failed(_) => "✕ ",
            Outcome::Skipped { .. } => "– ",
            Outcome::Passed | Outcome::NotApplicable { .. } => "",
        };
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(out, "{comma}{mark}{} {}", Escaped(&step.name), duration(step.took_ms));
    }
}

/// The rate, copies and job of a cell.
fn figures(out: &mut String, cell: &Cell) {
    if cell.copies > 1 {
        let _ = write!(out, " {} of {} copies failed", cell.copies_failed, cell.copies);
        if let Some(mbps) = cell.rate_mbps() {
            let _ = write!(out, ", {} Mb/s", rate(mbps));
        }
        spark::rates(out, &cell.rates);
    }
    if let Some(url) = cell.job_url.as_ref().filter(|url| is_web(url)) {
        let _ = write!(out, " <a href=\"{}\" rel=\"noopener noreferrer\">job</a>", Escaped(url));
    }
}

/// Whether a browser may be led there: no other scheme, such as `javascript`, becomes a link.
fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn say(out: &mut String, view: &View<'_>, at: usize, failure: &Failure) {
    group_link(out, view, at);
    let _ = writeln!(out, "<p>{}</p>", Escaped(&failure.says));
    match (failure.server_status, &failure.server_words) {
        (None, None) => {}
        (Some(status), None) => {
            let _ = writeln!(out, "<p>The server said {status}.</p>");
        }
        (status, words) => {
            let status = status.map_or_else(String::new, |status| format!(" {status}"));
            let words = words.as_deref().unwrap_or_default();
            let _ = writeln!(out, "<p>The server said{status}: “{}”</p>", Escaped(words));
        }
    }
    commands(out, &failure.reproduce);
}

fn group_link(out: &mut String, view: &View<'_>, at: usize) {
    let Some(group) = view.group_of.get(&at) else { return };
    let kind = view.groups[*group].kind();
    let _ = write!(out, " <a href=\"#g{group}\">✕{} {}</a>", key_of(*group), Escaped(&kind));
}

fn counted_failures(out: &mut String, cell: &Cell) {
    if cell.failures.len() < 2 {
        return;
    }
    out.push_str("<ul>");
    for counted in cell.failures.iter().take(COUNTED_FAILURES_SHOWN) {
        let failure = &counted.failure;
        let _ = write!(
            out,
            "<li>{} × {} {} {}: {}</li>",
            counted.count,
            failure.side.name(),
            failure.phase.name(),
            Escaped(&failure.code),
            Escaped(&failure.says)
        );
    }
    out.push_str("</ul>\n");
}
