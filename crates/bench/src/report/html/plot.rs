//! Plots, as SVG inside of a page: lines against a parameter or against time, and bars. They need
//! no script; browsers show the element's title, a figure, under the pointer.

use std::fmt::Write as _;

use markup::Escaped;

use super::scale::Scale;
use super::words::grouped;
use crate::report::Summary;
use crate::report::view::{Line, Sheet, figure};

/// Of bars.
const WIDTH: f64 = 760.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// How far the figures below a plot keep from its sides: with [`RIGHT`], half of one of six
/// characters in a narrow window.
const INSIDE: f64 = 14.0;
/// Of a bar.
const BAR: f64 = 15.0;
/// How far points of the next line are moved to the side.
const ASIDE: f64 = 3.0;
/// Colours that the style knows; further lines begin again with other strokes.
const COLOURS: usize = 8;

/// How much room a plot of lines has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// As wide as the page.
    Wide,
    /// One of several beside each other.
    Small,
}

impl Size {
    fn width(self) -> f64 {
        match self {
            Self::Wide => WIDTH,
            Self::Small => 400.0,
        }
    }

    /// Of the plot's own lines: there is room for marks of six characters, in a narrow window too,
    /// where letters are larger.
    fn left(self) -> f64 {
        match self {
            Self::Wide => 78.0,
            Self::Small => 62.0,
        }
    }

    fn height(self) -> f64 {
        match self {
            Self::Wide => 330.0,
            Self::Small => 250.0,
        }
    }
}

/// How a line or bar is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: usize,
    /// An earlier run.
    pub(super) dashed: bool,
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    /// Whose it is.
    pub(super) target: String,
    /// How it is drawn.
    pub(super) stroke: Stroke,
    /// Where, and what was measured there.
    pub(super) points: Vec<(f64, Summary)>,
    /// Whether each point is marked; a rate over time has too many.
    pub(super) marked: bool,
}

/// What a plot says at its edges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) logarithmic: bool,
    pub(super) size: Size,
    /// The least value that the scale must reach.
    pub(super) highest: f64,
}

/// The style's name of a colour.
fn class(stroke: Stroke) -> String {
    let mut class = format!("c{}", stroke.colour % COLOURS);
    if stroke.dashed || stroke.colour >= COLOURS {
        class.push_str(" dashed");
    }
    class
}

/// A mark at a point. Neighbouring colours have other shapes, for who cannot tell the colours
/// apart.
fn mark(colour: usize, x: f64, y: f64) -> String {
    match colour % 4 {
        0 => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!(
            "<path class=\"mark\" d=\"M{:.1} {:.1}h7.2v7.2h-7.2z\"/>",
            x - 3.6,
            y - 3.6
        ),
        2 => format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"/>", y - 5.0),
        _ => format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l5 8.6h-10z\"/>", y - 5.4),
    }
}

/// What a legend shows in front of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// A line with a mark on it.
    Marked,
    /// A line.
    Plain,
    /// A bar.
    Bar,
}

/// A name in a legend.
struct LegendEntry {
    name: String,
    stroke: Stroke,
}

/// Names and colours, above a plot.
fn legend(out: &mut String, sign: Sign, entries: &[LegendEntry]) {
    out.push_str("<p class=\"legend\">");
    for LegendEntry { name, stroke } in entries {
        let drawn = match sign {
            Sign::Bar => "<rect x=\"1\" y=\"1\" width=\"24\" height=\"10\" rx=\"1.5\"/>".to_owned(),
            Sign::Plain => "<line x1=\"0\" y1=\"6\" x2=\"26\" y2=\"6\"/>".to_owned(),
            Sign::Marked => format!(
                "<line x1=\"0\" y1=\"6\" x2=\"26\" y2=\"6\"/>{}",
                mark(stroke.colour, 13.0, 6.0)
            ),
        };
        let _ = write!(
            out,
            "<span><svg class=\"{}\" viewBox=\"0 0 26 12\" width=\"26\" height=\"12\" aria-hidden=\"true\">{drawn}</svg>\
             {}</span> ",
            class(*stroke),
            Escaped(name)
        );
    }
    out.push_str("</p>\n");
}

/// The highest figure of all.
pub(super) fn highest(traces: &[Trace]) -> f64 {
    let points = traces.iter().flat_map(|trace| &trace.points);
    points.map(|(_, summary)| summary.max).fold(0.0, f64::max)
}

/// Lines against whatever the points stand at.
pub(super) fn lines(out: &mut String, frame: Frame<'_>, traces: &[Trace]) {
    let (width, height, left) = (frame.size.width(), frame.size.height(), frame.size.left());
    let at: Vec<f64> = traces
        .iter()
        .flat_map(|trace| &trace.points)
        .map(|(at, _)| *at)
        .collect();
    let is_marked = traces.iter().all(|trace| trace.marked);
    let x = match is_marked {
        true => Scale::over(&at, frame.logarithmic, left + INSIDE, width - RIGHT - INSIDE),
        // The last figure may stand at the very end.
        false => Scale::from_zero_until(at.iter().copied().fold(0.0, f64::max), left, width - RIGHT - INSIDE),
    };
    let y = Scale::from_zero(highest(traces).max(frame.highest), height - BOTTOM, TOP);
    let entries: Vec<_> = traces
        .iter()
        .map(|trace| LegendEntry {
            name: trace.name.clone(),
            stroke: trace.stroke,
        })
        .collect();
    legend(out, if is_marked { Sign::Marked } else { Sign::Plain }, &entries);
    open(out, frame.title, width, height);
    grid(out, frame, &x, &y);
    for (index, trace) in traces.iter().enumerate() {
        // Beside each other, or whiskers of several lines would hide one another.
        let aside = match trace.marked {
            true => (index as f64 - (traces.len() - 1) as f64 / 2.0) * ASIDE,
            false => 0.0,
        };
        draw(out, trace, aside, &x, &y);
    }
    out.push_str("</svg>\n");
}

fn open(out: &mut String, title: &str, width: f64, height: f64) {
    let _ = writeln!(
        out,
        "<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
        Escaped(title)
    );
}

fn grid(out: &mut String, frame: Frame<'_>, x: &Scale, y: &Scale) {
    let left = frame.size.left();
    let (right, bottom) = (frame.size.width() - RIGHT, frame.size.height() - BOTTOM);
    for tick in &y.ticks {
        let at = y.place(*tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            short(*tick)
        );
    }
    for tick in &x.ticks {
        let at = x.place(*tick);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" y1=\"{bottom}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 5.0,
            bottom + 19.0,
            short(*tick)
        );
    }
    let middle = f64::midpoint(TOP, bottom);
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"name unit\" transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        frame.size.height() - 6.0,
        Escaped(frame.x),
        Escaped(frame.y)
    );
}

fn draw(out: &mut String, trace: &Trace, aside: f64, x: &Scale, y: &Scale) {
    let _ = write!(
        out,
        "<g class=\"{}\"><polyline fill=\"none\" stroke=\"currentColor\" points=\"",
        class(trace.stroke)
    );
    for (at, summary) in &trace.points {
        let _ = write!(out, "{:.1},{:.1} ", x.place(*at) + aside, y.place(summary.median));
    }
    out.push_str("\"/>\n");
    for (at, summary) in trace.points.iter().filter(|_| trace.marked) {
        let (at_x, at_y) = (x.place(*at) + aside, y.place(summary.median));
        let (low, high) = (y.place(summary.min), y.place(summary.max));
        let _ = writeln!(
            out,
            "<g><title>{}, {}: {}</title><path class=\"whisker\" fill=\"none\" d=\"M{at_x:.1} {low:.1}V{high:.1}\
             M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8\"/>{}</g>",
            Escaped(&trace.name),
            short(*at),
            spread(summary),
            mark(trace.stroke.colour, at_x, at_y),
            left = at_x - 4.0,
        );
    }
    out.push_str("</g>\n");
}

/// Bars, the lines of a table one below the other, each with a bar for each target.
pub(super) fn bars(out: &mut String, sheet: &Sheet, strokes: &[Stroke]) {
    let names = sheet.series.iter().map(|series| series.name());
    let entries: Vec<_> = names
        .zip(strokes)
        .map(|(name, &stroke)| LegendEntry { name, stroke })
        .collect();
    if entries.len() > 1 {
        legend(out, Sign::Bar, &entries);
    }
    let summaries = sheet.lines.iter().flat_map(|line| line.cells.iter().flatten());
    let highest = summaries
        .filter_map(|cell| cell.summary)
        .map(|summary| summary.max)
        .fold(0.0, f64::max);
    // Behind the longest bar there must be room for its figure.
    let x = Scale::from_zero(highest, 6.0, WIDTH - 110.0);
    let group = |line: &Line| 30.0 + BAR * line.cells.iter().flatten().count() as f64;
    let bottom: f64 = sheet.lines.iter().map(group).sum::<f64>() + 6.0;
    open(out, &sheet.title, WIDTH, bottom + 38.0);
    for tick in &x.ticks {
        let at = x.place(*tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"4\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            short(*tick)
        );
    }
    let mut top = 6.0;
    for line in &sheet.lines {
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"6\" y=\"{:.1}\">{}</text>",
            top + 14.0,
            Escaped(&title(line))
        );
        bars_of(out, sheet, line, &x, top + 20.0, strokes);
        top += group(line);
    }
    let _ = writeln!(
        out,
        "<text class=\"name unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></svg>",
        WIDTH / 2.0 - 50.0,
        bottom + 33.0,
        Escaped(&sheet.unit)
    );
}

fn title(line: &Line) -> String {
    match line.at {
        Some(at) => format!("{}, {}", line.label, short(at)),
        None => line.label.clone(),
    }
}

fn bars_of(out: &mut String, sheet: &Sheet, line: &Line, x: &Scale, top: f64, strokes: &[Stroke]) {
    let mut top = top;
    for (at, cell) in line.cells.iter().enumerate() {
        let Some(cell) = cell else { continue };
        let zero = x.place(0.0);
        let Some(summary) = cell.summary else {
            let _ = writeln!(
                out,
                "<text class=\"value bad\" x=\"{:.1}\" y=\"{:.1}\">failed</text>",
                zero + 4.0,
                top + 11.5
            );
            top += BAR;
            continue;
        };
        let (end, low, high) = (x.place(summary.median), x.place(summary.min), x.place(summary.max));
        let middle = top + BAR / 2.0;
        let _ = writeln!(
            out,
            "<g class=\"{}\"><title>{}: {}</title><rect x=\"{zero:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             rx=\"1.5\"/><path class=\"whisker\" fill=\"none\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {up:.1}v6M{high:.1} \
             {up:.1}v6\"/></g><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            class(strokes[at]),
            Escaped(&sheet.series[at].name()),
            spread(&summary),
            top + 1.0,
            (end - zero).max(1.0),
            BAR - 2.5,
            high.max(end) + 7.0,
            top + 11.5,
            grouped(&figure(summary.median)),
            up = middle - 3.0,
        );
        top += BAR;
    }
}

fn spread(summary: &Summary) -> String {
    let Summary { min, median, max } = *summary;
    let [min, median, max] = [min, median, max].map(|value| grouped(&figure(value)));
    format!("{median} ({min} to {max})")
}

/// A mark's figure: as short as it can be.
fn short(value: f64) -> String {
    if value >= 10_000.0 && (value / 1000.0).fract() < 1e-9 {
        return format!("{}k", value / 1000.0);
    }
    // Steps such as 0.1 are not exact, and their sums show it.
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_short() {
        let words: Vec<String> = [0.0, 0.1 + 0.2, 2500.0, 40_000.0, 12_500.0].map(short).into();
        assert_eq!(words, ["0", "0.3", "2500", "40k", "12500"]);
    }

    #[test]
    fn the_last_figure_of_a_rate_over_time_has_room() {
        let point = |at: f64| {
            (
                at,
                Summary {
                    median: 1.0,
                    min: 1.0,
                    max: 1.0,
                },
            )
        };
        let trace = Trace {
            name: "pull".to_owned(),
            target: "a".to_owned(),
            stroke: Stroke {
                colour: 0,
                dashed: false,
            },
            points: vec![point(0.0), point(0.025)],
            marked: false,
        };
        for size in [Size::Wide, Size::Small] {
            let frame = Frame {
                title: "rate",
                x: "seconds",
                y: "Gbit/s",
                logarithmic: false,
                size,
                highest: 1.0,
            };
            let mut page = String::new();
            lines(&mut page, frame, std::slice::from_ref(&trace));
            let (before, _) = page.split_once(" text-anchor=\"middle\">0.025<").expect("the figure");
            let at = before.rsplit("x=\"").next().and_then(|text| text.split('"').next());
            let at: f64 = at.and_then(|at| at.parse().ok()).expect("its place");
            // Five characters of 17 units in a narrow window.
            assert!(at + 24.0 <= size.width(), "{at}");
        }
    }

    #[test]
    fn more_lines_than_colours_can_still_be_told_apart() {
        let class = |colour, dashed| class(Stroke { colour, dashed });
        assert_eq!(class(1, false), "c1");
        assert_eq!(class(9, false), "c1 dashed");
        assert_eq!(class(1, true), "c1 dashed");
    }
}
