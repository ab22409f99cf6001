//! The task that sends spans to a collector (OTLP 1.x, "OTLP/HTTP").

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use endpoint::ids::fresh_span;
use remote::{Client, Resource, ServiceCall, ServiceMethod};
use telemetry::{ExportAnswer, Span, TraceSource, export_request};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use types::Secret;

use super::Counts;
use super::settings::Collector;
use crate::limits::{
    COLLECTOR_ANSWER_BYTES_MAX, COLLECTOR_ANSWER_TIME, EXPORT_ATTEMPTS, EXPORT_PAUSE_MAX, EXPORT_PAUSE_MIN,
    SPANS_GATHER_TIME, SPANS_PER_EXPORT_MAX,
};

/// Hears a sentence when exports begin to fail, and `None` when they work again.
pub(super) type Report = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// What an attempt came to.
enum Attempt {
    /// The collector answered with a success.
    Taken(ExportAnswer),
    /// It may take them later.
    Again {
        why: String,
        /// When, if it says so.
        after: Option<Duration>,
    },
    /// It will not take them.
    Refused(String),
}

pub(super) struct Exporter {
    place: Resource,
    source: TraceSource,
    client: Client,
    counts: Arc<Counts>,
    report: Report,
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(collector: Collector, client: Client, counts: Arc<Counts>, report: Report) -> Self {
        Self {
            place: collector.place,
            source: collector.source,
            client,
            counts,
            report,
            is_failing: false,
        }
    }

    /// Sends spans until it is stopped and none is left.
    pub(super) async fn run(mut self, mut spans: mpsc::Receiver<Span>, mut stops: watch::Receiver<bool>) {
        loop {
            let batch = gather(&mut spans, &mut stops).await;
            if batch.is_empty() {
                return;
            }
            self.send(&batch, &mut stops).await;
        }
    }

    /// Sends a batch, as often as the protocol allows and the limits let.
    async fn send(&mut self, batch: &[Span], stops: &mut watch::Receiver<bool>) {
        let body = Secret::new(export_request(&self.source, batch));
        let (mut pause, count) = (EXPORT_PAUSE_MIN, batch.len() as u64);
        for attempt in 1..=EXPORT_ATTEMPTS {
            let (why, after) = match self.attempt(&body).await {
                Attempt::Taken(answer) => return self.taken(count, &answer),
                Attempt::Refused(why) => {
                    self.counts.rejected.fetch_add(count, Ordering::Relaxed);
                    return self.fail(&why);
                }
                Attempt::Again { why, after } => (why, after),
            };
            self.fail(&why);
            if attempt == EXPORT_ATTEMPTS || *stops.borrow() {
                break;
            }
            // Not all servers of a site ask at the same moment.
            let jitter = pause.mul_f64((fresh_span() % 1000) as f64 / 2000.0);
            let wait = after.unwrap_or(pause + jitter).min(EXPORT_PAUSE_MAX);
            tokio::select! {
                () = sleep(wait) => {}
                () = stopped(stops) => {}
            }
            pause = (pause * 2).min(EXPORT_PAUSE_MAX);
        }
        self.counts.failed.fetch_add(count, Ordering::Relaxed);
    }

    async fn attempt(&self, body: &Secret) -> Attempt {
        let call = ServiceCall {
            method: ServiceMethod::Post,
            content_type: "application/json",
            body,
            login: None,
            webhook: None,
            answer_bytes_max: COLLECTOR_ANSWER_BYTES_MAX,
        };
        match timeout(COLLECTOR_ANSWER_TIME, self.client.call(&self.place, &call)).await {
            Ok(Ok(answer)) if answer.is_success() => Attempt::Taken(ExportAnswer::read(answer.body.expose())),
            // The statuses that OTLP lets be tried again ("OTLP/HTTP Response", retryable codes).
            Ok(Ok(answer)) if answer.may_pass() => Attempt::Again {
                why: format!("status {}", answer.status),
                after: answer.retry_after_s.map(Duration::from_secs),
            },
            Ok(Ok(answer)) => Attempt::Refused(format!("status {}", answer.status)),
            Ok(Err(error)) => {
                let may_pass = error.retry();
                // Some services keep their secret in the path.
                let why = error.with_subject(self.place.location.authority()).public();
                match may_pass {
                    true => Attempt::Again { why, after: None },
                    false => Attempt::Refused(why),
                }
            }
            Err(_) => Attempt::Again {
                why: format!("no answer within {} s", COLLECTOR_ANSWER_TIME.as_secs()),
                after: None,
            },
        }
    }

    fn taken(&mut self, count: u64, answer: &ExportAnswer) {
        let rejected = answer.rejected.min(count);
        self.counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.counts.sent.fetch_add(count - rejected, Ordering::Relaxed);
        if rejected > 0 {
            let reason = match answer.message.as_str() {
                "" => ", and gave no reason".to_owned(),
                message => format!(": {message}"),
            };
            return self.fail(&format!("it rejected {rejected} of {count} spans{reason}"));
        }
        if std::mem::take(&mut self.is_failing) {
            (self.report)(None);
        }
    }

    fn fail(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            (self.report)(Some(why));
        }
    }
}

/// The next spans; none when it is stopped and none is left.
async fn gather(spans: &mut mpsc::Receiver<Span>, stops: &mut watch::Receiver<bool>) -> Vec<Span> {
    let first = tokio::select! {
        biased;
        span = spans.recv() => span,
        () = stopped(stops) => spans.try_recv().ok(),
    };
    let mut batch: Vec<Span> = first.into_iter().collect();
    if batch.is_empty() {
        return batch;
    }
    let end = sleep(SPANS_GATHER_TIME);
    tokio::pin!(end);
    while batch.len() < SPANS_PER_EXPORT_MAX {
        let next = tokio::select! {
            biased;
            span = spans.recv() => span,
            () = &mut end => None,
            () = stopped(stops) => None,
        };
        match next {
            Some(span) => batch.push(span),
            None => break,
        }
    }
    batch
}

/// Returns once it is stopped.
async fn stopped(stops: &mut watch::Receiver<bool>) {
    // An error means that nothing can send spans any more.
    let _ = stops.wait_for(|stops| *stops).await;
}
