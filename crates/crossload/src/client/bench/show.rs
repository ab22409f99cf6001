//! Progress of a run: one line, updated in place, on a terminal; else one line per measurement.

use std::io::IsTerminal as _;
use std::time::Duration;

use bench::RunProgress;
use bench::progress::{Event, Standing};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::output;

/// Interval at which the line is redrawn, for its clock.
const TICK: Duration = Duration::from_millis(500);

/// Reports progress on standard error, unless `quiet`.
pub(super) fn progress(quiet: bool) -> RunProgress {
    if quiet {
        return RunProgress::silent();
    }
    if !std::io::stderr().is_terminal() {
        return RunProgress::new(|event, standing| {
            if let Some(line) = line(event, standing) {
                output::complain(&line);
            }
        });
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    RunProgress::new(move |event, standing| redraw(&bar, event, standing))
}

fn redraw(bar: &ProgressBar, event: &Event, standing: &Standing) {
    bar.set_prefix(format!("{} of {}{}", standing.done, standing.planned, left(standing)));
    match event {
        Event::Began { label } => bar.set_message(label.clone()),
        Event::Ended { label, words } => bar.set_message(format!("{label}: {words}")),
        Event::Aside { words } => bar.set_message(words.clone()),
    }
    if standing.done == standing.planned && matches!(event, Event::Aside { .. }) {
        bar.set_prefix("");
    }
}

/// The line for an event; `None` for the start of a measurement.
fn line(event: &Event, standing: &Standing) -> Option<String> {
    match event {
        Event::Began { .. } => None,
        Event::Ended { label, words } => Some(format!(
            "{} of {}{}  {label}: {words}",
            standing.done,
            standing.planned,
            left(standing)
        )),
        Event::Aside { words } => Some(words.clone()),
    }
}

fn left(standing: &Standing) -> String {
    match standing.left {
        Some(left) if standing.done < standing.planned => format!(", {} left", duration(left)),
        _ => String::new(),
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_measured_and_how_long_the_rest_takes() {
        let standing = Standing {
            done: 2,
            planned: 6,
            elapsed: Duration::from_secs(80),
            left: Some(Duration::from_secs(160)),
        };
        let event = Event::Ended {
            label: "se: GET https".to_owned(),
            words: "11.8 Gbit/s".to_owned(),
        };
        let said = line(&event, &standing);
        assert_eq!(said.as_deref(), Some("2 of 6, 3 min left  se: GET https: 11.8 Gbit/s"));
        let last = Standing { done: 6, ..standing };
        assert_eq!(
            line(&event, &last).as_deref(),
            Some("6 of 6  se: GET https: 11.8 Gbit/s")
        );
        assert_eq!(duration(Duration::from_secs(7300)), "2 h 1 min");
    }
}
