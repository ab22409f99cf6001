//! Rows of figures, and the tables made of them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::metric::{Metric, Section};
use crate::older::OlderRow;
use crate::server::Kind;
use crate::summary::Summary;

/// The figures of one server in one row.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) first: Summary,
    pub(crate) second: Summary,
}

/// What is good enough: ratios of ours to the best peer's, or our figure where that is judged
/// alone. What is to be small may not be above its ratio, what is to be large not below.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Goal {
    /// Of the first figure.
    pub(crate) first: Option<f64>,
    /// Of the throughput beside it.
    pub(crate) second: Option<f64>,
    /// Whose figure the first is a ratio to.
    pub(crate) against: Against,
    /// Of the first figure to that of the floor.
    pub(crate) floor: Option<f64>,
}

/// The peers that a figure of ours is divided by; the best of them counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Against {
    #[default]
    All,
    /// All releases of XRootD.
    Xrootd,
}

impl Against {
    fn has(self, kind: Kind) -> bool {
        match self {
            Self::All => kind.is_peer(),
            Self::Xrootd => matches!(kind, Kind::Xrootd(_)),
        }
    }

    /// What a goal says of them.
    fn words(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Xrootd => " × XRootD",
        }
    }
}

/// One workload.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) section: Section,
    pub(crate) metric: Metric,
    pub(crate) name: String,
    pub(crate) goal: Goal,
    pub(crate) cells: Vec<Cell>,
    /// What went wrong; such a server has no cell.
    pub(crate) failures: Vec<String>,
}

impl Row {
    fn cell(&self, kind: Kind) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.kind == kind)
    }

    fn median(&self, kind: Kind) -> Option<f64> {
        self.cell(kind).map(|cell| cell.first.median)
    }

    /// Ours divided by XRootD's, of its better release.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.ratio_to_best(Against::Xrootd).map(|(ratio, _)| ratio)
    }

    fn best_peer(&self, against: Against) -> Option<&Cell> {
        let peers = self.cells.iter().filter(|cell| against.has(cell.kind));
        let by_median = |a: &&Cell, b: &&Cell| a.first.median.total_cmp(&b.first.median);
        if self.metric.more_is_better() {
            peers.max_by(by_median)
        } else {
            peers.min_by(by_median)
        }
    }

    /// Ours divided by the best peer's, and which peer that is.
    fn ratio_to_best(&self, against: Against) -> Option<(f64, Kind)> {
        let best = self.best_peer(against)?;
        Some((self.median(Kind::Crossload)? / best.first.median, best.kind))
    }

    /// The best second figure that ours is compared with: XRootD's, or that of all clients.
    fn second_of_peers(&self) -> Option<f64> {
        let against = match self.metric.is_of_clients() {
            true => Against::All,
            false => Against::Xrootd,
        };
        let cells = self.cells.iter().filter(|cell| against.has(cell.kind));
        let medians = cells.map(|cell| cell.second.median);
        if self.metric.more_is_better_second() {
            medians.max_by(f64::total_cmp)
        } else {
            medians.min_by(f64::total_cmp)
        }
    }

    /// How a goal that was missed is explained: by the floor, divided by the figure of the peer
    /// that counts, or alone where ours is judged alone.
    fn floor_words(&self, goal: f64) -> Option<String> {
        let peer = match self.metric.is_judged_alone() {
            true => 1.0,
            false => self.best_peer(self.goal.against)?.first.median,
        };
        let ratio = self.median(Kind::Floor)? / peer;
        let verdict = match self.metric.more_is_better() {
            true if ratio < goal => ": above it",
            false if ratio > goal => ": below it",
            _ => "",
        };
        let digits = self.metric.goal_digits();
        Some(format!(" (floor {ratio:.digits$}{verdict})"))
    }

    /// The same of a throughput that was missed: by the floor's, divided by XRootD's.
    fn second_floor_words(&self, goal: f64) -> Option<String> {
        let ratio = self.cell(Kind::Floor)?.second.median / self.second_of_peers()?;
        let verdict = if ratio < goal { ": above it" } else { "" };
        Some(format!(" (floor {ratio:.2}{verdict})"))
    }

    /// Whether the goal that is a ratio to the floor is met.
    fn beside_floor_words(&self) -> Option<String> {
        let (goal, ours) = (self.goal.floor?, self.median(Kind::Crossload)?);
        let ratio = ours / self.median(Kind::Floor)?;
        let verdict = if ratio <= goal { "met" } else { "missed" };
        Some(format!("floor × {ratio:.2}: {verdict}"))
    }

    fn is_noisy(&self) -> bool {
        let mut servers = self.cells.iter().filter(|cell| cell.kind != Kind::Floor);
        servers.any(|cell| cell.first.is_noisy())
    }

    /// Ours divided by the peers', of the second figure.
    fn second_ratio(&self) -> Option<f64> {
        Some(self.cell(Kind::Crossload)?.second.median / self.second_of_peers()?)
    }

    /// The goals, for reading.
    fn goal_words(&self) -> String {
        let mut words = Vec::new();
        let sign = if self.metric.more_is_better() { "≥" } else { "≤" };
        let against = self.goal.against.words();
        let digits = self.metric.goal_digits();
        words.extend(self.goal.first.map(|goal| format!("{sign} {goal:.digits$}{against}")));
        words.extend(self.goal.floor.map(|goal| format!("≤ {goal:.2} × floor")));
        let second = self.metric.second_title();
        let sign = if self.metric.is_of_clients() { "≤" } else { "≥" };
        words.extend(self.goal.second.map(|goal| format!("{second} {sign} {goal:.2}")));
        if words.is_empty() {
            words.push("-".to_owned());
        }
        words.join("; ")
    }

    fn remark(&self) -> String {
        let mut words = Vec::new();
        let word = |is_met| if is_met { "met" } else { "missed" };
        let judged = match self.metric.is_judged_alone() {
            true => self.median(Kind::Crossload),
            false => self.ratio_to_best(self.goal.against).map(|(ratio, _)| ratio),
        };
        if let (Some(ratio), Some(goal)) = (judged, self.goal.first) {
            let is_met = match self.metric.more_is_better() {
                true => ratio >= goal,
                false => ratio <= goal,
            };
            let floor = if is_met { None } else { self.floor_words(goal) };
            words.push(format!("{}{}", word(is_met), floor.unwrap_or_default()));
        }
        words.extend(self.beside_floor_words());
        if let (Some(ratio), Some(goal)) = (self.second_ratio(), self.goal.second) {
            let second = self.metric.second_title();
            let is_met = match self.metric.is_of_clients() {
                true => ratio <= goal,
                false => ratio >= goal,
            };
            let floor = if is_met { None } else { self.second_floor_words(goal) };
            words.push(format!(
                "{second} {ratio:.2}: {}{}",
                word(is_met),
                floor.unwrap_or_default()
            ));
        }
        if self.is_noisy() {
            words.push("noisy".to_owned());
        }
        if !self.failures.is_empty() {
            words.push("FAILED".to_owned());
        }
        words.join(", ")
    }

    fn columns(&self, kinds: &[Kind]) -> Vec<String> {
        let (digits, second_digits) = self.metric.digits();
        let mut columns = vec![self.name.clone()];
        columns.extend(kinds.iter().map(|kind| {
            self.cell(*kind).map_or_else(
                || "-".to_owned(),
                |cell| {
                    let Summary { min, median, max } = cell.first;
                    if self.metric.is_of_queue() {
                        return format!("{median:.digits$}");
                    }
                    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
                },
            )
        }));
        columns.push(
            self.ratio()
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        );
        columns.push(self.ratio_to_best(Against::All).map_or_else(
            || "-".to_owned(),
            |(ratio, kind)| format!("{ratio:.2} ({})", kind.name()),
        ));
        columns.push(self.goal_words());
        columns.push(self.remark());
        let second = |kind: &Kind| {
            self.cell(*kind).map_or_else(
                || "-".to_owned(),
                |cell| format!("{:.second_digits$}", cell.second.median),
            )
        };
        columns.push(kinds.iter().map(second).collect::<Vec<_>>().join(" / "));
        columns
    }

    fn json(&self) -> Value {
        let (first, second) = self.metric.keys();
        let summary = |s: &Summary| json!({"min": s.min, "median": s.median, "max": s.max});
        let servers: serde_json::Map<String, Value> = self
            .cells
            .iter()
            .map(|cell| {
                (
                    cell.kind.name().to_owned(),
                    json!({first: summary(&cell.first), second: summary(&cell.second)}),
                )
            })
            .collect();
        json!({
            "workload": self.name,
            "servers": servers,
            "ratio_to_xrootd": self.ratio(),
            "goal": self.goal.first,
            "ratio_of_second": self.second_ratio(),
            "goal_of_second": self.goal.second,
            "noisy": self.is_noisy(),
            "failures": self.failures,
        })
    }
}

/// All rows as JSON.
pub(crate) fn rows_json(rows: &[Row]) -> Value {
    rows.iter().map(Row::json).collect()
}

/// A table with its title, ready to be rendered.
struct Table {
    title: &'static str,
    lines: Vec<Vec<String>>,
}

/// A line of a table: of this run, or one that the document had before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line<'a> {
    Measured(&'a Row),
    Older(&'a OlderRow),
}

impl Line<'_> {
    fn metric(&self) -> Metric {
        match self {
            Self::Measured(row) => row.metric,
            Self::Older(row) => row.metric,
        }
    }

    fn has(&self, kind: Kind) -> bool {
        match self {
            Self::Measured(row) => row.cell(kind).is_some(),
            Self::Older(row) => row.has(kind),
        }
    }

    fn columns(&self, kinds: &[Kind]) -> Vec<String> {
        match self {
            Self::Measured(row) => row.columns(kinds),
            Self::Older(row) => row.columns(kinds),
        }
    }
}

fn tables(rows: &[Line<'_>]) -> Vec<Table> {
    Metric::ALL
        .into_iter()
        .filter_map(|metric| table(rows, metric))
        .collect()
}

fn table(rows: &[Line<'_>], metric: Metric) -> Option<Table> {
    let rows: Vec<Line<'_>> = rows.iter().copied().filter(|row| row.metric() == metric).collect();
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| rows.iter().any(|row| row.has(*kind)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut header = vec!["workload".to_owned()];
    header.extend(kinds.iter().map(|kind| kind.name().to_owned()));
    header.extend(["÷ XRootD", "÷ best peer", "goal", "remark"].map(str::to_owned));
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    header.push(format!("{}: {}", metric.second_title(), names.join(" / ")));
    let mut lines = vec![header];
    lines.extend(rows.iter().map(|row| row.columns(&kinds)));
    Some(Table {
        title: metric.title(),
        lines,
    })
}

/// The tables for a terminal, columns aligned, failures below.
pub(crate) fn text(rows: &[&Row]) -> String {
    let mut out = String::new();
    let lines: Vec<Line<'_>> = rows.iter().map(|row| Line::Measured(row)).collect();
    for table in tables(&lines) {
        let _ = writeln!(out, "{}\n", table.title);
        let widths = widths(&table.lines);
        for line in &table.lines {
            let padded: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            let _ = writeln!(out, "{}", padded.join("  ").trim_end());
        }
        out.push('\n');
    }
    for (row, failure) in rows
        .iter()
        .flat_map(|row| row.failures.iter().map(move |failure| (row, failure)))
    {
        let _ = writeln!(out, "failed: {}: {failure}", row.name);
    }
    out
}

/// The tables as Markdown.
pub(crate) fn markdown(rows: &[Line<'_>]) -> String {
    let mut out = String::new();
    for table in tables(rows) {
        let _ = writeln!(out, "{}\n", table.title);
        for (index, line) in table.lines.iter().enumerate() {
            let _ = writeln!(out, "| {} |", line.join(" | "));
            if index == 0 {
                let _ = writeln!(out, "|{}", "---|".repeat(line.len()));
            }
        }
        out.push('\n');
    }
    out
}

fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| {
            lines
                .iter()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use testkit::XrootdVersion;

    use super::*;

    const XROOTD: Kind = Kind::Xrootd(XrootdVersion::V5);

    fn cell(kind: Kind, first: &[f64], second: f64) -> Cell {
        Cell {
            kind,
            first: Summary::of(first).expect("values"),
            second: Summary::of(&[second]).expect("value"),
        }
    }

    fn row(metric: Metric, goal: Option<f64>) -> Row {
        Row {
            section: Section::Http,
            metric,
            name: "GET https, 4 connections".to_owned(),
            goal: Goal {
                first: goal,
                ..Goal::default()
            },
            cells: vec![
                cell(Kind::Crossload, &[0.3, 0.31], 12.0),
                cell(XROOTD, &[0.6, 0.62], 9.0),
                cell(Kind::Nginx, &[0.5, 0.8], 8.0),
            ],
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_figure_that_is_judged_alone_needs_no_peer() {
        let mut token = row(Metric::Token, Some(1.05));
        token.cells.truncate(1);
        assert_eq!(token.remark(), "met");
        token.goal.first = Some(0.2);
        assert_eq!(token.remark(), "missed");
    }

    #[test]
    fn the_floor_of_a_figure_that_is_judged_alone_is_no_ratio() {
        let mut redirects = row(Metric::ClusterRedirects, Some(20_000.0));
        redirects.cells.push(cell(Kind::Floor, &[70_000.0], 1.0));
        assert_eq!(redirects.remark(), "missed (floor 70000), noisy");
        assert_eq!(redirects.goal_words(), "≥ 20000");
    }

    #[test]
    fn ratios_and_goals_are_against_xrootd_and_noise_is_named() {
        let row = row(Metric::Data, Some(0.6));
        assert!(row.ratio().is_some_and(|ratio| (ratio - 0.5).abs() < 1e-9));
        assert_eq!(row.remark(), "met, noisy");
        let goal = Goal {
            first: Some(0.4),
            second: Some(1.3),
            floor: None,
            against: Against::All,
        };
        let both = Row { goal, ..row };
        assert_eq!(both.remark(), "missed, Gbit/s 1.33: met, noisy");
        assert_eq!(both.goal_words(), "≤ 0.40; Gbit/s ≥ 1.30");
    }

    #[test]
    fn a_goal_that_was_missed_is_set_beside_the_floor() {
        let mut row = row(Metric::Data, Some(0.45));
        row.cells.push(cell(Kind::Floor, &[0.1, 0.2, 0.3], 20.0));
        // 0.2 beside XRootD's 0.61; the floor's own spread says nothing of the servers.
        assert_eq!(row.remark(), "missed (floor 0.33), noisy");
        row.cells[2] = cell(Kind::Nginx, &[0.65], 8.0);
        assert_eq!(row.remark(), "missed (floor 0.33)");
        row.goal.first = Some(0.32);
        assert_eq!(row.remark(), "missed (floor 0.33: below it)");
        row.goal.first = Some(0.5);
        assert_eq!(row.remark(), "met");
    }

    #[test]
    fn goals_of_rates_are_set_beside_the_floor_too() {
        let mut row = row(Metric::Data, Some(0.45));
        row.goal.second = Some(1.5);
        row.cells.push(cell(Kind::Floor, &[0.2], 12.6));
        assert_eq!(
            row.remark(),
            "missed (floor 0.33), Gbit/s 1.33: missed (floor 1.40: above it), noisy"
        );
        row.cells[3] = cell(Kind::Floor, &[0.2], 15.0);
        assert_eq!(
            row.remark(),
            "missed (floor 0.33), Gbit/s 1.33: missed (floor 1.67), noisy"
        );
        // More is better: 0.305 of ours beside 0.65.
        row.metric = Metric::Pieces;
        row.goal.first = Some(0.6);
        row.goal.second = None;
        row.cells[3] = cell(Kind::Floor, &[0.35], 1.0);
        assert_eq!(row.remark(), "missed (floor 0.54: above it), noisy");
    }

    #[test]
    fn a_goal_may_be_set_against_one_peer() {
        // 0.305 of ours beside nginx's 0.58 and XRootD's 0.61.
        let mut row = row(Metric::Data, Some(0.51));
        row.cells[2] = cell(Kind::Nginx, &[0.58], 8.0);
        assert_eq!(row.remark(), "missed");
        row.goal.against = Against::Xrootd;
        assert_eq!(
            (row.goal_words().as_str(), row.remark().as_str()),
            ("≤ 0.51 × XRootD", "met")
        );
    }

    #[test]
    fn where_more_is_better_the_goal_is_the_lowest_ratio() {
        let row = row(Metric::Pieces, Some(1.0));
        assert_eq!(
            (row.goal_words().as_str(), row.remark().as_str()),
            ("≥ 1.00", "missed, noisy")
        );
    }

    #[test]
    fn the_best_peer_depends_on_the_metric() {
        assert_eq!(
            row(Metric::Data, None)
                .ratio_to_best(Against::All)
                .map(|(_, kind)| kind),
            Some(XROOTD)
        );
        assert_eq!(
            row(Metric::Requests, None)
                .ratio_to_best(Against::All)
                .map(|(_, kind)| kind),
            Some(Kind::Nginx)
        );
    }

    #[test]
    fn the_better_release_of_xrootd_counts_for_each_figure() {
        let mut row = row(Metric::Data, Some(0.6));
        row.goal.second = Some(1.3);
        // Less processor time than the older release's 0.61, and a lower rate than its 9.
        row.cells.push(cell(Kind::Xrootd(XrootdVersion::V6), &[0.4], 8.0));
        assert!(row.ratio().is_some_and(|ratio| (ratio - 0.7625).abs() < 1e-9));
        assert_eq!(row.remark(), "missed, Gbit/s 1.33: met, noisy");
        row.goal.against = Against::Xrootd;
        row.goal.first = Some(0.77);
        assert_eq!(
            (row.goal_words().as_str(), row.remark().as_str()),
            ("≤ 0.77 × XRootD; Gbit/s ≥ 1.30", "met, Gbit/s 1.33: met, noisy")
        );
        let markdown = markdown(&[Line::Measured(&row)]);
        let header = "| workload | Crossload | XRootD 5.5.3 | XRootD 6.2.1 | nginx | ÷ XRootD |";
        assert!(markdown.contains(header), "{markdown}");
        assert!(markdown.contains("| 0.76 | 0.76 (XRootD 6.2.1) |"), "{markdown}");
    }

    #[test]
    fn tables_have_a_column_for_each_server_that_was_measured() {
        let mut peers_only = row(Metric::Data, Some(0.6));
        peers_only.cells.remove(0);
        let text = text(&[&peers_only]);
        assert!(text.contains("XRootD") && !text.contains("Crossload"), "{text}");
        assert!(text.contains("0.610 (0.600 to 0.620)"), "{text}");
        let markdown = markdown(&[Line::Measured(&peers_only)]);
        let lines: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 3);
        let bars = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{markdown}");
    }

    #[test]
    fn a_failure_is_shown_and_kept() {
        let mut failed = row(Metric::Requests, None);
        failed.cells.clear();
        failed.failures.push("nginx: no answer".to_owned());
        assert!(text(&[&failed]).contains("failed: GET https, 4 connections: nginx: no answer"));
        assert_eq!(rows_json(&[failed])[0]["failures"][0], "nginx: no answer");
    }
}
