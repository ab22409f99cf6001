//! How many copies run on a link: the optimizer, fed with what the copies of this process move.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use schedule::FileId;
use schedule::optimizer::{Decision, End, Link, LinkBounds, LinkSample, Optimizer, Outcome, StorageBounds};

use super::counters::Counters;
use super::outlook::Outlook;
use super::running::Moving;
use super::{Inner, now_ms};
use crate::limits::{DECISIONS_MAX, SAMPLE_PERIOD};

/// The optimizer with its memory.
#[derive(Default)]
pub(super) struct Tuning {
    optimizer: Optimizer,
    /// Bytes that each running copy had moved at the last sample.
    seen: HashMap<FileId, u64>,
    /// Bytes of copies that have ended since the last sample.
    ended: HashMap<Link, u64>,
    /// The latest decisions, the newest last.
    decisions: VecDeque<Decision>,
}

impl Tuning {
    /// Copies that may run on a link.
    pub(super) fn target(&self, link: &Link) -> u32 {
        self.optimizer.target(link)
    }

    /// The latest decisions, the newest first.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().rev()
    }

    /// A copy has ended.
    pub(super) fn end(&mut self, now_ms: i64, file: FileId, link: Link, moved_bytes: u64, outcome: Outcome) {
        let before = self.seen.remove(&file).unwrap_or_default();
        *self.ended.entry(link.clone()).or_default() += moved_bytes.saturating_sub(before);
        let decided = self.optimizer.ended(now_ms, &link, outcome);
        self.keep(decided);
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
        for copy in moving {
            let sample = samples
                .entry(copy.link.clone())
                .or_insert_with(|| empty(copy.link.clone()));
            sample.active += 1;
            let before = self.seen.insert(copy.file, copy.moved_bytes).unwrap_or_default();
            // A copy that began again has less.
            sample.bytes_moved += copy.moved_bytes.saturating_sub(before);
        }
        for (link, bytes) in self.ended.drain() {
            samples.entry(link.clone()).or_insert_with(|| empty(link)).bytes_moved += bytes;
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
        self.optimizer.set_link_bounds(link, bounds);
        let of = |max| StorageBounds {
            max: Some(max),
            max_goodput: None,
        };
        let (out, into) = (outlook.outbound(&link.source), outlook.inbound(&link.destination));
        self.optimizer.set_storage_bounds(&link.source, End::Source, of(out));
        self.optimizer
            .set_storage_bounds(&link.destination, End::Destination, of(into));
    }

    fn keep(&mut self, decided: Vec<Decision>) {
        self.decisions.extend(decided);
        let over = self.decisions.len().saturating_sub(DECISIONS_MAX);
        self.decisions.drain(..over);
    }
}

/// Samples every few seconds.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        if let Ok(counts) = inner.catalog.queues().await {
            let counters = Counters::of(counts);
            let moving = inner.running().moving();
            let outlook = inner.outlook();
            inner.tuning().sample(now_ms(), &counters, &moving, &outlook);
        }
        inner.wake.notify_one();
        tokio::time::sleep(SAMPLE_PERIOD).await;
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
