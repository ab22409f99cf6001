//! A report for a terminal: a matrix of sources and destinations for each way to copy, and below it
//! what failed, why, and how to see it again.
//!
//! A cell is a shape and a key or number; colour repeats what the shape says.

mod grid;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use history::{Cell, Outcome};
use markup::visible;

use crate::group::{Common, Group};
use crate::limits::{FAULTS_SHOWN, GROUPS_SHOWN, MEMBERS_SHOWN, PLANES_SHOWN, WORDS_SHOWN};
use crate::view::{Pair, Plane, Tally, View};
use crate::words::{counted, cut, duration, first_words, moment, rate};
use grid::{Grid, Paint, Shown};

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Its width, in columns.
    pub columns: usize,
    /// Whether text may be coloured.
    pub has_colour: bool,
}

/// The keys of groups, in their order; those without have `+`.
const KEYS: &str = "123456789abcdefghijklmnopqrstuvwxyz";

/// The key that cells of a group show.
#[must_use]
pub fn key_of(group: usize) -> char {
    KEYS.chars().nth(group).unwrap_or('+')
}

/// The whole report.
#[must_use]
pub fn write(view: &View<'_>, terminal: Terminal) -> String {
    let mut out = String::new();
    head(&mut out, view);
    if view.is_of_single_endpoints() {
        single_endpoints(&mut out, view, terminal);
    } else {
        matrices(&mut out, view, terminal);
    }
    legend(&mut out, view);
    faults(&mut out, view);
    failures(&mut out, view, terminal);
    skipped(&mut out, view, terminal);
    out
}

fn head(out: &mut String, view: &View<'_>) {
    let run = view.run;
    let took = run.ended_ms.saturating_sub(run.started_ms);
    let _ = writeln!(
        out,
        "{} of {}, {}, {}\n{}",
        run.instrument.name(),
        visible(&run.title),
        moment(run.started_ms),
        duration(took),
        view.summary()
    );
    if let Some(words) = view.early_end() {
        let _ = writeln!(out, "{words}");
    }
}

fn matrices(out: &mut String, view: &View<'_>, terminal: Terminal) {
    if view.planes.len() > 1 {
        out.push_str("\nAll ways to copy: how many of them failed, else how many passed\n");
        let cells = |pair| overview(view, pair);
        matrix(out, view, terminal, [&cells, &cells]);
    }
    for plane in &view.planes {
        let name = visible(&plane.name()).into_owned();
        if plane.tally.failed == 0 && view.planes.len() > PLANES_SHOWN && !view.has_rates() {
            let _ = writeln!(out, "\n{name}: {}", plane.tally.words());
            continue;
        }
        let _ = writeln!(out, "\n{name}: {}{}", plane.tally.words(), unit(view));
        let wide = |pair| in_plane(view, plane, pair, true);
        let narrow = |pair| in_plane(view, plane, pair, view.has_rates());
        matrix(out, view, terminal, [&wide, &narrow]);
    }
}

fn unit(view: &View<'_>) -> &'static str {
    match view.has_rates() {
        true => " (Mb/s)",
        false => "",
    }
}

/// Draws a matrix of all sources and destinations; with narrow cells where wide ones do not fit.
fn matrix(out: &mut String, view: &View<'_>, terminal: Terminal, cells: [&dyn Fn(Pair) -> Shown; 2]) {
    let (sources, destinations) = (view.sources(), view.destinations());
    let digits = view.names.len().to_string().len();
    let label = |at: &usize| format!("{:>digits$} {}", at + 1, visible(view.names[*at]));
    let grid = |cells: &dyn Fn(Pair) -> Shown, heads: Vec<String>| Grid {
        labels: sources.iter().map(label).collect(),
        heads,
        rows: sources
            .iter()
            .map(|source| row_of(*source, &destinations, cells))
            .collect(),
    };
    let names = || {
        destinations
            .iter()
            .map(|at| visible(view.names[*at]).into_owned())
            .collect()
    };
    let numbers = || -> Vec<String> { destinations.iter().map(|at| (at + 1).to_string()).collect() };
    let [wide, narrow] = cells;
    let choices = [grid(wide, names()), grid(wide, numbers()), grid(narrow, numbers())];
    let fitting = choices.iter().find(|grid| grid.fits(terminal.columns));
    let chosen = fitting.unwrap_or(&choices[2]);
    chosen.draw(out, terminal);
    // Numbers are explained by the labels, except those of endpoints that are no source.
    let unlabelled = destinations.iter().filter(|at| !sources.contains(at));
    let missing: Vec<String> = unlabelled
        .map(|at| format!("{} {}", at + 1, visible(view.names[*at])))
        .collect();
    if !missing.is_empty() && chosen.heads == numbers() {
        let _ = writeln!(out, "  destinations: {}", missing.join(", "));
    }
}

fn row_of(source: usize, destinations: &[usize], cells: &dyn Fn(Pair) -> Shown) -> Vec<Shown> {
    let pairs = destinations.iter().map(|destination| Pair {
        source,
        destination: *destination,
    });
    pairs.map(cells).collect()
}

fn overview(view: &View<'_>, pair: Pair) -> Shown {
    let cells = view.between(pair);
    let tally = Tally::of(cells.iter().map(|at| &view.run.cells[*at]));
    match tally {
        Tally { failed: 1.., .. } => Shown::new(format!("{}X", tally.failed), Paint::Bad),
        Tally { passed: 1.., .. } => Shown::new(format!("{}o", tally.passed), Paint::Good),
        Tally { skipped: 1.., .. } => Shown::new(format!("{}-", tally.skipped), Paint::Warning),
        Tally {
            not_applicable: 1.., ..
        } => Shown::new(".", Paint::Plain),
        _ => Shown::default(),
    }
}

/// A cell of one way to copy: `X` and the key of its failure, or `o` and a number.
fn in_plane(view: &View<'_>, plane: &Plane, pair: Pair, has_number: bool) -> Shown {
    let Some(at) = plane.cells.get(&pair) else {
        return Shown::default();
    };
    let cell = &view.run.cells[*at];
    match &cell.outcome {
        Outcome::Passed if has_number => Shown::new(format!("o {}", number(view, cell)), Paint::Good),
        Outcome::Passed => Shown::new("o", Paint::Good),
        Outcome::Failed(_) => {
            let key = view.group_of.get(at).map_or('+', |group| key_of(*group));
            Shown::new(format!("X{key}"), Paint::Bad)
        }
        Outcome::Skipped { .. } => Shown::new("-", Paint::Warning),
        Outcome::NotApplicable { .. } => Shown::new(".", Paint::Plain),
    }
}

/// The rate where many copies were made, else the time of the copy.
#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn number(view: &View<'_>, cell: &Cell) -> String {
    match view.has_rates() {
        true => cell.rate_mbps().map_or_else(|| "0".to_owned(), rate),
        false => format!("{:.1}s", cell.copy_ms as f64 / 1000.0),
    }
}

/// One row for each endpoint, and one column for each protocol and credential.
fn single_endpoints(out: &mut String, view: &View<'_>, terminal: Terminal) {
    let endpoints = view.sources();
    let heads = view.planes.iter().map(|plane| visible(&plane.name()).into_owned());
    let row = |at: &usize| {
        let cells = view.planes.iter().map(|plane| {
            in_plane(
                view,
                plane,
                Pair {
                    source: *at,
                    destination: *at,
                },
                false,
            )
        });
        cells.collect()
    };
    let grid = Grid {
        labels: endpoints
            .iter()
            .map(|at| visible(view.names[*at]).into_owned())
            .collect(),
        heads: heads.collect(),
        rows: endpoints.iter().map(row).collect(),
    };
    out.push('\n');
    grid.draw(out, terminal);
}

fn legend(out: &mut String, view: &View<'_>) {
    let tally = view.tally;
    let entries = [
        (tally.passed, "o passed"),
        (tally.failed, "X failed, with the key of its failure below"),
        (tally.skipped, "- skipped"),
        (tally.not_applicable, ". not applicable"),
    ];
    let entries: Vec<&str> = entries
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, words)| *words)
        .collect();
    out.push('\n');
    if !view.is_of_single_endpoints() {
        out.push_str("Rows are sources, columns are destinations.\n");
    }
    let _ = writeln!(out, "{}", entries.join(", "));
}

fn faults(out: &mut String, view: &View<'_>) {
    if !view.faults.is_empty() {
        out.push_str("\nAt fault:\n");
    }
    for fault in view.faults.iter().take(FAULTS_SHOWN) {
        let _ = writeln!(out, "    {}", visible(fault));
    }
    let left = view.faults.len().saturating_sub(FAULTS_SHOWN);
    if left > 0 {
        let _ = writeln!(out, "    and {}", counted(left as u64, "more fault"));
    }
}

fn failures(out: &mut String, view: &View<'_>, terminal: Terminal) {
    for (at, group) in view.groups.iter().take(GROUPS_SHOWN).enumerate() {
        let _ = writeln!(
            out,
            "\n{}  {}: {}",
            terminal.painted(&format!("X{}", key_of(at)), Paint::Bad),
            subject(group),
            visible(&group.kind())
        );
        let first = &group.first;
        let _ = writeln!(out, "    {}", first_words(&first.says, WORDS_SHOWN));
        if let Some(words) = server_said(group) {
            let _ = writeln!(out, "    {words}");
        }
        let _ = writeln!(out, "    {}", members(view, group));
        for line in &first.reproduce {
            let _ = writeln!(out, "    $ {}", visible(line));
        }
    }
    let left = view.groups.len().saturating_sub(GROUPS_SHOWN);
    if left > 0 {
        let kinds = counted(left as u64, "more kind");
        let _ = writeln!(out, "\nX+  {kinds} of failures; a page (--html) shows all of them");
    }
}

/// What a group is about, such as `SE-7 as destination, 11 cells`.
pub(crate) fn subject(group: &Group) -> String {
    let about = match &group.common {
        Common::Source(name) => format!("{} as source", visible(name)),
        Common::Destination(name) => format!("{} as destination", visible(name)),
        Common::Endpoint(name) => visible(name).into_owned(),
        Common::Link { source, destination } => format!("{} to {}", visible(source), visible(destination)),
    };
    format!("{about}, {}", counted(group.cells.len() as u64, "cell"))
}

/// The server's own answer to the first of a group.
pub(crate) fn server_said(group: &Group) -> Option<String> {
    let first = &group.first;
    let words = first.server_words.as_ref().map(|words| first_words(words, WORDS_SHOWN));
    crate::words::server_said(first.server_status, words.as_deref())
}

/// The partners with which a group fails, and in which ways to copy.
pub(crate) fn members(view: &View<'_>, group: &Group) -> String {
    let links = group.cells.iter().map(|at| &view.run.cells[*at].link);
    let ways: BTreeSet<usize> = group.cells.iter().map(|at| view.plane_of[*at]).collect();
    let ways = match ways.len() == view.planes.len() && ways.len() > 1 {
        true => "in all ways to copy".to_owned(),
        false => {
            let names = ways.iter().map(|at| visible(&view.planes[*at].name()).into_owned());
            shortened(names.collect(), "; ")
        }
    };
    let partners: Vec<&str> = match &group.common {
        Common::Source(_) => links.map(|link| link.destination.as_str()).collect(),
        Common::Destination(_) => links.map(|link| link.source.as_str()).collect(),
        Common::Endpoint(_) | Common::Link { .. } => return ways,
    };
    let mut seen = BTreeSet::new();
    let partners = partners.into_iter().filter(|name| seen.insert(*name));
    let names = shortened(partners.map(|name| visible(name).into_owned()).collect(), ", ");
    match &group.common {
        Common::Source(_) => format!("to {names}; {ways}"),
        _ => format!("from {names}; {ways}"),
    }
}

/// The first of several names, and how many more there are.
fn shortened(mut names: Vec<String>, between: &str) -> String {
    let left = names.len().saturating_sub(MEMBERS_SHOWN);
    names.truncate(MEMBERS_SHOWN);
    match left {
        0 => names.join(between),
        left => format!("{}{between}{left} more", names.join(between)),
    }
}

fn skipped(out: &mut String, view: &View<'_>, terminal: Terminal) {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for cell in &view.run.cells {
        if let Outcome::Skipped { why } = &cell.outcome {
            *reasons.entry(why).or_default() += 1;
        }
    }
    if reasons.is_empty() {
        return;
    }
    out.push('\n');
    let shown = reasons.len().min(GROUPS_SHOWN);
    for (why, count) in reasons.iter().take(shown) {
        let words = format!(
            "skipped: {}: {}",
            counted(*count, "cell"),
            first_words(why, WORDS_SHOWN)
        );
        let _ = writeln!(out, "{}", cut(&words, terminal.columns.max(WORDS_SHOWN)));
    }
    if reasons.len() > shown {
        let _ = writeln!(out, "skipped: for {} more reasons", reasons.len() - shown);
    }
}

#[cfg(test)]
mod tests;
