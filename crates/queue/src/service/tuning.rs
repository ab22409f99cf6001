//! How many copies run on a link: the optimizer, fed with what the copies of this process move.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use schedule::FileId;
use schedule::optimizer::{Decision, End, Link, LinkBounds, LinkSample, Optimizer, Outcome, StorageBounds};

use super::Inner;
use super::counters::Counters;
use super::figures::{Figures, LinkEnds};
use super::outlook::Outlook;
use super::running::Moving;
use crate::clock::now_ms;
use crate::limits::{DECISIONS_MAX, SAMPLE_PERIOD};
use crate::messages::LinkFacts;

/// Copies of a link that have ended.
#[derive(Default)]
struct Ended {
    copies: u32,
    bytes: u64,
}

/// A decision, and how copies ended before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The decision.
    pub decision: Decision,
    /// Share of the attempts since the decision before that ended well, from 0 to 1.
    pub success: f64,
}

/// The optimizer with its memory.
#[derive(Default)]
pub(super) struct Tuning {
    optimizer: Optimizer,
    /// Bytes that each running copy had moved at the last sample.
    seen: HashMap<FileId, u64>,
    /// Copies that have ended since the last sample.
    ended: HashMap<Link, Ended>,
    /// The latest decisions with their success, the newest last.
    decisions: VecDeque<Judged>,
    figures: Figures,
    /// Decisions that are not in the catalog yet.
    unwritten: VecDeque<LinkFacts>,
}

impl Tuning {
    /// Copies that may run on a link.
    pub(super) fn target(&self, link: &Link) -> u32 {
        self.optimizer.target(link)
    }

    /// Bytes per second on a link, at the last sample.
    pub(super) fn goodput(&self, link: &Link) -> f64 {
        self.optimizer.goodput(link)
    }

    /// Why links have their numbers: those of the latest decisions.
    pub(super) fn rationales(&self) -> HashMap<&Link, &str> {
        let decisions = self.decisions.iter();
        decisions
            .map(|judged| (&judged.decision.link, judged.decision.rationale.as_str()))
            .collect()
    }

    /// Why a link has its number.
    pub(super) fn rationale(&self, link: &Link) -> Option<String> {
        let mut decisions = self.decisions();
        let found = decisions.find(|judged| judged.decision.link == *link);
        found.map(|judged| judged.decision.rationale.clone())
    }

    /// The latest decisions, the newest first.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &Judged> {
        self.decisions.iter().rev()
    }

    /// A copy has ended.
    pub(super) fn end(
        &mut self,
        now_ms: i64,
        file: FileId,
        link: Link,
        moved_bytes: u64,
        outcome: Outcome,
        duration_ms: u64,
    ) {
        self.figures.count(&link, &outcome, duration_ms);
        let before = self.seen.remove(&file).unwrap_or_default();
        let ended = self.ended.entry(link.clone()).or_default();
        let moved = moved_bytes.saturating_sub(before);
        ended.bytes = ended.bytes.saturating_add(moved);
        ended.copies = ended.copies.saturating_add(1);
        let decided = self.optimizer.ended(now_ms, &link, outcome);
        self.keep(decided);
    }

    /// What ended on each link.
    pub(super) fn ends(&self) -> Vec<LinkEnds> {
        self.figures.ends().collect()
    }

    /// Looks at all links with work.
    pub(super) fn sample(&mut self, now_ms: i64, counters: &Counters, moving: &[Moving], outlook: &Outlook) {
        let mut samples: HashMap<Link, LinkSample> = HashMap::new();
        for (link, count) in counters.with_links() {
            let sample = samples.entry(link.clone()).or_insert_with(|| empty(link.clone()));
            // A link that stands still does not want more copies.
            if outlook.is_open(link) {
                let waiting = u32::try_from(count.waiting).unwrap_or(u32::MAX);
                sample.waiting = sample.waiting.saturating_add(waiting);
            }
        }
        let seen = std::mem::take(&mut self.seen);
        for copy in moving {
            let sample = samples
                .entry(copy.link.clone())
                .or_insert_with(|| empty(copy.link.clone()));
            sample.active += 1;
            let before = seen.get(&copy.file).copied().unwrap_or_default();
            self.seen.insert(copy.file, copy.moved_bytes);
            // A copy that began again has less.
            let moved = copy.moved_bytes.saturating_sub(before);
            sample.bytes_moved = sample.bytes_moved.saturating_add(moved);
        }
        for (link, ended) in self.ended.drain() {
            let target = self.optimizer.target(&link);
            let sample = samples.entry(link.clone()).or_insert_with(|| empty(link));
            sample.bytes_moved = sample.bytes_moved.saturating_add(ended.bytes);
            // Of copies shorter than a sample few are seen running.
            sample.active = sample.active.max(ended.copies.min(target));
        }
        let samples: Vec<LinkSample> = samples.into_values().collect();
        for sample in &samples {
            self.bound(&sample.link, outlook);
        }
        let decided = self.optimizer.sample(now_ms, &samples);
        self.keep(decided);
    }

    fn bound(&mut self, link: &Link, outlook: &Outlook) {
        let max = outlook.link_max(link).max(1);
        let bounds = LinkBounds {
            min: outlook.link_min(link).min(max),
            max,
            ..LinkBounds::default()
        };
        if !self.optimizer.set_link_bounds(link, bounds) {
            return;
        }
        let ends = [
            (
                &link.source,
                End::Source,
                outlook.outbound(&link.source),
                outlook.host_outbound(&link.source),
            ),
            (
                &link.destination,
                End::Destination,
                outlook.inbound(&link.destination),
                outlook.host_inbound(&link.destination),
            ),
        ];
        for (storage, end, own, of_host) in ends {
            let bounds = StorageBounds {
                max: Some(own.min(of_host.unwrap_or(u32::MAX))),
                max_goodput: outlook.goodput_max(storage, end),
            };
            self.optimizer.set_storage_bounds(storage, end, bounds);
        }
    }

    fn keep(&mut self, decided: Vec<Decision>) {
        for decision in decided {
            let report = self.figures.report(&decision);
            self.decisions.push_back(Judged {
                decision,
                success: report.success,
            });
            self.unwritten.push_back(report);
        }
        let over = self.unwritten.len().saturating_sub(DECISIONS_MAX);
        self.unwritten.drain(..over);
        let over = self.decisions.len().saturating_sub(DECISIONS_MAX);
        self.decisions.drain(..over);
    }
}

/// Samples every few seconds.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        if let Ok(counters) = inner.counters(crate::limits::COUNTERS_AGE).await {
            let moving = inner.running().moving();
            let outlook = inner.outlook();
            inner.tuning().sample(now_ms(), &counters, &moving, &outlook);
            inner.paces().forget(now_ms());
        }
        write_decisions(&inner).await;
        inner.wake.notify_one();
        tokio::time::sleep(SAMPLE_PERIOD).await;
    }
}

/// Stores the decisions for messages. If the catalog fails, the next round tries again.
async fn write_decisions(inner: &Inner) {
    let reports: Vec<LinkFacts> = inner.tuning().unwritten.drain(..).collect();
    if reports.is_empty() {
        return;
    }
    let stored = reports.iter().filter_map(|report| serde_json::to_value(report).ok());
    if inner.catalog.put_decisions(stored.collect(), now_ms()).await.is_err() {
        inner.tuning().unwritten.extend(reports);
    }
}

fn empty(link: Link) -> LinkSample {
    LinkSample {
        link,
        bytes_moved: 0,
        active: 0,
        waiting: 0,
    }
}
