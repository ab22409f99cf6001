//! The node at the admin door: metrics, and what it is used for.

use cluster::announcement::{Announcement, Role};
use door_admin::{Check, Part, PartFuture};
use policy::Drain;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Inner;
use crate::server::admin_parts::encoded;

/// The node, for the admin door.
pub(super) struct NodePart(pub(super) Arc<Inner>);

impl Part for NodePart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { text(&self.0.announcement_now()) })
    }

    /// A drained server is ready: its clients still work, and its redirectors know.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let told = self.0.announcement_now();
            let orderer = self.0.orderer();
            // "It is used for everything" would be read as the state of its nodes.
            let is_plain = told.role == Role::Redirector && told.status.drain == Drain::Active;
            let check = (!is_plain).then(|| check(told.status.drain, orderer.as_deref()));
            check.into_iter().collect()
        })
    }
}

fn check(drain: Drain, orderer: Option<&str>) -> Check {
    let why = match orderer {
        Some(orderer) => format!("ordered by {orderer}"),
        None => "as cluster.drain says".to_owned(),
    };
    let says = match drain {
        Drain::Active => "It is used for everything.".to_owned(),
        Drain::NoWrites => format!("It is drained: it takes no new files, {why}."),
        Drain::NoReads => format!("It is drained: it begins no transfers, {why}."),
    };
    Check {
        name: "node".to_owned(),
        ok: true,
        needed: true,
        says,
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

type Share = Gauge<f64, AtomicU64>;

fn text(told: &Announcement) -> String {
    let status = &told.status;
    let (drain, running) = (Gauge::<i64>::default(), Family::<KindLabels, Gauge>::default());
    drain.set(status.drain as i64);
    for (kind, count) in [
        ("upload", told.uploads),
        ("download", told.downloads),
        ("pull", told.pulls),
        ("push", told.pushes),
    ] {
        running.get_or_create(&KindLabels { kind }).set(count.into());
    }
    let [wait, processors, disk] = [Share::default(), Share::default(), Share::default()];
    wait.set(f64::from(status.wait_ms) / 1000.0);
    processors.set(status.processors);
    disk.set(status.disk_pressure);
    let mut registry = Registry::with_prefix("crossload_node");
    let help = "What this server is used for: 0 everything, 1 no new files, 2 no new transfers";
    registry.register("drain_state", help, drain);
    registry.register("transfers", "Transfers that run, and files that are open", running);
    let help = "Time that 9 of 10 requests of the last seconds waited less than for the head of their answer";
    registry.register_with_unit("wait", help, Unit::Seconds, wait);
    let help = "Busy share of the machine's processors";
    registry.register_with_unit("processors_busy", help, Unit::Other("ratio".into()), processors);
    let help = "Share of the last ten seconds in which something on this machine waited for a disk";
    registry.register_with_unit("disk_pressure", help, Unit::Other("ratio".into()), disk);
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use cluster::node::Status;

    use super::*;

    #[test]
    fn every_metric_is_in_the_manual() {
        let told = Announcement {
            status: Status {
                drain: Drain::NoReads,
                wait_ms: 250,
                ..Status::default()
            },
            downloads: 4,
            ..Announcement::default()
        };
        let text = text(&told);
        let manual = include_str!("../../../../../docs/metrics.md");
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.split(' ').next().unwrap();
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        for line in [
            "crossload_node_drain_state 2",
            "crossload_node_transfers{kind=\"download\"} 4",
            "crossload_node_wait_seconds 0.25",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_drained_node_says_by_whose_order() {
        assert_eq!(check(Drain::Active, None).says, "It is used for everything.");
        let says = check(Drain::NoWrites, Some("/CN=Jane")).says;
        assert_eq!(says, "It is drained: it takes no new files, ordered by /CN=Jane.");
        assert!(check(Drain::NoReads, None).says.contains("cluster.drain"));
    }
}
