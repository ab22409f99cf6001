//! Lines of the log about the nodes of a redirector. A node that comes and goes again and again
//! does not fill the log: further lines are counted, and the latest is written in the end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::log::Log;

/// Lines about one node in each period.
const LINES_MAX: u32 = 10;
/// The period.
const PERIOD: Duration = Duration::from_secs(60);

/// The log for lines about nodes. Clones count together.
#[derive(Clone)]
pub(super) struct NodeLog(Arc<Shared>);

struct Shared {
    log: Log,
    nodes: Mutex<HashMap<String, Lately>>,
}

/// What happened to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NodeLine {
    #[serde(skip)]
    pub(super) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Lines about the node that were left out before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

impl NodeLine {
    pub(super) fn new(event: &'static str, error: Option<String>) -> Self {
        Self {
            event,
            error,
            left_out: None,
        }
    }
}

/// The lines about one node in this period.
#[derive(Debug)]
struct Lately {
    since: Instant,
    written: u32,
    left_out: u64,
    /// The latest of those that were left out.
    latest: Option<NodeLine>,
}

#[derive(Serialize)]
struct Fields<'a> {
    node: &'a str,
    #[serde(flatten)]
    line: NodeLine,
}

impl NodeLog {
    pub(super) fn new(log: Log) -> Self {
        Self(Arc::new(Shared {
            log,
            nodes: Mutex::default(),
        }))
    }

    /// Writes a line about a node, or counts it.
    pub(super) fn write(&self, node: &str, line: NodeLine) {
        let now = Instant::now();
        let line = {
            let mut nodes = self.nodes();
            let lately = nodes.entry(node.to_owned()).or_insert_with(|| Lately::new(now));
            lately.take(line, now)
        };
        self.push(node, line);
    }

    /// Writes what was left out and is due now.
    pub(super) fn write_due(&self) {
        let now = Instant::now();
        let due: Vec<(String, NodeLine)> = {
            let mut nodes = self.nodes();
            let due = nodes
                .iter_mut()
                .filter_map(|(node, lately)| Some((node.clone(), lately.due(now)?)));
            due.collect()
        };
        due.into_iter().for_each(|(node, line)| self.push(&node, Some(line)));
    }

    fn push(&self, node: &str, line: Option<NodeLine>) {
        if let Some(line) = line {
            self.0.log.write(line.event, &Fields { node, line });
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Lately>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lately {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            written: 0,
            left_out: 0,
            latest: None,
        }
    }

    /// The line to write now, if any.
    fn take(&mut self, line: NodeLine, now: Instant) -> Option<NodeLine> {
        if now.duration_since(self.since) >= PERIOD {
            let left_out = self.left_out;
            *self = Self::new(now);
            self.left_out = left_out;
        }
        if self.written >= LINES_MAX {
            self.left_out += 1;
            self.latest = Some(line);
            return None;
        }
        self.written += 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(NodeLine {
            left_out: (left_out > 0).then_some(left_out),
            ..line
        })
    }

    /// The latest line that was left out, once the period has ended.
    fn due(&mut self, now: Instant) -> Option<NodeLine> {
        if now.duration_since(self.since) < PERIOD {
            return None;
        }
        let line = self.latest.take()?;
        self.left_out -= 1;
        self.take(line, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_flaps_gets_a_bounded_number_of_lines_and_the_last_word_is_true() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut lately = Lately::new(began);
        let mut written = Vec::new();
        // A hundred times a second, for almost five minutes.
        for tick in 0..29_999 {
            let event = if tick % 2 == 0 { "node_came" } else { "node_lost" };
            let error = Some(tick.to_string());
            written.extend(lately.take(NodeLine::new(event, error), at(tick * 10)));
        }
        assert_eq!(written.len(), 5 * LINES_MAX as usize);
        assert_eq!(written[9].left_out, None);
        // With the tenth line of a period, nothing is missing up to there.
        let unwritten = 6000 - u64::from(LINES_MAX);
        assert_eq!(written[10].left_out, Some(unwritten));
        assert_eq!(lately.due(at(299_999)), None);
        let last = lately.due(at(300_000)).expect("the latest line");
        assert_eq!((last.event, last.error.as_deref()), ("node_came", Some("29998")));
        assert_eq!(last.left_out, Some(unwritten - 2));
        assert_eq!(lately.due(at(900_000)), None);
        let next = lately.take(NodeLine::new("node_lost", None), at(300_001));
        assert_eq!(next, Some(NodeLine::new("node_lost", None)));
    }
}
