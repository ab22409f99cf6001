//! A run as JSON: the model as it is, or in short.

use history::Run;
use serde_json::{Value, json};

use crate::group::{Common, Group};
use crate::limits::SUMMARY_GROUPS_MAX;
use crate::view::View;

/// The run as one line of JSON, without a line end.
#[must_use]
pub fn write(run: &Run) -> String {
    // Its types have no keys but strings, and nothing else can fail in memory.
    serde_json::to_string(run).unwrap_or_default()
}

/// The run without mail addresses, for readers who are not its administrators.
#[must_use]
pub fn without_addresses(run: &Run) -> Run {
    let mut shown = run.clone();
    for endpoint in &mut shown.endpoints {
        endpoint.administrators.clear();
    }
    shown
}

/// A run that was kept.
///
/// # Errors
/// In words, when the text is no run.
pub fn read(text: &str) -> Result<Run, String> {
    serde_json::from_str(text).map_err(|cause| format!("it is no run of crossload mesh, stress or smoke: {cause}"))
}

/// What came of a run and its problems, as one line of JSON: for programs that get a message, and
/// can look at the run for more. The largest [`SUMMARY_GROUPS_MAX`] problems are in it.
#[must_use]
pub fn summary(view: &View<'_>) -> String {
    let (run, tally) = (view.run, view.tally);
    let problems = view.groups.iter().take(SUMMARY_GROUPS_MAX).map(problem);
    json!({
        "instrument": run.instrument,
        "title": run.title,
        "started_ms": run.started_ms,
        "ended_ms": run.ended_ms,
        "program": run.program,
        "is_complete": run.is_complete,
        "ended_by": run.ended_by,
        "passed": tally.passed,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "not_applicable": tally.not_applicable,
        "problems_left_out": view.groups.len().saturating_sub(SUMMARY_GROUPS_MAX),
        "problems": problems.collect::<Vec<_>>(),
    })
    .to_string()
}

fn problem(group: &Group) -> Value {
    let (source, destination) = match &group.common {
        Common::Source(name) => (Some(name), None),
        Common::Destination(name) => (None, Some(name)),
        Common::Endpoint(name) => (Some(name), Some(name)),
        Common::Link { source, destination } => (Some(source), Some(destination)),
    };
    json!({
        "source": source,
        "destination": destination,
        "side": group.side,
        "phase": group.phase,
        "code": group.code,
        "cells": group.cells.len(),
        "says": group.first.says,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_the_problems() {
        let run = mesh_run(12);
        let summary: Value = serde_json::from_str(&summary(&View::new(&run))).unwrap();
        assert_eq!(summary["failed"], 98);
        assert_eq!(summary["problems"][1]["destination"], "SE-02.example.org");
        assert_eq!(summary["problems"][1]["source"], Value::Null);
        assert_eq!(summary["problems"][1]["code"], "no_space");
        assert_eq!(summary["problems"].as_array().unwrap().len(), 4);
    }
    use testkit::mesh_run;

    #[test]
    fn a_run_is_the_same_after_json() {
        let run = mesh_run(12);
        assert_eq!(read(&write(&run)).unwrap(), run);
        assert!(read("{\"format\": 1}").unwrap_err().contains("missing field"));
    }
}
