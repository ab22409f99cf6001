//! What this process has done since it started, for monitoring.

use std::collections::BTreeMap;

use catalog::{Ending, Outcome, Problem};

/// The kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKind {
    /// Our stable code, as in `docs/errors.md`.
    pub code: String,
    /// The side at fault.
    pub side: String,
}

impl FailureKind {
    fn of(problem: &Problem) -> Self {
        Self {
            code: problem.code.clone(),
            side: problem.side.clone(),
        }
    }
}

/// Attempts of this process by their outcome. The kinds of failures are bounded by the error table.
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
            *kinds.entry(FailureKind::of(problem)).or_default() += 1;
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
}
