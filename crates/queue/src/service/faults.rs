//! What fails at the database now, for the log and for monitoring.

use std::collections::BTreeMap;

use types::Result;

/// What a loop does at the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Files are given to workers.
    Decide,
    /// Results of copies are written.
    Results,
    /// Leases are renewed, and progress is written.
    Renew,
    /// Retries, expired files and lost workers.
    Sweep,
    /// Finished jobs are moved into the history.
    History,
}

impl Work {
    /// Its word in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Results => "results",
            Self::Renew => "renew",
            Self::Sweep => "sweep",
            Self::History => "history",
        }
    }
}

/// What fails, each with its error in words.
pub type Faults = BTreeMap<Work, String>;

/// Takes the outcome of a piece of work; whether that changes anything.
pub(super) fn note<T>(faults: &mut Faults, work: Work, outcome: &Result<T>) -> bool {
    match outcome {
        Ok(_) => faults.remove(&work).is_some(),
        Err(error) => {
            let words = error.public();
            faults.insert(work, words.clone()) != Some(words)
        }
    }
}
