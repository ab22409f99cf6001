//! The spans of attempts to copy a file, and the trace that requests to storages carry.

use std::sync::Arc;

use catalog::Claimed;
use transfer::Progress;
use types::SpanContext;

use super::RemoteCopier;

/// Whether the spans of a trace are exported.
pub(super) type Samples = Arc<dyn Fn(&SpanContext) -> bool + Send + Sync>;

/// The span under which a job was submitted, if its client exports that.
#[must_use]
pub fn submission_span(claimed: &Claimed) -> Option<SpanContext> {
    claimed.job.options.traceparent.as_deref().and_then(SpanContext::parse)
}

/// The span of an attempt: in the trace of the submission, or else in one with the identifier of
/// the job.
#[must_use]
pub fn attempt_span(claimed: &Claimed, progress: &Progress) -> SpanContext {
    let submission = submission_span(claimed);
    SpanContext {
        trace: submission.map_or(u128::from_be_bytes(claimed.job.id.0), |span| span.trace),
        span: progress.span(),
        is_sampled: submission.is_some_and(|span| span.is_sampled),
    }
}

impl RemoteCopier {
    /// The same, with `samples` to decide which traces are exported, of those for which the client
    /// has not decided it.
    #[must_use]
    pub fn sampling(self, samples: impl Fn(&SpanContext) -> bool + Send + Sync + 'static) -> Self {
        Self {
            samples: Arc::new(samples),
            ..self
        }
    }

    /// The trace context of the requests of an attempt.
    pub(super) fn traceparent(&self, claimed: &Claimed, progress: &Progress) -> String {
        let span = attempt_span(claimed, progress);
        let is_sampled = span.is_sampled || (self.samples)(&span);
        SpanContext { is_sampled, ..span }.traceparent()
    }
}
