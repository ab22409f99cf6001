//! The counters of the catalog as the scheduler sees them: a storage that files name by several
//! schemes has one queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Catalog, FileRecord, Grant, QueueCount};
use schedule::optimizer::Link;
use schedule::scheduler::{self, Queue};

use tokio::sync::Mutex;
use types::Result;

use super::pace::Flow;
use crate::limits::DECISION_PERIOD;

/// The counters of all queues at one moment.
#[derive(Default)]
pub(super) struct Counters {
    /// Claims of all workers before.
    pub(super) turn: i64,
    counts: Vec<QueueCount>,
    entries: Vec<Entry>,
    places: HashMap<Place, usize>,
}

/// The counters that were read last. Those who need them share one read for each change.
#[derive(Default)]
pub(super) struct CounterCache(Mutex<Option<Cached>>);

struct Cached {
    change: u64,
    read: Instant,
    counters: Arc<Counters>,
}

impl CounterCache {
    /// The counters as they are, or as they were at most `age` ago.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn get(&self, catalog: &Catalog, age: Duration) -> Result<Arc<Counters>> {
        let mut cached = self.0.lock().await;
        let change = catalog.change();
        if let Some(last) = cached.as_ref() {
            // A notice of a change can be lost.
            let limit = if last.change == change { DECISION_PERIOD } else { age };
            if last.read.elapsed() < limit {
                return Ok(Arc::clone(&last.counters));
            }
        }
        let read = Instant::now();
        let (turn, counts) = catalog.queues_in_turn().await?;
        let counters = Arc::new(Counters {
            turn,
            ..Counters::of(counts)
        });
        *cached = Some(Cached {
            change,
            read,
            counters: Arc::clone(&counters),
        });
        Ok(counters)
    }

    /// What was read is of the past: our own claim has changed it, and its notice may come later.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

/// A queue of the scheduler: queues of the catalog that differ by schemes only.
struct Entry {
    flow: Flow,
    counts: Vec<usize>,
}

#[derive(PartialEq, Eq, Hash)]
struct Place {
    flow: Flow,
    priority: u8,
}

impl Counters {
    pub(super) fn of(counts: Vec<QueueCount>) -> Self {
        let mut this = Self::default();
        for (index, count) in counts.iter().enumerate() {
            let flow = Flow::of_queue(&count.key);
            let place = Place {
                flow: flow.clone(),
                priority: count.priority,
            };
            let next = this.entries.len();
            let entry = *this.places.entry(place).or_insert(next);
            if entry == next {
                this.entries.push(Entry {
                    flow,
                    counts: Vec::new(),
                });
            }
            this.entries[entry].counts.push(index);
        }
        this.counts = counts;
        this
    }

    /// The queues of the scheduler; `mean_bytes` knows the sizes of files.
    pub(super) fn queues(&self, mean_bytes: impl Fn(&Flow) -> Option<u64>) -> Vec<Queue<'_>> {
        let entries = self.entries.iter();
        let queues = entries.map(|entry| Queue {
            average_bytes: mean_bytes(&entry.flow),
            ..self.queue(entry)
        });
        queues.collect()
    }

    fn queue<'a>(&'a self, entry: &'a Entry) -> Queue<'a> {
        let counts = || entry.counts.iter().map(|index| &self.counts[*index]);
        Queue {
            source: &entry.flow.link.source,
            destination: &entry.flow.link.destination,
            vo: &entry.flow.vo,
            activity: &entry.flow.activity,
            user: &entry.flow.user,
            priority: self.counts[entry.counts[0]].priority,
            waiting: counts().map(|count| count.waiting).sum(),
            active: counts().map(|count| count.active).sum(),
            oldest_ms: counts().filter_map(|count| count.oldest_ms).min(),
            average_bytes: None,
        }
    }

    /// Each queue of the catalog with its link.
    pub(super) fn with_links(&self) -> impl Iterator<Item = (&Link, &QueueCount)> {
        self.entries.iter().flat_map(|entry| {
            let counts = entry.counts.iter();
            counts.map(|index| (&entry.flow.link, &self.counts[*index]))
        })
    }

    /// The position of a file's queue in [`Counters::queues`].
    pub(super) fn position(&self, file: &FileRecord) -> Option<usize> {
        let place = Place {
            flow: Flow::of_file(file),
            priority: file.priority,
        };
        self.places.get(&place).copied()
    }

    /// What may be claimed. Of queues that differ by schemes only, the one that waits longest goes
    /// first.
    pub(super) fn grants(&self, decided: &[scheduler::Grant]) -> Vec<Grant> {
        let mut grants = Vec::with_capacity(decided.len());
        for granted in decided {
            let mut counts: Vec<&QueueCount> = self.entries[granted.queue]
                .counts
                .iter()
                .map(|index| &self.counts[*index])
                .filter(|count| count.waiting > 0)
                .collect();
            counts.sort_by_key(|count| count.oldest_ms.unwrap_or(i64::MAX));
            let mut left = granted.count;
            for count in counts {
                let taken = left.min(u32::try_from(count.waiting).unwrap_or(u32::MAX));
                if taken > 0 {
                    grants.push(Grant {
                        queue: count.key.clone(),
                        priority: count.priority,
                        count: taken,
                    });
                }
                left -= taken;
            }
        }
        grants
    }
}
