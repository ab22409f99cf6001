//! Small plots within a line.

use std::fmt::Write as _;

use history::{LinkRun, RatePoint};

/// Width of a bar and the space beside it.
const BAR: usize = 4;
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

/// A bar for each run: as high as the copy took, or all of the height where it failed.
#[expect(clippy::cast_precision_loss, reason = "a plot")]
pub(super) fn runs(out: &mut String, runs: &[(u64, LinkRun)]) {
    if runs.len() < 2 {
        return;
    }
    let longest = runs.iter().filter_map(|(_, run)| run.copy_ms).max().unwrap_or(0).max(1) as f64;
    let (mut passed, mut failed, mut count) = (String::new(), String::new(), 0);
    for (at, (_, run)) in runs.iter().enumerate() {
        let (path, height) = match run.failed_share > 0.0 {
            true => {
                count += 1;
                (&mut failed, HEIGHT)
            }
            false => (
                &mut passed,
                2.0 + (HEIGHT - 8.0) * run.copy_ms.unwrap_or(0) as f64 / longest,
            ),
        };
        let _ = write!(path, "M{} {HEIGHT}v-{height:.0}", at * BAR + 2);
    }
    let width = runs.len() * BAR;
    let _ = write!(
        out,
        " <svg class=\"runs\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\">"
    );
    for (class, path) in [("p", passed), ("f", failed)] {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
    out.push_str("</svg>");
    if count > 0 {
        let _ = write!(out, " failed in {count} of {} runs", runs.len());
    }
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
