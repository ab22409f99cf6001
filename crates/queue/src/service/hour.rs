//! How copies of this process ended within the last hour, by link.
//!
//! They are counted in slots of some minutes, so that what is older falls out without remembering
//! each copy.

use std::collections::{HashMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use catalog::Problem;
use schedule::optimizer::Link;

use super::{CopyResult, Inner, Service};
use crate::clock::now_ms;
use crate::limits::{HOUR_FAILURE_KINDS_MAX, HOUR_LINKS_MAX};

const SLOT_MS: i64 = 5 * 60_000;
const SLOTS: i64 = 12;

/// Copies that ended within the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastHour {
    /// When counting began, in milliseconds since 1970: an hour ago, or at the start of this
    /// process.
    pub from_ms: i64,
    /// Now, likewise.
    pub to_ms: i64,
    /// The links, at most [`HOUR_LINKS_MAX`].
    pub links: Vec<LinkHour>,
    /// Ends of copies on further links.
    pub unlisted: u64,
}

/// Copies of one link that ended within the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkHour {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// Copies that succeeded.
    pub copied: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// What failed, most frequent first.
    pub failures: Vec<CountedProblem>,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedProblem {
    /// Our stable code, as in `docs/errors.md`; `other` for kinds beyond the limit.
    pub code: String,
    /// The side at fault.
    pub side: String,
    /// The phase in which it happened.
    pub phase: String,
    /// How many there were.
    pub count: u64,
}

impl CountedProblem {
    fn once(problem: &Problem) -> Self {
        Self {
            code: problem.code.clone(),
            side: problem.side.clone(),
            phase: problem.phase.clone(),
            count: 1,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.code == other.code && self.side == other.side && self.phase == other.phase
    }
}

/// Adds to the count of a kind; kinds beyond the limit are one.
fn add(counted: &mut Vec<CountedProblem>, one: CountedProblem) {
    let is_known = counted.iter().any(|known| known.is_like(&one));
    let one = match is_known || counted.len() < HOUR_FAILURE_KINDS_MAX {
        true => one,
        false => CountedProblem {
            code: "other".to_owned(),
            side: String::new(),
            phase: String::new(),
            count: one.count,
        },
    };
    match counted.iter_mut().find(|known| known.is_like(&one)) {
        Some(known) => known.count += one.count,
        None => counted.push(one),
    }
}

/// What ended on a link in one slot.
#[derive(Default)]
struct Slot {
    number: i64,
    copied: u64,
    failed: u64,
    bytes: u64,
    failures: Vec<CountedProblem>,
}

/// The ends of copies in the slots of the last hour.
pub(super) struct Hour {
    began_ms: i64,
    /// The newest slot.
    newest: i64,
    links: HashMap<Link, VecDeque<Slot>>,
    /// Ends on links beyond the limit, by slot.
    unlisted: VecDeque<(i64, u64)>,
}

impl Hour {
    /// Nothing has ended yet.
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            began_ms: now_ms,
            newest: now_ms.div_euclid(SLOT_MS),
            links: HashMap::new(),
            unlisted: VecDeque::new(),
        }
    }

    /// Forgets what is older than an hour, and what a clock that was set back left in the future.
    fn turn_to(&mut self, now_ms: i64) -> i64 {
        let now = now_ms.div_euclid(SLOT_MS);
        if now != self.newest {
            self.newest = now;
            let is_within = |number: i64| number <= now && number > now - SLOTS;
            self.links.retain(|_, slots| {
                slots.retain(|slot| is_within(slot.number));
                !slots.is_empty()
            });
            self.unlisted.retain(|(number, _)| is_within(*number));
        }
        now
    }

    /// A copy of a link has ended. What says nothing of the link is not counted.
    pub(super) fn count(&mut self, now_ms: i64, link: &Link, result: &CopyResult) {
        let (bytes, failure) = match result {
            CopyResult::Finished { size_bytes, .. } => (*size_bytes, None),
            CopyResult::Hop {
                copied_bytes: Some(bytes),
                ..
            } => (*bytes, None),
            CopyResult::Failed { problem, .. } | CopyResult::Hold { problem, .. } => (0, Some(problem)),
            _ => return,
        };
        let number = self.turn_to(now_ms);
        if self.links.len() >= HOUR_LINKS_MAX && !self.links.contains_key(link) {
            match self.unlisted.back_mut() {
                Some((last, count)) if *last == number => *count += 1,
                _ => self.unlisted.push_back((number, 1)),
            }
            return;
        }
        let slots = self.links.entry(link.clone()).or_default();
        if slots.back().is_none_or(|last| last.number != number) {
            slots.push_back(Slot {
                number,
                ..Slot::default()
            });
        }
        let Some(slot) = slots.back_mut() else { return };
        match failure {
            None => {
                slot.copied += 1;
                slot.bytes = slot.bytes.saturating_add(bytes);
            }
            Some(problem) => {
                slot.failed += 1;
                add(&mut slot.failures, CountedProblem::once(problem));
            }
        }
    }

    /// What ended within the last hour.
    pub(super) fn last(&mut self, now_ms: i64) -> LastHour {
        let now = self.turn_to(now_ms);
        let links = self.links.iter().map(|(link, slots)| {
            let mut all = LinkHour {
                source: link.source.clone(),
                destination: link.destination.clone(),
                ..LinkHour::default()
            };
            for slot in slots {
                all.copied += slot.copied;
                all.failed += slot.failed;
                all.bytes = all.bytes.saturating_add(slot.bytes);
                slot.failures.iter().for_each(|one| add(&mut all.failures, one.clone()));
            }
            all.failures.sort_by_key(|one| std::cmp::Reverse(one.count));
            all
        });
        LastHour {
            from_ms: self.began_ms.max((now - SLOTS + 1) * SLOT_MS).min(now_ms),
            to_ms: now_ms,
            links: links.collect(),
            unlisted: self.unlisted.iter().map(|(_, count)| count).sum(),
        }
    }
}

impl Inner {
    pub(super) fn hour(&self) -> MutexGuard<'_, Hour> {
        self.hour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Copies of this process that ended within the last hour, by link.
    #[must_use]
    pub fn last_hour(&self) -> LastHour {
        self.0.hour().last(now_ms())
    }
}

#[cfg(test)]
mod tests {
    use schedule::optimizer::FailureClass;

    use super::*;
    use crate::service::Failure;

    fn link(number: usize) -> Link {
        Link {
            source: format!("davs://a{number}:443"),
            destination: "davs://b:443".to_owned(),
        }
    }

    fn finished(size_bytes: u64) -> CopyResult {
        CopyResult::Finished { size_bytes, way: None }
    }

    fn failed(code: &str) -> CopyResult {
        CopyResult::Failed {
            problem: Problem {
                code: code.to_owned(),
                side: "source".to_owned(),
                phase: "open".to_owned(),
                reason: "SOURCE [2] no".to_owned(),
                is_recoverable: true,
            },
            report: None,
            failure: Failure {
                class: FailureClass::File,
                end: None,
            },
        }
    }

    #[test]
    fn ends_are_counted_for_an_hour() {
        let mut hour = Hour::new(0);
        for result in [finished(10), failed("a"), failed("b"), failed("b")] {
            hour.count(1000, &link(1), &result);
        }
        hour.count(2 * SLOT_MS, &link(1), &finished(5));
        let last = hour.last(2 * SLOT_MS + 1);
        assert_eq!((last.from_ms, last.to_ms), (0, 2 * SLOT_MS + 1));
        let only = &last.links[0];
        assert_eq!((only.copied, only.failed, only.bytes), (2, 3, 15));
        assert_eq!((only.failures[0].code.as_str(), only.failures[0].count), ("b", 2));
        let later = hour.last(SLOTS * SLOT_MS);
        assert_eq!((later.from_ms, later.links[0].copied), (SLOT_MS, 1));
        assert!(hour.last((SLOTS + 2) * SLOT_MS).links.is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_nothing_in_the_future() {
        let mut hour = Hour::new(50 * SLOT_MS);
        hour.count(50 * SLOT_MS, &link(1), &finished(1));
        let last = hour.last(20 * SLOT_MS);
        assert!(last.links.is_empty() && last.from_ms <= last.to_ms, "{last:?}");
    }

    #[test]
    fn links_and_kinds_of_failures_are_bounded() {
        let mut hour = Hour::new(0);
        for number in 0..HOUR_LINKS_MAX + 3 {
            hour.count(1, &link(number), &finished(1));
        }
        let last = hour.last(2);
        assert_eq!((last.links.len(), last.unlisted), (HOUR_LINKS_MAX, 3));
        for number in 0..HOUR_FAILURE_KINDS_MAX + 5 {
            hour.count(SLOT_MS, &link(0), &failed(&number.to_string()));
        }
        let last = hour.last(SLOT_MS);
        let found = last.links.iter().find(|one| one.failed > 0).unwrap();
        assert_eq!(found.failures.len(), HOUR_FAILURE_KINDS_MAX + 1);
        assert_eq!((found.failures[0].code.as_str(), found.failures[0].count), ("other", 5));
    }
}
