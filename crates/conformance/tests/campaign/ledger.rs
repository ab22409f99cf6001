//! What came of a campaign: counts, and what must never be.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Something that has a name in a table.
pub(crate) trait Named: Copy + Ord {
    fn name(self) -> &'static str;
}

/// Counts of outcomes by what was done, and violations.
pub(crate) struct Ledger<What, Outcome> {
    counts: BTreeMap<(What, Outcome), u64>,
    violations: Vec<String>,
}

impl<What, Outcome> Default for Ledger<What, Outcome> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            violations: Vec::new(),
        }
    }
}

impl<What: Named, Outcome: Named> Ledger<What, Outcome> {
    pub(crate) fn count(&mut self, what: What, outcome: Outcome) {
        *self.counts.entry((what, outcome)).or_default() += 1;
    }

    /// Whether something was counted.
    pub(crate) fn has(&self, what: What, outcome: Outcome) -> bool {
        self.counts.contains_key(&(what, outcome))
    }

    /// Something that must never be.
    pub(crate) fn violation(&mut self, words: String) {
        println!("VIOLATION: {words}");
        self.violations.push(words);
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// What was done, and the outcomes; `title` is what the first column is about.
    pub(crate) fn table(&self, title: &str, outcomes: &[Outcome]) -> String {
        let mut rows: Vec<What> = self.counts.keys().map(|(what, _)| *what).collect();
        rows.dedup();
        let width = rows.iter().map(|row| row.name().len()).max().unwrap_or(0);
        let width = width.max(title.len()) + 2;
        let mut text = format!("{title:width$}");
        for outcome in outcomes {
            let _ = write!(text, "{:>14}", outcome.name());
        }
        for row in rows {
            let _ = write!(text, "\n{:width$}", row.name());
            for outcome in outcomes {
                let count = self.counts.get(&(row, *outcome)).copied().unwrap_or_default();
                let _ = write!(text, "{count:>14}");
            }
        }
        text
    }
}
