//! One request at a tape system: where its files are, and what is to be asked next.

use std::collections::BTreeMap;

use ::remote::StageState;
use catalog::{StageMember, StageRequest, StorageUser};
use schedule::{FileId, FileState};

use super::Pace;
use crate::clock::has_come;
use crate::limits::{TAPE_FAREWELLS_MAX, TAPE_POLL_MAX};

/// What the tape system still has to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is bringing it online.
    Asked,
    /// It is on disk, and its copy is not done.
    Staged,
    /// It was canceled here, or its time is over: the tape system does not know yet.
    ToCancel,
    /// It was copied, or is no longer needed: the tape system does not know yet.
    ToRelease,
    /// Nothing.
    Done,
}

/// What is asked about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// How far these files are.
    States(Vec<StageMember>),
    /// To give these files up.
    Cancel {
        /// The files.
        members: Vec<StageMember>,
        /// Nothing else of the request is awaited.
        is_rest: bool,
    },
    /// To let go of these files.
    Release(Vec<StageMember>),
}

impl Question {
    /// The files that it is about.
    pub(super) fn members(&self) -> &[StageMember] {
        let (Self::States(members) | Self::Cancel { members, .. } | Self::Release(members)) = self;
        members
    }
}

/// What an answer means for a file here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is on disk.
    Staged {
        /// Whether it is only brought online, and not copied.
        is_last_step: bool,
    },
    /// It will not come, for this reason.
    Failed(String),
    /// It did not come in time.
    Expired,
}

/// A request that is open.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) request: StageRequest,
    /// Whose files it has.
    pub(super) user: String,
    standings: BTreeMap<FileId, Standing>,
    next_poll_ms: i64,
    /// A question is under way.
    is_asked: bool,
    /// Refusals in a row of questions for states.
    pub(super) refusals: u32,
    /// Attempts in a row to cancel or release that failed.
    farewells: u32,
}

impl Batch {
    /// A request that was just made, or found in the catalog with these states of its files.
    pub(super) fn new(request: StageRequest, user: String, states: &[Option<FileState>], pace: Pace) -> Self {
        let members = request.members.iter().zip(states);
        let standings = members.map(|(member, state)| (member.file, standing(member, *state)));
        Self {
            standings: standings.collect(),
            // One that was found in the catalog is asked at once.
            next_poll_ms: request.asked_ms + pace.pause_ms(0),
            is_asked: false,
            refusals: 0,
            farewells: 0,
            request,
            user,
        }
    }

    /// Whose files it has, and where.
    pub(super) fn whose(&self) -> StorageUser {
        StorageUser {
            storage: self.request.storage.clone(),
            user: self.user.clone(),
        }
    }

    /// A file is in this state now.
    pub(super) fn note(&mut self, file: FileId, state: FileState) {
        let member = self.request.members.iter().find(|member| member.file == file);
        let (Some(standing), Some(member)) = (self.standings.get_mut(&file), member) else {
            return;
        };
        *standing = match *standing {
            // Of other states the news may be older than what is known here.
            Standing::Asked if state.is_terminal() => Standing::ToCancel,
            Standing::Staged if state == FileState::Archiving || state.is_terminal() => {
                if member.is_last_step {
                    Standing::Done
                } else {
                    Standing::ToRelease
                }
            }
            unchanged => unchanged,
        };
    }

    /// A verdict was stored: `state` is what the file is now; `None` if it was no longer ours.
    pub(super) fn settle(&mut self, file: FileId, verdict: &Verdict, state: Option<FileState>) {
        let next = match (verdict, state) {
            (Verdict::Staged { is_last_step: true }, _) => Standing::Done,
            (Verdict::Staged { .. }, Some(_)) => Standing::Staged,
            // It was canceled meanwhile, and is on disk.
            (Verdict::Staged { .. }, None) => Standing::ToRelease,
            (Verdict::Failed(_), _) => Standing::Done,
            (Verdict::Expired, _) => Standing::ToCancel,
        };
        self.standings.insert(file, next);
    }

    /// What is to be asked now; `None`: nothing, or a question is under way.
    pub(super) fn question(&mut self, now_ms: i64) -> Option<Question> {
        if self.is_asked {
            return None;
        }
        let canceled = self.members_that_are(Standing::ToCancel);
        let released = self.members_that_are(Standing::ToRelease);
        let asked = self.members_that_are(Standing::Asked);
        let question = match () {
            () if !canceled.is_empty() => Question::Cancel {
                is_rest: asked.is_empty(),
                members: canceled,
            },
            () if !released.is_empty() => Question::Release(released),
            () if !asked.is_empty() && self.is_poll_due(now_ms) => Question::States(asked),
            () => return None,
        };
        self.is_asked = true;
        Some(question)
    }

    /// Whether there is a question now: the time since which it waits.
    pub(super) fn asks_since_ms(&self, now_ms: i64) -> Option<i64> {
        let is_due = |standing: &Standing| match standing {
            Standing::ToCancel | Standing::ToRelease => true,
            Standing::Asked => self.is_poll_due(now_ms),
            Standing::Staged | Standing::Done => false,
        };
        let asks = !self.is_asked && self.standings.values().any(is_due);
        asks.then_some(self.next_poll_ms)
    }

    fn is_poll_due(&self, now_ms: i64) -> bool {
        has_come(self.next_poll_ms, now_ms, TAPE_POLL_MAX)
    }

    fn members_that_are(&self, standing: Standing) -> Vec<StageMember> {
        let members = self.request.members.iter();
        members
            .filter(|member| self.standings.get(&member.file) == Some(&standing))
            .cloned()
            .collect()
    }

    /// The answer about states has come, or failed.
    pub(super) fn answered(&mut self, pace: Pace, now_ms: i64) {
        self.is_asked = false;
        self.next_poll_ms = now_ms + pace.pause_ms(now_ms - self.request.asked_ms);
    }

    /// The tape system has been told, or not.
    pub(super) fn told(&mut self, question: &Question, is_heard: bool) {
        self.is_asked = false;
        self.farewells = if is_heard { 0 } else { self.farewells + 1 };
        if is_heard || self.farewells >= TAPE_FAREWELLS_MAX {
            for member in question.members() {
                self.standings.insert(member.file, Standing::Done);
            }
            self.farewells = 0;
        }
    }

    /// Files whose time is over.
    pub(super) fn expired(&self, now_ms: i64) -> Vec<StageMember> {
        let mut waiting = self.members_that_are(Standing::Asked);
        waiting.retain(|member| member.expires_ms <= now_ms);
        waiting
    }

    /// Nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        !self.is_asked && self.standings.values().all(|standing| *standing == Standing::Done)
    }

    /// The files that it still follows.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        self.standings.keys().copied()
    }

    /// When it has to be looked at without any news.
    pub(super) fn next_ms(&self) -> Option<i64> {
        let asked = self.members_that_are(Standing::Asked);
        let expiry = asked.iter().map(|member| member.expires_ms).min()?;
        Some(expiry.min(if self.is_asked { i64::MAX } else { self.next_poll_ms }))
    }
}

/// Where a file is that has this state in the catalog.
fn standing(member: &StageMember, state: Option<FileState>) -> Standing {
    match state {
        Some(FileState::StagingStarted) => Standing::Asked,
        // It waits to be asked for again; a request for it is not this one.
        None | Some(FileState::Staging | FileState::OnHoldStaging) => Standing::Done,
        Some(FileState::Submitted | FileState::OnHold | FileState::Ready | FileState::Active) => Standing::Staged,
        Some(FileState::Finished) if member.is_last_step => Standing::Done,
        // It is unknown whether it was on disk: to cancel does for both.
        Some(FileState::Failed | FileState::Canceled) => Standing::ToCancel,
        Some(_) => Standing::ToRelease,
    }
}

/// What the answer about a file means.
pub(super) fn verdict(member: &StageMember, state: StageState) -> Option<Verdict> {
    match state {
        StageState::Waiting | StageState::Started => None,
        StageState::OnDisk => Some(Verdict::Staged {
            is_last_step: member.is_last_step,
        }),
        StageState::Canceled => Some(Verdict::Failed("the tape system has canceled the request".to_owned())),
        StageState::Failed(words) | StageState::Missing(words) => Some(Verdict::Failed(words)),
    }
}

#[cfg(test)]
mod tests;
