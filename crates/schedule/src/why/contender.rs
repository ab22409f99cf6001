//! Who has the slots that a file waits for.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::limits::CONTENDERS_MAX;
use crate::reason::Reason;
use crate::scheduler::{Decision, Inputs, Queue};
use crate::storage::{authority, host};

/// Files that use the same slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contender {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// The virtual organisation.
    pub vo: String,
    /// The activity.
    pub activity: String,
    /// Copies that run, or are about to begin.
    pub active: u64,
    /// Files that wait.
    pub waiting: u64,
}

/// The queues that use the slots of the first limit among `reasons`; at most [`CONTENDERS_MAX`].
pub(super) fn of(inputs: &Inputs<'_>, decision: &Decision, queue: usize, reasons: &[Reason]) -> Vec<Contender> {
    let limit = reasons.iter().find(|reason| reason.is_limit());
    let (Some(limit), Some(own)) = (limit, inputs.queues.get(queue)) else {
        return Vec::new();
    };
    let mut sums: BTreeMap<[&str; 4], (u64, u64)> = BTreeMap::new();
    for (index, other) in inputs.queues.iter().enumerate() {
        if uses(other, own, limit) {
            let granted = decision.granted(index);
            let key = [other.source, other.destination, other.vo, other.activity];
            let (active, waiting) = sums.entry(key).or_default();
            *active += other.active + granted;
            *waiting += other.waiting.saturating_sub(granted);
        }
    }
    let mut found: Vec<Contender> = sums
        .into_iter()
        .filter(|(_, (active, _))| *active > 0)
        .map(|([source, destination, vo, activity], (active, waiting))| Contender {
            source: source.to_owned(),
            destination: destination.to_owned(),
            vo: vo.to_owned(),
            activity: activity.to_owned(),
            active,
            waiting,
        })
        .collect();
    found.sort_by_key(|contender| std::cmp::Reverse(contender.active));
    found.truncate(CONTENDERS_MAX);
    found
}

/// Whether a queue takes slots of a limit that binds `own`.
fn uses(queue: &Queue<'_>, own: &Queue<'_>, limit: &Reason) -> bool {
    let is_of = |storage: &str, limited: &str| authority(storage) == authority(limited) || host(storage) == limited;
    match limit {
        Reason::SourceFull(full) => is_of(queue.source, &full.storage),
        Reason::DestinationFull(full) => is_of(queue.destination, &full.storage),
        Reason::SlotReserved { storage, .. } => is_of(queue.source, storage) || is_of(queue.destination, storage),
        Reason::LinkFull { .. } => queue.source == own.source && queue.destination == own.destination,
        Reason::VoFull { .. } => queue.vo == own.vo,
        _ => true,
    }
}
