//! `crossload history`: the runs of the instruments that are kept.

mod bench_report;
mod compare;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::read_text;
use history::{Filter, LinkRun, LinkSeries, Ongoing, Run, RunId, Store, StoreError, Summary, Thresholds, minute};
use reports::limits::{RUN_BYTES_MAX, TREND_RUNS_MAX};
use serde::Serialize;
use serde_json::json;

use crate::command_line::{
    HistoryAction, HistoryCheckOptions, HistoryExportOptions, HistoryFilter, HistoryImportOptions, HistoryListOptions,
    HistoryRemoveOptions,
};
use crate::failure::Failure;
use crate::limits::EARLIER_RUNS_MAX;
use crate::output;
use crate::remotes::state_directory;
use crate::table::Table;

/// The file in the directory of what the client notes for its next runs.
const FILE: &str = "history.sqlite";
/// Exit code when something is worse.
const WORSE: u8 = 1;
/// Exit code without a run of this number or title (ENOENT).
const NO_RUN: u8 = 2;
/// Exit code when the history cannot be used: EINVAL for a file that is none, else EIO.
const INVALID: u8 = 22;
const FAILED: u8 = 5;

/// Runs one of the commands.
///
/// # Errors
/// The history cannot be used, there is no such run, or a file cannot be read.
pub(crate) fn run(action: &HistoryAction) -> Result<u8, Failure> {
    match action {
        HistoryAction::List(options) => list(options),
        HistoryAction::Show(options) => show::run(options),
        HistoryAction::Compare(options) => compare::run(options),
        HistoryAction::Export(options) => export(options),
        HistoryAction::Import(options) => import(options),
        HistoryAction::Check(options) => check(options),
        HistoryAction::Remove(options) => remove(options),
    }
}

/// The file of the history: the given one, or that of the user.
///
/// # Errors
/// No directory of the user is known.
pub(crate) fn file(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let own = || Some(state_directory()?.join(FILE));
    let found = given.map(Path::to_owned).or_else(own);
    found.ok_or_else(|| Failure::invalid("set HOME or XDG_STATE_HOME, or give --history: the history is there"))
}

/// What cannot be done with the history in a file.
pub(crate) fn failed(file: &Path) -> impl Fn(StoreError) -> Failure + '_ {
    move |error| match error {
        StoreError::File(cause) => Failure::system(file.display(), &cause),
        other => Failure {
            exit_code: match other.is_of_file() {
                true => INVALID,
                false => FAILED,
            },
            ..Failure::invalid(format!("{}: {other}", file.display()))
        },
    }
}

/// What a history knows about a run.
pub(crate) struct Past {
    /// What is wrong, and since when.
    pub(crate) faults: Vec<Ongoing>,
    /// What links did in the newest runs, this one included.
    pub(crate) links: Vec<LinkSeries<LinkRun>>,
    /// The run before it.
    pub(crate) earlier: Option<Run>,
    /// The scores of its endpoints, after it.
    pub(crate) scores: BTreeMap<String, u8>,
}

/// Makes a history if there is none, to see that runs can be kept.
///
/// # Errors
/// The history cannot be used.
pub(crate) fn try_out(history: &Path) -> Result<(), Failure> {
    Store::open(history).map(drop).map_err(failed(history))
}

/// Keeps a run in a history, and returns what that knows about it.
///
/// # Errors
/// The history cannot be used.
pub(crate) fn keep(run: &Run, history: &Path) -> Result<Past, Failure> {
    let mut store = Store::open(history).map_err(failed(history))?;
    store.add(run).map_err(failed(history))?;
    past(&store, run).map_err(failed(history))
}

fn past(store: &Store, run: &Run) -> Result<Past, StoreError> {
    let known = store.past(run, TREND_RUNS_MAX)?;
    let filter = Filter {
        instrument: Some(run.instrument),
        title: Some(run.title.clone()),
    };
    let runs = store.list(&filter, EARLIER_RUNS_MAX)?;
    let earlier = runs.iter().find(|one| one.started_ms < run.started_ms);
    Ok(Past {
        faults: known.faults,
        scores: known
            .standings
            .into_iter()
            .map(|standing| (standing.endpoint, standing.score))
            .collect(),
        links: known.links,
        earlier: earlier.map(|one| store.load(one.id)).transpose()?.flatten(),
    })
}

/// A history that exists, with its name for messages.
struct Opened {
    store: Store,
    file: PathBuf,
}

impl Opened {
    /// # Errors
    /// There is none yet, or it cannot be used.
    fn existing(given: Option<&Path>) -> Result<Self, Failure> {
        let file = file(given)?;
        match Store::open_to_read(&file).map_err(failed(&file))? {
            Some(store) => Ok(Self { store, file }),
            None => Err(no_run(format!(
                "{}: no runs are kept yet; crossload history import keeps some",
                file.display()
            ))),
        }
    }

    /// The summary of a run by its number, or the newest one.
    fn find(&self, run: Option<RunId>, filter: &HistoryFilter) -> Result<Summary, Failure> {
        let found = match run {
            Some(id) => self.store.summary(id),
            None => self.store.latest(&wanted(filter)),
        };
        found.map_err(failed(&self.file))?.ok_or_else(|| match run {
            Some(id) => unknown(id),
            None => no_run("no such run is kept; crossload history list has all".to_owned()),
        })
    }

    /// The run of a summary.
    fn load(&self, summary: &Summary) -> Result<Run, Failure> {
        let found = self.store.load(summary.id).map_err(failed(&self.file))?;
        found.ok_or_else(|| failed(&self.file)(StoreError::Damaged))
    }
}

fn unknown(run: RunId) -> Failure {
    no_run(format!("no run has the number {run}; crossload history list has all"))
}

fn no_run(words: String) -> Failure {
    Failure {
        exit_code: NO_RUN,
        ..Failure::invalid(words)
    }
}

fn wanted(filter: &HistoryFilter) -> Filter {
    Filter {
        instrument: filter.instrument,
        title: filter.title.clone(),
    }
}

/// Prints a value as JSON. Its types have no keys but strings, so nothing can fail.
fn print(value: &impl Serialize) {
    output::json(&serde_json::to_value(value).unwrap_or_default());
}

fn list(options: &HistoryListOptions) -> Result<u8, Failure> {
    let opened = Opened::existing(options.file.history.as_deref())?;
    let runs = opened.store.list(&wanted(&options.filter), options.count);
    let runs = runs.map_err(failed(&opened.file))?;
    if options.file.json {
        runs.iter().for_each(print);
        return Ok(0);
    }
    let mut table = Table::new([
        "RUN",
        "STARTED",
        "INSTRUMENT",
        "PASSED",
        "FAILED",
        "SKIPPED",
        "FIGURES",
        "KEPT",
        "TITLE",
    ]);
    for run in &runs {
        let count = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        let note = match Store::is_future(run.started_ms) {
            true => " (in the future: it counts nowhere)".to_owned(),
            false => early_end(run).map_or_else(String::new, |end| format!(" ({end})")),
        };
        table.add([
            run.id.to_string(),
            minute(run.started_ms),
            run.instrument.name().to_owned(),
            count(run.passed),
            count(run.failed),
            count(run.skipped),
            count(run.figures),
            run.detail.name().to_owned(),
            format!("{}{note}", output::name(&run.title)),
        ]);
    }
    table.print();
    Ok(0)
}

/// That a run ended early, and why, if it did.
fn early_end(run: &Summary) -> Option<String> {
    let why = run.ended_by.as_deref().map(output::name);
    let end = why.map_or_else(|| "ended early".to_owned(), |why| format!("ended early: {why}"));
    (!run.is_complete).then_some(end)
}

/// Prints runs, one per line: the named ones in their order, or some of the newest, the oldest
/// first.
fn export(options: &HistoryExportOptions) -> Result<u8, Failure> {
    let opened = Opened::existing(options.history.as_deref())?;
    let found = match options.count {
        Some(count) => {
            let runs = opened.store.list(&wanted(&options.filter), count);
            let mut runs = runs.map_err(failed(&opened.file))?;
            runs.reverse();
            runs
        }
        None if options.runs.is_empty() => vec![opened.find(None, &options.filter)?],
        None => {
            let runs = options.runs.iter().map(|run| opened.find(Some(*run), &options.filter));
            runs.collect::<Result<_, _>>()?
        }
    };
    for summary in &found {
        print(&opened.load(summary)?);
    }
    Ok(0)
}

/// Removes runs.
fn remove(options: &HistoryRemoveOptions) -> Result<u8, Failure> {
    let file = file(options.file.history.as_deref())?;
    let Some(mut store) = Store::open_existing(&file).map_err(failed(&file))? else {
        return Err(no_run(format!("{}: no runs are kept yet", file.display())));
    };
    let runs = match options.future {
        true => store.future().map_err(failed(&file))?,
        false => options.runs.clone(),
    };
    // A mistake removes none, and nor does a clock that is behind.
    let one_more = runs.len() as u64 + 1;
    if options.future && !runs.is_empty() {
        let all = store.list(&Filter::default(), one_more).map_err(failed(&file))?;
        if all.len() == runs.len() {
            return Err(Failure::invalid(
                "every run is in the future by the clock of this machine: correct the clock, or name the runs",
            ));
        }
    }
    for run in &runs {
        if store.summary(*run).map_err(failed(&file))?.is_none() {
            return Err(unknown(*run));
        }
    }
    for run in &runs {
        store.remove(*run).map_err(failed(&file))?;
        match options.file.json {
            true => output::json(&json!({ "removed": run })),
            false => output::line(&format!("run {run} removed")),
        }
    }
    Ok(0)
}

fn import(options: &HistoryImportOptions) -> Result<u8, Failure> {
    // All files are read before the first run is kept, so that a mistake keeps none.
    let files = options.files.iter().map(|file| Ok((file, read(file)?)));
    let files = files.collect::<Result<Vec<_>, Failure>>()?;
    let history = file(options.file.history.as_deref())?;
    let mut store = Store::open(&history).map_err(failed(&history))?;
    let runs = files
        .iter()
        .flat_map(|(file, runs)| runs.iter().map(move |run| (file, run)));
    for (file, run) in runs {
        let name = file.display().to_string();
        let id = match store.add(run) {
            // It is a mistake in the file.
            Err(error @ StoreError::Future(_)) => return Err(Failure::invalid(format!("{name}: {error}"))),
            added => added.map_err(failed(&history))?,
        };
        match options.file.json {
            true => output::json(&json!({
                "file": name,
                "run": id,
                "instrument": run.instrument.name(),
                "title": run.title,
            })),
            false => output::line(&format!(
                "{name}: run {id}, {} of {}",
                run.instrument.name(),
                minute(run.started_ms)
            )),
        }
    }
    Ok(0)
}

/// The runs of a file, and reports of benchmarks, one after the other.
fn read(file: &Path) -> Result<Vec<Run>, Failure> {
    let invalid = |words: String| Failure::invalid(format!("{}: {words}", file.display()));
    let text = read_text(file, RUN_BYTES_MAX).map_err(|cause| Failure::system(file.display(), &cause))?;
    let documents = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let runs = documents.map(|document| {
        let value = document.map_err(|cause| format!("it is no JSON document: {cause}"))?;
        match value.get("tables").is_some() {
            true => bench_report::run(&value.to_string()),
            false => serde_json::from_value(value)
                .map_err(|cause| format!("it is neither a run nor a report of bench: {cause}")),
        }
    });
    let runs = runs.collect::<Result<Vec<Run>, String>>().map_err(invalid)?;
    match runs.is_empty() {
        true => Err(invalid("it is empty".to_owned())),
        false => Ok(runs),
    }
}

fn check(options: &HistoryCheckOptions) -> Result<u8, Failure> {
    let opened = Opened::existing(options.file.history.as_deref())?;
    let filter = &options.filter;
    let mut shifts = Vec::new();
    for (instrument, title) in opened.store.titles().map_err(failed(&opened.file))? {
        let is_meant = filter.instrument.is_none_or(|wanted| wanted == instrument)
            && filter.title.as_ref().is_none_or(|wanted| *wanted == title);
        if is_meant {
            let found = history::check(&opened.store, instrument, &title, Thresholds::default());
            shifts.extend(found.map_err(failed(&opened.file))?);
        }
    }
    let is_worse = shifts.iter().any(|shift| shift.is_worse);
    let is_silent = options.quiet && !is_worse;
    for shift in shifts.iter().filter(|_| !is_silent) {
        match options.file.json {
            true => print(shift),
            false => output::line(&format!(
                "{}, {}: {shift}",
                shift.instrument.name(),
                output::name(&shift.title)
            )),
        }
    }
    if shifts.is_empty() && !options.quiet && !options.file.json {
        output::line("nothing has changed");
    }
    Ok(if is_worse { WORSE } else { 0 })
}
