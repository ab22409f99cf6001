//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere. It is well-formed XML as
//! well as HTML, light or dark as the reader likes it, and can be printed.

mod escape;
mod plot;
mod scale;

use std::fmt::Write as _;

use super::view::{Cell, Chart, Course, Line, Sheet, Verdict, View, figure};
use super::{Report, Summary};
use escape::Escaped;
use plot::{Frame, Trace};

/// The style of the page; the only thing on it that is the same each time.
const STYLE: &str = include_str!("style.css");
/// With more lines than this, each label gets a plot of its own.
const TRACES_MAX: usize = 8;

/// The whole page.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let mut out = String::new();
    head(&mut out, view);
    noise(&mut out, view.report);
    failures(&mut out, view);
    for sheet in &view.sheets {
        section(&mut out, sheet);
    }
    for chart in &view.charts {
        over_time(&mut out, chart);
    }
    foot(&mut out, view);
    out
}

fn head(out: &mut String, view: &View<'_>) {
    let report = view.report;
    let mut names: Vec<&str> = report.targets.iter().map(|target| target.name.as_str()).collect();
    names.dedup();
    let title = format!("{}: {}", report.kind, names.join(", "));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n\
         <p class=\"sub\">crossload bench, {1}{2}</p>\n<dl>\n",
        Escaped(&title),
        Escaped(&report.started.replace('T', " ").replace('Z', " UTC")),
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
            &format!("the run of {}, {}", earlier.started, earlier.machine.words()),
        );
    }
    out.push_str("</dl>\n</header>\n");
}

fn entry(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", Escaped(name), Escaped(value));
}

fn noise(out: &mut String, report: &Report) {
    if report.noise.words.is_empty() {
        return;
    }
    let class = if report.noise.noisy { "noise noisy" } else { "noise" };
    let _ = writeln!(out, "<section class=\"{class}\">");
    for words in &report.noise.words {
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
    for (target, label, words) in failures {
        let (target, label, words) = (Escaped(&target), Escaped(&label), Escaped(&words));
        let _ = writeln!(out, "<li><b>{target}</b>, {label}: {words}</li>");
    }
    out.push_str("</ul></section>\n");
}

fn section(out: &mut String, sheet: &Sheet) {
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p class=\"sub\">{}, {}; median, smallest and largest</p>",
        Escaped(&sheet.title),
        Escaped(&sheet.unit),
        sheet.better.words()
    );
    plots(out, sheet);
    table(out, sheet);
    out.push_str("</section>\n");
}

/// Lines where there is something to go along, else bars.
fn plots(out: &mut String, sheet: &Sheet) {
    let colours = colours(sheet);
    let mut at: Vec<f64> = sheet.lines.iter().filter_map(|line| line.at).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let measured = sheet
        .lines
        .iter()
        .flat_map(|line| line.cells.iter().flatten())
        .any(|cell| cell.summary.is_some());
    let Some(axis) = sheet.axis.as_ref().filter(|_| at.len() > 1) else {
        if measured {
            plot::bars(out, sheet, &colours);
        }
        return;
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
    };
    let labels = labels(sheet);
    let traces: Vec<Vec<Trace>> = labels.iter().map(|label| traces(sheet, label, &colours)).collect();
    let count: usize = traces.iter().map(Vec::len).sum();
    if labels.len() > 1 && count > TRACES_MAX {
        for (label, traces) in labels.iter().zip(&traces) {
            let _ = writeln!(out, "<h3>{}</h3>", Escaped(label));
            plot::lines(out, frame, traces);
        }
    } else if measured {
        plot::lines(out, frame, &together(traces, sheet, &labels));
    }
}

/// All labels in one plot: each its own colour, an earlier run the colour of what it is compared with.
fn together(traces: Vec<Vec<Trace>>, sheet: &Sheet, labels: &[&str]) -> Vec<Trace> {
    let one_target = sheet
        .series
        .iter()
        .all(|series| series.target == sheet.series[0].target);
    let colours = 1 + colours(sheet).iter().map(|(colour, _)| *colour).max().unwrap_or(0);
    let mut all = Vec::new();
    for (group, (traces, label)) in traces.into_iter().zip(labels).enumerate() {
        all.extend(traces.into_iter().map(|trace| Trace {
            colour: group * colours + trace.colour,
            name: match (labels.len(), one_target) {
                (1, _) => trace.name,
                (_, true) if trace.dashed => format!("{label}, earlier"),
                (_, true) => (*label).to_owned(),
                (_, false) => format!("{}: {label}", trace.name),
            },
            ..trace
        }));
    }
    all
}

fn labels(sheet: &Sheet) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for line in &sheet.lines {
        if !labels.contains(&line.label.as_str()) {
            labels.push(&line.label);
        }
    }
    labels
}

/// A colour for each target; an earlier run has that of its target, with dashes.
fn colours(sheet: &Sheet) -> Vec<(usize, bool)> {
    let mut targets: Vec<&str> = Vec::new();
    let mut colours = Vec::new();
    for series in &sheet.series {
        let known = targets.iter().position(|target| *target == series.target);
        let colour = known.unwrap_or_else(|| {
            targets.push(&series.target);
            targets.len() - 1
        });
        colours.push((colour, series.is_earlier));
    }
    colours
}

fn traces(sheet: &Sheet, label: &str, colours: &[(usize, bool)]) -> Vec<Trace> {
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
                colour: colours[column].0,
                dashed: colours[column].1,
                points,
                marked: true,
            });
        }
    }
    traces
}

fn over_time(out: &mut String, chart: &Chart) {
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p class=\"sub\">{} over time</p>",
        Escaped(&chart.title),
        Escaped(&chart.unit)
    );
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
    let trace = |(colour, course): (usize, &Course)| Trace {
        name: course.name.clone(),
        colour,
        dashed: false,
        points: course.points.iter().map(value).collect(),
        marked: false,
    };
    let traces: Vec<Trace> = chart.lines.iter().enumerate().map(trace).collect();
    let frame = Frame {
        title: &chart.title,
        x: "seconds",
        y: &chart.unit,
        logarithmic: false,
    };
    plot::lines(out, frame, &traces);
    out.push_str("</section>\n");
}

fn table(out: &mut String, sheet: &Sheet) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th class=\"what\"></th>");
    if let Some(axis) = &sheet.axis {
        let unit = if axis.unit.is_empty() {
            String::new()
        } else {
            format!(", {}", axis.unit)
        };
        let _ = write!(out, "<th>{}{}</th>", Escaped(&axis.parameter), Escaped(&unit));
    }
    for series in &sheet.series {
        let _ = write!(out, "<th>{}</th>", Escaped(&series.name()));
    }
    for ratio in &sheet.ratios {
        let _ = write!(out, "<th>{}</th>", Escaped(&sheet.ratio_name(*ratio)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut previous = None;
    for line in &sheet.lines {
        let label = if sheet.axis.is_some() && previous == Some(&line.label) {
            ""
        } else {
            &line.label
        };
        previous = Some(&line.label);
        let _ = write!(out, "<tr><td class=\"what\">{}</td>", Escaped(label));
        if sheet.axis.is_some() {
            let _ = write!(
                out,
                "<td>{}</td>",
                line.at.map_or_else(String::new, |at| at.to_string())
            );
        }
        line.cells.iter().for_each(|cell| figures(out, cell.as_ref()));
        for ratio in &sheet.ratios {
            let words = match sheet.ratio(*ratio, line) {
                None => "<td>–</td>".to_owned(),
                Some((ratio, verdict)) => format!("<td class=\"{}\">{}</td>", class(verdict), figure(ratio)),
            };
            out.push_str(&words);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn figures(out: &mut String, cell: Option<&Cell>) {
    let Some(cell) = cell else {
        return out.push_str("<td>–</td>");
    };
    let Some(Summary { min, median, max }) = cell.summary else {
        return out.push_str("<td class=\"bad\">failed</td>");
    };
    let _ = write!(out, "<td><b>{}</b>", figure(median));
    if cell.is_noisy() {
        out.push_str(" <span class=\"tag\">noisy</span>");
    }
    if cell.samples > 1 {
        let _ = write!(out, " <small>{} to {}</small>", figure(min), figure(max));
    }
    if !cell.failures.is_empty() {
        out.push_str(" <span class=\"bad\">and failures</span>");
    }
    out.push_str("</td>");
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::Unclear => "unclear",
    }
}

fn foot(out: &mut String, view: &View<'_>) {
    let report = view.report;
    out.push_str("<footer>\n");
    for note in &report.notes {
        let _ = writeln!(out, "<p>{}</p>", Escaped(note));
    }
    out.push_str("<dl>\n");
    entry(out, "client", &report.machine.words());
    entry(out, "program", &report.program);
    entry(out, "took", &format!("{:.0} s", report.duration_s));
    for (name, value) in &report.parameters {
        entry(out, name, &value.to_string());
    }
    out.push_str("</dl>\n</footer>\n</body>\n</html>\n");
}

#[cfg(test)]
mod tests;
