//! The summary of the server that XRootD would send (`xrd.report`), by UDP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use door_admin::{Export, Metrics, OperationCount, processor_time};
use monitoring_wire::{Links, PathSpace, Requests, Server, Summary};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::now_s;
use crate::limits::SUMMARY_SPACE_WAIT;
use crate::server::receivers::{Kind, Sender};
use crate::server::subsystem::Current;

/// Requests whose number has a place of its own, by their names in metrics.
const OPENS: &[&str] = &["open"];
const READS: &[&str] = &["read", "page_read"];
const VECTOR_READS: &[&str] = &["read_vector"];
const VECTOR_WRITES: &[&str] = &["write_vector"];
const WRITES: &[&str] = &["write", "page_write"];
const SYNCS: &[&str] = &["sync"];
const LOGINS: &[&str] = &["login"];
const AUTHENTICATIONS: &[&str] = &["authenticate"];

/// Makes summaries and sends them.
pub(super) struct SummaryStream {
    pub(super) server: Server,
    /// When the server started, in seconds since 1970.
    pub(super) started_s: u64,
    pub(super) interval: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) exports: Current<Vec<Export>>,
    pub(super) sender: Sender,
}

impl SummaryStream {
    /// Sends one in each interval until the server stops, the first one now.
    pub(super) async fn run(mut self, is_stopping: impl Fn() -> bool) {
        let mut times = interval(self.interval);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            if is_stopping() {
                return;
            }
            let packet = self.summary().await.packet(&self.server);
            let mut sender = self.sender;
            // It looks names up, which waits.
            let send = move || {
                sender.send(Kind::Summary, &packet);
                sender
            };
            let Ok(sender) = execution::blocking(send).await else {
                return;
            };
            self.sender = sender;
        }
    }

    async fn summary(&self) -> Summary {
        let begun = Instant::now();
        let paths = self.paths().await;
        let totals = self.metrics.totals();
        Summary {
            started_s: self.started_s,
            now_s: now_s(),
            gathering: begun.elapsed(),
            links: Links {
                open: totals.connections_open,
                accepted: totals.connections,
                received_bytes: totals.bytes_in,
                sent_bytes: totals.bytes_out,
            },
            processor: processor_time().map(|time| [time.user, time.system]),
            requests: requests(&self.metrics.operations()),
            paths,
        }
    }

    /// Exports that say in time how much space they have.
    async fn paths(&self) -> Vec<PathSpace> {
        let mut paths = Vec::new();
        for export in self.exports.get() {
            let space = timeout(SUMMARY_SPACE_WAIT, export.store.space()).await;
            let known = space.ok().and_then(Result::ok);
            if let Some(space) = known.filter(|space| space.total_bytes < i64::MAX.unsigned_abs()) {
                paths.push(PathSpace {
                    path: export.path,
                    total_bytes: space.total_bytes,
                    free_bytes: space.free_bytes,
                });
            }
        }
        paths
    }
}

fn requests(operations: &[OperationCount]) -> Requests {
    let named = |names: &'static [&'static str]| {
        let each = operations.iter();
        each.filter(move |operation| names.iter().any(|name| *name == operation.name))
    };
    let all = |names: &'static [&'static str]| -> u64 {
        let each = named(names);
        each.map(|operation| operation.succeeded + operation.failed).sum()
    };
    let answered: u64 = operations
        .iter()
        .map(|operation| operation.succeeded + operation.failed)
        .sum();
    let kinds = [
        OPENS,
        READS,
        VECTOR_READS,
        VECTOR_WRITES,
        WRITES,
        SYNCS,
        LOGINS,
        AUTHENTICATIONS,
    ];
    let placed: u64 = kinds.into_iter().map(all).sum();
    Requests {
        opens: all(OPENS),
        reads: all(READS),
        vector_reads: all(VECTOR_READS),
        vector_writes: all(VECTOR_WRITES),
        writes: all(WRITES),
        syncs: all(SYNCS),
        others: answered.saturating_sub(placed),
        failed: operations.iter().map(|operation| operation.failed).sum(),
        logins: all(LOGINS),
        failed_authentications: named(AUTHENTICATIONS).map(|operation| operation.failed).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_one_place() {
        let count = |name: &'static str, succeeded, failed| OperationCount {
            name: name.into(),
            succeeded,
            failed,
        };
        let found = requests(&[
            count("open", 5, 2),
            count("read", 10, 0),
            count("page_read", 3, 1),
            count("page_write", 4, 0),
            count("login", 6, 1),
            count("authenticate", 2, 3),
            count("stat", 7, 1),
            count("close", 5, 0),
        ]);
        let expected = Requests {
            opens: 7,
            reads: 14,
            writes: 4,
            others: 13,
            failed: 8,
            logins: 7,
            failed_authentications: 3,
            ..Requests::default()
        };
        assert_eq!(found, expected);
    }
}
