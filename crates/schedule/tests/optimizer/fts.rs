//! The rule of FTS 3.14, as read in `OptimizerConnections.cpp`: the peer of the comparison.
//!
//! Every 60 s and per link: success rate and throughput of the files that ended in a window of 5,
//! 15 or 30 minutes, by their mean duration; a moving average of the throughput with weight 0.1;
//! then one connection less, or up to two more. Where versions differ, the quicker variant is
//! taken.

use std::collections::VecDeque;

use schedule::optimizer::{End, FailureClass, Outcome};

use super::network::Ended;

const CYCLE_MS: i64 = 60_000;
const EMA_WEIGHT: f64 = 0.1;
const STEADY_MS: i64 = 300_000;

#[derive(Clone, Default)]
struct LinkRecord {
    connections: u32,
    ema: f64,
    ended: VecDeque<Record>,
    changed_ms: i64,
    last: (u64, u64),
}

#[derive(Clone)]
struct Record {
    at_ms: i64,
    duration_ms: i64,
    bytes: f64,
    is_ok: bool,
}

/// FTS's optimizer.
#[derive(Clone)]
pub(crate) struct Fts {
    links: Vec<LinkRecord>,
    max: u32,
    next_ms: i64,
}

impl Fts {
    pub(crate) fn new(links: usize, initial: u32, max: u32) -> Self {
        let record = LinkRecord {
            connections: initial,
            ..LinkRecord::default()
        };
        Self {
            links: vec![record; links],
            max,
            next_ms: CYCLE_MS,
        }
    }

    pub(crate) fn target(&self, path: usize) -> u32 {
        self.links[path].connections
    }

    pub(crate) fn ended(&mut self, now_ms: i64, end: &Ended) {
        let (bytes, is_ok) = match end.outcome {
            Outcome::Copied { size_bytes } => (size_bytes as f64, true),
            // Errors that no retry mends do not count.
            Outcome::Failed {
                class: FailureClass::File,
                end: Some(End::Source),
                ..
            } => return,
            Outcome::Failed { .. } => (0.0, false),
        };
        self.links[end.path].ended.push_back(Record {
            at_ms: now_ms,
            duration_ms: now_ms - end.start_ms,
            bytes,
            is_ok,
        });
    }

    /// Runs a cycle if its time has come. `waiting` files per link.
    pub(crate) fn tick(&mut self, now_ms: i64, waiting: &[u32]) {
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + CYCLE_MS;
        for (link, waiting) in self.links.iter_mut().zip(waiting) {
            link.cycle(now_ms, *waiting, self.max);
        }
    }
}

impl LinkRecord {
    fn cycle(&mut self, now_ms: i64, waiting: u32, max: u32) {
        let recent = |window_ms: i64, ended: &VecDeque<Record>| -> Vec<Record> {
            ended
                .iter()
                .filter(|record| now_ms - record.at_ms <= window_ms)
                .cloned()
                .collect()
        };
        while self
            .ended
            .front()
            .is_some_and(|record| now_ms - record.at_ms > 1_800_000)
        {
            self.ended.pop_front();
        }
        let all = recent(1_800_000, &self.ended);
        let copied: Vec<&Record> = all.iter().filter(|record| record.is_ok).collect();
        let duration_ms: i64 = copied.iter().map(|record| record.duration_ms).sum::<i64>() / copied.len().max(1) as i64;
        let window_ms = match duration_ms {
            ..30_000 => 300_000,
            30_000..900_000 => 900_000,
            _ => 1_800_000,
        };
        let records = recent(window_ms, &self.ended);
        let ok = records.iter().filter(|record| record.is_ok).count() as f64;
        let success = if records.is_empty() {
            1.0
        } else {
            ok / records.len() as f64
        };
        let bytes: f64 = records.iter().map(|record| record.bytes).sum();
        let throughput = bytes / (window_ms as f64 / 1e3);
        self.decide(now_ms, success, throughput, waiting, max);
    }

    fn decide(&mut self, now_ms: i64, success: f64, throughput: f64, waiting: u32, max: u32) {
        let state = (success.to_bits(), throughput.to_bits());
        if state == self.last && now_ms - self.changed_ms < STEADY_MS {
            return;
        }
        self.last = state;
        self.changed_ms = now_ms;
        let before = self.ema;
        self.ema = if before == 0.0 {
            throughput
        } else {
            EMA_WEIGHT * throughput + (1.0 - EMA_WEIGHT) * before
        };
        let is_improving = self.ema > before;
        if success < 0.97 {
            if !(is_improving && success >= 0.96) {
                self.connections -= 1;
            }
        } else if waiting >= self.connections && self.ema >= before {
            self.connections += 2;
        }
        self.connections = self.connections.clamp(2, max);
    }
}
