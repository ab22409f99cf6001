//! The counters. Counting a request is a few additions to atomics; series that were never counted
//! do not exist, and no client can make more of them than there are names in the code.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::durations::{Histograms, durations};
use crate::operations::{OperationCount, Operations};

/// The methods that are counted by name; all others are counted as `other`.
const METHODS: [&str; 14] = [
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "COPY",
    "PROPFIND",
    "MKCOL",
    "MOVE",
    "OPTIONS",
    "POST",
    "PROPPATCH",
    "LOCK",
    "UNLOCK",
    "other",
];
/// Classes of status, after the first digit; the first is for requests that got no answer.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
/// Upper bounds of transfer rates, in bytes per second: from a modem's to 100 Gbit/s.
const RATE_BOUNDS: [f64; 11] = [1e4, 1e5, 1e6, 5e6, 1e7, 5e7, 1e8, 5e8, 1e9, 5e9, 1.25e10];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    code: &'static str,
    side: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    mode: &'static str,
    outcome: &'static str,
}

/// The stable names of an error's code and of the side at fault.
pub type ErrorNames = (&'static str, &'static str);

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method as it was sent.
    pub method: &'a str,
    /// The status that it was answered with; `None` when the client went away before.
    pub status: Option<u32>,
    /// Payload that came in, in bytes.
    pub bytes_in: u64,
    /// Payload that went out, in bytes.
    pub bytes_out: u64,
    /// From the head's arrival to the end of the answer.
    pub duration: Duration,
    /// What went wrong, if anything.
    pub error: Option<ErrorNames>,
}

/// A third-party copy that ended.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Which way it went: `pull` or `push`.
    pub mode: &'static str,
    /// How it ended: `success`, `failure` and so on.
    pub outcome: &'static str,
    /// Payload moved, in bytes.
    pub bytes: u64,
    /// From the request to the end.
    pub duration: Duration,
    /// Why it failed, if it did.
    pub error: Option<ErrorNames>,
}

/// Connections and payload since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that are open.
    pub connections_open: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Payload from clients, in bytes.
    pub bytes_in: u64,
    /// Payload to clients, in bytes.
    pub bytes_out: u64,
}

/// The series of one method, each made when it is first counted.
#[derive(Default)]
struct Method {
    classes: [OnceLock<Counter>; CLASSES.len()],
    duration: OnceLock<Histogram>,
}

/// Everything that is counted. Shared by all connections; every update is a few atomic additions.
pub struct Metrics {
    registry: Registry,
    methods: [Method; METHODS.len()],
    requests: Family<RequestLabels, Counter>,
    durations: Histograms<MethodLabels>,
    operations: Operations,
    errors: Family<ErrorLabels, Counter>,
    bytes_in: Counter,
    bytes_out: Counter,
    connections_open: Gauge,
    connections: Counter,
    refused: Counter,
    transfers_started: Family<ModeLabels, Counter>,
    transfers_finished: Family<OutcomeLabels, Counter>,
    transfer_bytes: Family<ModeLabels, Counter>,
    transfers_active: Family<ModeLabels, Gauge>,
    rate: Histogram,
    reload_failures: Counter,
    listings_incomplete: Family<KindLabels, Counter>,
    login_delegations: Family<StepLabels, Counter>,
    share_refusals: Family<KindLabels, Counter>,
    share_in_use: Family<KindLabels, Gauge>,
    share_limit: Family<KindLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("crossload");
        let metrics = Self {
            methods: Default::default(),
            requests: Family::default(),
            durations: durations(),
            operations: Operations::default(),
            errors: Family::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            connections_open: Gauge::default(),
            connections: Counter::default(),
            refused: Counter::default(),
            transfers_started: Family::default(),
            transfers_finished: Family::default(),
            transfer_bytes: Family::default(),
            transfers_active: Family::default(),
            rate: Histogram::new(RATE_BOUNDS),
            reload_failures: Counter::default(),
            listings_incomplete: Family::default(),
            login_delegations: Family::default(),
            share_refusals: Family::default(),
            share_in_use: Family::default(),
            share_limit: Family::default(),
            registry: Registry::default(),
        };
        metrics.register_requests(&mut registry);
        metrics.register_copies(&mut registry);
        metrics.register_shares(&mut registry);
        Self { registry, ..metrics }
    }

    fn register_requests(&self, registry: &mut Registry) {
        let bytes = Unit::Bytes;
        let help = "Requests answered, by method and class of status";
        registry.register("requests", help, self.requests.clone());
        let help = "Time from the head of a request to the end of its answer, by method";
        registry.register_with_unit("request_duration", help, Unit::Seconds, self.durations.clone());
        self.operations.register(registry);
        let help = "Failed requests and transfers, by error code and side";
        registry.register("errors", help, self.errors.clone());
        let help = "Payload received from clients";
        registry.register_with_unit("received", help, bytes.clone(), self.bytes_in.clone());
        registry.register_with_unit("sent", "Payload sent to clients", bytes, self.bytes_out.clone());
        let help = "Open client connections";
        registry.register("connections_open", help, self.connections_open.clone());
        let help = "Client connections that were accepted";
        registry.register("connections", help, self.connections.clone());
        let help = "Connections refused because there were too many";
        registry.register("connections_refused", help, self.refused.clone());
        let help = "Listings that left out names which no path can hold, or links that lead nowhere or out";
        registry.register("listings_incomplete", help, self.listings_incomplete.clone());
        let help = "What logins did about delegated proxies";
        registry.register("login_delegations", help, self.login_delegations.clone());
        registry.register(
            "config_reload_failures",
            "Reloads that failed",
            self.reload_failures.clone(),
        );
    }

    fn register_copies(&self, registry: &mut Registry) {
        let help = "Third-party copies begun as active side";
        registry.register("transfers_started", help, self.transfers_started.clone());
        let help = "Third-party copies ended, by outcome";
        registry.register("transfers_finished", help, self.transfers_finished.clone());
        let help = "Payload moved by third-party copies";
        registry.register_with_unit("transfer", help, Unit::Bytes, self.transfer_bytes.clone());
        let help = "Third-party copies in progress";
        registry.register("transfers_active", help, self.transfers_active.clone());
        let help = "Payload rate of successful third-party copies";
        let unit = Unit::Other("bytes_per_second".into());
        registry.register_with_unit("transfer_rate", help, unit, self.rate.clone());
    }

    fn register_shares(&self, registry: &mut Registry) {
        let help = "Requests and connections refused because their client's share was used up";
        registry.register("share_used_up", help, self.share_refusals.clone());
        let help = "What clients hold of things that are shared out";
        registry.register("share_in_use", help, self.share_in_use.clone());
        let help = "What there is of these things for all clients together";
        registry.register("share_limit", help, self.share_limit.clone());
    }

    /// Counts a listing that left out what is of this kind.
    pub fn listing_incomplete(&self, kind: &'static str) {
        self.listings_incomplete.get_or_create(&KindLabels { kind }).inc();
    }

    /// Counts what a login did about a delegated proxy.
    pub fn login_delegation(&self, step: &'static str) {
        self.login_delegations.get_or_create(&StepLabels { step }).inc();
    }

    /// Counts a refusal because a client's share was used up.
    pub fn share_used_up(&self, kind: &'static str) {
        self.share_refusals.get_or_create(&KindLabels { kind }).inc();
    }

    /// Sets how many of a kind are in use, and their limit.
    pub fn set_share(&self, kind: &'static str, in_use: u64, limit: u64) {
        self.share_in_use.get_or_create(&KindLabels { kind }).set(clamp(in_use));
        self.share_limit.get_or_create(&KindLabels { kind }).set(clamp(limit));
    }

    /// Counts a request that was answered.
    pub fn request(&self, request: &Request<'_>) {
        let known = METHODS.iter().position(|name| *name == request.method);
        let number = known.unwrap_or(METHODS.len() - 1);
        let (series, method) = (&self.methods[number], METHODS[number]);
        let class = ((request.status.unwrap_or(0) / 100) as usize).min(CLASSES.len() - 1);
        let labels = || RequestLabels {
            method,
            class: CLASSES[class],
        };
        let counted = series.classes[class].get_or_init(|| self.requests.get_or_create_owned(&labels()));
        counted.inc();
        let duration = series
            .duration
            .get_or_init(|| self.durations.get_or_create_owned(&MethodLabels { method }));
        duration.observe(request.duration.as_secs_f64());
        self.bytes_in.inc_by(request.bytes_in);
        self.bytes_out.inc_by(request.bytes_out);
        self.error(request.error);
    }

    /// Counts a request of the XRootD protocol that was answered. Payload is counted by itself.
    pub fn xroot_request(&self, operation: Cow<'static, str>, duration: Duration, error: Option<ErrorNames>) {
        self.operations.count(operation, duration, error.is_none());
        self.error(error);
    }

    /// Counts payload that no other call counts.
    pub fn payload(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.inc_by(bytes_in);
        self.bytes_out.inc_by(bytes_out);
    }

    fn error(&self, error: Option<ErrorNames>) {
        if let Some((code, side)) = error {
            self.errors.get_or_create(&ErrorLabels { code, side }).inc();
        }
    }

    /// Counts a connection that came.
    pub fn connection_opened(&self) {
        self.connections_open.inc();
        self.connections.inc();
    }

    /// Counts a connection that went.
    pub fn connection_closed(&self) {
        self.connections_open.dec();
    }

    /// Counts a connection that was refused because there were too many.
    pub fn connection_refused(&self) {
        self.refused.inc();
    }

    /// Counts a third-party copy that begins.
    pub fn transfer_started(&self, mode: &'static str) {
        let labels = ModeLabels { mode };
        self.transfers_started.get_or_create(&labels).inc();
        self.transfers_active.get_or_create(&labels).inc();
    }

    /// Counts a third-party copy that ended.
    pub fn transfer_finished(&self, transfer: &Transfer) {
        let labels = ModeLabels { mode: transfer.mode };
        self.transfers_active.get_or_create(&labels).dec();
        self.transfer_bytes.get_or_create(&labels).inc_by(transfer.bytes);
        let labels = OutcomeLabels {
            mode: transfer.mode,
            outcome: transfer.outcome,
        };
        self.transfers_finished.get_or_create(&labels).inc();
        if transfer.error.is_none() && !transfer.duration.is_zero() {
            self.rate
                .observe(transfer.bytes as f64 / transfer.duration.as_secs_f64());
        }
        self.error(transfer.error);
    }

    /// Third-party copies of this mode that run now.
    #[must_use]
    pub fn transfers_active(&self, mode: &'static str) -> u64 {
        let running = self.transfers_active.get(&ModeLabels { mode }).map(|gauge| gauge.get());
        running.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }

    /// Connections and payload until now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            connections_open: u64::try_from(self.connections_open.get()).unwrap_or(0),
            connections: self.connections.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
        }
    }

    /// Requests of the XRootD protocol until now, by operation.
    #[must_use]
    pub fn operations(&self) -> Vec<OperationCount> {
        self.operations.counts()
    }

    /// Counts a reload that failed.
    pub fn reload_failed(&self) {
        self.reload_failures.inc();
    }

    /// The counters as OpenMetrics, without the mark of the end.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = encode_registry(&mut text, &self.registry);
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Metrics")
    }
}

pub(crate) fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|have| have == line)
    }

    #[test]
    fn requests_are_counted_by_method_and_class() {
        let metrics = Metrics::new();
        let request = Request {
            method: "PUT",
            status: Some(507),
            bytes_in: 10,
            bytes_out: 3,
            duration: Duration::from_millis(2),
            error: Some(("no_space", "destination")),
        };
        metrics.request(&request);
        metrics.request(&Request {
            method: "BREW",
            status: Some(418),
            error: None,
            ..request
        });
        metrics.connection_opened();
        let text = metrics.text();
        for line in [
            "crossload_requests_total{method=\"PUT\",class=\"5xx\"} 1",
            "crossload_requests_total{method=\"other\",class=\"4xx\"} 1",
            "crossload_errors_total{code=\"no_space\",side=\"destination\"} 1",
            "crossload_received_bytes_total 20",
            "crossload_sent_bytes_total 6",
            "crossload_connections_open 1",
            "crossload_request_duration_seconds_count{method=\"PUT\"} 1",
            "crossload_request_duration_seconds_count{method=\"other\"} 1",
        ] {
            assert!(has(&text, line), "{line}\n{text}");
        }
        metrics.connection_closed();
        assert!(has(&metrics.text(), "crossload_connections_open 0"));
    }

    #[test]
    fn transfers_are_counted_by_mode_and_outcome() {
        let metrics = Metrics::new();
        metrics.transfer_started("pull");
        metrics.transfer_started("pull");
        let transfer = Transfer {
            mode: "pull",
            outcome: "success",
            bytes: 1_000_000,
            duration: Duration::from_secs(1),
            error: None,
        };
        metrics.transfer_finished(&transfer);
        let text = metrics.text();
        for line in [
            "crossload_transfers_started_total{mode=\"pull\"} 2",
            "crossload_transfers_finished_total{mode=\"pull\",outcome=\"success\"} 1",
            "crossload_transfers_active{mode=\"pull\"} 1",
            "crossload_transfer_bytes_total{mode=\"pull\"} 1000000",
            "crossload_transfer_rate_bytes_per_second_count 1",
        ] {
            assert!(has(&text, line), "{line}\n{text}");
        }
        assert_eq!(
            (metrics.transfers_active("pull"), metrics.transfers_active("push")),
            (1, 0)
        );
    }

    #[test]
    fn the_manual_names_every_metric() {
        let manual = include_str!("../../../docs/metrics.md");
        let metrics = Metrics::new();
        metrics.request(&Request {
            method: "GET",
            status: Some(200),
            bytes_in: 0,
            bytes_out: 0,
            duration: Duration::ZERO,
            error: Some(("internal", "server")),
        });
        metrics.xroot_request("open".into(), Duration::ZERO, None);
        metrics.transfer_started("pull");
        metrics.share_used_up("locks");
        metrics.set_share("locks", 1, 2);
        metrics.listing_incomplete("names");
        metrics.login_delegation("asked");
        for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().expect("a name");
            let name = ["_bucket", "_count", "_sum"]
                .iter()
                .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
    }

    #[test]
    fn series_begin_with_their_first_event() {
        let text = Metrics::new().text();
        for name in [
            "requests",
            "request_duration",
            "xroot_requests",
            "errors",
            "transfers_active",
        ] {
            assert!(!text.contains(&format!("crossload_{name}")), "{name}\n{text}");
        }
    }

    #[test]
    fn labels_of_clients_do_not_make_it_grow() {
        let metrics = Metrics::new();
        let offer = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let method = format!("METHOD{number}");
                metrics.request(&Request {
                    method: &method,
                    status: Some(number),
                    bytes_in: 0,
                    bytes_out: 0,
                    duration: Duration::ZERO,
                    error: None,
                });
                metrics.xroot_request(method.into(), Duration::ZERO, None);
            }
            metrics.text().lines().count()
        };
        let before = offer(0..1_000);
        assert_eq!(offer(1_000..100_000), before);
        let other = "crossload_xroot_requests_total{operation=\"other\",outcome=\"ok\"} ";
        assert!(metrics.text().contains(other));
    }
}
