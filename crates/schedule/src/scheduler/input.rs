//! What the scheduler is given, and what it decides.

use serde::{Deserialize, Serialize};

use crate::limits::{AGING_MS, PRIORITY_MAX, PRIORITY_MIN};
use crate::{BanNotice, Hold, Reason};

/// The files of one link, virtual organisation, activity, user and priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue<'a> {
    /// The source's storage.
    pub source: &'a str,
    /// The destination's storage.
    pub destination: &'a str,
    /// The virtual organisation.
    pub vo: &'a str,
    /// The activity.
    pub activity: &'a str,
    /// Whose files they are.
    pub user: &'a str,
    /// The priority; the highest goes first.
    pub priority: u8,
    /// Files that can start now.
    pub waiting: u64,
    /// Files that workers have.
    pub active: u64,
    /// When the first waiting file was submitted, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
    /// Mean size of its files, where known.
    pub average_bytes: Option<u64>,
}

impl Queue<'_> {
    /// Where an activity remembers its turns: its priority within bounds.
    pub(super) fn slot(&self) -> usize {
        self.priority.clamp(PRIORITY_MIN, PRIORITY_MAX).into()
    }

    /// Since when it waits for a turn.
    pub(super) fn since_ms(&self, served_ms: Option<i64>, now_ms: i64) -> i64 {
        served_ms.max(self.oldest_ms).unwrap_or(now_ms)
    }

    /// Its priority, one higher for each [`AGING_MS`] without a turn.
    pub(super) fn aged_priority(&self, served_ms: Option<i64>, now_ms: i64) -> u8 {
        let waited_ms = now_ms.saturating_sub(self.since_ms(served_ms, now_ms)).max(0);
        let steps = u8::try_from(waited_ms / AGING_MS).unwrap_or(u8::MAX);
        self.priority.max(PRIORITY_MIN).saturating_add(steps).min(PRIORITY_MAX)
    }
}

/// What shares of virtual organisations and activities are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareUnit {
    /// Slots and the time that copies hold them. Many small files gain nothing over a few large
    /// ones.
    #[default]
    SlotTime,
    /// Bytes of the files that start.
    Bytes,
}

/// What operators and the service say about storages, links and virtual organisations.
pub trait Policy {
    /// Copies into a storage at once.
    fn inbound_max(&self, storage: &str) -> u32;
    /// Copies out of a storage at once.
    fn outbound_max(&self, storage: &str) -> u32;
    /// Copies into the host of a storage at once, on all its ports; `None`: any number.
    fn host_inbound_max(&self, _storage: &str) -> Option<u32> {
        None
    }
    /// Copies out of the host of a storage at once, on all its ports; `None`: any number.
    fn host_outbound_max(&self, _storage: &str) -> Option<u32> {
        None
    }
    /// What holds for a link.
    fn link(&self, source: &str, destination: &str) -> LinkPolicy;
    /// Copies of a virtual organisation at once, on all links; `None`: any number.
    fn vo_max(&self, _vo: &str) -> Option<u32> {
        None
    }
    /// The share of a virtual organisation on a link, relative to others with files there. An empty
    /// name stands for all storages.
    fn vo_share(&self, _source: &str, _destination: &str, _vo: &str) -> f64 {
        1.0
    }
    /// The share of an activity in its virtual organisation, relative to others with files.
    fn activity_share(&self, _vo: &str, _activity: &str) -> f64 {
        1.0
    }
    /// The activity whose share an activity has: its own, or one that several have together.
    fn activity_group<'a>(&self, _vo: &str, activity: &'a str) -> &'a str {
        activity
    }
    /// The ban of a storage for a virtual organisation.
    fn ban(&self, _storage: &str, _vo: &str) -> Option<BanNotice> {
        None
    }
}

/// What holds for a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPolicy {
    /// Copies at once at most, by its settings.
    pub max: u32,
    /// Copies at once by the optimizer; `None`: up to `max`.
    pub target: Option<u32>,
    /// Whether operators have paused it.
    pub is_paused: bool,
    /// Why it waits for a time.
    pub hold: Option<Hold>,
}

/// Everything that a decision is made from.
pub struct Inputs<'a> {
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
    /// Queues with files that wait or run; each combination of names and priority once.
    pub queues: &'a [Queue<'a>],
    /// Limits, shares, bans and holds.
    pub policy: &'a dyn Policy,
    /// Copies that this worker can start.
    pub places: u32,
    /// What shares are counted in.
    pub share_unit: ShareUnit,
}

/// So many files of a queue may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The position of the queue in [`Inputs::queues`].
    pub queue: usize,
    /// Files.
    pub count: u32,
}

/// A queue that gets less than it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The position of the queue in [`Inputs::queues`].
    pub queue: usize,
    /// Files that still wait.
    pub waiting: u64,
    /// Everything that keeps it from more, the most important first; never empty.
    pub reasons: Vec<Reason>,
}

/// What may start, and why the rest waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// At most one for each queue, in their order.
    pub grants: Vec<Grant>,
    /// Each queue with files left, in their order.
    pub shortfalls: Vec<Shortfall>,
}

impl Decision {
    /// Files of a queue that may start.
    #[must_use]
    pub fn granted(&self, queue: usize) -> u64 {
        let found = self.grants.binary_search_by_key(&queue, |grant| grant.queue);
        found.map_or(0, |found| self.grants[found].count.into())
    }
}
