//! `crossload history compare`: what differs between two runs.

use history::{Comparison, Detail, FigureChange, Filter, Link, Summary, Wish, minute};
use serde::Serialize;

use super::{Opened, WORSE, failed, no_run, print};
use crate::command_line::HistoryCompareOptions;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Links of each kind that are printed.
const LINKS_MAX: usize = 40;

/// Both runs and what differs.
#[derive(Serialize)]
struct Compared {
    earlier: Summary,
    later: Summary,
    #[serde(flatten)]
    comparison: Comparison,
}

pub(super) fn run(options: &HistoryCompareOptions) -> Result<u8, Failure> {
    let opened = Opened::existing(options.file.history.as_deref())?;
    let later = opened.find(options.later, &options.filter)?;
    let earlier = match options.earlier {
        Some(_) => opened.find(options.earlier, &options.filter)?,
        None => before(&opened, &later)?,
    };
    let comparison = Comparison::of(&opened.load(&earlier)?, &opened.load(&later)?);
    let compared = Compared {
        earlier,
        later,
        comparison,
    };
    match options.file.json {
        true => print(&compared),
        false => tell(&compared),
    }
    Ok(if compared.comparison.broken.is_empty() {
        0
    } else {
        WORSE
    })
}

/// The run before one, with the same title.
fn before(opened: &Opened, later: &Summary) -> Result<Summary, Failure> {
    let filter = Filter {
        instrument: Some(later.instrument),
        title: Some(later.title.clone()),
    };
    let runs = opened.store.list(&filter, 2).map_err(failed(&opened.file))?;
    let found = runs.into_iter().find(|run| run.id != later.id);
    found.ok_or_else(|| no_run(format!("run {} is the first with its title", later.id)))
}

fn tell(compared: &Compared) {
    for (word, run) in [("earlier", &compared.earlier), ("later", &compared.later)] {
        output::line(&format!(
            "{word}: run {}, {} of {}, {}",
            run.id,
            run.instrument.name(),
            output::name(&run.title),
            minute(run.started_ms)
        ));
        if run.detail == Detail::Counts && run.figures == 0 {
            output::line("         its cells are no longer kept, so links cannot be compared");
        }
    }
    let found = &compared.comparison;
    let cells = found.still_failing + found.still_passing + found.only_once;
    if cells > 0 || !found.broken.is_empty() || !found.mended.is_empty() {
        output::line(&format!(
            "{} broken, {} mended, {} fail as before, {} pass as before, {} tried in one run only",
            found.broken.len(),
            found.mended.len(),
            found.still_failing,
            found.still_passing,
            found.only_once
        ));
    }
    let broken = found.broken.iter().map(|broken| {
        let words = format!("{}, {}", broken.failure.code, broken.failure.phase.name());
        (&broken.link, words)
    });
    list("broken", broken);
    list("mended", found.mended.iter().map(|link| (link, String::new())));
    if let Some(ratio) = found.time_ratio {
        output::line(&format!("a copy takes {ratio:.2} times as long (median of the links)"));
    }
    figures(&found.figures);
}

fn list<'a>(word: &str, links: impl ExactSizeIterator<Item = (&'a Link, String)>) {
    let more = links.len().saturating_sub(LINKS_MAX);
    let mut table = Table::new(["", "SOURCE", "DESTINATION", "PROTOCOL", "MODE", "CREDENTIAL", "FAILURE"]);
    for (link, words) in links.take(LINKS_MAX) {
        table.add([
            word.to_owned(),
            output::name(&link.source).into_owned(),
            output::name(&link.destination).into_owned(),
            link.destination_protocol.clone(),
            link.mode.name().to_owned(),
            link.credential.clone(),
            words,
        ]);
    }
    table.print_if_any();
    if more > 0 {
        output::line(&format!(
            "and {}; --json has them",
            output::counted(more as u64, "more link")
        ));
    }
}

fn figures(figures: &[FigureChange]) {
    let mut table = Table::new(["FIGURE", "EARLIER", "LATER", "UNIT", "CHANGE"]);
    for figure in figures {
        let change = match figure.before == 0.0 {
            true => String::new(),
            false => {
                let has_grown = figure.after > figure.before;
                let word = match has_grown == (figure.wish == Wish::Higher) {
                    _ if figure.after == figure.before => "equal",
                    true => "better",
                    false => "worse",
                };
                let percent = (figure.after / figure.before - 1.0) * 100.0;
                format!("{percent:+.1} % {word}")
            }
        };
        table.add([
            figure.name.clone(),
            format!("{:.4}", figure.before),
            format!("{:.4}", figure.after),
            figure.unit.clone(),
            change,
        ]);
    }
    table.print_if_any();
}
