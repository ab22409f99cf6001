//! What fails at the database now, for the log and for monitoring.

use std::collections::BTreeMap;

use catalog::SettingKind;
use types::{ErrorCode, Result};

use super::Service;
use crate::clock::now_ms;
use crate::limits::PROBE_BYTES;

/// What a loop does at the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Files are given to workers.
    Decide,
    /// Results of copies are written.
    Results,
    /// Leases are renewed, and progress is written.
    Renew,
    /// Retries and lost workers.
    Sweep,
    /// Files whose time is over fail.
    Expiry,
    /// Files whose tokens are renewed go on.
    Tokens,
    /// Changes of large jobs whose processes have ended go on.
    Changes,
    /// Finished jobs are moved into the history.
    History,
    /// Clients' jobs and settings are stored.
    Store,
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
            Self::Expiry => "expiry",
            Self::Tokens => "tokens",
            Self::Changes => "changes",
            Self::History => "history",
            Self::Store => "store",
        }
    }
}

/// What fails, each with its error in words.
pub type Faults = BTreeMap<Work, String>;

/// The setting that is written to find out whether the database takes anything.
const PROBE: &str = "probe";

impl Service {
    /// Notes how it went to store what a client has sent, so that monitoring learns of a full disk.
    pub fn note_stored<T>(&self, outcome: &Result<T>) {
        let code = outcome.as_ref().err().map(types::Error::code);
        match code {
            None | Some(ErrorCode::CatalogFull | ErrorCode::CatalogUnavailable) => self.0.note(Work::Store, outcome),
            // The request was at fault, and not the database.
            Some(_) => {}
        }
    }

    /// Tries to store something, if this failed when a client wanted it: an idle queue writes
    /// nothing else.
    pub async fn probe(&self) {
        if !self.0.faults.borrow().contains_key(&Work::Store) {
            return;
        }
        let catalog = &self.0.catalog;
        let kind = SettingKind::Internal;
        let stored = catalog
            .put_setting(kind, PROBE, &"0".repeat(PROBE_BYTES), "", now_ms())
            .await;
        self.note_stored(&stored);
        if stored.is_ok() {
            // What stays is written over by the next probe.
            let _ = catalog.delete_setting(kind, PROBE, "", now_ms()).await;
        }
    }
}

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
