//! What the spans of copies have in common: attributes of errors, and phases and steps as spans
//! below that of the copy.

use std::time::{Duration, SystemTime};

use endpoint::StepTime;
use endpoint::ids::fresh_span;
use telemetry::Span;
use transfer::Progress;

/// The names of an error. Its sentences are in no span.
pub(crate) struct ErrorNames<'a> {
    pub(crate) code: &'a str,
    pub(crate) side: &'a str,
    pub(crate) phase: &'a str,
}

impl ErrorNames<'_> {
    /// The span with the attributes of the error.
    pub(crate) fn on(&self, span: Span) -> Span {
        span.text("error.type", self.code)
            .text("crossload.error.side", self.side)
            .text("crossload.error.phase", self.phase)
    }

    /// The same for a span that failed because of it.
    pub(crate) fn failing(&self, span: Span) -> Span {
        let reason = format!("{} {}: {}", self.side, self.phase, self.code);
        self.on(span).failed(&reason)
    }
}

/// The span of a copy that took so long, behind those of its phases and steps.
pub(crate) fn with_progress(span: Span, progress: &Progress, took: Duration, began: SystemTime) -> Vec<Span> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let marks = progress.marks().into_iter();
    let marks: Vec<_> = marks.map(|(phase, at)| (phase.name(), micros(at))).collect();
    with_parts(span, &marks, &progress.step_times(), micros(took), began)
}

/// The span of a copy, behind those of its phases and steps.
pub(crate) fn with_parts(
    span: Span,
    phases_us: &[(&'static str, u64)],
    step_times: &[StepTime],
    total_us: u64,
    began: SystemTime,
) -> Vec<Span> {
    let mut all = phases(&span, phases_us, total_us, began);
    all.extend(steps(&span, step_times, began));
    all.push(span);
    all
}

/// So long before a moment.
pub(crate) fn before(moment: SystemTime, us: u64) -> SystemTime {
    moment.checked_sub(Duration::from_micros(us)).unwrap_or(moment)
}

/// So long after a moment.
pub(crate) fn after(moment: SystemTime, us: u64) -> SystemTime {
    moment.checked_add(Duration::from_micros(us)).unwrap_or(moment)
}

/// The phases as steps of a span: each lasts until the next one begins.
pub(super) fn phases(whole: &Span, phases_us: &[(&'static str, u64)], total_us: u64, began: SystemTime) -> Vec<Span> {
    let ends = phases_us.iter().skip(1).map(|(_, us)| *us).chain([total_us]);
    let steps = phases_us.iter().zip(ends);
    steps
        .map(|((name, from), to)| whole.step(fresh_span(), name, after(began, *from), after(began, to)))
        .collect()
}

/// The steps of connecting, and the wait for the first byte, as steps of a span.
fn steps(whole: &Span, times: &[StepTime], began: SystemTime) -> Vec<Span> {
    let times = times.iter();
    times
        .map(|step| {
            let (from, to) = (after(began, step.began_us), after(began, step.ended_us));
            whole.step(fresh_span(), step.name, from, to)
        })
        .collect()
}
