//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere. It
//! is well-formed XML as well as HTML, light or dark as the reader likes it, and can be printed.

mod plot;
mod scale;
mod table;
mod words;

use std::fmt::Write as _;

use indexmap::IndexSet;
use markup::{Escaped, THEME};

use super::view::{Chart, Course, Line, Sheet, View};
use super::{Report, Summary};
use plot::{Frame, Size, Stroke, Trace};

/// The style of the page, below the colours of all pages.
const STYLE: &str = include_str!("style.css");
/// With more lines than this, each label gets a plot of its own.
const TRACES_MAX: usize = 8;
/// Plots beside each other have one scale, unless what one of them shows would be lower than this
/// share of it.
const LOWEST_SHARE: f64 = 0.25;

/// The whole page.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let mut out = String::new();
    head(&mut out, view);
    noise(&mut out, view.report);
    failures(&mut out, view);
    for sheet in &view.sheets {
        section(&mut out, view, sheet);
    }
    for chart in &view.charts {
        over_time(&mut out, view, chart);
    }
    foot(&mut out, view);
    out
}

fn head(out: &mut String, view: &View<'_>) {
    let report = view.report;
    let names: IndexSet<&str> = report.targets.iter().map(|target| target.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let title = format!("{}: {}", report.kind, names.join(", "));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n\
         <style>\n{THEME}{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n\
         <p class=\"sub\">crossload bench, {1}{2}</p>\n<dl>\n",
        Escaped(&title),
        Escaped(&words::moment(&report.started)),
        if report.interrupted {
            ", interrupted before its end"
        } else {
            ""
        },
    );
    for target in &report.targets {
        entry(out, &target.name, &target.url);
    }
    if let Some(earlier) = view.earlier {
        entry(
            out,
            "compared with",
            &format!(
                "the run of {}, {}",
                words::moment(&earlier.started),
                earlier.machine.words()
            ),
        );
    }
    out.push_str("</dl>\n</header>\n");
}

fn entry(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", Escaped(name), Escaped(value));
}

fn noise(out: &mut String, report: &Report) {
    let early =
        "This run was ended before all was measured: figures may be of fewer samples than were asked for, or missing.";
    let words = report.interrupted.then_some(early).into_iter();
    let mut words = words.chain(report.noise.words.iter().map(String::as_str)).peekable();
    if words.peek().is_none() {
        return;
    }
    let is_bad = report.noise.noisy || report.interrupted;
    let class = if is_bad { "noise noisy" } else { "noise" };
    let _ = writeln!(out, "<section class=\"{class}\">");
    for words in words {
        let _ = writeln!(out, "<p>{}</p>", Escaped(words));
    }
    out.push_str("</section>\n");
}

fn failures(out: &mut String, view: &View<'_>) {
    let failures = view.failures();
    if failures.is_empty() {
        return;
    }
    out.push_str("<section><h2 class=\"bad\">What failed</h2>\n<ul class=\"plain\">\n");
    for failed in failures {
        let (label, words) = (failed.label(), failed.failure.to_string());
        let (target, label, words) = (Escaped(&failed.target), Escaped(&label), Escaped(&words));
        let _ = writeln!(out, "<li><b>{target}</b>, {label}: {words}</li>");
    }
    out.push_str("</ul></section>\n");
}

fn section(out: &mut String, view: &View<'_>, sheet: &Sheet) {
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p class=\"sub\">in {}, {}; median, smallest and largest</p>",
        Escaped(&sheet.title),
        Escaped(&sheet.unit),
        sheet.better.words()
    );
    plots(out, view, sheet);
    table::write(out, sheet);
    out.push_str("</section>\n");
}

/// Lines where there is something to go along, else bars.
fn plots(out: &mut String, view: &View<'_>, sheet: &Sheet) {
    let strokes = strokes(sheet);
    let mut at: Vec<f64> = sheet.lines.iter().filter_map(|line| line.at).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let measured = sheet
        .lines
        .iter()
        .flat_map(|line| line.cells.iter().flatten())
        .any(|cell| cell.summary.is_some());
    if !measured {
        return;
    }
    let Some(axis) = sheet.axis.as_ref().filter(|_| at.len() > 1) else {
        return plot::bars(out, sheet, &strokes);
    };
    let x = match axis.unit.as_str() {
        "" => axis.parameter.clone(),
        unit => format!("{}, {unit}", axis.parameter),
    };
    let frame = Frame {
        title: &sheet.title,
        x: &x,
        y: &sheet.unit,
        logarithmic: axis.logarithmic,
        size: Size::Wide,
        highest: 0.0,
    };
    let labels = sheet.labels();
    let traces: Vec<Vec<Trace>> = labels.iter().map(|label| traces(sheet, label, &strokes)).collect();
    let count: usize = traces.iter().map(Vec::len).sum();
    if labels.len() > 1 && count > TRACES_MAX {
        beside_each_other(out, frame, &labels, &traces);
    } else {
        plot::lines(out, frame, &together(view, traces, sheet, &labels));
    }
}

/// A plot for each label, on one scale where they can be read on it.
fn beside_each_other(out: &mut String, frame: Frame<'_>, labels: &[&str], traces: &[Vec<Trace>]) {
    let tops: Vec<f64> = traces.iter().map(|traces| plot::highest(traces)).collect();
    let top = tops.iter().copied().fold(0.0, f64::max);
    let can_share = tops.iter().all(|own| *own >= top * LOWEST_SHARE);
    out.push_str("<div class=\"beside\">\n");
    for (label, traces) in labels.iter().zip(traces) {
        let frame = Frame {
            title: label,
            size: Size::Small,
            highest: if can_share { top } else { 0.0 },
            ..frame
        };
        let _ = writeln!(out, "<div class=\"one\"><h3>{}</h3>", Escaped(label));
        plot::lines(out, frame, traces);
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n");
}

/// All labels in one plot: each its own colour, an earlier run the colour of what it is compared
/// with.
fn together(view: &View<'_>, traces: Vec<Vec<Trace>>, sheet: &Sheet, labels: &[&str]) -> Vec<Trace> {
    let one_target = sheet
        .series
        .iter()
        .all(|series| series.target == sheet.series[0].target);
    let coloured = if labels.len() > 1 {
        pairs_of(view, sheet)
    } else {
        Coloured::new()
    };
    let mut all = Vec::new();
    for (traces, label) in traces.into_iter().zip(labels) {
        all.extend(traces.into_iter().map(|trace| Trace {
            stroke: Stroke {
                colour: colour_of(&coloured, &trace.target, label).unwrap_or(trace.stroke.colour),
                ..trace.stroke
            },
            name: match (labels.len(), one_target) {
                (1, _) => trace.name,
                (_, true) if trace.stroke.dashed => format!("{label}, earlier"),
                (_, true) => (*label).to_owned(),
                (_, false) => format!("{}: {label}", trace.name),
            },
            ..trace
        }));
    }
    all
}

/// What has colours of its own where all labels are in one plot: target and label.
type Coloured<'a> = IndexSet<(&'a str, &'a str)>;

/// The targets and labels of the first table that has all those of this one, so that a line has the
/// same colour in all plots of the page.
fn pairs_of<'a>(view: &'a View<'_>, sheet: &'a Sheet) -> Coloured<'a> {
    let own = pairs(sheet);
    first_with(view, &own).unwrap_or(own)
}

fn first_with<'a>(view: &'a View<'_>, own: &Coloured<'_>) -> Option<Coloured<'a>> {
    let with_axis = view.sheets.iter().filter(|sheet| sheet.axis.is_some());
    with_axis
        .map(pairs)
        .find(|all| own.iter().all(|pair| all.contains(pair)))
}

fn pairs(sheet: &Sheet) -> Coloured<'_> {
    let mut pairs = Coloured::new();
    for label in sheet.labels() {
        for (column, series) in sheet.series.iter().enumerate() {
            let is_measured = |line: &Line| line.cells[column].as_ref().is_some_and(|cell| cell.summary.is_some());
            let mut lines = sheet.lines.iter().filter(|line| line.label == label);
            if lines.any(is_measured) {
                pairs.insert((series.target.as_str(), label));
            }
        }
    }
    pairs
}

fn colour_of(coloured: &Coloured<'_>, target: &str, label: &str) -> Option<usize> {
    coloured.get_index_of(&(target, label))
}

/// A colour for each target; an earlier run has that of its target, with dashes.
fn strokes(sheet: &Sheet) -> Vec<Stroke> {
    let mut targets: Vec<&str> = Vec::new();
    let mut strokes = Vec::new();
    for series in &sheet.series {
        let known = targets.iter().position(|target| *target == series.target);
        let colour = known.unwrap_or_else(|| {
            targets.push(&series.target);
            targets.len() - 1
        });
        strokes.push(Stroke {
            colour,
            dashed: series.is_earlier,
        });
    }
    strokes
}

fn traces(sheet: &Sheet, label: &str, strokes: &[Stroke]) -> Vec<Trace> {
    let mut traces = Vec::new();
    for (column, series) in sheet.series.iter().enumerate() {
        let point = |line: &Line| Some((line.at?, line.cells[column].as_ref()?.summary?));
        let mut points: Vec<(f64, Summary)> = sheet
            .lines
            .iter()
            .filter(|line| line.label == label)
            .filter_map(point)
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        if !points.is_empty() {
            traces.push(Trace {
                name: series.name(),
                target: series.target.clone(),
                stroke: strokes[column],
                points,
                marked: true,
            });
        }
    }
    traces
}

fn over_time(out: &mut String, view: &View<'_>, chart: &Chart) {
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p class=\"sub\">in {}</p>",
        Escaped(&chart.title),
        Escaped(&chart.unit)
    );
    let pairs = chart
        .lines
        .iter()
        .map(|line| (line.target.as_str(), line.label.as_str()));
    let own: Coloured<'_> = pairs.collect();
    let coloured = first_with(view, &own).unwrap_or(own);
    let value = |(at, value): &(f64, f64)| {
        (
            *at,
            Summary {
                min: *value,
                median: *value,
                max: *value,
            },
        )
    };
    let trace = |course: &Course| Trace {
        name: chart.name(course),
        target: course.target.clone(),
        stroke: Stroke {
            colour: colour_of(&coloured, &course.target, &course.label).unwrap_or(0),
            dashed: course.is_earlier,
        },
        points: course.points.iter().map(value).collect(),
        marked: false,
    };
    let traces: Vec<Trace> = chart.lines.iter().map(trace).collect();
    let frame = Frame {
        title: &chart.title,
        x: "seconds",
        y: &chart.unit,
        logarithmic: false,
        size: Size::Wide,
        highest: 0.0,
    };
    plot::lines(out, frame, &traces);
    out.push_str("</section>\n");
}

fn foot(out: &mut String, view: &View<'_>) {
    let report = view.report;
    out.push_str("<footer>\n");
    if view.sheets.iter().any(|sheet| !sheet.ratios.is_empty()) {
        let _ = writeln!(out, "<p>{}</p>", table::RATIOS);
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p>{}</p>", Escaped(note));
    }
    out.push_str("<dl>\n");
    entry(out, "client", &report.machine.words());
    entry(out, "program", &report.program);
    entry(out, "took", &format!("{:.0} s", report.duration_s));
    for (name, value) in &report.parameters {
        entry(out, name, &words::parameter(name, value));
    }
    out.push_str("</dl>\n</footer>\n</body>\n</html>\n");
}

#[cfg(test)]
mod tests;
