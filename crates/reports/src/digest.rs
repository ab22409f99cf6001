//! What an administrator should know of a run: only their own endpoints, problems first, and of
//! these the new ones.
//!
//! An endpoint has a problem if cells fail that have nothing else in common than this endpoint, or
//! a link to one other. Failures of its links that have another endpoint in common are not its
//! own; they are counted in one line.

mod content;
mod html;
mod text;

use std::collections::BTreeMap;

use history::{Downtime, EndpointSeen};

use crate::group::{Common, Group};
use crate::view::{Tally, View};
use content::Content;

/// The mail to one administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Whom it is for, as the file of endpoints says it.
    pub address: String,
    /// What it is about, in one line.
    pub subject: String,
    /// The mail as plain text.
    pub text: String,
    /// The mail as a small page.
    pub html: String,
}

/// How an endpoint of an administrator did.
struct Entry<'a> {
    endpoint: &'a EndpointSeen,
    state: State<'a>,
    /// How its cells ended, in either role.
    tally: Tally,
    /// Cells of it that failed together with those of another endpoint.
    others_failed: u64,
}

enum State<'a> {
    /// In downtime.
    Down(&'a Downtime),
    /// With these problems, the new ones first.
    Problematic(Vec<Problem<'a>>),
    /// Nothing that failed is its own fault.
    Passed,
    /// Nothing was tried.
    Untried,
}

struct Problem<'a> {
    group: &'a Group,
    is_new: bool,
}

/// The mails of a run, one for each administrator, by their addresses. Without an earlier run no
/// problem is called new.
#[must_use]
pub fn digests(view: &View<'_>, earlier: Option<&View<'_>>) -> Vec<Digest> {
    let mut owned: BTreeMap<&str, Vec<&EndpointSeen>> = BTreeMap::new();
    for endpoint in &view.run.endpoints {
        for address in &endpoint.administrators {
            let endpoints = owned.entry(address).or_default();
            if !endpoints.iter().any(|known| known.name == endpoint.name) {
                endpoints.push(endpoint);
            }
        }
    }
    let of = |(address, endpoints): (&&str, &Vec<&EndpointSeen>)| digest(view, earlier, address, endpoints);
    owned.iter().map(of).collect()
}

/// The same about all endpoints, for the one who runs the instrument; without an address.
#[must_use]
pub fn of_all(view: &View<'_>, earlier: Option<&View<'_>>) -> Digest {
    let endpoints: Vec<&EndpointSeen> = view.run.endpoints.iter().collect();
    digest(view, earlier, "", &endpoints)
}

fn digest(view: &View<'_>, earlier: Option<&View<'_>>, address: &str, endpoints: &[&EndpointSeen]) -> Digest {
    let mut entries: Vec<Entry<'_>> = endpoints
        .iter()
        .map(|endpoint| entry(view, earlier, endpoint))
        .collect();
    entries.sort_by_key(rank);
    let content = Content::of(view, &entries);
    Digest {
        address: address.to_owned(),
        subject: subject(view, &entries),
        text: text::write(&content),
        html: html::write(&content),
    }
}

fn entry<'a>(view: &'a View<'_>, earlier: Option<&View<'_>>, endpoint: &'a EndpointSeen) -> Entry<'a> {
    let name = &endpoint.name;
    let is_own = |at: &&usize| {
        let link = &view.run.cells[**at].link;
        link.source == *name || link.destination == *name
    };
    let places: Vec<usize> = (0..view.run.cells.len()).collect();
    let tally = Tally::of(places.iter().filter(is_own).map(|at| &view.run.cells[*at]));
    let is_new =
        |group: &Group| earlier.is_some_and(|earlier| !earlier.groups.iter().any(|known| known.is_like(group)));
    let own_groups = view.groups.iter().filter(|group| concerns(&group.common, name));
    let mut problems: Vec<Problem<'_>> = own_groups
        .map(|group| Problem {
            group,
            is_new: is_new(group),
        })
        .collect();
    problems.sort_by_key(|problem| !problem.is_new);
    let elsewhere = view.groups.iter().filter(|group| !concerns(&group.common, name));
    let others_failed = elsewhere
        .map(|group| group.cells.iter().filter(is_own).count() as u64)
        .sum();
    let state = match (&endpoint.downtime, problems.is_empty(), tally.passed) {
        (_, false, _) => State::Problematic(problems),
        (Some(downtime), true, _) => State::Down(downtime),
        (None, true, 0) => State::Untried,
        (None, true, _) => State::Passed,
    };
    Entry {
        endpoint,
        state,
        tally,
        others_failed,
    }
}

fn concerns(common: &Common, name: &str) -> bool {
    match common {
        Common::Link { source, destination } => source == name || destination == name,
        one => one.endpoint() == Some(name),
    }
}

/// The order of entries: new problems, problems, downtimes, what was not tried, the rest.
fn rank(entry: &Entry<'_>) -> u8 {
    match &entry.state {
        State::Problematic(problems) if problems.iter().any(|problem| problem.is_new) => 0,
        State::Problematic(_) => 1,
        State::Down(_) => 2,
        State::Untried => 3,
        State::Passed => 4,
    }
}

/// Counts of endpoints by state, in one line.
fn subject(view: &View<'_>, entries: &[Entry<'_>]) -> String {
    let count = |wanted: u8| entries.iter().filter(|entry| rank(entry) == wanted).count() as u64;
    let counts = [
        (count(0), "with new problems"),
        (count(1), "with problems"),
        (count(2), "in downtime"),
        (count(3), "not tried"),
        (count(4), "without problems"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counts.map(|(count, words)| format!("{count} {words}")).collect();
    let run = view.run;
    crate::words::first_words(
        &format!("{} of {}: {}", run.instrument.name(), run.title, words.join(", ")),
        crate::limits::SUBJECT_CHARACTERS_MAX,
    )
}

#[cfg(test)]
mod tests;
