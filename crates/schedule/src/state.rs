//! The states of files and jobs, with the names that FTS's API gives them.
//!
//! Source: reference of FTS 3.14's state machines (`MySqlAPI.cpp`, `jobs.py`); the states of
//! quality-of-service jobs and deletions are left out, because FTS no longer makes them.

use serde::{Deserialize, Serialize};

/// The state of one file of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Waits until its tokens are usable: exchanged, or known to outlive the wait.
    TokenPreparation,
    /// Waits to be asked from tape.
    Staging,
    /// The tape system has been asked.
    StagingStarted,
    /// Waits for its turn; also while it waits for a retry.
    Submitted,
    /// Waits, because a ban holds one of its storages.
    OnHold,
    /// Waits to be asked from tape, because a ban holds one of its storages.
    OnHoldStaging,
    /// A spare replica, or a later hop: not used yet.
    NotUsed,
    /// Given to a worker.
    Ready,
    /// Being copied.
    Active,
    /// Copied; waits until it is on tape.
    Archiving,
    /// Done.
    Finished,
    /// Given up.
    Failed,
    /// Canceled by its user, an operator, or the rest of its job.
    Canceled,
}

impl FileState {
    /// All states.
    pub const ALL: [Self; 13] = [
        Self::TokenPreparation,
        Self::Staging,
        Self::StagingStarted,
        Self::Submitted,
        Self::OnHold,
        Self::OnHoldStaging,
        Self::NotUsed,
        Self::Ready,
        Self::Active,
        Self::Archiving,
        Self::Finished,
        Self::Failed,
        Self::Canceled,
    ];

    /// The name in FTS's API and messages.
    #[must_use]
    pub fn fts_name(self) -> &'static str {
        match self {
            Self::TokenPreparation => "TOKEN_PREP",
            Self::Staging => "STAGING",
            Self::StagingStarted => "STARTED",
            Self::Submitted => "SUBMITTED",
            Self::OnHold => "ON_HOLD",
            Self::OnHoldStaging => "ON_HOLD_STAGING",
            Self::NotUsed => "NOT_USED",
            Self::Ready => "READY",
            Self::Active => "ACTIVE",
            Self::Archiving => "ARCHIVING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// The state with this name in FTS's API.
    #[must_use]
    pub fn of_fts_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.fts_name() == name)
    }

    /// Finished, failed or canceled: it never changes again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Canceled)
    }

    /// The number by which databases know the state. Numbers are never reused.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::TokenPreparation => 1,
            Self::Staging => 2,
            Self::StagingStarted => 3,
            Self::Submitted => 4,
            Self::OnHold => 5,
            Self::OnHoldStaging => 6,
            Self::NotUsed => 7,
            Self::Ready => 8,
            Self::Active => 9,
            Self::Archiving => 10,
            Self::Finished => 11,
            Self::Failed => 12,
            Self::Canceled => 13,
        }
    }

    /// The state with this number.
    #[must_use]
    pub fn of_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

/// The state of a job, which follows from those of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At least one file waits for tape, and none has gone further.
    Staging,
    /// Waits for its turn.
    Submitted,
    /// A file is being copied, or some are done and others wait.
    Active,
    /// Only waits for tape after the copies.
    Archiving,
    /// All files are done.
    Finished,
    /// Some files are done, others failed.
    FinishedDirty,
    /// No file is done, and at least one failed.
    Failed,
    /// Canceled.
    Canceled,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Staging,
        Self::Submitted,
        Self::Active,
        Self::Archiving,
        Self::Finished,
        Self::FinishedDirty,
        Self::Failed,
        Self::Canceled,
    ];

    /// The name in FTS's API and messages.
    #[must_use]
    pub fn fts_name(self) -> &'static str {
        match self {
            Self::Staging => "STAGING",
            Self::Submitted => "SUBMITTED",
            Self::Active => "ACTIVE",
            Self::Archiving => "ARCHIVING",
            Self::Finished => "FINISHED",
            Self::FinishedDirty => "FINISHEDDIRTY",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// The state with this name in FTS's API.
    #[must_use]
    pub fn of_fts_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.fts_name() == name)
    }

    /// Whether it never changes again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Finished | Self::FinishedDirty | Self::Failed | Self::Canceled
        )
    }

    /// The number by which databases know the state. Numbers are never reused.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::Staging => 1,
            Self::Submitted => 2,
            Self::Active => 3,
            Self::Archiving => 4,
            Self::Finished => 5,
            Self::FinishedDirty => 6,
            Self::Failed => 7,
            Self::Canceled => 8,
        }
    }

    /// The state with this number.
    #[must_use]
    pub fn of_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

/// How the files of a job belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Independent files.
    Normal,
    /// One file with several sources: one of them is enough.
    MultiSource,
    /// A chain: the destination of one hop is the source of the next.
    Multihop,
    /// Files of one pair of storages, one after the other over kept connections.
    SessionReuse,
}

impl JobKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Normal, Self::MultiSource, Self::Multihop, Self::SessionReuse];

    /// The letter in FTS's API, which databases keep too.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Normal => "N",
            Self::MultiSource => "R",
            Self::Multihop => "H",
            Self::SessionReuse => "Y",
        }
    }

    /// The kind with this letter.
    #[must_use]
    pub fn of_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_states() {
        for state in FileState::ALL {
            assert_eq!(FileState::of_fts_name(state.fts_name()), Some(state));
            assert_eq!(FileState::of_number(state.number()), Some(state));
        }
        for state in JobState::ALL {
            assert_eq!(JobState::of_fts_name(state.fts_name()), Some(state));
            assert_eq!(JobState::of_number(state.number()), Some(state));
        }
        for kind in JobKind::ALL {
            assert_eq!(JobKind::of_letter(kind.letter()), Some(kind));
        }
    }
}
