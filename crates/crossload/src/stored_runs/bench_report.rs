//! A report of `bench` as a run: the medians of its rows are the figures.

use bench::report::{Better, Parameters, Report, Row, Summary, Table};
use history::{EndpointSeen, Figure, Instrument, Run, Wish};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A parameter that changes how well a figure is known, and not what it is.
const REPETITIONS: &str = "repetitions";

/// The run of a report.
///
/// # Errors
/// In words, if the text is no report.
pub(super) fn run(text: &str) -> Result<Run, String> {
    let report = Report::from_json(text)?;
    let started = OffsetDateTime::parse(&report.started, &Rfc3339).map_err(|_| "its begin is no time".to_owned())?;
    let started_ms =
        u64::try_from(started.unix_timestamp_nanos() / 1_000_000).map_err(|_| "its begin is before 1970".to_owned())?;
    let mut names: Vec<&str> = report.targets.iter().map(|target| target.name.as_str()).collect();
    names.dedup();
    Ok(Run {
        instrument: Instrument::Bench,
        title: title(&report, &names),
        started_ms,
        ended_ms: started_ms + (report.duration_s.clamp(0.0, 1e9) * 1000.0) as u64,
        program: report.program.clone(),
        is_complete: !report.interrupted && !report.has_failures(),
        ended_by: report.interrupted.then(|| "interrupted".to_owned()),
        endpoints: names.iter().map(|name| endpoint(name)).collect(),
        cells: Vec::new(),
        figures: report.tables.iter().flat_map(figures).collect(),
    })
}

/// The load, its targets and its parameters: only runs for which all of them are equal are
/// compared.
fn title(report: &Report, names: &[&str]) -> String {
    let mut parameters = report.parameters.clone();
    parameters.shift_remove(REPETITIONS);
    let of = format!("{} of {}", report.kind, names.join(", "));
    match listed(&parameters) {
        words if words.is_empty() => of,
        words => format!("{of} ({words})"),
    }
}

fn listed(parameters: &Parameters) -> String {
    let each = parameters.iter().map(|(name, value)| format!("{name} {value}"));
    each.collect::<Vec<String>>().join(", ")
}

fn endpoint(name: &str) -> EndpointSeen {
    EndpointSeen {
        name: name.to_owned(),
        ..EndpointSeen::default()
    }
}

fn figures(table: &Table) -> impl Iterator<Item = Figure> {
    table.rows.iter().filter_map(|row| {
        let Summary { median, .. } = row.summary()?;
        Some(Figure {
            name: name(table, row),
            value: median,
            unit: table.unit.clone(),
            wish: match table.better {
                Better::More => Wish::Higher,
                Better::Less => Wish::Lower,
            },
        })
    })
}

fn name(table: &Table, row: &Row) -> String {
    let parts = [&table.title, &row.label, &listed(&row.parameters), &row.target];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<&str>>().join(", ")
}
