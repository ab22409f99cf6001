//! How many files of one order are copied at the same time, if the order leaves it open.
//!
//! A small file takes a few round trips, during which its connection moves almost nothing; only
//! other files can fill the line. So a copy of many files begins with a few at a time, and doubles
//! the number while that pays: the rate must grow by at least half of what as many slots did
//! before. Files count like data ([`FILE_WORTH_BYTES`]), so that small files have a rate, too. The
//! [`Budget`] grants the added slots together with the streams that copies add by themselves.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::budget::{Budget, ExtraStream};
use crate::limits::{PARALLEL_FILES_FIRST, PARALLEL_FILES_MAX};

/// What a file counts, beside its data, when rates are compared. Four requests take about as long
/// as this many bytes on a connection of 10 ms and 1 Gbit/s.
const FILE_WORTH_BYTES: u64 = 256 * 1024;
/// Shortest time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(300);
/// Longest time between two looks, if files take long.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Files per slot that must have ended between two looks, unless it takes [`LOOK_MAX`].
const LOOK_FILES: u64 = 2;
/// Gain that added slots must bring, in percent of what as many did before.
const GAIN_PERCENT: u64 = 50;
/// Looks within which they must bring it.
const TRIAL_LOOKS_MAX: u32 = 3;

/// Slots for files that are copied at the same time. Clones share them.
#[derive(Clone, Debug)]
pub struct FileSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    slots: Arc<Semaphore>,
    count: AtomicUsize,
    /// Slots that are given up as soon as their files end.
    excess: AtomicUsize,
    ended: AtomicU64,
    /// `None`: the number is fixed.
    budget: Option<Budget>,
    added: Mutex<Vec<ExtraStream>>,
}

/// A slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct FileSlot {
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The work done until a moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    worth: u64,
    ended: u64,
}

/// Slots on trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    added: usize,
    before: u64,
    looks: u32,
}

impl FileSlots {
    /// A fixed number of slots, at least one.
    #[must_use]
    pub fn fixed(count: usize) -> Self {
        Self::new(count.max(1), None)
    }

    /// A few slots, and more while that makes the order faster ([`FileSlots::grow`]).
    #[must_use]
    pub fn chosen(budget: &Budget) -> Self {
        Self::new(PARALLEL_FILES_FIRST, Some(budget.clone()))
    }

    fn new(count: usize, budget: Option<Budget>) -> Self {
        Self(Arc::new(Shared {
            slots: Arc::new(Semaphore::new(count)),
            count: AtomicUsize::new(count),
            excess: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            budget,
            added: Mutex::default(),
        }))
    }

    /// The number of slots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }

    /// Waits for a free slot.
    pub async fn next(&self) -> FileSlot {
        FileSlot {
            // It is never closed.
            permit: Arc::clone(&self.0.slots).acquire_owned().await.ok(),
            shared: Arc::clone(&self.0),
        }
    }

    /// Adds slots while that pays. It never ends, and is dropped with the order.
    pub async fn grow(&self) {
        if let Some(budget) = &self.0.budget {
            self.try_more(budget).await;
        }
        std::future::pending().await
    }

    /// Ends when the number is final.
    async fn try_more(&self, budget: &Budget) {
        let mut last = self.sample(budget);
        let mut trial: Option<Trial> = None;
        loop {
            tokio::time::sleep(LOOK_MIN).await;
            let now = self.sample(budget);
            let files = LOOK_FILES * self.count() as u64;
            if now.ended - last.ended < files && now.at - last.at < LOOK_MAX {
                continue;
            }
            let rate = rate(last, now);
            last = now;
            // As long as slots are free, more of them change nothing.
            let is_used = self.0.slots.available_permits() == 0;
            trial = match trial {
                Some(trial) if pays(trial, rate, self.count()) => None,
                Some(trial) if trial.looks + 1 < TRIAL_LOOKS_MAX || !is_used => Some(Trial {
                    looks: trial.looks + u32::from(is_used),
                    ..trial
                }),
                Some(trial) => return self.give_back(trial.added),
                None => None,
            };
            if trial.is_some() || !is_used || rate == 0 {
                continue;
            }
            match self.add(budget) {
                0 => return,
                added => {
                    trial = Some(Trial {
                        added,
                        before: rate,
                        looks: 0,
                    });
                }
            }
        }
    }

    fn sample(&self, budget: &Budget) -> Sample {
        let ended = self.0.ended.load(Ordering::Relaxed);
        Sample {
            at: Instant::now(),
            worth: budget.moved_bytes() + ended * FILE_WORTH_BYTES,
            ended,
        }
    }

    /// Doubles the slots, within the budget.
    fn add(&self, budget: &Budget) -> usize {
        let count = self.count();
        let wanted = count.min(PARALLEL_FILES_MAX.saturating_sub(count));
        let granted = budget.add_streams(u32::try_from(wanted).unwrap_or(0));
        let added = granted.len();
        let mut kept = self.0.added.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(granted);
        self.0.count.fetch_add(added, Ordering::Relaxed);
        self.0.slots.add_permits(added);
        added
    }

    fn give_back(&self, slots: usize) {
        let free = self.0.slots.forget_permits(slots);
        self.0.excess.fetch_add(slots - free, Ordering::Relaxed);
        self.0.count.fetch_sub(slots, Ordering::Relaxed);
        let mut kept = self.0.added.lock().unwrap_or_else(PoisonError::into_inner);
        let left = kept.len().saturating_sub(slots);
        kept.truncate(left);
    }
}

/// Bytes' worth per second.
fn rate(from: Sample, to: Sample) -> u64 {
    let millis = u64::try_from((to.at - from.at).as_millis()).unwrap_or(u64::MAX).max(1);
    to.worth.saturating_sub(from.worth) * 1000 / millis
}

/// Whether the slots on trial bring at least half of what as many did before.
fn pays(trial: Trial, rate: u64, count: usize) -> bool {
    let before = (count - trial.added).max(1) as u64;
    let least = trial.before * trial.added as u64 * GAIN_PERCENT / 100 / before;
    rate >= trial.before + least
}

impl FileSlot {
    /// The file was copied, or found to be there.
    pub fn done(self) {
        self.shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for FileSlot {
    fn drop(&mut self) {
        let less = |excess: usize| excess.checked_sub(1);
        let excess = &self.shared.excess;
        if excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Flow;

    /// Copies files that take `taken` each, as a function of how many are copied, until the number
    /// of slots does not change any more.
    async fn settled(slots: FileSlots, taken: impl Fn(usize) -> Duration) -> usize {
        let copying = async {
            let mut running = tokio::task::JoinSet::new();
            for _ in 0..40_000 {
                let slot = slots.next().await;
                let time = taken(slots.count());
                running.spawn(async move {
                    tokio::time::sleep(time).await;
                    slot.done();
                });
                while running.try_join_next().is_some() {}
            }
        };
        tokio::select! {
            () = copying => {}
            () = slots.grow() => {}
        }
        slots.count()
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_added_while_they_pay() {
        let far = Duration::from_millis(200);
        let chosen = || FileSlots::chosen(&Budget::for_processors(2));
        assert_eq!(settled(chosen(), |_| far).await, PARALLEL_FILES_MAX);
        assert_eq!(settled(FileSlots::fixed(3), |_| far).await, 3);
        // The server does the work of sixteen.
        let busy = |slots: usize| far * u32::try_from(slots.div_ceil(16)).unwrap();
        assert_eq!(settled(chosen(), busy).await, 16);
        // It does one after the other.
        let serial = |slots: usize| far * u32::try_from(slots).unwrap();
        assert_eq!(settled(chosen(), serial).await, PARALLEL_FILES_FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_come_out_of_the_budget_and_go_back() {
        let budget = Budget::for_processors(2);
        let rest = budget.add_streams(u32::MAX);
        let far = Duration::from_millis(200);
        assert_eq!(settled(FileSlots::chosen(&budget), |_| far).await, PARALLEL_FILES_FIRST);
        drop(rest);
        let all = budget.add_streams(u32::MAX).len();
        let serial = |slots: usize| far * u32::try_from(slots).unwrap();
        settled(FileSlots::chosen(&budget), serial).await;
        assert_eq!(budget.add_streams(u32::MAX).len(), all);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_that_nothing_fills_are_not_doubled() {
        let budget = Budget::for_processors(2);
        let slots = FileSlots::chosen(&budget);
        let one = slots.next().await;
        let moving = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                budget.add_moved(Flow::In, 1 << 20);
            }
        };
        tokio::select! {
            () = moving => {}
            () = slots.grow() => {}
        }
        drop(one);
        assert_eq!(slots.count(), PARALLEL_FILES_FIRST);
    }

    #[tokio::test]
    async fn slots_that_are_given_back_while_in_use_go_with_their_files() {
        let slots = FileSlots::fixed(4);
        let mut used = Vec::new();
        for _ in 0..4 {
            used.push(slots.next().await);
        }
        slots.give_back(3);
        used.clear();
        let _last = slots.next().await;
        assert_eq!((slots.count(), slots.0.slots.available_permits()), (1, 0));
    }
}
