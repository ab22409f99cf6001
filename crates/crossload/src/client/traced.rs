//! Spans of the client: its copies, and the jobs that it submits.

use std::time::SystemTime;

use endpoint::ids::fresh_span;
use http_wire::TRACEPARENT;
use telemetry::{Sampler, Span, SpanKind};
use transfer::Progress;
use types::{Error, SpanContext};

use super::place::Place;
use super::session::ClientContext;
use crate::command_line::{Command, QueueAction};
use crate::failure::Failure;
use crate::made_client::new_client;
use crate::output;
use crate::traces::steps::{ErrorNames, with_progress};
use crate::traces::{Collector, Traces};

/// The traces of a command, if it is one that has any.
///
/// # Errors
/// A collector that cannot be used.
pub(super) fn start(session: &ClientContext, command: &Command) -> Result<Traces, Failure> {
    let option = match command {
        Command::Copy(options) => &options.transfer.traces_to,
        Command::Sync(options) => &options.transfer.traces_to,
        Command::Queue(QueueAction::Submit(options)) => &options.traces_to,
        _ => return Ok(Traces::default()),
    };
    let variable = |name: &str| std::env::var(name).ok();
    let Some(collector) = Collector::of_client(option.as_deref(), variable)? else {
        return Ok(Traces::default());
    };
    let name = collector.authority();
    let report = move |fault: Option<&str>| {
        if let Some(error) = fault {
            output::complain(&format!("notice: traces are not exported to {name}: {error}"));
        }
    };
    let client = new_client(session.tls().clone());
    Ok(Traces::start(collector, client, Sampler::ALL, report))
}

/// A span that has begun.
pub(super) struct Begun {
    context: SpanContext,
    parent: Option<u64>,
    began: SystemTime,
}

impl Begun {
    /// A span with this identifier, below the one that the environment names: the variable is
    /// called like the header, in capitals (OpenTelemetry, "Environment Variables as Context
    /// Propagation Carriers").
    pub(super) fn new(traces: &Traces, id: u64) -> Self {
        // The first random number takes a moment.
        let began = SystemTime::now();
        let outer = std::env::var(TRACEPARENT.to_ascii_uppercase()).ok();
        let outer = outer.as_deref().and_then(SpanContext::parse);
        let fresh = || u128::from(fresh_span()) << 64 | u128::from(fresh_span());
        Self {
            context: SpanContext {
                trace: outer.map_or_else(fresh, |outer| outer.trace),
                span: id,
                is_sampled: traces.is_on() || outer.is_some_and(|outer| outer.is_sampled),
            },
            parent: outer.map(|outer| outer.span),
            began,
        }
    }

    /// The trace context of its requests.
    pub(super) fn traceparent(&self) -> String {
        self.context.traceparent()
    }

    /// Exports the span of a copy and its phases.
    pub(super) fn copied(&self, traces: &Traces, ends: [&Place; 2], progress: &Progress, error: Option<&Error>) {
        if !traces.is_on() {
            return;
        }
        let [source, target] = ends.map(|place| match place {
            Place::Remote(location) => location.to_string(),
            Place::Local(path) => path.as_str().to_owned(),
            Place::Stdio => "-".to_owned(),
        });
        let span = self
            .ended("copy", error)
            .text("crossload.source", &source)
            .text("crossload.destination", &target)
            .number("crossload.bytes", progress.moved_bytes())
            .number("crossload.resumed", progress.resumed().into());
        // The progress began a little before, and no step may end after the span.
        let lasted = self.began.elapsed().unwrap_or_default();
        let all = with_progress(span, progress, progress.elapsed().min(lasted), self.began);
        all.into_iter().for_each(|span| traces.export(span));
    }

    /// Exports the span of the submission of a job.
    pub(super) fn submitted(&self, traces: &Traces, queue: &str, job: Option<&str>) {
        if traces.is_on() {
            let span = self.ended("submit", None).text("server.address", queue);
            traces.export(match job {
                Some(job) => span.text("crossload.job.id", job),
                None => span.failed("the queue did not take the job"),
            });
        }
    }

    fn ended(&self, name: &'static str, error: Option<&Error>) -> Span {
        let span = Span::new(
            self.context,
            self.parent,
            name,
            SpanKind::Client,
            self.began,
            SystemTime::now(),
        );
        let Some(error) = error else { return span };
        let names = ErrorNames {
            code: error.code().name(),
            side: error.side().name(),
            phase: error.phase().name(),
        };
        names.failing(span)
    }
}
