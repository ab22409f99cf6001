//! What this process has done since it started, for monitoring.

use std::collections::BTreeMap;

use catalog::{Ending, Outcome, Problem};

use crate::limits::FAILURE_KINDS_MAX;

/// The kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKind {
    /// Our stable code, as in `docs/errors.md`.
    pub code: String,
    /// The side at fault.
    pub side: String,
}

impl FailureKind {
    /// Stands for all kinds beyond the limit.
    fn other() -> Self {
        Self {
            code: "other".to_owned(),
            side: "other".to_owned(),
        }
    }

    fn of(problem: &Problem) -> Self {
        Self {
            code: problem.code.clone(),
            side: problem.side.clone(),
        }
    }
}

/// Attempts of this process by their outcome. Each map has at most [`FAILURE_KINDS_MAX`] kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Copies that are complete.
    pub finished: u64,
    /// Bytes of all attempts, the failed ones too.
    pub copied_bytes: u64,
    /// Attempts that failed and are repeated later.
    pub retried: BTreeMap<FailureKind, u64>,
    /// Attempts that failed for good.
    pub failed: BTreeMap<FailureKind, u64>,
    /// Attempts that do not count, because a storage could not take part.
    pub held: BTreeMap<FailureKind, u64>,
}

impl Totals {
    pub(super) fn count(&mut self, endings: &[Ending]) {
        for ending in endings {
            self.copied_bytes = self.copied_bytes.saturating_add(ending.moved_bytes);
            let (kinds, problem) = match &ending.outcome {
                Outcome::Finished { .. } | Outcome::Archiving { .. } | Outcome::Found { .. } => {
                    self.finished += 1;
                    continue;
                }
                // The file has not ended, and nothing failed.
                Outcome::Hop(_) => continue,
                Outcome::Failed {
                    problem,
                    retry_ms: Some(_),
                    ..
                } => (&mut self.retried, problem),
                Outcome::Failed { problem, .. } => (&mut self.failed, problem),
                Outcome::Held { problem, .. } | Outcome::Remains { problem, .. } => (&mut self.held, problem),
            };
            let kind = FailureKind::of(problem);
            let is_counted_alone = kinds.len() < FAILURE_KINDS_MAX || kinds.contains_key(&kind);
            let kind = if is_counted_alone { kind } else { FailureKind::other() };
            *kinds.entry(kind).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(moved_bytes: u64, outcome: Outcome) -> Ending {
        Ending {
            file: schedule::FileId(1),
            facts: catalog::CopyFacts::default(),
            moved_bytes,
            outcome,
        }
    }

    fn problem() -> Problem {
        Problem {
            code: "no_space".to_owned(),
            side: "destination".to_owned(),
            phase: "write".to_owned(),
            reason: "DESTINATION [28] no space left".to_owned(),
            is_recoverable: true,
        }
    }

    #[test]
    fn attempts_are_counted_by_outcome_and_kind() {
        let mut totals = Totals::default();
        let failed = |retry_ms| Outcome::Failed {
            problem: problem(),
            retry_ms,
            report: None,
        };
        let held = Outcome::Held {
            until_ms: 5,
            problem: problem(),
        };
        let finished = Outcome::Finished {
            size_bytes: 10,
            way: None,
        };
        let endings = [
            ending(10, finished),
            ending(3, failed(Some(1))),
            ending(0, failed(None)),
            ending(0, failed(None)),
            ending(0, held),
        ];
        totals.count(&endings);
        let kind = FailureKind::of(&problem());
        assert_eq!((totals.finished, totals.copied_bytes), (1, 13));
        assert_eq!(totals.retried.get(&kind), Some(&1));
        assert_eq!(totals.failed.get(&kind), Some(&2));
        assert_eq!(totals.held.get(&kind), Some(&1));
    }

    #[test]
    fn kinds_beyond_the_limit_are_counted_together() {
        let mut totals = Totals::default();
        for number in 0..100_000 {
            let problem = Problem {
                code: format!("code{number}"),
                ..problem()
            };
            let outcome = Outcome::Failed {
                problem,
                retry_ms: None,
                report: None,
            };
            totals.count(&[ending(0, outcome)]);
        }
        assert_eq!(totals.failed.len(), FAILURE_KINDS_MAX + 1);
        let others = totals.failed.get(&FailureKind::other()).copied();
        assert_eq!(others, Some(100_000 - FAILURE_KINDS_MAX as u64));
    }
}
