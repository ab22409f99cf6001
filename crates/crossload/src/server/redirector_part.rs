//! What the metrics and `/ready` say about a redirector and its nodes.

use std::sync::atomic::AtomicU64;

use cluster::director::{Counts, Director};
use cluster::nats::redirector::SourceView;
use cluster::node::{Drain, Node, Presence};
use door_admin::{Check, Part, PartFuture};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::admin_parts::{NodeLabels, encoded};
use super::bus;
use super::redirecting::Redirecting;
use super::subsystem::Current;

/// The redirector, for the admin door.
pub(super) struct RedirectorPart(pub(super) Current<Option<Redirecting>>);

impl Part for RedirectorPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async {
            let redirecting = self.0.get();
            let Some(this) = redirecting else { return String::new() };
            let bus = this.source().map(|source| bus::redirector_text(&source.view()));
            text(this.redirector().director()) + &bus.unwrap_or_default()
        })
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let redirecting = self.0.get();
            let Some(this) = redirecting else { return Vec::new() };
            let mut checks = checks(this.redirector().director());
            checks.extend(this.source().map(|source| bus_check(&source.view())));
            checks
        })
    }
}

/// What is known goes on being answered without the bus, so a lost one does not make the redirector
/// unready.
fn bus_check(view: &SourceView) -> Check {
    Check {
        name: "message bus".to_owned(),
        ok: view.works,
        needed: false,
        says: bus::bus_says(&view.bus, view.works),
    }
}

/// Clients need at least one node. A lost one appears in the list, and the others go on.
fn checks(director: &Director) -> Vec<Check> {
    director.with_nodes(|nodes, now_ms| {
        let is_useful = nodes.iter().any(|(_, node)| node.is_present());
        let check = |node: &Node| Check {
            name: format!("node {}", node.config.name),
            ok: node.is_present() && node.trouble(now_ms).is_none(),
            needed: !is_useful,
            says: says(node, now_ms),
        };
        nodes.iter().map(|(_, node)| check(node)).collect()
    })
}

/// The state of a node, as a sentence.
pub(super) fn says(node: &Node, now_ms: u64) -> String {
    if let Some(trouble) = node.trouble(now_ms) {
        return trouble.to_string();
    }
    let words = match (node.presence(), node.drain()) {
        (Presence::Unknown, _) => "It has not been looked at yet.",
        (_, Drain::Active) if node.is_starting() => "It has just started, and takes no new files or changes yet.",
        (_, Drain::Active) => "It answers.",
        (_, Drain::NoWrites) => "It answers, and takes no new files.",
        (_, Drain::NoReads) => "It answers, and takes no clients.",
    };
    words.to_owned()
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

fn text(director: &Director) -> String {
    let mut registry = Registry::with_prefix("crossload_redirector");
    director.with_nodes(|nodes, now_ms| {
        let nodes: Vec<&Node> = nodes.iter().map(|(_, node)| node).collect();
        register_nodes(&mut registry, &nodes, now_ms);
    });
    let Counts {
        known,
        asked,
        locations,
        reservations,
    } = director.counts();
    let lookups = Family::<KindLabels, Counter>::default();
    for (kind, count) in [("known", known), ("asked", asked)] {
        lookups.get_or_create(&KindLabels { kind }).inc_by(count);
    }
    registry.register("lookups", "Names that were looked up", lookups);
    for (name, help, value) in [
        ("locations", "Names in memory", locations),
        ("reservations", "Announced files for which space is kept", reservations),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    }
    encoded(&registry)
}

fn register_nodes(registry: &mut Registry, nodes: &[&Node], now_ms: u64) {
    let (up, drain, free) = (
        Family::<NodeLabels, Gauge>::default(),
        Family::<NodeLabels, Gauge>::default(),
        Family::<NodeLabels, Gauge>::default(),
    );
    let busy = Family::<NodeLabels, Gauge<f64, AtomicU64>>::default();
    let sent = Family::<NodeLabels, Counter>::default();
    for node in nodes {
        let labels = NodeLabels {
            node: node.config.name.clone(),
        };
        up.get_or_create(&labels).set(i64::from(node.is_present()));
        busy.get_or_create(&labels).set(node.busy(now_ms));
        drain.get_or_create(&labels).set(match node.drain() {
            Drain::Active => 0,
            Drain::NoWrites => 1,
            Drain::NoReads => 2,
        });
        if let Some(status) = node.status(now_ms) {
            let bytes = i64::try_from(status.free_bytes).unwrap_or(i64::MAX);
            free.get_or_create(&labels).set(bytes);
        }
        sent.get_or_create(&labels).inc_by(node.sent_total());
    }
    registry.register("node_up", "Whether the node answers", up);
    registry.register("node_busy", "How busy the node is: 1 is as much as it can do", busy);
    registry.register("node_free_bytes", "Free space of the node", free);
    registry.register("node_drain", "0 in use, 1 no new files, 2 no clients", drain);
    registry.register("sent", "Clients that were sent there", sent);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster::locator::{Answers, Locator};
    use cluster::node::{NodeConfig, NodeId, Status};
    use types::LogicalPath;

    use super::*;

    struct Nobody;

    impl Locator for Nobody {
        fn ask<'a>(&'a self, _path: &'a LogicalPath, _nodes: &'a [NodeId]) -> Answers<'a> {
            Box::pin(futures_util::stream::empty())
        }
    }

    #[test]
    fn every_metric_is_in_the_manual_and_a_lost_node_is_told() {
        let nodes = ["http://d1:1", "http://d2:1"].map(|name| NodeConfig {
            name: name.to_owned(),
            exports: vec![LogicalPath::root()],
            site: None,
            weight: 1.0,
        });
        let director = Director::new(nodes, Arc::new(Nobody), 1 << 16);
        assert!(checks(&director).iter().all(|check| !check.ok));
        let status = Status {
            free_bytes: 5,
            total_bytes: 9,
            ..Status::default()
        };
        director.told(NodeId(0), Some(status));
        director.lost(NodeId(1), "refused");
        let text = text(&director);
        let manual = include_str!("../../../../docs/metrics.md");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        assert!(
            text.contains("crossload_redirector_node_up{node=\"http://d1:1\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("crossload_redirector_node_free_bytes{node=\"http://d1:1\"} 5"),
            "{text}"
        );
        let told: Vec<(bool, String)> = checks(&director)
            .into_iter()
            .map(|check| (check.ok, check.says))
            .collect();
        let expected = [
            (true, "It answers.".to_owned()),
            (false, "It does not answer: refused.".to_owned()),
        ];
        assert_eq!(told, expected);
        assert!(checks(&director).iter().all(|check| !check.needed));
        director.lost(NodeId(0), "refused");
        assert!(checks(&director).iter().all(|check| check.needed && !check.ok));
    }
}
