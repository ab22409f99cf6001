//! Traces: spans of requests and copies for a collector of OpenTelemetry.
//!
//! What has ended is put into a queue, and a task sends the queue in batches. Nothing waits for it:
//! spans that find the queue full are dropped and counted. The same for servers, the transfer queue
//! and the client.

mod exporter;
mod settings;
pub(crate) mod spans;
pub(crate) mod steps;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use remote::Client;
use telemetry::{Sampler, Span};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use types::SpanContext;

use crate::limits::{LAST_SPANS_WAIT, SPANS_QUEUED_MAX};
use exporter::{Exporter, Report};
pub(crate) use settings::Collector;

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    /// The collector did not take them.
    rejected: AtomicU64,
    /// The collector could not be reached in time.
    failed: AtomicU64,
    /// The queue was full.
    dropped: AtomicU64,
}

struct Shared {
    spans: mpsc::Sender<Span>,
    sampler: Sampler,
    counts: Arc<Counts>,
    stopping: watch::Sender<bool>,
    report: Report,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Where ended spans go; by default nowhere. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Traces(Option<Arc<Shared>>);

impl std::fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Traces" } else { "no Traces" })
    }
}

impl Traces {
    /// Starts the task that sends spans to the collector. `report` gets a sentence when that begins
    /// to fail, and `None` when it works again.
    pub(crate) fn start(
        collector: Collector,
        client: Client,
        sampler: Sampler,
        report: impl Fn(Option<&str>) + Send + Sync + 'static,
    ) -> Self {
        let (spans, queue) = mpsc::channel(SPANS_QUEUED_MAX);
        let (stopping, stops) = watch::channel(false);
        let counts = Arc::new(Counts::default());
        let report: Report = Arc::new(report);
        let exporter = Exporter::new(collector, client, counts.clone(), report.clone());
        let task = tokio::spawn(exporter.run(queue, stops));
        Self(Some(Arc::new(Shared {
            spans,
            sampler,
            counts,
            stopping,
            report,
            task: Mutex::new(Some(task)),
        })))
    }

    /// Whether any are exported.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the spans of a trace are exported.
    pub(crate) fn takes(&self, context: &SpanContext) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.sampler.takes(context))
    }

    /// Exports a span of a trace that is exported.
    pub(crate) fn export(&self, span: Span) {
        if let Some(shared) = &self.0
            && shared.spans.try_send(span).is_err()
        {
            shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends what is queued. It waits for that, but not for long.
    pub(crate) async fn stop(&self) {
        let Some(shared) = &self.0 else { return };
        shared.stopping.send_replace(true);
        let task = shared.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && timeout(LAST_SPANS_WAIT, task).await.is_err()
        {
            let why = format!("the last spans were not taken within {} s", LAST_SPANS_WAIT.as_secs());
            (shared.report)(Some(&why));
        }
    }

    /// How many spans had which end, if any are exported.
    pub(crate) fn counted(&self) -> Option<[(&'static str, u64); 4]> {
        let counts = &self.0.as_ref()?.counts;
        let all = [
            ("sent", &counts.sent),
            ("rejected", &counts.rejected),
            ("failed", &counts.failed),
            ("dropped", &counts.dropped),
        ];
        Some(all.map(|(end, count)| (end, count.load(Ordering::Relaxed))))
    }
}

#[cfg(test)]
mod tests;
