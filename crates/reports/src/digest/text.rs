//! A mail as plain text.

use std::fmt::Write as _;

use super::{Entry, Problem, State};
use crate::limits::{MAIL_PROBLEMS_MAX, WORDS_SHOWN};
use crate::text::{members, server_said, subject};
use crate::view::View;
use crate::words::{counted, first_words, moment, visible};

/// The whole text.
pub(super) fn write(view: &View<'_>, entries: &[Entry<'_>]) -> String {
    let run = view.run;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Your endpoints in the {} of {}\n{} to {}",
        run.instrument.name(),
        visible(&run.title),
        moment(run.started_ms),
        moment(run.ended_ms)
    );
    if !run.is_complete {
        out.push_str("The run was interrupted: these are the results until then.\n");
    }
    for entry in entries {
        one(&mut out, view, entry);
    }
    let _ = writeln!(out, "\n-- \n{}", visible(&run.program));
    out
}

fn one(out: &mut String, view: &View<'_>, entry: &Entry<'_>) {
    let endpoint = entry.endpoint;
    let software = endpoint.software.as_deref().unwrap_or("software not known");
    let _ = writeln!(
        out,
        "\n{}: {}\n  {}; {}",
        visible(&endpoint.name),
        state_words(entry),
        first_words(software, WORDS_SHOWN),
        entry.tally.words()
    );
    if let State::Problematic(problems) = &entry.state {
        for problem in problems.iter().take(MAIL_PROBLEMS_MAX) {
            one_problem(out, view, problem);
        }
        let left = problems.len().saturating_sub(MAIL_PROBLEMS_MAX);
        if left > 0 {
            let _ = writeln!(out, "  and {}", counted(left as u64, "more problem"));
        }
    }
    if entry.others_failed > 0 {
        let _ = writeln!(out, "  {}", others_words(entry));
    }
}

/// The state of an endpoint in words.
pub(super) fn state_words(entry: &Entry<'_>) -> String {
    match &entry.state {
        State::Problematic(problems) => {
            let new = problems.iter().filter(|problem| problem.is_new).count() as u64;
            match (new, problems.len() as u64 - new) {
                (0, old) => counted(old, "PROBLEM"),
                (new, 0) => counted(new, "NEW PROBLEM"),
                (new, old) => format!("{}, {old} known", counted(new, "NEW PROBLEM")),
            }
        }
        State::Down(downtime) => format!(
            "in downtime until {}: {}",
            moment(downtime.until_ms),
            first_words(&downtime.reason, WORDS_SHOWN)
        ),
        State::Untried => "not tried".to_owned(),
        State::Passed => "no problems".to_owned(),
    }
}

/// Failures of an endpoint that have another one in common.
pub(super) fn others_words(entry: &Entry<'_>) -> String {
    let cells = counted(entry.others_failed, "cell");
    format!("{cells} failed that have another endpoint in common")
}

fn one_problem(out: &mut String, view: &View<'_>, problem: &Problem<'_>) {
    let group = problem.group;
    let new = if problem.is_new { "NEW: " } else { "" };
    let _ = writeln!(out, "\n  {new}{}: {}", subject(group), visible(&group.kind()));
    let _ = writeln!(out, "    {}", first_words(&group.first.says, WORDS_SHOWN));
    if let Some(words) = server_said(group) {
        let _ = writeln!(out, "    {words}");
    }
    let _ = writeln!(out, "    {}", members(view, group));
    for line in &group.first.reproduce {
        let _ = writeln!(out, "    $ {}", visible(line));
    }
}
