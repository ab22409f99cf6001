//! A line in the log for each attempt to copy a file.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use catalog::Claimed;
use http_wire::TRACEPARENT;
use queue::{
    CleanUp, Copier, CopyResult, CopyTime, ExpiryLookup, HopRemoval, Roles, TokenGaps, attempt_span, submission_span,
};
use serde_json::{Value, json};
use telemetry::{Span, SpanKind};
use transfer::Progress;
use types::{Location, SpanContext};

use crate::server::log::Log;
use crate::traces::Traces;
use crate::traces::steps::{ErrorNames, with_progress};

/// A copier whose attempts are in the log.
pub(super) struct LoggedCopier {
    copier: Arc<dyn Copier>,
    log: Log,
    traces: Traces,
}

impl LoggedCopier {
    pub(super) fn new(copier: Arc<dyn Copier>, log: Log, traces: Traces) -> Self {
        Self { copier, log, traces }
    }
}

impl Copier for LoggedCopier {
    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = self.copier.copy(claimed, roles, progress).await;
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let context = attempt_span(claimed, progress);
            let mut line = line(claimed, &result, duration_ms);
            line[TRACEPARENT] = context.traceparent().into();
            self.log.write("copy", &line);
            if self.traces.takes(&context) {
                let took = begun.elapsed();
                spans(claimed, &result, progress, context, took)
                    .into_iter()
                    .for_each(|span| self.traces.export(span));
            }
            result
        })
    }

    fn clean_up<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CleanUp<'a> {
        self.copier.clean_up(claimed, roles, progress)
    }

    fn credential_end<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        self.copier.credential_end(claimed)
    }

    fn token_gaps<'a>(&'a self, claimed: &'a Claimed) -> TokenGaps<'a> {
        self.copier.token_gaps(claimed)
    }

    fn remove_hop<'a>(&'a self, claimed: &'a Claimed, url: &'a str) -> HopRemoval<'a> {
        self.copier.remove_hop(claimed, url)
    }
}

/// The spans of an attempt: the whole, and its phases. They have no query of a URL and no sentence
/// of an error.
fn spans(
    claimed: &Claimed,
    result: &CopyResult,
    progress: &Progress,
    context: SpanContext,
    took: Duration,
) -> Vec<Span> {
    let (file, ended) = (&claimed.file, SystemTime::now());
    let began = ended.checked_sub(took).unwrap_or(ended);
    let url = |text: &str| Location::parse(text).map_or_else(|_| String::new(), |place| place.to_string());
    let parent = submission_span(claimed).map(|span| span.span);
    let span = Span::new(context, parent, "copy", SpanKind::Client, began, ended)
        .text("crossload.job.id", &file.job.to_string())
        .number("crossload.file.id", u64::try_from(file.id.0).unwrap_or_default())
        .number("crossload.attempt", u64::from(file.attempts) + 1)
        .text("crossload.source", &url(&file.source))
        .text("crossload.destination", &url(&file.destination))
        .text("crossload.vo", &file.vo)
        .number("crossload.bytes", progress.moved_bytes());
    let span = match result {
        CopyResult::Failed { problem, .. }
        | CopyResult::Hold { problem, .. }
        | CopyResult::Wait { problem, .. }
        | CopyResult::Remains { problem, .. } => {
            let names = ErrorNames {
                code: &problem.code,
                side: &problem.side,
                phase: &problem.phase,
            };
            names.failing(span)
        }
        CopyResult::Finished { .. } | CopyResult::Found { .. } | CopyResult::Hop { .. } => span,
    };
    with_progress(span, progress, took, began)
}

/// What happened to a file. Its URLs are stored without what may be secret.
fn line(claimed: &Claimed, result: &CopyResult, duration_ms: u64) -> Value {
    let file = &claimed.file;
    let mut line = json!({
        "job": file.job,
        "file": file.id,
        "attempt": file.attempts.saturating_add(1),
        "source": file.source,
        "destination": file.destination,
        "vo": file.vo,
        "activity": file.activity,
        "duration_ms": duration_ms,
    });
    let (outcome, problem) = match result {
        CopyResult::Finished { size_bytes, way } => {
            line["bytes"] = (*size_bytes).into();
            line["way"] = way.as_deref().into();
            ("copied", None)
        }
        // A worker that was lost had copied it.
        CopyResult::Found { size_bytes, note } => {
            line["bytes"] = (*size_bytes).into();
            line["note"] = note.reason.as_str().into();
            ("found", None)
        }
        CopyResult::Hop { hop, copied_bytes } => {
            line["bytes"] = (*copied_bytes).into();
            line["hop"] = hop.incoming.url.as_str().into();
            line["part"] = json!(hop.part);
            ("hop", None)
        }
        CopyResult::Failed { problem, .. } => ("failed", Some(problem)),
        CopyResult::Hold { problem, .. } | CopyResult::Wait { problem, .. } | CopyResult::Remains { problem, .. } => {
            ("held", Some(problem))
        }
    };
    line["outcome"] = outcome.into();
    if let Some(problem) = problem {
        line["error"] = json!({
            "code": problem.code, "side": problem.side, "phase": problem.phase, "message": problem.reason,
        });
    }
    line
}
