//! How long the scheduler takes to decide what is copied next.

use std::time::Instant;

use schedule::limits::PRIORITY_MAX;
use schedule::scheduler::{Inputs, LinkPolicy, Policy, Queue, Scheduler, ShareUnit};

use crate::workload::Sample;

const QUEUES: usize = 3_000;
const SOURCES: usize = 60;
const DESTINATIONS: usize = 50;
/// Copies that may start at once.
const PLACES: u32 = 1_000;
const DECISIONS: usize = 200;
/// Simulated time between two decisions.
const STEP_MS: i64 = 100;
/// What a decision may take: it is made whenever something has changed.
pub(crate) const GOAL_MS: f64 = 10.0;

/// As much of everything as there are places.
struct Open;

impl Policy for Open {
    fn inbound_max(&self, _: &str) -> u32 {
        PLACES
    }

    fn outbound_max(&self, _: &str) -> u32 {
        PLACES
    }

    fn link(&self, _: &str, _: &str) -> LinkPolicy {
        LinkPolicy {
            max: PLACES,
            target: None,
            is_paused: false,
            hold: None,
        }
    }
}

/// The row.
pub(crate) fn name() -> String {
    format!("a decision about {QUEUES} queues, {PLACES} places")
}

/// Median and longest of the decisions, in milliseconds.
pub(crate) fn measure() -> Sample {
    sample(DECISIONS)
}

fn sample(decisions: usize) -> Sample {
    let names: Vec<String> = (0..SOURCES)
        .map(|number| format!("davs://storage-{number}.example.org:443"))
        .collect();
    let queue = |index: usize| Queue {
        source: &names[index / DESTINATIONS % SOURCES],
        destination: &names[index % DESTINATIONS],
        vo: "cms",
        activity: "default",
        user: "jane",
        priority: (index % usize::from(PRIORITY_MAX)) as u8 + 1,
        waiting: 1_000,
        active: 0,
        oldest_ms: Some(0),
        average_bytes: None,
    };
    let queues: Vec<Queue<'_>> = (0..QUEUES).map(queue).collect();
    let mut scheduler = Scheduler::default();
    let mut times = Vec::with_capacity(decisions);
    let mut now_ms = 0;
    for _ in 0..decisions {
        let inputs = Inputs {
            now_ms,
            queues: &queues,
            policy: &Open,
            places: PLACES,
            share_unit: ShareUnit::SlotTime,
        };
        let began = Instant::now();
        let grants = scheduler.decide(&inputs);
        times.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(!grants.is_empty(), "all have files and room");
        now_ms += STEP_MS;
    }
    times.sort_by(f64::total_cmp);
    Sample {
        first: times[decisions / 2],
        second: times[decisions - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_timed() {
        let sample = sample(3);
        assert!(sample.first > 0.0 && sample.first <= sample.second);
    }
}
