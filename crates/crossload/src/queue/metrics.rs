//! Metrics of the queue, and its answer to the question whether it can work.

use std::collections::BTreeMap;
use std::sync::Arc;

use door_admin::{Check, Part, PartFuture};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use queue::webhooks::{KnownWebhook, Webhooks};
use queue::{FailureKind, Faults, LinkEnds, LinkView, Service, Totals};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::limits::{QUEUE_LINKS_REPORTED_MAX, QUEUE_READY_TIME};
use crate::server::admin_parts::encoded;
use crate::server::log::Log;

/// Stands for the links that are not reported on their own.
const OTHER: &str = "other";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FilesLabels {
    source: String,
    destination: String,
    vo: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LinkLabels {
    source: String,
    destination: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    source: String,
    destination: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailureLabels {
    outcome: &'static str,
    code: String,
    side: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookLabels {
    webhook: String,
}

/// The queue, for the admin door.
pub(super) struct QueuePart {
    service: Service,
    webhooks: Webhooks,
}

impl QueuePart {
    pub(super) fn new(service: Service, webhooks: Webhooks) -> Arc<Self> {
        Arc::new(Self { service, webhooks })
    }

    async fn text(&self) -> String {
        // Monitoring is to learn that the database does not answer.
        let asked = async { (self.webhooks.list().await.ok(), self.service.links().await.ok()) };
        let (webhooks, links) = timeout(QUEUE_READY_TIME, asked).await.unwrap_or_default();
        let webhooks = webhooks.unwrap_or_default();
        let figures = Figures {
            links,
            has_faults: !self.service.faults().borrow().is_empty(),
            totals: self.service.totals(),
            link_ends: self.service.link_ends(),
            copies: self.service.copies(),
            copies_maximum: self.service.copies_maximum(),
            webhooks,
        };
        figures.text()
    }

    async fn look(&self) -> (bool, String) {
        self.service.probe().await;
        let faults = self.service.faults().borrow().clone();
        match (self.service.links().await, faults.first_key_value()) {
            (Ok(_), None) => (true, "It can be read and written.".to_owned()),
            (Ok(_), Some((work, fault))) => (false, format!("It fails ({}): {fault}.", work.name())),
            (Err(error), _) => (false, format!("It does not answer: {error}.")),
        }
    }

    async fn check(&self) -> Check {
        let (ok, says) = in_time(self.look()).await;
        Check {
            name: "database".to_owned(),
            ok,
            needed: true,
            says,
        }
    }
}

/// What a look at the database found. While another process locks it, a look takes many times as
/// long as monitoring waits.
async fn in_time(look: impl Future<Output = (bool, String)>) -> (bool, String) {
    let seconds = QUEUE_READY_TIME.as_secs();
    let found = timeout(QUEUE_READY_TIME, look).await;
    found.unwrap_or_else(|_| (false, format!("It does not answer within {seconds} s.")))
}

impl Part for QueuePart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(self.text())
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async { vec![self.check().await] })
    }
}

/// Writes a line whenever something at the database begins to fail, or works again.
pub(super) async fn log_faults(mut faults: watch::Receiver<Faults>, log: Log) {
    let mut known = Faults::new();
    while faults.changed().await.is_ok() {
        let now = faults.borrow_and_update().clone();
        for (work, fault) in now.iter().filter(|(work, fault)| known.get(work) != Some(fault)) {
            log.write("queue_database_failed", &json!({"work": work.name(), "error": fault}));
        }
        for work in known.keys().filter(|work| !now.contains_key(work)) {
            log.write("queue_database_recovered", &json!({"work": work.name()}));
        }
        known = now;
    }
}

/// What the queue reports at one moment.
struct Figures {
    /// `None` while the database does not answer.
    links: Option<Vec<LinkView>>,
    /// Whether something fails at the database.
    has_faults: bool,
    totals: Totals,
    link_ends: Vec<LinkEnds>,
    copies: usize,
    copies_maximum: u32,
    webhooks: Vec<KnownWebhook>,
}

impl Figures {
    fn text(mut self) -> String {
        let mut registry = Registry::with_prefix("crossload_queue");
        self.add_totals(&mut registry);
        let is_up = self.links.is_some() && !self.has_faults;
        let help = "Whether the database can be read and written";
        registry.register("database_up", help, gauge(u64::from(is_up)));
        if let Some(links) = self.links.take() {
            add_links(&mut registry, links);
        }
        add_webhooks(&mut registry, &self.webhooks);
        encoded(&registry)
    }

    fn add_totals(&self, registry: &mut Registry) {
        let totals = &self.totals;
        let help = "Copies that run in this process";
        registry.register("copies", help, gauge(self.copies as u64));
        let help = "Copies that may run in this process";
        registry.register("copies_limit", help, gauge(self.copies_maximum.into()));
        let help = "Copies that this process finished";
        registry.register("finished", help, ConstCounter::new(totals.finished));
        let help = "Payload of all attempts of this process";
        registry.register_with_unit("copied", help, Unit::Bytes, ConstCounter::new(totals.copied_bytes));
        let failures = Family::<FailureLabels, Counter>::default();
        let kinds = [
            ("retried", &totals.retried),
            ("failed", &totals.failed),
            ("held", &totals.held),
        ];
        for (outcome, kinds) in kinds {
            add_failures(&failures, outcome, kinds);
        }
        registry.register("failures", "Attempts of this process that failed", failures);
        let help = "Attempts of this process that ended, by link";
        registry.register("link_copies", help, link_copies(&self.link_ends));
    }
}

fn add_failures(family: &Family<FailureLabels, Counter>, outcome: &'static str, kinds: &BTreeMap<FailureKind, u64>) {
    for (kind, count) in kinds {
        let labels = FailureLabels {
            outcome,
            code: kind.code.clone(),
            side: kind.side.clone(),
        };
        family.get_or_create(&labels).inc_by(*count);
    }
}

/// The links with the most attempts one by one, all others together.
fn link_copies(ends: &[LinkEnds]) -> Family<EndLabels, Counter> {
    let mut ends: Vec<&LinkEnds> = ends.iter().collect();
    ends.sort_by_key(|link| std::cmp::Reverse(link.copied + link.failed));
    let family = Family::<EndLabels, Counter>::default();
    for (index, link) in ends.into_iter().enumerate() {
        let name = |name: &str| if index < QUEUE_LINKS_REPORTED_MAX { name } else { OTHER }.to_owned();
        for (outcome, count) in [("copied", link.copied), ("failed", link.failed)] {
            let labels = EndLabels {
                source: name(&link.source),
                destination: name(&link.destination),
                outcome,
            };
            family.get_or_create(&labels).inc_by(count);
        }
    }
    family
}

/// How it goes with each webhook. The number of webhooks is bounded.
fn add_webhooks(registry: &mut Registry, webhooks: &[KnownWebhook]) {
    let (up, pending, failures) = (
        Family::<WebhookLabels, Gauge>::default(),
        Family::<WebhookLabels, Gauge>::default(),
        Family::<WebhookLabels, Gauge>::default(),
    );
    for known in webhooks {
        let labels = WebhookLabels {
            webhook: known.hook.id.clone(),
        };
        let works = known.state.failing_since_ms.is_none() && known.state.disabled_ms.is_none();
        up.get_or_create(&labels).set(i64::from(works));
        failures.get_or_create(&labels).set(known.state.failures.into());
        if let Some(count) = known.pending {
            pending.get_or_create(&labels).set(count);
        }
    }
    registry.register(
        "webhook_up",
        "Whether the last attempt to post to a webhook succeeded",
        up,
    );
    let help = "Events that a webhook has not got yet";
    registry.register("webhook_pending_events", help, pending);
    let help = "Attempts to post to a webhook that failed since the last one that succeeded";
    registry.register("webhook_failures", help, failures);
}

/// The links with the most files one by one, all others together.
fn add_links(registry: &mut Registry, mut links: Vec<LinkView>) {
    links.sort_by_key(|link| std::cmp::Reverse(link.active + link.waiting + link.delayed + link.banned));
    let files = Family::<FilesLabels, Gauge>::default();
    let [limits, held, paused, oldest] = [(); 4].map(|()| Family::<LinkLabels, Gauge>::default());
    for (index, link) in links.iter().enumerate() {
        let is_reported = index < QUEUE_LINKS_REPORTED_MAX;
        let name = |name: &str| if is_reported { name } else { OTHER }.to_owned();
        let (source, destination) = (name(&link.source), name(&link.destination));
        let states = [
            ("active", link.active),
            ("waiting", link.waiting),
            ("delayed", link.delayed),
            ("banned", link.banned),
        ];
        for (state, count) in states {
            let labels = FilesLabels {
                source: source.clone(),
                destination: destination.clone(),
                vo: name(&link.vo),
                state,
            };
            files.get_or_create(&labels).inc_by(signed(count));
        }
        if is_reported {
            let labels = LinkLabels { source, destination };
            limits.get_or_create(&labels).set(link.limit.into());
            held.get_or_create(&labels).set(i64::from(link.hold.is_some()));
            paused.get_or_create(&labels).set(i64::from(link.is_paused));
            if let Some(at_ms) = link.oldest_ms {
                let at_s = at_ms / 1000;
                let known = oldest.get(&labels).map(|gauge| gauge.get());
                // A link has a line for each organisation.
                oldest
                    .get_or_create(&labels)
                    .set(known.map_or(at_s, |known| known.min(at_s)));
            }
        }
    }
    registry.register("files", "Files that have not ended, by link and state", files);
    registry.register("link_limit", "Copies that may run on a link at once", limits);
    let help = "Whether a link waits because a storage cannot take part";
    registry.register("link_held", help, held);
    let help = "Whether an operator has paused a link";
    registry.register("link_paused", help, paused);
    let help = "When the job of the oldest file that waits for its turn was submitted, in seconds since 1970";
    registry.register_with_unit("link_oldest_waiting_timestamp", help, Unit::Seconds, oldest);
}

fn gauge(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(signed(value));
    gauge
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use queue::webhooks::{Webhook, WebhookState};

    use super::*;

    fn link(source: &str, waiting: u64) -> LinkView {
        LinkView {
            source: source.to_owned(),
            destination: "https://d:443".to_owned(),
            vo: "atlas".to_owned(),
            active: 1,
            waiting,
            oldest_ms: (waiting > 0).then_some(1_700_000_000_500),
            delayed: 0,
            banned: 0,
            limit: 7,
            limit_max: 20,
            is_paused: source.contains("paused"),
            hold: None,
            goodput_bytes_s: 0.0,
            rationale: None,
        }
    }

    #[tokio::test]
    async fn monitoring_gets_an_answer_although_the_database_gives_none() {
        let (ok, says) = in_time(std::future::pending()).await;
        assert_eq!((ok, says.as_str()), (false, "It does not answer within 3 s."));
        let found = (true, "It can be read and written.".to_owned());
        assert_eq!(in_time(std::future::ready(found.clone())).await, found);
    }

    fn webhook(id: &str, failing_since_ms: Option<i64>) -> KnownWebhook {
        KnownWebhook {
            hook: Webhook {
                id: id.to_owned(),
                url: "https://m/secret".to_owned(),
                query: None,
                kinds: Vec::new(),
                vo: None,
                by: "Jane".to_owned(),
                name: "Jane".to_owned(),
                granted: Vec::new(),
                since_ms: 1,
            },
            state: WebhookState {
                failing_since_ms,
                failures: failing_since_ms.map_or(0, |_| 3),
                ..WebhookState::default()
            },
            pending: Some(9),
            is_paused: false,
        }
    }

    fn figures(links: Option<Vec<LinkView>>) -> String {
        let kind = FailureKind {
            code: "no_space".to_owned(),
            side: "destination".to_owned(),
        };
        let totals = Totals {
            finished: 4,
            copied_bytes: 1000,
            held: BTreeMap::from([(kind, 2)]),
            ..Totals::default()
        };
        let figures = Figures {
            links,
            has_faults: false,
            totals,
            link_ends: vec![LinkEnds {
                source: "https://a:443".to_owned(),
                destination: "https://d:443".to_owned(),
                copied: 4,
                failed: 2,
            }],
            copies: 3,
            copies_maximum: 2000,
            webhooks: vec![webhook("5b1f", None), webhook("6c2a", Some(7))],
        };
        figures.text()
    }

    #[test]
    fn links_and_totals_are_reported() {
        let text = figures(Some(vec![link("https://a:443", 5), link("https://paused:443", 6)]));
        let lines = [
            "crossload_queue_files{source=\"https://a:443\",destination=\"https://d:443\",vo=\"atlas\",state=\"waiting\"} 5",
            "crossload_queue_link_limit{source=\"https://a:443\",destination=\"https://d:443\"} 7",
            "crossload_queue_link_paused{source=\"https://paused:443\",destination=\"https://d:443\"} 1",
            "crossload_queue_link_paused{source=\"https://a:443\",destination=\"https://d:443\"} 0",
            "crossload_queue_link_held{source=\"https://paused:443\",destination=\"https://d:443\"} 0",
            "crossload_queue_link_held{source=\"https://a:443\",destination=\"https://d:443\"} 0",
            "crossload_queue_failures_total{outcome=\"held\",code=\"no_space\",side=\"destination\"} 2",
            "crossload_queue_finished_total 4",
            "crossload_queue_link_oldest_waiting_timestamp_seconds{source=\"https://a:443\",destination=\"https://d:443\"} 1700000000",
            "crossload_queue_link_copies_total{source=\"https://a:443\",destination=\"https://d:443\",outcome=\"failed\"} 2",
            "crossload_queue_copied_bytes_total 1000",
            "crossload_queue_database_up 1",
            "crossload_queue_webhook_up{webhook=\"5b1f\"} 1",
            "crossload_queue_webhook_up{webhook=\"6c2a\"} 0",
            "crossload_queue_webhook_pending_events{webhook=\"5b1f\"} 9",
            "crossload_queue_webhook_failures{webhook=\"6c2a\"} 3",
        ];
        assert!(!text.contains("https://m"), "the URL of a webhook may hold a secret");
        for line in lines {
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
        assert!(figures(None).contains("crossload_queue_database_up 0"));
    }

    #[test]
    fn the_smallest_of_too_many_links_are_reported_together() {
        let count = QUEUE_LINKS_REPORTED_MAX as u64 + 2;
        let links = (0..count)
            .map(|index| link(&format!("https://h{index}:443"), index))
            .collect();
        let text = figures(Some(links));
        let other = "crossload_queue_files{source=\"other\",destination=\"other\",vo=\"other\",state=\"waiting\"} 1";
        assert!(text.lines().any(|line| line == other), "{other}");
        assert!(!text.contains("https://h0:443") && text.contains("https://h2:443"));
    }

    #[test]
    fn the_manual_names_every_metric_of_the_queue() {
        let manual = include_str!("../../../../docs/metrics.md");
        let text = figures(Some(vec![link("https://a:443", 5)]));
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().expect("a name");
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
    }
}
