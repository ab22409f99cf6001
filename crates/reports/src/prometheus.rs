//! A report as metrics, in Prometheus' text format 0.0.4.
//!
//! The samples have no times of their own: the textfile collector of node_exporter refuses them.
//! When the run was is a metric instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use history::{Cell, Link, Outcome};

use crate::limits::METRIC_LINKS_MAX;
use crate::view::{Tally, View};

/// A metric with its samples: labels and value.
#[derive(Clone)]
struct Metric {
    name: &'static str,
    help: &'static str,
    samples: Vec<String>,
}

impl Metric {
    fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        self.samples
            .push(format!("{}{{{}}} {value}", self.name, labels.join(",")));
    }
}

/// The whole document. Of more than [`METRIC_LINKS_MAX`] links, those beyond have no metrics of
/// their own, and are counted.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let title = view.run.title.as_str();
    let mut metrics = of_run(view, title);
    metrics.extend(of_endpoints(view, title));
    metrics.extend(of_links(view, title));
    let mut out = String::new();
    for metric in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        let _ = writeln!(out, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(out, "# TYPE {} gauge", metric.name);
        for sample in &metric.samples {
            let _ = writeln!(out, "{sample}");
        }
    }
    out
}

fn of_run(view: &View<'_>, title: &str) -> Vec<Metric> {
    let run = view.run;
    let labels = [("mesh", title), ("instrument", run.instrument.name())];
    let mut started = Metric::new("crossload_mesh_started_timestamp_seconds", "When the newest run began.");
    started.add(&labels, seconds(run.started_ms));
    let mut ended = Metric::new("crossload_mesh_ended_timestamp_seconds", "When the newest run ended.");
    ended.add(&labels, seconds(run.ended_ms));
    let mut complete = Metric::new(
        "crossload_mesh_complete",
        "Whether everything that was planned was tried.",
    );
    complete.add(&labels, u8::from(run.is_complete));
    let mut cells = Metric::new("crossload_mesh_cells", "Cells of the newest run by outcome.");
    for (outcome, count) in counts(view.tally) {
        cells.add(&[labels[0], labels[1], ("outcome", outcome)], count);
    }
    let mut left = Metric::new(
        "crossload_mesh_links_left_out",
        "Links without metrics, since there are too many.",
    );
    left.add(&labels, run.cells.len().saturating_sub(METRIC_LINKS_MAX));
    vec![started, ended, complete, cells, left]
}

fn counts(tally: Tally) -> [(&'static str, u64); 4] {
    [
        ("passed", tally.passed),
        ("failed", tally.failed),
        ("skipped", tally.skipped),
        ("not_applicable", tally.not_applicable),
    ]
}

fn of_endpoints(view: &View<'_>, title: &str) -> Vec<Metric> {
    let mut tallies: BTreeMap<(&str, &str), Tally> = BTreeMap::new();
    for cell in &view.run.cells {
        let link = &cell.link;
        tallies.entry((&link.source, "source")).or_default().add(&cell.outcome);
        tallies
            .entry((&link.destination, "destination"))
            .or_default()
            .add(&cell.outcome);
    }
    let mut cells = Metric::new(
        "crossload_mesh_endpoint_cells",
        "Cells of an endpoint by role and outcome.",
    );
    for ((endpoint, role), tally) in tallies {
        for (outcome, count) in counts(tally) {
            cells.add(
                &[
                    ("mesh", title),
                    ("endpoint", endpoint),
                    ("role", role),
                    ("outcome", outcome),
                ],
                count,
            );
        }
    }
    let mut downtime = Metric::new(
        "crossload_mesh_endpoint_downtime",
        "Whether an endpoint is in downtime.",
    );
    for endpoint in &view.run.endpoints {
        let is_down = u8::from(endpoint.downtime.is_some());
        downtime.add(&[("mesh", title), ("endpoint", &endpoint.name)], is_down);
    }
    vec![cells, downtime]
}

fn of_links(view: &View<'_>, title: &str) -> Vec<Metric> {
    let mut passed = Metric::new(
        "crossload_mesh_link_passed",
        "Whether the copy over a link passed; links that were tried.",
    );
    let mut copy = Metric::new(
        "crossload_mesh_link_copy_seconds",
        "The time of the copy, or of all copies, over a link.",
    );
    let mut rate = Metric::new(
        "crossload_mesh_link_bytes_per_second",
        "The rate of what arrived over a link.",
    );
    let mut copies = Metric::new("crossload_mesh_link_copies", "Copies over a link that were tried.");
    let mut failed = Metric::new("crossload_mesh_link_copies_failed", "Copies over a link that failed.");
    let is_tried = |cell: &&Cell| matches!(cell.outcome, Outcome::Passed | Outcome::Failed(_));
    for cell in view.run.cells.iter().take(METRIC_LINKS_MAX).filter(is_tried) {
        let labels = labels(title, &cell.link);
        passed.add(&labels, u8::from(cell.outcome.has_passed()));
        copy.add(&labels, seconds(cell.copy_ms));
        if let Some(mbps) = cell.rate_mbps() {
            rate.add(&labels, (mbps * 1_000_000.0 / 8.0).round());
        }
        if cell.copies > 1 {
            copies.add(&labels, cell.copies);
            failed.add(&labels, cell.copies_failed);
        }
    }
    vec![passed, copy, rate, copies, failed]
}

fn labels<'a>(title: &'a str, link: &'a Link) -> [(&'a str, &'a str); 7] {
    [
        ("mesh", title),
        ("source", &link.source),
        ("destination", &link.destination),
        ("source_protocol", &link.source_protocol),
        ("destination_protocol", &link.destination_protocol),
        ("mode", link.mode.name()),
        ("credential", &link.credential),
    ]
}

/// Seconds with milliseconds.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// The value of a label: backslash, quote and line feed are escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::mesh_run;

    #[test]
    fn links_endpoints_and_the_run_have_metrics() {
        let mut run = mesh_run(12);
        run.title = "a \"mesh\"\\\nof sites".to_owned();
        let text = write(&View::new(&run));
        let title = "mesh=\"a \\\"mesh\\\"\\\\\\nof sites\"";
        for wanted in [
            format!("crossload_mesh_cells{{{title},instrument=\"mesh\",outcome=\"failed\"}} 98"),
            format!(
                "crossload_mesh_endpoint_cells{{{title},endpoint=\"SE-02.example.org\",role=\"destination\",outcome=\"failed\"}} 40"
            ),
            format!("crossload_mesh_endpoint_downtime{{{title},endpoint=\"SE-12.example.org\"}} 1"),
            format!("crossload_mesh_ended_timestamp_seconds{{{title},instrument=\"mesh\"}} 1795954012.000"),
            format!(
                "crossload_mesh_link_passed{{{title},source=\"SE-04.example.org\",destination=\"SE-05.example.org\",\
                 source_protocol=\"https\",destination_protocol=\"https\",mode=\"pull\",credential=\"token\"}} 0"
            ),
        ] {
            assert!(text.lines().any(|line| line == wanted), "{wanted} in {text}");
        }
        // Of 528 cells, 88 were skipped.
        assert_eq!(text.matches("\ncrossload_mesh_link_passed{").count(), 440);
        assert_eq!(text.matches("# TYPE crossload_mesh_link_passed gauge\n").count(), 1);
    }

    #[test]
    fn every_metric_is_described() {
        let mut run = mesh_run(3);
        run.cells[0].copies = 2;
        let view = View::new(&run);
        let all = [of_run(&view, ""), of_endpoints(&view, ""), of_links(&view, "")].concat();
        let manual = include_str!("../../../docs/metrics.md");
        for metric in all {
            let name = format!("`{}`", metric.name);
            assert!(manual.contains(&name), "{name} is not described in docs/metrics.md");
            assert!(!metric.samples.is_empty(), "{name}");
        }
    }

    #[test]
    fn links_are_bounded() {
        let mut run = mesh_run(2);
        let mut cell = run.cells[0].clone();
        cell.outcome = Outcome::Passed;
        run.cells = (0..=METRIC_LINKS_MAX)
            .map(|number| {
                cell.link.source = format!("S{number}");
                cell.clone()
            })
            .collect();
        let text = write(&View::new(&run));
        assert_eq!(text.matches("\ncrossload_mesh_link_passed{").count(), METRIC_LINKS_MAX);
        assert!(
            text.contains("crossload_mesh_links_left_out{mesh=\"sample sites\",instrument=\"mesh\"} 1\n"),
            "{text}"
        );
    }
}
