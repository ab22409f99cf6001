//! The counters. Those of requests are made beforehand for every combination of labels, so that
//! counting a request is a few additions to atomics and no look-up.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

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
/// Upper bounds of the request times, in seconds: a cached HEAD takes tens of microseconds, a large
/// PUT minutes.
const DURATION_BOUNDS_S: [f64; 14] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0,
];
/// Upper bounds of transfer rates, in bytes per second: from a modem's to 100 Gbit/s.
const RATE_BOUNDS: [f64; 11] = [1e4, 1e5, 1e6, 5e6, 1e7, 5e7, 1e8, 5e8, 1e9, 5e9, 1.25e10];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct XrootLabels {
    operation: Cow<'static, str>,
    outcome: &'static str,
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QuotaLabels {
    vo: String,
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExportLabels {
    export: String,
}

/// The stable names of an error's code and of the side at fault.
pub type ErrorNames = (&'static str, &'static str);

/// Figures of the trust store for client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Trusted authorities.
    pub authorities: usize,
    /// Authorities with a revocation list.
    pub revocation_lists: usize,
    /// When the oldest of these lists was made, in seconds since 1970.
    pub oldest_list_s: Option<i64>,
    /// Files that are broken.
    pub faults: usize,
}

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

/// Everything that is counted. Shared by all connections; every update is a few atomic additions.
pub struct Metrics {
    registry: Registry,
    requests: [[Counter; CLASSES.len()]; METHODS.len()],
    xroot_requests: Family<XrootLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    bytes_in: Counter,
    bytes_out: Counter,
    duration: Histogram,
    connections: Gauge,
    refused: Counter,
    transfers_started: Family<ModeLabels, Counter>,
    transfers_finished: Family<OutcomeLabels, Counter>,
    transfer_bytes: Family<ModeLabels, Counter>,
    transfers_active: Family<ModeLabels, Gauge>,
    rate: Histogram,
    space_total: Family<ExportLabels, Gauge>,
    space_free: Family<ExportLabels, Gauge>,
    space_used: Family<ExportLabels, Gauge>,
    quota_used: Family<QuotaLabels, Gauge>,
    quota_limit: Family<QuotaLabels, Gauge>,
    certificate: Gauge,
    reload_failed: Gauge,
    reload_failures: Counter,
    authorities: Gauge,
    revocation_lists: Gauge,
    oldest_list: Gauge,
    trust_faults: Gauge,
    resident: Gauge,
    cpu: Counter<f64, AtomicU64>,
    descriptors: Gauge,
    threads: Gauge,
    tasks: Gauge,
    log_dropped: Counter,
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
        let by_request = Family::<RequestLabels, Counter>::default();
        let requests = METHODS
            .map(|method| CLASSES.map(|class| by_request.get_or_create(&RequestLabels { method, class }).clone()));
        registry.register(
            "requests",
            "Requests answered, by method and class of status",
            by_request,
        );
        let metrics = Self {
            requests,
            xroot_requests: Family::default(),
            errors: Family::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            duration: Histogram::new(DURATION_BOUNDS_S),
            connections: Gauge::default(),
            refused: Counter::default(),
            transfers_started: Family::default(),
            transfers_finished: Family::default(),
            transfer_bytes: Family::default(),
            transfers_active: Family::default(),
            rate: Histogram::new(RATE_BOUNDS),
            space_total: Family::default(),
            space_free: Family::default(),
            space_used: Family::default(),
            quota_used: Family::default(),
            quota_limit: Family::default(),
            certificate: Gauge::default(),
            reload_failed: Gauge::default(),
            reload_failures: Counter::default(),
            authorities: Gauge::default(),
            revocation_lists: Gauge::default(),
            oldest_list: Gauge::default(),
            trust_faults: Gauge::default(),
            resident: Gauge::default(),
            cpu: Counter::default(),
            descriptors: Gauge::default(),
            threads: Gauge::default(),
            tasks: Gauge::default(),
            log_dropped: Counter::default(),
            listings_incomplete: Family::default(),
            login_delegations: Family::default(),
            share_refusals: Family::default(),
            share_in_use: Family::default(),
            share_limit: Family::default(),
            registry: Registry::default(),
        };
        metrics.register_traffic(&mut registry);
        metrics.register_state(&mut registry);
        metrics.register_shares(&mut registry);
        Self { registry, ..metrics }
    }

    fn register_traffic(&self, registry: &mut Registry) {
        let bytes = Unit::Bytes;
        registry.register(
            "xroot_requests",
            "Requests of the XRootD protocol answered, by operation and outcome",
            self.xroot_requests.clone(),
        );
        registry.register(
            "errors",
            "Failed requests and transfers, by error code and side",
            self.errors.clone(),
        );
        registry.register_with_unit(
            "received",
            "Payload taken from clients",
            bytes.clone(),
            self.bytes_in.clone(),
        );
        registry.register_with_unit("sent", "Payload sent to clients", bytes.clone(), self.bytes_out.clone());
        let help = "Time from a request's head to the end of its answer";
        registry.register_with_unit("request_duration", help, Unit::Seconds, self.duration.clone());
        registry.register("connections_open", "Open client connections", self.connections.clone());
        let help = "Connections turned away because there were too many";
        registry.register("connections_refused", help, self.refused.clone());
        let help = "Third-party copies begun as active side";
        registry.register("transfers_started", help, self.transfers_started.clone());
        let help = "Third-party copies ended, by outcome";
        registry.register("transfers_finished", help, self.transfers_finished.clone());
        let help = "Payload moved by third-party copies";
        registry.register_with_unit("transfer", help, bytes, self.transfer_bytes.clone());
        registry.register(
            "transfers_active",
            "Third-party copies in progress",
            self.transfers_active.clone(),
        );
        let help = "Payload rate of successful third-party copies";
        registry.register_with_unit(
            "transfer_rate",
            help,
            Unit::Other("bytes_per_second".into()),
            self.rate.clone(),
        );
        let help = "Listings that left out names which no path can hold, or links that lead nowhere or out";
        registry.register("listings_incomplete", help, self.listings_incomplete.clone());
        let help = "What logins did about delegated proxies";
        registry.register("login_delegations", help, self.login_delegations.clone());
        registry.register(
            "log_lines_dropped",
            "Log lines dropped because the log was too slow",
            self.log_dropped.clone(),
        );
    }

    fn register_state(&self, registry: &mut Registry) {
        let bytes = Unit::Bytes;
        let help = "Size of the export's file system, or its quota";
        registry.register_with_unit("export_total", help, bytes.clone(), self.space_total.clone());
        let help = "What new files can take in the export";
        registry.register_with_unit("export_free", help, bytes.clone(), self.space_free.clone());
        let help = "What the export's files take";
        registry.register_with_unit("export_used", help, bytes.clone(), self.space_used.clone());
        let help = "What the files of a virtual organisation take of its quota";
        registry.register_with_unit("quota_used", help, bytes.clone(), self.quota_used.clone());
        let help = "What the files of a virtual organisation may take";
        registry.register_with_unit("quota_limit", help, bytes.clone(), self.quota_limit.clone());
        let help = "Time until the server's certificate expires; 0 without one";
        registry.register_with_unit("certificate_expiry", help, Unit::Seconds, self.certificate.clone());
        let help = "Whether the last reload failed, so that an older configuration is in use";
        registry.register("reload_failed", help, self.reload_failed.clone());
        let help = "Reloads that failed";
        registry.register("reload_failures", help, self.reload_failures.clone());
        let help = "Authorities whose certificates of clients are believed";
        registry.register("authorities", help, self.authorities.clone());
        let help = "Authorities among them whose revocation list is at hand";
        registry.register("revocation_lists", help, self.revocation_lists.clone());
        let help = "When the oldest of these lists was made, in seconds since 1970; 0 without any";
        let unit = Unit::Other("timestamp_seconds".into());
        registry.register_with_unit("revocation_list_oldest", help, unit, self.oldest_list.clone());
        let help = "Files of authorities, VOMS servers and mappings that are broken";
        registry.register("trust_faults", help, self.trust_faults.clone());
        let help = "Memory of this process that is in use";
        registry.register_with_unit("process_resident", help, bytes, self.resident.clone());
        let help = "Processor time of this process, user and system";
        registry.register_with_unit("process_cpu", help, Unit::Seconds, self.cpu.clone());
        let help = "Descriptors that this process has open";
        registry.register("process_descriptors", help, self.descriptors.clone());
        let help = "Threads of this process";
        registry.register("process_threads", help, self.threads.clone());
        let help = "Tasks that have not ended";
        registry.register("tasks", help, self.tasks.clone());
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
        let method = METHODS.iter().position(|name| *name == request.method);
        let class = (request.status.unwrap_or(0) / 100) as usize;
        let class = class.min(CLASSES.len() - 1);
        self.requests[method.unwrap_or(METHODS.len() - 1)][class].inc();
        self.bytes_in.inc_by(request.bytes_in);
        self.bytes_out.inc_by(request.bytes_out);
        self.duration.observe(request.duration.as_secs_f64());
        self.error(request.error);
    }

    /// Counts a request of the XRootD protocol that was answered. Payload is counted by itself.
    pub fn xroot_request(&self, operation: Cow<'static, str>, duration: Duration, error: Option<ErrorNames>) {
        let outcome = if error.is_none() { "ok" } else { "error" };
        let labels = XrootLabels { operation, outcome };
        self.xroot_requests.get_or_create(&labels).inc();
        self.duration.observe(duration.as_secs_f64());
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
        self.connections.inc();
    }

    /// Counts a connection that went.
    pub fn connection_closed(&self) {
        self.connections.dec();
    }

    /// Counts a connection that was turned away because there were too many.
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
        let running = self.transfers_active.get_or_create(&ModeLabels { mode }).get();
        u64::try_from(running).unwrap_or(0)
    }

    /// Says how many log lines have been dropped since the start.
    pub fn set_log_dropped(&self, lines: u64) {
        self.log_dropped.inc_by(lines.saturating_sub(self.log_dropped.get()));
    }

    pub(crate) fn set_space(&self, export: &str, space: Option<storage::Space>) {
        let labels = ExportLabels {
            export: export.to_owned(),
        };
        let Some(space) = space else { return };
        self.space_total.get_or_create(&labels).set(clamp(space.total_bytes));
        self.space_free.get_or_create(&labels).set(clamp(space.free_bytes));
        self.space_used.get_or_create(&labels).set(clamp(space.used_bytes));
    }

    /// Sets what virtual organisations use of their quotas. Removed quotas disappear.
    pub(crate) fn set_quotas(&self, usage: &[storage::VoUsage]) {
        self.quota_used.clear();
        self.quota_limit.clear();
        for one in usage {
            let labels = QuotaLabels {
                vo: one.vo.to_string(),
                path: one.path.to_string(),
            };
            self.quota_used.get_or_create(&labels).set(clamp(one.used_bytes));
            self.quota_limit.get_or_create(&labels).set(clamp(one.limit_bytes));
        }
    }

    /// Counts a reload that failed.
    pub fn reload_failed(&self) {
        self.reload_failures.inc();
    }

    pub(crate) fn set_reload_failed(&self, failed: bool) {
        self.reload_failed.set(i64::from(failed));
    }

    pub(crate) fn set_certificate(&self, seconds_left: Option<i64>) {
        self.certificate.set(seconds_left.unwrap_or(0));
    }

    /// Sets the figures of the trust store for client certificates.
    pub fn set_trust(&self, trust: &Trust) {
        self.authorities.set(clamp(trust.authorities as u64));
        self.revocation_lists.set(clamp(trust.revocation_lists as u64));
        self.oldest_list.set(trust.oldest_list_s.unwrap_or(0));
        self.trust_faults.set(clamp(trust.faults as u64));
    }

    pub(crate) fn set_process(&self, usage: crate::process::Usage, tasks: usize) {
        self.resident.set(clamp(usage.resident_bytes));
        self.descriptors.set(clamp(usage.descriptors));
        self.threads.set(clamp(usage.threads));
        self.tasks.set(clamp(tasks as u64));
        let passed = usage.cpu_s - self.cpu.get();
        if passed > 0.0 {
            self.cpu.inc_by(passed);
        }
    }

    /// The text that Prometheus reads (OpenMetrics 1.0).
    #[must_use]
    pub fn text(&self) -> String {
        self.text_with("")
    }

    /// The same with the metrics of a part of this process.
    pub(crate) fn text_with(&self, part: &str) -> String {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = encode_registry(&mut text, &self.registry);
        text.push_str(part);
        let _ = encode_eof(&mut text);
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Metrics")
    }
}

fn clamp(bytes: u64) -> i64 {
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
            "crossload_request_duration_seconds_count 2",
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
        let text = Metrics::new().text();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().expect("a name");
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
    }
}
