//! A report as people look at it: one column for each target, an earlier run beside it, and ratios.
//! All writers for people show what is arranged here, so that they say the same.

use indexmap::IndexSet;

use super::{Axis, Better, Curve, Failure, Report, Row, Summary, Table};

/// A report, and possibly an earlier one, side by side.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The report itself.
    pub report: &'a Report,
    /// What it is compared with.
    pub earlier: Option<&'a Report>,
    /// Its tables.
    pub sheets: Vec<Sheet>,
    /// Curves of one title each.
    pub charts: Vec<Chart>,
}

/// A table with its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// What was measured.
    pub title: String,
    /// The unit of all figures.
    pub unit: String,
    /// Which figures are good ones.
    pub better: Better,
    /// What the lines are plotted against.
    pub axis: Option<Axis>,
    /// The columns of figures.
    pub series: Vec<Series>,
    /// The columns of ratios.
    pub ratios: Vec<Ratio>,
    /// The lines, in the order in which they were measured.
    pub lines: Vec<Line>,
}

/// A column of figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The target's name.
    pub target: String,
    /// Of the earlier run.
    pub is_earlier: bool,
}

impl Series {
    /// The head of the column.
    #[must_use]
    pub fn name(&self) -> String {
        match self.is_earlier {
            true => format!("{}, earlier", self.target),
            false => self.target.clone(),
        }
    }
}

/// A column of ratios: the figures of one column divided by those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Which column is divided.
    pub of: usize,
    /// By which.
    pub to: usize,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What was measured.
    pub label: String,
    /// Where it stands on the axis.
    pub at: Option<f64>,
    /// A cell for each series; `None` where nothing was tried.
    pub cells: Vec<Option<Cell>>,
}

/// What is known of one target in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The figures, unless all failed.
    pub summary: Option<Summary>,
    /// How many samples there are.
    pub samples: usize,
    /// What went wrong, in sentences.
    pub failures: Vec<String>,
}

impl Cell {
    fn of(row: &Row) -> Self {
        Self {
            summary: row.summary(),
            samples: row.samples.len(),
            failures: row.failures.iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether its figure says little.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.summary.is_some_and(|summary| summary.is_noisy())
    }

    /// The figure for reading, with its spread: `12.0 (11.0 to 13.0)`.
    #[must_use]
    pub fn words(&self) -> String {
        let Some(Summary { min, median, max }) = self.summary else {
            return "failed".to_owned();
        };
        let mut words = figure(median);
        if self.samples > 1 {
            words.push_str(&format!(" ({} to {})", figure(min), figure(max)));
        }
        if self.is_noisy() {
            words.push_str(" noisy");
        }
        if !self.failures.is_empty() {
            words.push_str(" !");
        }
        words
    }
}

/// How a ratio is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At least a twentieth better.
    Better,
    /// At least a twentieth worse.
    Worse,
    /// Neither.
    Same,
    /// One of the figures is noisy.
    Unclear,
}

/// Ratios nearer to 1 than this tell nothing.
const SAME_WITHIN: f64 = 0.05;

impl Sheet {
    /// The ratio of a column in a line, if both its figures are there.
    #[must_use]
    pub fn ratio(&self, ratio: Ratio, line: &Line) -> Option<(f64, Verdict)> {
        let cell = |at: usize| line.cells.get(at)?.as_ref();
        let (of, to) = (cell(ratio.of)?, cell(ratio.to)?);
        let value = of.summary?.median / to.summary?.median;
        let verdict = match value {
            _ if of.is_noisy() || to.is_noisy() => Verdict::Unclear,
            value if (value - 1.0).abs() < SAME_WITHIN => Verdict::Same,
            value if (value > 1.0) == (self.better == Better::More) => Verdict::Better,
            _ => Verdict::Worse,
        };
        value.is_finite().then_some((value, verdict))
    }

    /// The head of a column of ratios.
    #[must_use]
    pub fn ratio_name(&self, ratio: Ratio) -> String {
        let (of, to) = (&self.series[ratio.of], &self.series[ratio.to]);
        match of.target == to.target {
            true => format!("{}: now ÷ earlier", of.target),
            false => format!("{} ÷ {}", of.name(), to.name()),
        }
    }
}

/// Curves that share a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The curves.
    pub lines: Vec<Course>,
}

impl Chart {
    fn is_of(&self, curve: &Curve) -> bool {
        self.title == curve.title && self.unit == curve.unit
    }

    /// What a curve is called: its target is named where there are several.
    #[must_use]
    pub fn name(&self, line: &Course) -> String {
        let has_several = self.lines.iter().any(|other| other.target != line.target);
        let mut name = match has_several {
            true => format!("{}: {}", line.target, line.label),
            false => line.label.clone(),
        };
        if line.is_earlier {
            name.push_str(", earlier");
        }
        name
    }
}

/// One curve of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Whose it is.
    pub target: String,
    /// Which one.
    pub label: String,
    /// Of the earlier run.
    pub is_earlier: bool,
    /// Seconds, and the value then.
    pub points: Vec<(f64, f64)>,
}

impl Course {
    fn of(curve: &Curve, is_earlier: bool) -> Self {
        Self {
            target: curve.target.clone(),
            label: curve.label.clone(),
            is_earlier,
            points: curve.points.clone(),
        }
    }
}

impl<'a> View<'a> {
    /// Arranges a report, beside an earlier one if there is one.
    #[must_use]
    pub fn new(report: &'a Report, earlier: Option<&'a Report>) -> Self {
        let tables = report.tables.iter().filter(|table| !table.rows.is_empty());
        let sheets = tables.map(|table| sheet(table, earlier.and_then(|earlier| same_table(earlier, table))));
        let mut sheets: Vec<Sheet> = sheets.collect();
        in_one_order(&mut sheets);
        Self {
            sheets,
            charts: charts(report, earlier),
            report,
            earlier,
        }
    }

    /// All failures of this run. What failed in the same way for one target is one of them.
    #[must_use]
    pub fn failures(&self) -> Vec<Failed> {
        let mut seen: Vec<(&str, &Failure)> = Vec::new();
        let mut all: Vec<Failed> = Vec::new();
        for row in self.report.tables.iter().flat_map(|table| &table.rows) {
            for failure in &row.failures {
                // One event may be noted in several rows: what could not be prepared fails them
                // all.
                let is_new = !seen.contains(&(&row.target, failure));
                seen.push((&row.target, failure));
                let count = if is_new { failure.count } else { 0 };
                let is_like = |known: &&mut Failed| known.target == row.target && known.failure.is_like(failure);
                match all.iter_mut().find(is_like) {
                    Some(known) => known.again(&row.label, count),
                    None => all.push(Failed {
                        target: row.target.clone(),
                        labels: IndexSet::from([row.label.clone()]),
                        failure: failure.clone(),
                    }),
                }
            }
        }
        all
    }
}

/// What failed, at whom and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The target's name.
    pub target: String,
    /// What was measured, wherever it failed like this; each once.
    pub labels: IndexSet<String>,
    /// The first one, with the count of all.
    pub failure: Failure,
}

impl Failed {
    fn again(&mut self, label: &str, count: u64) {
        self.labels.insert(label.to_owned());
        self.failure.count += count;
    }

    /// What was being measured.
    #[must_use]
    pub fn label(&self) -> String {
        self.labels.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

fn same_table<'a>(earlier: &'a Report, table: &Table) -> Option<&'a Table> {
    let is_same = |known: &&Table| known.title == table.title && known.unit == table.unit;
    earlier.tables.iter().find(is_same)
}

fn sheet(table: &Table, earlier: Option<&Table>) -> Sheet {
    let mut sheet = Sheet {
        title: table.title.clone(),
        unit: table.unit.clone(),
        better: table.better,
        axis: table.axis.clone(),
        series: Vec::new(),
        ratios: Vec::new(),
        lines: Vec::new(),
    };
    for (table, is_earlier) in [(Some(table), false), (earlier, true)] {
        for row in table.into_iter().flat_map(|table| &table.rows) {
            sheet.take(row, is_earlier);
        }
    }
    for line in &mut sheet.lines {
        line.cells.resize(sheet.series.len(), None);
    }
    // Targets that were never measured at the same have nothing to be compared by.
    let has_any = |ratio: &Ratio| {
        let both = |line: &Line| line.cells[ratio.of].is_some() && line.cells[ratio.to].is_some();
        sheet.lines.iter().any(both)
    };
    sheet.ratios = ratios(&sheet.series).into_iter().filter(has_any).collect();
    sheet
}

/// Loads take their cases in turns, and not each case has all figures; a reader wants what belongs
/// together, and finds it in the same order in each table.
fn in_one_order(sheets: &mut [Sheet]) {
    let lines = sheets.iter().flat_map(|sheet| &sheet.lines);
    let first: IndexSet<String> = lines.map(|line| line.label.clone()).collect();
    for sheet in sheets.iter_mut().filter(|sheet| sheet.axis.is_some()) {
        let label = |line: &Line| first.get_index_of(&line.label);
        let at = |line: &Line| line.at.unwrap_or(f64::NEG_INFINITY);
        sheet
            .lines
            .sort_by(|one, other| label(one).cmp(&label(other)).then(at(one).total_cmp(&at(other))));
    }
}

impl Sheet {
    /// The labels of its lines, each once.
    #[must_use]
    pub fn labels(&self) -> Vec<&str> {
        let labels: IndexSet<&str> = self.lines.iter().map(|line| line.label.as_str()).collect();
        labels.into_iter().collect()
    }

    fn take(&mut self, row: &Row, is_earlier: bool) {
        let series = Series {
            target: row.target.clone(),
            is_earlier,
        };
        let at = self.axis.as_ref();
        let at = at.and_then(|axis| row.parameters.get(&axis.parameter)?.number());
        let line = self
            .lines
            .iter()
            .position(|line| line.label == row.label && line.at == at);
        // What only the earlier run measured has nothing to be compared with.
        if line.is_none() && is_earlier {
            return;
        }
        let column = self
            .series
            .iter()
            .position(|known| *known == series)
            .unwrap_or_else(|| {
                self.series.push(series);
                self.series.len() - 1
            });
        let line = line.unwrap_or_else(|| {
            self.lines.push(Line {
                label: row.label.clone(),
                at,
                cells: Vec::new(),
            });
            self.lines.len() - 1
        });
        let cells = &mut self.lines[line].cells;
        if cells.len() <= column {
            cells.resize(column + 1, None);
        }
        cells[column] = Some(Cell::of(row));
    }
}

/// Every other target beside the first, and every target beside its earlier self, or else the first
/// of the earlier run.
fn ratios(series: &[Series]) -> Vec<Ratio> {
    let now: Vec<usize> = (0..series.len()).filter(|at| !series[*at].is_earlier).collect();
    let mut ratios: Vec<Ratio> = now.iter().skip(1).map(|of| Ratio { of: *of, to: now[0] }).collect();
    let first_earlier = series.iter().position(|one| one.is_earlier);
    for of in now {
        let own = |one: &Series| one.is_earlier && one.target == series[of].target;
        let to = series.iter().position(own).or(first_earlier);
        ratios.extend(to.map(|to| Ratio { of, to }));
    }
    ratios
}

fn charts(report: &Report, earlier: Option<&Report>) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    // Where nothing was moved, everything failed: that is reported elsewhere, and an empty plot
    // shows nothing.
    let has_any = |curve: &&Curve| curve.points.iter().any(|(_, value)| *value > 0.0);
    for curve in report.curves.iter().filter(has_any) {
        let line = Course::of(curve, false);
        let same = |chart: &&mut Chart| chart.is_of(curve);
        match charts.iter_mut().find(same) {
            Some(chart) => chart.lines.push(line),
            None => charts.push(Chart {
                title: curve.title.clone(),
                unit: curve.unit.clone(),
                lines: vec![line],
            }),
        }
    }
    for curve in earlier.iter().flat_map(|earlier| &earlier.curves) {
        // What only the earlier run measured has nothing to be compared with.
        let has_same =
            |chart: &&mut Chart| chart.is_of(curve) && chart.lines.iter().any(|one| one.label == curve.label);
        if let Some(chart) = charts.iter_mut().find(has_same) {
            chart.lines.push(Course::of(curve, true));
        }
    }
    charts
}

/// A figure with three digits that count.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests;
