//! The phases and steps of a copy as spans below that of the copy.

use std::time::{Duration, SystemTime};

use endpoint::StepTime;
use endpoint::ids::fresh_span;
use telemetry::Span;

/// So long before a moment.
pub(crate) fn before(moment: SystemTime, us: u64) -> SystemTime {
    moment.checked_sub(Duration::from_micros(us)).unwrap_or(moment)
}

/// So long after a moment.
pub(crate) fn after(moment: SystemTime, us: u64) -> SystemTime {
    moment.checked_add(Duration::from_micros(us)).unwrap_or(moment)
}

/// The phases as steps of a span: each lasts until the next one begins.
pub(crate) fn phases(whole: &Span, phases_us: &[(&'static str, u64)], total_us: u64, began: SystemTime) -> Vec<Span> {
    let ends = phases_us.iter().skip(1).map(|(_, us)| *us).chain([total_us]);
    let steps = phases_us.iter().zip(ends);
    steps
        .map(|((name, from), to)| whole.step(fresh_span(), name, after(began, *from), after(began, to)))
        .collect()
}

/// The steps of connecting, and the wait for the first byte, as steps of a span.
pub(crate) fn steps(whole: &Span, times: &[StepTime], began: SystemTime) -> Vec<Span> {
    let times = times.iter();
    times
        .map(|step| {
            let (from, to) = (after(began, step.began_us), after(began, step.ended_us));
            whole.step(fresh_span(), step.name, from, to)
        })
        .collect()
}
