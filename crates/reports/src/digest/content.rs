//! What a mail says, line by line, for all its forms. Text of others is safe within a line.

use markup::visible;

use super::{Entry, Problem, State};
use crate::limits::{MAIL_PROBLEMS_MAX, WORDS_SHOWN};
use crate::text::{members, server_said, subject};
use crate::view::View;
use crate::words::{counted, first_words, moment};

/// A mail.
pub(super) struct Content {
    pub(super) title: String,
    /// Begin and end of the run, and whether it ended early.
    pub(super) head: Vec<String>,
    pub(super) sections: Vec<Section>,
    /// Name and version of the program.
    pub(super) program: String,
}

/// What it says about an endpoint.
pub(super) struct Section {
    /// Name and state.
    pub(super) heading: String,
    /// Software and counts.
    pub(super) about: String,
    pub(super) problems: Vec<Item>,
    /// How many more problems there are, and failures that are not its own.
    pub(super) more: Vec<String>,
}

/// What it says about a problem.
pub(super) struct Item {
    pub(super) subject: String,
    pub(super) kind: String,
    pub(super) lines: Vec<String>,
    /// Lines for a shell that show it again.
    pub(super) commands: Vec<String>,
}

impl Content {
    pub(super) fn of(view: &View<'_>, entries: &[Entry<'_>]) -> Self {
        let run = view.run;
        let mut head = vec![format!("{} to {}", moment(run.started_ms), moment(run.ended_ms))];
        head.extend(view.early_end());
        Self {
            title: format!(
                "Your endpoints in the {} of {}",
                run.instrument.name(),
                visible(&run.title)
            ),
            head,
            sections: entries.iter().map(|entry| section(view, entry)).collect(),
            program: visible(&run.program).into_owned(),
        }
    }
}

fn section(view: &View<'_>, entry: &Entry<'_>) -> Section {
    let endpoint = entry.endpoint;
    let software = endpoint.software.as_deref().unwrap_or("software not known");
    let problems = match &entry.state {
        State::Problematic(problems) => problems.as_slice(),
        _ => &[],
    };
    let mut more = Vec::new();
    let left = problems.len().saturating_sub(MAIL_PROBLEMS_MAX);
    if left > 0 {
        more.push(format!("and {}", counted(left as u64, "more problem")));
    }
    if entry.others_failed > 0 {
        let cells = counted(entry.others_failed, "cell");
        more.push(format!("{cells} failed that have another endpoint in common"));
    }
    let score = view.scores.get(&endpoint.name);
    let score = score.map_or_else(String::new, |score| format!("; score {score} of 20"));
    Section {
        heading: format!("{}: {}", visible(&endpoint.name), state_words(entry)),
        about: format!("{}; {}{score}", first_words(software, WORDS_SHOWN), entry.tally.words()),
        problems: problems
            .iter()
            .take(MAIL_PROBLEMS_MAX)
            .map(|problem| item(view, problem))
            .collect(),
        more,
    }
}

/// The state of an endpoint in words.
fn state_words(entry: &Entry<'_>) -> String {
    match &entry.state {
        State::Problematic(problems) => {
            let new = problems.iter().filter(|problem| problem.is_new).count() as u64;
            match (new, problems.len() as u64 - new) {
                (0, old) => loud(old, "PROBLEM"),
                (new, 0) => loud(new, "NEW PROBLEM"),
                (new, old) => format!("{}, {old} known", loud(new, "NEW PROBLEM")),
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

/// A count with its noun in capitals.
fn loud(count: u64, noun: &str) -> String {
    counted(count, noun).replace(&format!("{noun}s"), &format!("{noun}S"))
}

fn item(view: &View<'_>, problem: &Problem<'_>) -> Item {
    let group = problem.group;
    let new = if problem.is_new { "NEW: " } else { "" };
    let lines = [
        Some(first_words(&group.first.says, WORDS_SHOWN)),
        server_said(group),
        Some(members(view, group)),
        view.lasting(group).map(|lasting| lasting.words()),
    ];
    Item {
        subject: format!("{new}{}", subject(group)),
        kind: visible(&group.kind()).into_owned(),
        lines: lines.into_iter().flatten().collect(),
        commands: group
            .first
            .reproduce
            .iter()
            .map(|line| visible(line).into_owned())
            .collect(),
    }
}
