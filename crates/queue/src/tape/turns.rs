//! Whose turn it is: which storages are asked next, for which users, and how many at once.
//!
//! The places for calls are shared by users: each may take as many as are left for the others, so
//! the storages of one user cannot take them all. A storage that has not shown yet that it answers
//! is tried in a part of the places, with one call at a time: those that answer never wait behind
//! those that do not. Among equals, the one that was not asked for the longest time comes first.
//!
//! A storage without an answer is left alone for a while, which doubles each time. A refusal with
//! a status concerns the user only, as does silence while others get answers: the storage is asked
//! for the others.

use std::collections::HashMap;
use std::time::Duration;

use catalog::StorageUser;
use types::{Error, ErrorCode};

use super::Pace;
use crate::clock::{has_come, milliseconds};
use crate::limits::{
    STORAGE_TAPE_CALLS_MAX, TAPE_CALLS_MAX, TAPE_HOLD_DOUBLINGS_MAX, TAPE_HOLD_TIME, TAPE_TRIALS_MAX, TAPE_TURNS_MAX,
};
use crate::share;

/// What a call is for. A refusal of one leaves the other alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// About the files that wait: one call at a time.
    Files,
    /// About a request that is open.
    States,
}

/// A call to a storage's tape system, for files of one user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) whose: StorageUser,
    pub(super) purpose: Purpose,
}

/// What a call has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The storage has answered.
    Answered,
    /// It has refused this user for now.
    Refused,
    /// It has not answered.
    Silent,
    /// It was not asked, because of the user's credentials or our database.
    NotAsked,
}

impl Outcome {
    /// What the error of a call shows that is made again.
    pub(super) fn of(error: &Error) -> Self {
        match error.code() {
            _ if error.peer_status().is_some() => Self::Refused,
            ErrorCode::PeerUnresolved
            | ErrorCode::PeerUnreachable
            | ErrorCode::PeerConnectTimeout
            | ErrorCode::PeerClosed
            | ErrorCode::PeerStalled
            | ErrorCode::OutcomeUnknown => Self::Silent,
            _ => Self::NotAsked,
        }
    }
}

/// A pause after failures in a row.
#[derive(Default)]
struct Pause {
    failures: u32,
    until_ms: i64,
}

impl Pause {
    fn is_on(&self, now_ms: i64) -> bool {
        let longest = TAPE_HOLD_TIME * 2u32.pow(TAPE_HOLD_DOUBLINGS_MAX);
        !has_come(self.until_ms, now_ms, longest)
    }

    /// Each failure doubles it. Calls that fail together count once.
    fn grow(&mut self, shortest: Duration, now_ms: i64) {
        if self.is_on(now_ms) {
            return;
        }
        let doublings = self.failures.min(TAPE_HOLD_DOUBLINGS_MAX);
        self.failures += 1;
        self.until_ms = now_ms + milliseconds(shortest * 2u32.pow(doublings));
    }
}

/// What is remembered of a storage.
#[derive(Default)]
struct Storage {
    /// When it answered, in milliseconds since 1970; `None`: it has been silent since.
    answered_ms: Option<i64>,
    pause: Pause,
}

/// What is remembered of a call.
#[derive(Default)]
struct Past {
    /// When it was last made, in milliseconds since 1970.
    asked_ms: i64,
    pause: Pause,
}

/// The calls that are under way, and what earlier ones have shown.
pub(super) struct Turns {
    /// The first pause after a failure.
    pause: Duration,
    running: Vec<Call>,
    storages: HashMap<String, Storage>,
    calls: HashMap<Call, Past>,
}

impl Turns {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pause: TAPE_HOLD_TIME.min(pace.longest),
            running: Vec::new(),
            storages: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    /// Puts what is wanted into the order in which it may begin.
    pub(super) fn sort<T>(&self, wanted: &mut [(Call, T)]) {
        wanted.sort_by_key(|(call, _)| self.calls.get(call).map(|past| past.asked_ms));
    }

    /// Whether a storage has shown that it answers.
    pub(super) fn answers(&self, storage: &str) -> bool {
        self.storages
            .get(storage)
            .is_some_and(|storage| storage.answered_ms.is_some())
    }

    /// Takes a place for a call, if there is one for it now.
    pub(super) fn begin(&mut self, call: &Call, now_ms: i64) -> bool {
        if !self.may_begin(call, now_ms) {
            return false;
        }
        self.forget(now_ms);
        self.running.push(call.clone());
        self.calls.entry(call.clone()).or_default().asked_ms = now_ms;
        true
    }

    fn may_begin(&self, call: &Call, now_ms: i64) -> bool {
        let StorageUser { storage, user } = &call.whose;
        if self
            .storages
            .get(storage)
            .is_some_and(|known| known.pause.is_on(now_ms))
            || self.calls.get(call).is_some_and(|past| past.pause.is_on(now_ms))
            || call.purpose == Purpose::Files && self.running.contains(call)
        {
            return false;
        }
        let has_share = |places: usize, counts: &dyn Fn(&&Call) -> bool| {
            let running = self.running.iter().filter(counts);
            share::is_left(places, running.map(|running| running.whose.user == *user))
        };
        let is_here = |running: &&Call| running.whose.storage == *storage;
        let is_trial = |running: &&Call| !self.answers(&running.whose.storage);
        let may_try = || !self.running.iter().any(|running| is_here(&running)) && has_share(TAPE_TRIALS_MAX, &is_trial);
        has_share(TAPE_CALLS_MAX, &|_| true)
            && has_share(STORAGE_TAPE_CALLS_MAX, &is_here)
            && (self.answers(storage) || may_try())
    }

    /// A call has ended.
    pub(super) fn end(&mut self, call: &Call) {
        if let Some(place) = self.running.iter().position(|running| running == call) {
            self.running.swap_remove(place);
        }
    }

    /// A call has shown this.
    pub(super) fn note(&mut self, call: &Call, outcome: Outcome, now_ms: i64) {
        let past = self.calls.entry(call.clone()).or_default();
        let storage = self.storages.entry(call.whose.storage.clone()).or_default();
        match outcome {
            Outcome::Answered | Outcome::Refused => {
                storage.answered_ms = Some(now_ms);
                storage.pause = Pause::default();
            }
            Outcome::Silent if storage.answered_ms.is_none_or(|at_ms| at_ms <= past.asked_ms) => {
                storage.answered_ms = None;
                storage.pause.grow(self.pause, now_ms);
            }
            Outcome::Silent | Outcome::NotAsked => {}
        }
        match outcome {
            Outcome::Answered => past.pause = Pause::default(),
            Outcome::Refused | Outcome::Silent | Outcome::NotAsked => past.pause.grow(self.pause, now_ms),
        }
    }

    /// Keeps the memory bounded. What is forgotten is asked as if it were new.
    fn forget(&mut self, now_ms: i64) {
        if self.storages.len() >= TAPE_TURNS_MAX {
            self.storages
                .retain(|_, known| known.answered_ms.is_some() || known.pause.is_on(now_ms));
        }
        if self.storages.len() >= TAPE_TURNS_MAX {
            self.storages.clear();
        }
        if self.calls.len() >= TAPE_TURNS_MAX {
            self.calls.retain(|_, past| past.pause.is_on(now_ms));
        }
        if self.calls.len() >= TAPE_TURNS_MAX {
            self.calls.clear();
        }
    }
}

#[cfg(test)]
mod tests;
