//! What the metrics and `/ready` say about the message bus.

use std::sync::PoisonError;

use cluster::nats::BusView;
use cluster::nats::node::{Member, MemberView};
use cluster::nats::redirector::SourceView;
use door_admin::{Check, Part, PartFuture};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::SharedMember;
use crate::server::admin_parts::{NodeLabels, encoded};

/// The membership, for the admin door.
pub(super) struct MemberPart(pub(super) SharedMember);

impl MemberPart {
    fn view(&self) -> Option<MemberView> {
        let member = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        member.as_ref().map(Member::view)
    }
}

impl Part for MemberPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { self.view().map_or_else(String::new, |view| text(&view)) })
    }

    /// Clients that were sent here need no bus, so a lost one does not make the server unready.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let check = |view: MemberView| Check {
                name: "message bus".to_owned(),
                ok: view.bus.is_connected,
                needed: false,
                says: bus_says(&view.bus, view.bus.is_connected),
            };
            self.view().map(check).into_iter().collect()
        })
    }
}

/// The state of the bus as a sentence.
pub(in crate::server) fn bus_says(bus: &BusView, works: bool) -> String {
    match (&bus.fault, works) {
        (None, true) => "It works.".to_owned(),
        (Some(fault), true) => format!("It works; the last fault: {}.", fault.trim_end_matches('.')),
        (Some(fault), false) => format!("It is away: {}.", fault.trim_end_matches('.')),
        (None, false) => "It is away.".to_owned(),
    }
}

fn gauge(value: u64) -> Gauge {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

fn counter(value: u64) -> Counter {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    counter
}

/// What a redirector says about its bus.
pub(in crate::server) fn redirector_text(view: &SourceView) -> String {
    let mut registry = Registry::with_prefix("crossload_redirector_bus");
    let works = gauge(u64::from(view.works));
    registry.register("up", "Whether messages come back over the message bus", works);
    let bytes = gauge(view.filters_bytes as u64);
    registry.register("filter_bytes", "Memory for the names of all nodes", bytes);
    for (name, help, value) in [
        ("asked", "Nodes that were asked, over all names", view.asked),
        (
            "excluded",
            "Nodes that certainly did not have a name, over all names",
            view.excluded,
        ),
        ("strangers", "Messages from unknown nodes", view.strangers),
        (
            "placed_dropped",
            "Messages of other redirectors about new files beyond what is read",
            view.left_out,
        ),
        ("refusals", "Refusals by the server of the bus", view.bus.refusals),
    ] {
        registry.register(name, help, counter(value));
    }
    let (doubled, dropped) = (
        Family::<NodeLabels, Gauge>::default(),
        Family::<NodeLabels, Counter>::default(),
    );
    for node in &view.nodes {
        let labels = NodeLabels { node: node.url.clone() };
        doubled.get_or_create(&labels).set(i64::from(node.is_doubled));
        dropped.get_or_create(&labels).inc_by(node.counts.flood);
    }
    registry.register("node_doubled", "Whether two servers use the name of the node", doubled);
    registry.register("dropped", "Messages of a node beyond what is read of it", dropped);
    encoded(&registry)
}

fn text(view: &MemberView) -> String {
    let mut registry = Registry::with_prefix("crossload_bus");
    let is_up = gauge(u64::from(view.bus.is_connected));
    registry.register("up", "Whether this node is connected to the message bus", is_up);
    registry.register(
        "names",
        "Names that redirectors know of, about",
        gauge(view.names.count),
    );
    for (name, help, value) in [
        ("questions", "Questions of redirectors", view.questions),
        ("found", "Questions for names that are here", view.found),
        ("changes", "Changed names that were announced", view.changes),
        ("malformed", "Messages that could not be understood", view.malformed),
        ("refusals", "Refusals by the server of the bus", view.bus.refusals),
    ] {
        registry.register(name, help, counter(value));
    }
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use cluster::nats::BusName;
    use cluster::nats::redirector::{NodeView, PeerCounts};

    use super::*;

    #[test]
    fn every_metric_is_in_the_manual() {
        let view = MemberView {
            bus: BusView::default(),
            names: cluster::nats::announcement::NamesFacts::default(),
            questions: 3,
            found: 2,
            pieces: 0,
            malformed: 1,
            changes: 0,
        };
        let source = SourceView {
            bus: BusView::default(),
            works: true,
            waiting: 0,
            asked: 1,
            excluded: 2,
            strangers: 0,
            left_out: 0,
            filters_bytes: 3,
            nodes: vec![NodeView {
                url: "https://d1:1094".to_owned(),
                name: BusName::parse("d1").unwrap(),
                is_doubled: true,
                is_present: false,
                has_filter: false,
                filter_bytes: 0,
                names: 0,
                version: String::new(),
                doors: Vec::new(),
                foreign_exports: Vec::new(),
                counts: PeerCounts {
                    flood: 7,
                    ..PeerCounts::default()
                },
            }],
        };
        let text = text(&view) + &redirector_text(&source);
        let manual = include_str!("../../../../../docs/metrics.md");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        for line in [
            "crossload_bus_questions_total 3",
            "crossload_redirector_bus_node_doubled{node=\"https://d1:1094\"} 1",
            "crossload_redirector_bus_dropped_total{node=\"https://d1:1094\"} 7",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(bus_says(&view.bus, false), "It is away.");
    }
}
