//! `crossload history show`: what a run has found, and how its endpoints stand.

use history::{
    Blame, Counts, Detail, Figure, Finding, Hysteresis, Ongoing, RunVerdict, Standing, Summary, Verdict, minute,
    ongoing, standings,
};
use serde::Serialize;

use super::{Opened, failed, print};
use crate::command_line::HistoryShowOptions;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Failures without a pattern that are printed.
const ISOLATED_MAX: usize = 20;

/// What is shown of a run.
#[derive(Serialize)]
struct Shown {
    run: Summary,
    endpoints: Vec<Standing>,
    faults: Vec<Ongoing>,
    /// Failures without a pattern, while the cells of the run are kept.
    isolated: Vec<Finding>,
    figures: Vec<Figure>,
}

pub(super) fn run(options: &HistoryShowOptions) -> Result<u8, Failure> {
    let opened = Opened::existing(options.file.history.as_deref())?;
    let summary = opened.find(options.run, &options.filter)?;
    let verdicts = opened.store.verdicts(summary.instrument, &summary.title, 0);
    let mut verdicts = verdicts.map_err(failed(&opened.file))?;
    // As it stood after this run.
    verdicts.retain(|verdict| verdict.started_ms <= summary.started_ms);
    let run = opened.load(&summary)?;
    let isolated = Blame::of(&run).findings.into_iter();
    let shown = Shown {
        endpoints: standings(&verdicts, Hysteresis::default()),
        faults: ongoing(&verdicts),
        isolated: isolated.filter(|one| one.verdict == Verdict::Isolated).collect(),
        figures: run.figures,
        run: summary,
    };
    match options.file.json {
        true => print(&shown),
        false => tell(&shown, verdicts.last()),
    }
    Ok(0)
}

fn tell(shown: &Shown, verdict: Option<&RunVerdict>) {
    let run = &shown.run;
    let end = super::early_end(run).map_or_else(String::new, |end| format!(", {end}"));
    output::line(&format!(
        "run {}: {} of {}, {} to {}, {}{end}",
        run.id,
        run.instrument.name(),
        output::name(&run.title),
        minute(run.started_ms),
        minute(run.ended_ms),
        run.program,
    ));
    let cells = run.passed + run.failed + run.skipped + run.not_applicable;
    if cells > 0 {
        output::line(&format!(
            "{cells} cells: {} passed, {} failed, {} skipped, {} not applicable",
            run.passed, run.failed, run.skipped, run.not_applicable
        ));
        endpoints(shown, verdict);
    }
    faults(shown);
    let mut table = Table::new(["FIGURE", "MEDIAN", "UNIT"]);
    for figure in &shown.figures {
        table.add([figure.name.clone(), format!("{:.4}", figure.value), figure.unit.clone()]);
    }
    if !table.is_empty() {
        output::line("");
        table.print();
    }
}

fn endpoints(shown: &Shown, verdict: Option<&RunVerdict>) {
    let mut table = Table::new([
        "ENDPOINT",
        "STATE",
        "SINCE",
        "SCORE",
        "AS SOURCE",
        "AS DESTINATION",
        "LAST GOOD",
        "FIRST BAD",
    ]);
    for standing in &shown.endpoints {
        let counts = verdict.and_then(|verdict| verdict.endpoints.iter().find(|one| one.name == standing.endpoint));
        let counts = counts.map_or_else(Counts::default, |one| one.counts);
        let passed = |tried: u64, failed: u64| match tried {
            0 => "-".to_owned(),
            _ => format!("{}/{tried}", tried - failed),
        };
        table.add([
            output::name(&standing.endpoint).into_owned(),
            standing.state.name().to_owned(),
            minute(standing.since_ms),
            standing.score.to_string(),
            passed(counts.tried_as_source, counts.failed_as_source),
            passed(counts.tried_as_destination, counts.failed_as_destination),
            standing.last_good_ms.map(minute).unwrap_or_default(),
            standing.first_bad_ms.map(minute).unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        output::line("");
        table.print();
    }
}

fn faults(shown: &Shown) {
    if !shown.faults.is_empty() || !shown.isolated.is_empty() {
        output::line("");
    }
    for fault in &shown.faults {
        output::line(&fault.to_string());
    }
    for finding in shown.isolated.iter().take(ISOLATED_MAX) {
        output::line(&finding.to_string());
    }
    let more = shown.isolated.len().saturating_sub(ISOLATED_MAX);
    if more > 0 {
        let links = output::counted(more as u64, "more link");
        output::line(&format!("{links} failed without a pattern; --json has them"));
    }
    if shown.run.detail == Detail::Counts && shown.run.failed > 0 {
        output::line("The cells of this run are no longer kept, so single failures are not listed.");
    }
}
