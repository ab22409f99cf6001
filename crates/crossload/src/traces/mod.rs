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

use config::Configuration;
use door_admin::{Check, Part, PartFuture};
use net::tls::ClientTls;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use remote::Client;
use serde_json::json;
use telemetry::{Sampler, Span};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use types::SpanContext;

use crate::failure::Failure;
use crate::limits::{LAST_SPANS_WAIT, SPANS_QUEUED_MAX};
use crate::made_client::new_client;
use crate::server::admin_parts::encoded;
use crate::server::log::Log;
use crate::server::trust_files::trust;
use exporter::Exporter;
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
        let exporter = Exporter::new(collector, client, counts.clone(), Box::new(report));
        let task = tokio::spawn(exporter.run(queue, stops));
        Self(Some(Arc::new(Shared {
            spans,
            sampler,
            counts,
            stopping,
            task: Mutex::new(Some(task)),
        })))
    }

    /// Whether any are exported.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts what the configuration of a server says. `usual_service` is the name of the service
    /// if it has none.
    ///
    /// # Errors
    /// The file with headers, or the authorities.
    pub(crate) fn of_server(configuration: &Configuration, usual_service: &str, log: &Log) -> Result<Self, Failure> {
        let Some(collector) = Collector::of_server(configuration, usual_service)? else {
            return Ok(Self::default());
        };
        let (tls, _) = ClientTls::load(&trust(configuration))?;
        let (log, name) = (log.clone(), collector.authority());
        let report = move |fault: Option<&str>| match fault {
            Some(error) => log.write("traces_failed", &json!({"collector": name, "error": error})),
            None => log.write("traces_recovered", &json!({"collector": name})),
        };
        let sampler = Sampler::of_percent(configuration.traces.sampled_percent);
        Ok(Self::start(collector, new_client(tls), sampler, report))
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
        if let Some(task) = task {
            let _ = timeout(LAST_SPANS_WAIT, task).await;
        }
    }

    /// What metrics ask.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(TracesPart(self.clone()))
    }
}

struct TracesPart(Traces);

impl Part for TracesPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { self.0.0.as_ref().map(|shared| text(&shared.counts)).unwrap_or_default() })
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        // A server is ready without its collector.
        Box::pin(async { Vec::new() })
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

fn text(counts: &Counts) -> String {
    let spans = Family::<ResultLabels, Counter>::default();
    let all = [
        ("sent", &counts.sent),
        ("rejected", &counts.rejected),
        ("failed", &counts.failed),
        ("dropped", &counts.dropped),
    ];
    for (result, count) in all {
        let labels = ResultLabels { result };
        spans.get_or_create(&labels).inc_by(count.load(Ordering::Relaxed));
    }
    let mut registry = Registry::with_prefix("crossload_traces");
    registry.register("spans", "Spans by what became of them", spans);
    encoded(&registry)
}

#[cfg(test)]
mod tests;
