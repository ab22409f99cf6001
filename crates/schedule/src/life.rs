//! The life of one file: which event leads from which state to which.
//!
//! The catalog applies an event as compare-and-set on the old state, so that two workers cannot
//! both move a file. Terminal states are immutable: every event is impossible there.
//!
//! | from | event | to |
//! |---|---|---|
//! | token preparation | tokens ready | submitted, or staging |
//! | staging | staging asked | staging started |
//! | staging, staging started | staged | submitted, or finished if nothing is copied |
//! | submitted, staging | held by ban | on hold, on hold for staging |
//! | on hold, on hold for staging | released | submitted, staging |
//! | not used | activated | where its [`Entry`] says |
//! | submitted | claimed | ready |
//! | ready | started | active |
//! | active | copied | finished, or archiving |
//! | archiving | archived | finished |
//! | ready, active | retry, worker lost, reset | submitted |
//! | staging started | retry, reset | staging |
//! | each that lives, but not used | failed | where it waits for the next attempt, or failed |
//! | not used | unused | canceled |
//! | each that lives | canceled | canceled |
//!
//! Source: FTS 3.14's state machine (`MySqlAPI.cpp`, `JobBuilder.py`). Beyond FTS: `retry` returns
//! a file without counting an attempt, because its link is held.

use std::fmt;

use crate::state::FileState;

/// Where a file enters the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Its tokens are prepared first.
    Tokens,
    /// It is brought online from tape first.
    Tape,
    /// It can be copied.
    Copy,
}

impl Entry {
    /// The state in which a file begins there.
    #[must_use]
    pub fn state(self) -> FileState {
        match self {
            Self::Tokens => FileState::TokenPreparation,
            Self::Tape => FileState::Staging,
            Self::Copy => FileState::Submitted,
        }
    }
}

/// What can happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileEvent {
    /// Its tokens can be used.
    TokensReady {
        /// Whether it is brought online from tape next.
        is_on_tape: bool,
    },
    /// The tape system has been asked for it.
    StagingAsked,
    /// It is on disk.
    Staged {
        /// Whether it was brought online only: source and destination are the same.
        is_last_step: bool,
    },
    /// A ban of one of its storages holds it. Files that run go on.
    HeldByBan,
    /// The ban ended.
    Released,
    /// A spare replica or the next hop is used now.
    Activated(Entry),
    /// A worker has it.
    Claimed,
    /// Its copy began.
    Started,
    /// Its copy is complete.
    Copied {
        /// Whether it must reach tape before it is done.
        archives: bool,
    },
    /// It is on tape.
    Archived,
    /// An attempt failed, or its time is over. Final in the wait for tape at the destination: the
    /// copy exists, and a second one would only meet it. While that wait goes on, an error of the
    /// tape system is no event: ask again.
    Failed {
        /// Whether a later attempt can succeed.
        is_recoverable: bool,
        /// Whether the job has attempts left.
        has_attempts: bool,
        /// Whether its time in the queue is over.
        is_expired: bool,
    },
    /// It is tried again, and no attempt is counted: its link is held, or its worker drains.
    Retry,
    /// Its user, an operator, or the end of its job cancels it.
    Canceled,
    /// It was a spare replica or a later hop, and its job ended without it.
    Unused,
    /// The lease of its worker ended. A request to a tape system outlives the worker.
    WorkerLost,
    /// It starts over, because it is unknown how far it got.
    Reset,
}

impl FileEvent {
    /// A short name for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TokensReady { .. } => "tokens_ready",
            Self::StagingAsked => "staging_asked",
            Self::Staged { .. } => "staged",
            Self::HeldByBan => "held_by_ban",
            Self::Released => "released",
            Self::Activated(_) => "activated",
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Copied { .. } => "copied",
            Self::Archived => "archived",
            Self::Failed { .. } => "failed",
            Self::Retry => "retry",
            Self::Canceled => "canceled",
            Self::Unused => "unused",
            Self::WorkerLost => "worker_lost",
            Self::Reset => "reset",
        }
    }
}

/// The event cannot happen in this state: another worker or the user was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The state of the file.
    pub state: FileState,
    /// What was reported.
    pub event: FileEvent,
}

impl fmt::Display for Impossible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (event, state) = (self.event.name(), self.state.fts_name());
        write!(formatter, "event {event} is impossible in state {state}")
    }
}

impl std::error::Error for Impossible {}

impl FileState {
    /// The state after an event.
    ///
    /// # Errors
    /// [`Impossible`] if the event cannot happen in this state; always in terminal states.
    pub fn after(self, event: FileEvent) -> Result<Self, Impossible> {
        let impossible = Impossible { state: self, event };
        if self.is_terminal() {
            return Err(impossible);
        }
        let next = match event {
            FileEvent::TokensReady { is_on_tape } => self.when_tokens_ready(is_on_tape),
            FileEvent::Staged { is_last_step } => self.when_staged(is_last_step),
            FileEvent::Activated(entry) => (self == Self::NotUsed).then(|| entry.state()),
            FileEvent::Copied { archives } => self.when_copied(archives),
            FileEvent::Failed {
                is_recoverable,
                has_attempts,
                is_expired,
            } => self.when_failed(is_recoverable && has_attempts && !is_expired),
            FileEvent::Canceled => Some(Self::Canceled),
            FileEvent::StagingAsked => self.moved(Self::Staging, Self::StagingStarted),
            FileEvent::Claimed => self.moved(Self::Submitted, Self::Ready),
            FileEvent::Started => self.moved(Self::Ready, Self::Active),
            FileEvent::Archived => self.moved(Self::Archiving, Self::Finished),
            FileEvent::Unused => self.moved(Self::NotUsed, Self::Canceled),
            FileEvent::HeldByBan => self.when_held(),
            FileEvent::Released => self.when_released(),
            FileEvent::WorkerLost => self.is_running().then_some(Self::Submitted),
            FileEvent::Retry | FileEvent::Reset => self.when_started_over(),
        };
        next.ok_or(impossible)
    }

    /// Whether a worker has it.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Ready | Self::Active)
    }

    fn moved(self, from: Self, to: Self) -> Option<Self> {
        (self == from).then_some(to)
    }

    fn when_tokens_ready(self, is_on_tape: bool) -> Option<Self> {
        let next = if is_on_tape { Self::Staging } else { Self::Submitted };
        self.moved(Self::TokenPreparation, next)
    }

    fn when_staged(self, is_last_step: bool) -> Option<Self> {
        let next = if is_last_step { Self::Finished } else { Self::Submitted };
        matches!(self, Self::Staging | Self::StagingStarted).then_some(next)
    }

    fn when_copied(self, archives: bool) -> Option<Self> {
        let next = if archives { Self::Archiving } else { Self::Finished };
        self.moved(Self::Active, next)
    }

    fn when_held(self) -> Option<Self> {
        match self {
            Self::Submitted => Some(Self::OnHold),
            Self::Staging => Some(Self::OnHoldStaging),
            _ => None,
        }
    }

    fn when_released(self) -> Option<Self> {
        match self {
            Self::OnHold => Some(Self::Submitted),
            Self::OnHoldStaging => Some(Self::Staging),
            _ => None,
        }
    }

    fn when_started_over(self) -> Option<Self> {
        match self {
            Self::Ready | Self::Active => Some(Self::Submitted),
            Self::StagingStarted => Some(Self::Staging),
            _ => None,
        }
    }

    /// A file that waits goes on waiting where it is; one that ran waits again.
    fn when_failed(self, tries_again: bool) -> Option<Self> {
        match self {
            Self::NotUsed => None,
            Self::Archiving => Some(Self::Failed),
            _ if !tries_again => Some(Self::Failed),
            _ => Some(self.when_started_over().unwrap_or(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: &str = "TGgSHhNRAVFEC";

    /// One column per state, in the order of `FileState::ALL`; a point stands for impossible.
    fn table() -> Vec<(FileEvent, &'static str)> {
        let failed = |is_recoverable, has_attempts, is_expired| FileEvent::Failed {
            is_recoverable,
            has_attempts,
            is_expired,
        };
        vec![
            //                                                  TGgSHhNRAVFEC
            (FileEvent::TokensReady { is_on_tape: false }, /**/ "S............"),
            (FileEvent::TokensReady { is_on_tape: true }, /* */ "G............"),
            (FileEvent::StagingAsked, /*                     */ ".g..........."),
            (FileEvent::Staged { is_last_step: false }, /*   */ ".SS.........."),
            (FileEvent::Staged { is_last_step: true }, /*    */ ".FF.........."),
            (FileEvent::HeldByBan, /*                        */ ".h.H........."),
            (FileEvent::Released, /*                         */ "....SG......."),
            (FileEvent::Activated(Entry::Tokens), /*         */ "......T......"),
            (FileEvent::Activated(Entry::Tape), /*           */ "......G......"),
            (FileEvent::Activated(Entry::Copy), /*           */ "......S......"),
            (FileEvent::Claimed, /*                          */ "...R........."),
            (FileEvent::Started, /*                          */ ".......A....."),
            (FileEvent::Copied { archives: false }, /*       */ "........F...."),
            (FileEvent::Copied { archives: true }, /*        */ "........V...."),
            (FileEvent::Archived, /*                         */ ".........F..."),
            (failed(true, true, false), /*                   */ "TGGSHh.SSE..."),
            (failed(false, true, false), /*                  */ "EEEEEE.EEE..."),
            (failed(true, false, false), /*                  */ "EEEEEE.EEE..."),
            (failed(true, true, true), /*                    */ "EEEEEE.EEE..."),
            (failed(false, false, true), /*                  */ "EEEEEE.EEE..."),
            (FileEvent::Retry, /*                            */ "..G....SS...."),
            (FileEvent::Canceled, /*                         */ "CCCCCCCCCC..."),
            (FileEvent::Unused, /*                           */ "......C......"),
            (FileEvent::WorkerLost, /*                       */ ".......SS...."),
            (FileEvent::Reset, /*                            */ "..G....SS...."),
        ]
    }

    #[test]
    fn each_event_leads_from_each_state_where_the_table_says() {
        for (event, row) in table() {
            for (state, expected) in FileState::ALL.into_iter().zip(row.chars()) {
                let next = state.after(event);
                match STATES.find(expected) {
                    Some(place) => assert_eq!(next, Ok(FileState::ALL[place]), "{state:?} {event:?}"),
                    None => assert_eq!(next, Err(Impossible { state, event }), "{state:?} {event:?}"),
                }
            }
        }
    }

    #[test]
    fn terminal_states_are_immutable() {
        for state in FileState::ALL.into_iter().filter(|state| state.is_terminal()) {
            for (event, _) in table() {
                assert!(state.after(event).is_err(), "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn an_impossible_event_names_state_and_event() {
        let impossible = FileState::Finished.after(FileEvent::Claimed).unwrap_err();
        assert_eq!(impossible.to_string(), "event claimed is impossible in state FINISHED");
    }
}
