//! What doors and copies report, turned into log lines and counters.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cluster::announcement::NODE_PATH;
use door_admin::{ErrorNames, Metrics};
use door_web::{Acted, PageEvents, RunningCopies};
use endpoint::{
    Ending, ErrorFacts, FairShare, Moved, Protocol, Refusals, RequestLog, RequestRecord, ShareEvents, ShareKind,
    ShareUsedUp, TransferRecord, TransferStart,
};
use serde_json::json;
use telemetry::{Copied, Event, FlowFacts, HttpEnding, Hub, SharedMarking};
use transfer::{Events, FlowMark, Progress, TransferEvents};
use types::{Error, ErrorCode, LogicalPath, Side, SpanContext, Unlisted};

use super::log::Log;
use super::logged::RequestFilter;
use super::personal_names::PersonalNames;
use super::traces;
use super::unlisted::NamedDirectories;
use super::waits::Waits;
use crate::failure::Failure;
use crate::log_search::id_of_action;
use crate::traces::{Traces, spans};

/// XRootD requests that are counted and not logged, unless they fail or are followed.
const QUIET_METHOD: &str = "stat";

/// Writes log lines and updates metrics.
pub(crate) struct Observer {
    log: Log,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    logged: RequestFilter,
    names: PersonalNames,
    started: Instant,
    /// How long requests wait for the head of their answer.
    waits: Waits,
    /// Directories with unusable names.
    named: Mutex<NamedDirectories>,
    /// Directories with links that are dangling or leave the export.
    linked: Mutex<NamedDirectories>,
    /// Directories that were listed without some nodes of a cluster.
    unheard: Mutex<NamedDirectories>,
    telemetry: Hub,
    /// Which flows are marked.
    marking: SharedMarking,
    /// The copies that run, where pages show them.
    copies: Option<RunningCopies>,
    traces: Traces,
}

impl Observer {
    pub(crate) fn new(log: Log, metrics: Arc<Metrics>, wanted: &config::Log) -> Self {
        Self {
            log,
            metrics,
            refusals: Refusals::default(),
            logged: RequestFilter::new(wanted),
            names: PersonalNames::new(wanted.personal_names),
            started: Instant::now(),
            waits: Waits::default(),
            named: Mutex::default(),
            linked: Mutex::default(),
            unheard: Mutex::default(),
            telemetry: Hub::default(),
            marking: SharedMarking::default(),
            copies: None,
            traces: Traces::default(),
        }
    }

    /// The same, with those who hear which files are used.
    pub(crate) fn with_telemetry(self, telemetry: Hub) -> Self {
        Self { telemetry, ..self }
    }

    /// The same, with pages that show which copies run.
    pub(crate) fn with_copies(self, copies: Option<RunningCopies>) -> Self {
        Self { copies, ..self }
    }

    /// One with spans of requests and copies for the configured collector. `usual_service` is the
    /// name of the service if the configuration has none.
    ///
    /// # Errors
    /// The file with headers, or the authorities.
    pub(crate) fn exporting(
        log: &Log,
        metrics: &Arc<Metrics>,
        wanted: &config::Configuration,
        usual_service: &str,
    ) -> Result<Self, Failure> {
        let traces = traces::start(wanted, usual_service, log)?;
        let usual = Self::new(log.clone(), metrics.clone(), &wanted.log);
        Ok(Self { traces, ..usual })
    }

    /// Where spans of requests and copies go.
    pub(crate) fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The span of a trace context, if it is exported.
    fn exported(&self, traceparent: Option<&str>) -> Option<SpanContext> {
        let traceparent = traceparent.filter(|_| self.traces.is_on())?;
        SpanContext::parse(traceparent).filter(|context| self.traces.takes(context))
    }

    /// The copies that run, where pages show them.
    pub(crate) fn running(&self) -> Option<&RunningCopies> {
        self.copies.as_ref()
    }

    fn note_begun(&self, start: &TransferStart, progress: &Arc<Progress>) {
        if let Some(copies) = &self.copies {
            copies.begin(start, progress);
        }
    }

    /// Those who hear which files are used.
    pub(crate) fn telemetry(&self) -> &Hub {
        &self.telemetry
    }

    /// The reasons of refusals.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Which flows are marked, for the hub of telemetry.
    pub(crate) fn marking(&self) -> SharedMarking {
        self.marking.clone()
    }

    /// Sets what is logged, and which flows are marked, from now on.
    pub(crate) fn set_wanted(&self, wanted: &config::Configuration) {
        self.set_logged(&wanted.log);
        self.marking.set(super::fireflies::marking(wanted));
    }

    /// Sets what is logged from now on.
    pub(crate) fn set_logged(&self, wanted: &config::Log) {
        self.logged.set(wanted);
        self.names.set_shown(wanted.personal_names);
    }

    /// Which requests are logged, whether with personal names, and which flows are marked.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> (String, bool, String) {
        let marking = format!("{:?}", self.marking);
        (self.logged.wanted(), self.names.are_shown(), marking)
    }

    /// A connection was accepted.
    pub(crate) fn connection_opened(&self) {
        self.metrics.connection_opened();
    }

    /// A connection was closed, with the error if it failed outside of any request.
    pub(crate) fn connection_closed(&self, peer: SocketAddr, error: Option<&Error>) {
        self.metrics.connection_closed();
        self.telemetry.tell(&Event::Left(peer));
        if let Some(error) = error {
            self.log_failed("connection_failed", peer, error);
        }
    }

    fn log_failed(&self, event: &str, peer: SocketAddr, error: &Error) {
        let error = ErrorFacts::from(error);
        self.log.write(event, &json!({"peer": peer, "error": error}));
    }

    /// A connection was refused because there are too many, in all or of its client.
    pub(crate) fn connection_refused(&self, peer: SocketAddr, error: &Error) {
        self.metrics.connection_refused();
        // `share_used_up` logs this once: one client must not fill the log.
        if error.code() != ErrorCode::ShareUsedUp {
            self.log.write("connection_refused", &json!({"peer": peer}));
        }
    }

    /// How long requests waited lately.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Third-party copies that run: those from other servers, and those to them.
    pub(crate) fn copies(&self) -> (u64, u64) {
        let running = |mode| self.metrics.transfers_active(mode);
        (running("pull"), running("push"))
    }

    fn count(&self, record: &RequestRecord) {
        if let Some(wait_us) = wait_us(record) {
            self.waits.note(wait_us);
        }
        // A third-party copy reports its own errors.
        let error = names(record.error.as_ref()).filter(|_| record.transfer_id.is_none());
        let duration = Duration::from_micros(record.total_us);
        match record.protocol {
            Protocol::Http => {
                self.metrics.request(&door_admin::Request {
                    method: &record.method,
                    status: record.status,
                    bytes_in: record.bytes_in,
                    bytes_out: record.bytes_out,
                    duration,
                    error,
                });
                let ending = http_ending(record);
                self.telemetry.answered(&record.method, record.status, ending, duration);
            }
            Protocol::Xroot => self.metrics.xroot_request(record.method.clone(), duration, error),
        }
        if let Some(step) = record.delegation {
            self.metrics.login_delegation(step.name());
        }
    }

    /// `is_quiet`: it is logged only if it failed, or is followed.
    fn log_request(&self, event: &str, record: &RequestRecord, is_quiet: bool) {
        if !self.logged.takes(record, is_quiet) {
            return;
        }
        if self.names.are_shown() {
            return self.log.write(event, record);
        }
        let mut record = record.clone();
        self.names.hide(&mut record.subject);
        self.names.hide(&mut record.user);
        self.names.hide_in(&mut record.error);
        self.names.hide_in(&mut record.delegation_error);
        self.log.write(event, &record);
    }

    fn count_unlisted(&self, directory: &LogicalPath, unlisted: &Unlisted) {
        let kinds = [
            ("names", "names_unlisted", &unlisted.names, &self.named),
            ("links", "links_unlisted", &unlisted.links, &self.linked),
            ("nodes", "nodes_unlisted", &unlisted.nodes, &self.unheard),
        ];
        for (kind, event, left_out, named) in kinds {
            if left_out.count == 0 {
                continue;
            }
            self.metrics.listing_incomplete(kind);
            let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
            if named.names(directory, self.started.elapsed()) {
                let fields = json!({"path": directory.as_str(), kind: left_out.count, "example": left_out.example});
                self.log.write(event, &fields);
            }
        }
    }

    /// Exports the usage of fair shares as metrics.
    pub(crate) fn show_shares(&self, fair_share: &FairShare) {
        for kind in ShareKind::ALL {
            let (in_use, limit) = (fair_share.in_use(kind), fair_share.limit(kind));
            self.metrics.set_share(kind.name(), in_use as u64, limit as u64);
        }
    }
}

/// How long a request waited for its answer, where that tells how busy the server is: of HTTP, from
/// the head of a request that reads or looks to the head of the answer; of XRootD, opens and stats.
/// What depends on how fast the client sends or receives is not among them.
fn wait_us(record: &RequestRecord) -> Option<u64> {
    match (record.protocol, record.method.as_ref()) {
        (Protocol::Http, "GET" | "HEAD" | "PROPFIND") if record.path != NODE_PATH => {
            Some(record.first_byte_us?.saturating_sub(record.head_us?))
        }
        (Protocol::Xroot, "open" | "stat") => Some(record.total_us),
        _ => None,
    }
}

/// How a request over HTTP ended, as XRootD counts it.
fn http_ending(record: &RequestRecord) -> HttpEnding {
    // A client that breaks off in the middle of a body may still be answered.
    let broken = [ErrorCode::ClientGone, ErrorCode::BodyIncomplete, ErrorCode::BodyStalled];
    let is_broken = |error: &ErrorFacts| {
        let has_code = broken.iter().any(|code| code.name() == error.code);
        has_code && error.side == Side::Client.name()
    };
    match (&record.error, record.status) {
        (Some(error), _) if is_broken(error) => HttpEnding::Disconnected,
        (_, None) => HttpEnding::Disconnected,
        (Some(_), Some(_)) => HttpEnding::Failed,
        (None, Some(status)) => HttpEnding::of_status(status),
    }
}

fn names(error: Option<&ErrorFacts>) -> Option<ErrorNames> {
    error.map(|error| (error.code, error.side))
}

impl RequestLog for Observer {
    fn request(&self, record: &RequestRecord) {
        self.count(record);
        record.keep_refusal(&self.refusals);
        let is_xroot = record.protocol == Protocol::Xroot;
        // Programs stat thousands of files at once. A log line costs as much as the answer.
        let is_quiet = is_xroot && record.method == QUIET_METHOD;
        // Redirectors ask each second.
        let is_quiet = is_quiet || (record.path == NODE_PATH && record.method == "GET");
        self.log_request("request", record, is_quiet);
        if let Some(context) = self.exported(record.traceparent.as_deref())
            && let Some(span) = spans::of_request(record, context, SystemTime::now())
        {
            self.traces.export(span);
        }
    }

    fn samples(&self, traceparent: &str) -> bool {
        self.exported(Some(traceparent)).is_some()
    }
}

/// The log of the admin door, whose requests are not among those that the metrics count.
pub(crate) struct AdminLog(pub(crate) Arc<Observer>);

impl RequestLog for AdminLog {
    fn request(&self, record: &RequestRecord) {
        self.0.log_request("admin_request", record, false);
    }

    fn connection_failed(&self, peer: SocketAddr, error: &Error) {
        self.0.log_failed("admin_connection_failed", peer, error);
    }

    fn connection_refused(&self, peer: SocketAddr, _error: &Error) {
        self.0.log.write("admin_connection_refused", &json!({"peer": peer}));
    }
}

impl Observer {
    /// Writes what a client did on the pages.
    fn log_on_pages(&self, event: &str, who: &str, client: SocketAddr) {
        self.log
            .write(event, &json!({"who": self.shown(who), "client": client}));
    }

    /// The name of a client as the log has it.
    fn shown(&self, who: &str) -> Option<String> {
        let mut who = Some(who.to_owned());
        if !self.names.are_shown() {
            self.names.hide(&mut who);
        }
        who
    }
}

impl PageEvents for Observer {
    fn signed_in(&self, who: &str, client: SocketAddr) {
        self.log_on_pages("signed_in", who, client);
    }

    fn signed_out(&self, who: &str, client: SocketAddr) {
        self.log_on_pages("signed_out", who, client);
    }

    fn acted(&self, acted: &Acted<'_>) {
        let mut fields = json!({
            "action": acted.action,
            "subject": acted.subject,
            "who": self.shown(acted.who),
            "client": acted.client,
            "result": if acted.error.is_some() { "failed" } else { "done" },
            "error": acted.error.map(ErrorFacts::from),
        });
        if let Some((field, id)) = id_of_action(acted.action, acted.subject) {
            fields[field] = id.into();
        }
        self.log.write("operator_action", &fields);
    }
}

impl Events for Observer {
    fn moved(&self, moved: &Moved) {
        let method = Cow::Borrowed(moved.method);
        match moved.ending {
            Ending::Answered => self.metrics.xroot_request(method, moved.took, None),
            Ending::Failed(code, side) => self.metrics.xroot_request(method, moved.took, Some((code, side))),
            Ending::Told => {}
        }
        self.metrics.payload(moved.bytes_in, moved.bytes_out);
    }

    fn names_unlisted(&self, directory: &LogicalPath, unlisted: &Unlisted) {
        self.count_unlisted(directory, unlisted);
    }
}

impl ShareEvents for Observer {
    fn share_used_up(&self, record: &ShareUsedUp) {
        self.metrics.share_used_up(record.kind.name());
        if !record.is_first {
            return;
        }
        let mut identity = record.identity.clone();
        if !self.names.are_shown() {
            self.names.hide(&mut identity);
        }
        let fields = json!({"kind": record.kind.name(), "address": record.address, "identity": identity,
            "held": record.held, "limit": record.limit});
        self.log.write("share_used_up", &fields);
    }
}

/// A third-party copy, for those who watch.
fn copied(record: &TransferRecord) -> Copied {
    let start = &record.start;
    let ended = SystemTime::now();
    Copied {
        client: start.ordered_by.clone(),
        own_scheme: start.own_scheme,
        is_pull: start.mode == "pull",
        remote: start.remote.clone(),
        path: start.path.clone(),
        bytes: record.bytes,
        streams: record.streams,
        result: u32::from(record.error.is_some()),
        began: ended
            .checked_sub(Duration::from_micros(record.total_us))
            .unwrap_or(ended),
        ended,
    }
}

/// What the connections of a copy belong to.
fn flow_mark(telemetry: &Hub, start: &TransferStart) -> FlowMark {
    let facts = FlowFacts {
        tag: start.scitag,
        organisation: &start.ordered_by.organisation,
        path: &start.path,
    };
    FlowMark {
        marked: telemetry.mark(&facts),
        application: match (start.remote.starts_with("root"), start.mode) {
            (true, _) => "xroot",
            (false, "pull") => "http-get",
            (false, _) => "http-put",
        },
    }
}

impl TransferEvents for Observer {
    fn transfer(&self, record: &TransferRecord) {
        if let Some(copies) = &self.copies {
            copies.end(&record.start.transfer_id);
        }
        self.metrics.transfer_finished(&door_admin::Transfer {
            mode: record.start.mode,
            outcome: record.outcome.name(),
            bytes: record.bytes,
            duration: Duration::from_micros(record.total_us),
            error: names(record.error.as_ref()),
        });
        if self.telemetry.is_watched() {
            self.telemetry.tell(&Event::Copied(Arc::new(copied(record))));
        }
        if let Some(context) = self.exported(Some(&record.start.traceparent)) {
            let spans = spans::of_copy(record, context, SystemTime::now());
            spans.into_iter().for_each(|span| self.traces.export(span));
        }
        if self.names.are_shown() {
            return self.log.write("transfer", record);
        }
        let mut record = record.clone();
        self.names.hide(&mut record.start.subject);
        self.names.hide_in(&mut record.error);
        self.log.write("transfer", &record);
    }

    fn transfer_started(&self, start: &TransferStart, progress: &Arc<Progress>) {
        self.metrics.transfer_started(start.mode);
        if self.telemetry.is_watched() {
            progress.mark_flows(flow_mark(&self.telemetry, start));
        }
        if self.names.are_shown() {
            self.note_begun(start, progress);
            return self.log.write("transfer_started", start);
        }
        let mut start = start.clone();
        self.names.hide(&mut start.subject);
        self.note_begun(&start, progress);
        self.log.write("transfer_started", &start);
    }
}

#[cfg(test)]
mod tests {
    use types::Phase;

    use super::*;

    #[test]
    fn a_client_that_breaks_off_is_a_fault_of_the_network() {
        for (status, error, ending) in [
            (Some(200), None, HttpEnding::Success),
            (Some(404), None, HttpEnding::Failed),
            (None, None, HttpEnding::Disconnected),
            (
                Some(200),
                Some((ErrorCode::ClientGone, Side::Client)),
                HttpEnding::Disconnected,
            ),
            (
                Some(400),
                Some((ErrorCode::BodyIncomplete, Side::Client)),
                HttpEnding::Disconnected,
            ),
            (
                Some(408),
                Some((ErrorCode::BodyStalled, Side::Client)),
                HttpEnding::Disconnected,
            ),
            // Between us and the server behind an export.
            (
                Some(500),
                Some((ErrorCode::BodyIncomplete, Side::Active)),
                HttpEnding::Failed,
            ),
            (Some(404), Some((ErrorCode::NotFound, Side::Client)), HttpEnding::Failed),
        ] {
            let mut record = RequestRecord::new(Protocol::Http, "192.0.2.7:1".parse().unwrap(), "clear");
            record.status = status;
            record.error = error.map(|(code, side)| ErrorFacts::from(&Error::new(code, side, Phase::Transfer)));
            assert_eq!(http_ending(&record), ending, "{error:?}");
        }
    }
}
