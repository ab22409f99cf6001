//! A table of a page: what was measured, a column for each target, and ratios.

use std::fmt::Write as _;

use markup::Escaped;

use super::words::grouped;
use crate::report::Summary;
use crate::report::view::{Cell, Line, Sheet, Verdict, figure};

/// What the colours and the mark of ratios mean.
pub(super) const RATIOS: &str = "A ratio in green is better, one in red worse, by at least 5 %. One with a question mark involves \
                      a noisy figure and is too uncertain to tell.";

/// A table of so many columns needs no more room than its figures do.
const FEW: usize = 3;

/// A table with all its figures. Where its lines stand on an axis, those of one label have it as a
/// head of their own, which leaves the width to the figures.
pub(super) fn write(out: &mut String, sheet: &Sheet) {
    let columns = 1 + sheet.series.len() + sheet.ratios.len();
    // Drawn out over the whole page, a figure would stand far away from what it belongs to.
    let class = if columns <= FEW { " class=\"few\"" } else { "" };
    let _ = writeln!(out, "<div class=\"scroll\"><table{class}>");
    head(out, sheet);
    let mut previous = None;
    out.push_str("<tbody>\n");
    for line in &sheet.lines {
        if sheet.axis.is_some() && previous != Some(&line.label) {
            if previous.is_some() {
                out.push_str("</tbody>\n<tbody>\n");
            }
            let _ = writeln!(
                out,
                "<tr class=\"group\"><th colspan=\"{columns}\" scope=\"rowgroup\"><span>{}</span></th></tr>",
                Escaped(&line.label)
            );
        }
        previous = Some(&line.label);
        row(out, sheet, line);
    }
    out.push_str("</tbody></table></div>\n");
}

fn head(out: &mut String, sheet: &Sheet) {
    out.push_str("<thead><tr>");
    match &sheet.axis {
        Some(axis) if axis.unit.is_empty() => {
            let _ = write!(out, "<th class=\"what\">{}</th>", Escaped(&axis.parameter));
        }
        Some(axis) => {
            let (name, unit) = (Escaped(&axis.parameter), Escaped(&axis.unit));
            let _ = write!(out, "<th class=\"what\">{name}, {unit}</th>");
        }
        None => out.push_str("<th class=\"what\"></th>"),
    }
    for series in &sheet.series {
        let _ = write!(out, "<th>{}</th>", Escaped(&series.name()));
    }
    for ratio in &sheet.ratios {
        let _ = write!(out, "<th>{}</th>", Escaped(&sheet.ratio_name(*ratio)));
    }
    out.push_str("</tr></thead>\n");
}

fn row(out: &mut String, sheet: &Sheet, line: &Line) {
    let what = match (&sheet.axis, line.at) {
        (None, _) => line.label.clone(),
        (Some(_), at) => at.map_or_else(String::new, |at| at.to_string()),
    };
    let _ = write!(out, "<tr><td class=\"what\">{}</td>", Escaped(&what));
    line.cells.iter().for_each(|cell| figures(out, cell.as_ref()));
    for ratio in &sheet.ratios {
        let words = match sheet.ratio(*ratio, line) {
            None => "<td>–</td>".to_owned(),
            Some((ratio, Verdict::Unclear)) => format!("<td class=\"unclear\">{}\u{a0}?</td>", grouped(&figure(ratio))),
            Some((ratio, verdict)) => format!("<td class=\"{}\">{}</td>", class(verdict), grouped(&figure(ratio))),
        };
        out.push_str(&words);
    }
    out.push_str("</tr>\n");
}

fn figures(out: &mut String, cell: Option<&Cell>) {
    let Some(cell) = cell else {
        return out.push_str("<td>–</td>");
    };
    let Some(Summary { min, median, max }) = cell.summary else {
        return out.push_str("<td class=\"bad\">failed</td>");
    };
    let _ = write!(out, "<td><b>{}</b>", grouped(&figure(median)));
    if cell.is_noisy() {
        out.push_str(" <span class=\"tag\">noisy</span>");
    }
    if cell.samples > 1 {
        let (min, max) = (grouped(&figure(min)), grouped(&figure(max)));
        let _ = write!(out, " <small>{min} to {max}</small>");
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
