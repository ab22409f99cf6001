//! Small plots within a line.

use std::fmt::Write as _;

use history::RatePoint;

const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 20.0;

/// The rate of a cell over time; nothing with fewer than two points.
#[expect(clippy::cast_precision_loss, reason = "a plot")]
pub(super) fn rates(out: &mut String, rates: &[RatePoint]) {
    let steps = rates.windows(2).filter(|pair| pair[1].at_ms > pair[0].at_ms);
    let points: Vec<f64> = steps
        .map(|pair| pair[1].bytes as f64 * 8.0 / ((pair[1].at_ms - pair[0].at_ms) as f64 * 1000.0))
        .collect();
    let highest = points.iter().copied().fold(0.0, f64::max);
    let words = format!("Rate over time, at most {} Mb/s", crate::words::rate(highest));
    line(out, &points, &words);
}

/// A line through these values, whose axis begins at 0.
#[expect(clippy::cast_precision_loss, reason = "a plot")]
pub(super) fn line(out: &mut String, values: &[f64], words: &str) {
    let highest = values.iter().copied().fold(0.0, f64::max);
    if values.len() < 2 || highest <= 0.0 {
        return;
    }
    let step = WIDTH / (values.len() - 1) as f64;
    let _ = write!(
        out,
        " <svg class=\"spark\" viewBox=\"0 -1 {WIDTH} {}\" role=\"img\"><title>{words}</title><polyline points=\"",
        HEIGHT + 2.0
    );
    for (at, value) in values.iter().enumerate() {
        let _ = write!(out, "{:.1},{:.1} ", at as f64 * step, HEIGHT * (1.0 - value / highest));
    }
    out.push_str("\"/></svg>");
}
