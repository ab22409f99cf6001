//! What came of the rounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fault::Fault;

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The client got success, and the file is there.
    Acknowledged,
    /// The client got success, but something else is there.
    Lost,
    /// The client got a failure or no answer, and the old file is there.
    Refused,
    /// The client got a failure or no answer, and the whole new file is there.
    Unheard,
    /// The name holds content that no client stored.
    Broken,
}

const COLUMNS: [(Outcome, &str); 5] = [
    (Outcome::Acknowledged, "acknowledged"),
    (Outcome::Refused, "refused"),
    (Outcome::Unheard, "unheard"),
    (Outcome::Lost, "LOST"),
    (Outcome::Broken, "BROKEN"),
];

/// Counts and violations.
#[derive(Default)]
pub(crate) struct Ledger {
    counts: BTreeMap<(Fault, Outcome), u64>,
    violations: Vec<String>,
}

impl Ledger {
    pub(crate) fn count(&mut self, fault: Fault, outcome: Outcome) {
        *self.counts.entry((fault, outcome)).or_default() += 1;
    }

    /// Something that must never be.
    pub(crate) fn violation(&mut self, words: String) {
        println!("VIOLATION: {words}");
        self.violations.push(words);
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Faults and outcomes.
    pub(crate) fn table(&self) -> String {
        let mut faults: Vec<Fault> = self.counts.keys().map(|(fault, _)| *fault).collect();
        faults.dedup();
        let mut text = format!("{:26}", "fault");
        for (_, name) in COLUMNS {
            let _ = write!(text, "{name:>14}");
        }
        for fault in faults {
            let _ = write!(text, "\n{:26}", fault.name());
            for (outcome, _) in COLUMNS {
                let count = self.counts.get(&(fault, outcome)).copied().unwrap_or_default();
                let _ = write!(text, "{count:>14}");
            }
        }
        text
    }
}
