//! A report for a terminal: tables with aligned columns.

use std::fmt::Write as _;

use super::view::{Line, Sheet, Verdict, View, figure};

/// The whole report.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let mut out = String::new();
    let report = view.report;
    for sheet in &view.sheets {
        let _ = writeln!(out, "{} in {} ({})\n", sheet.title, sheet.unit, sheet.better.words());
        out.push_str(&aligned(&cells(sheet)));
        out.push('\n');
    }
    for failed in view.failures() {
        let _ = writeln!(out, "failed: {}, {}: {}", failed.target, failed.label(), failed.failure);
    }
    for note in report.notes.iter().chain(&report.noise.words) {
        let _ = writeln!(out, "{note}");
    }
    if let Some(earlier) = view.earlier {
        let _ = writeln!(
            out,
            "Compared with the run of {}, {}.",
            earlier.started,
            earlier.machine.words()
        );
    }
    if report.interrupted {
        out.push_str("Interrupted: this is what had been measured until then.\n");
    }
    out
}

/// The table as text, heads first.
fn cells(sheet: &Sheet) -> Vec<Vec<String>> {
    let mut head = vec![String::new()];
    head.extend(sheet.axis.as_ref().map(|axis| match axis.unit.as_str() {
        "" => axis.parameter.clone(),
        unit => format!("{} [{unit}]", axis.parameter),
    }));
    head.extend(sheet.series.iter().map(|series| series.name()));
    head.extend(sheet.ratios.iter().map(|ratio| sheet.ratio_name(*ratio)));
    let mut all = vec![head];
    let mut previous = "";
    for line in &sheet.lines {
        // On an axis, a label that is repeated in each line would hide where the next one begins.
        let label = if sheet.axis.is_some() && line.label == previous {
            ""
        } else {
            &line.label
        };
        previous = &line.label;
        all.push(of_line(sheet, line, label));
    }
    all
}

fn of_line(sheet: &Sheet, line: &Line, label: &str) -> Vec<String> {
    let mut columns = vec![label.to_owned()];
    if sheet.axis.is_some() {
        columns.push(line.at.map_or_else(String::new, |at| at.to_string()));
    }
    columns.extend(
        line.cells
            .iter()
            .map(|cell| cell.as_ref().map_or_else(|| "-".to_owned(), |cell| cell.words())),
    );
    columns.extend(sheet.ratios.iter().map(|ratio| match sheet.ratio(*ratio, line) {
        None => "-".to_owned(),
        Some((ratio, Verdict::Unclear)) => format!("{} ?", figure(ratio)),
        Some((ratio, _)) => figure(ratio),
    }));
    columns
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let padded: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(out, "  {}", padded.join("  ").trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn columns_are_aligned_and_failures_said() {
        let report = sample();
        let text = write(&View::new(&report, None));
        let lines: Vec<&str> = text.lines().collect();
        assert!(text.starts_with("Throughput in Gbit/s (more is better)\n"), "{text}");
        let column = lines[2].find("theirs").unwrap();
        assert_eq!(lines[3].find("9.00 (8.00 to 14.0) noisy"), Some(column), "{text}");
        assert!(lines[3].ends_with("0.750 ?"), "{text}");
        let failure = "failed: theirs, PUT https: PUT: the server, \"se\", said no - ask its owner";
        assert!(lines.contains(&failure), "{text}");
        assert!(!text.contains("Interrupted"), "{text}");
    }

    #[test]
    fn a_label_stands_once_on_an_axis() {
        let mut report = sample();
        report.interrupted = true;
        let text = write(&View::new(&report, None));
        assert_eq!(text.matches("HEAD https").count(), 1, "{text}");
        assert!(text.contains("Interrupted"), "{text}");
    }
}
