//! The state of a job from the states of its files, and what the end of a file does to the rest.
//!
//! Source: FTS 3.14, `updateJobTransferStatusInternal`, read and tabulated in the tests.

use serde::{Deserialize, Serialize};

use crate::state::{FileState, JobKind, JobState};

/// How many files of a job are in which group of states, as kept on the job's row.
///
/// FTS counts distinct file indices. Here files are counted, which is the same: replicas, the only
/// files that share an index, exist only in [`JobKind::MultiSource`], whose files are all one
/// index, and [`JobTally::state`] counts that index once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobTally {
    /// Wait for tape before the copy.
    pub staging: u32,
    /// Wait for tokens, their turn, a retry, or the end of a ban.
    pub waiting: u32,
    /// Spare replicas and later hops.
    pub unused: u32,
    /// Claimed or being copied.
    pub running: u32,
    /// Wait for tape after the copy.
    pub archiving: u32,
    /// Done.
    pub finished: u32,
    /// Given up.
    pub failed: u32,
    /// Canceled.
    pub canceled: u32,
}

impl JobTally {
    /// Counts the files of a job.
    #[must_use]
    pub fn of(states: impl IntoIterator<Item = FileState>) -> Self {
        let mut tally = Self::default();
        for state in states {
            *tally.count_mut(state) += 1;
        }
        tally
    }

    /// Moves one file from a state to another.
    pub fn move_file(&mut self, from: FileState, to: FileState) {
        let count = self.count_mut(from);
        *count = count.saturating_sub(1);
        *self.count_mut(to) += 1;
    }

    fn count_mut(&mut self, state: FileState) -> &mut u32 {
        match state {
            FileState::Staging | FileState::StagingStarted | FileState::OnHoldStaging => &mut self.staging,
            FileState::TokenPreparation | FileState::Submitted | FileState::OnHold => &mut self.waiting,
            FileState::NotUsed => &mut self.unused,
            FileState::Ready | FileState::Active => &mut self.running,
            FileState::Archiving => &mut self.archiving,
            FileState::Finished => &mut self.finished,
            FileState::Failed => &mut self.failed,
            FileState::Canceled => &mut self.canceled,
        }
    }

    /// The state of the job, once the [`Consequence`] of its last change has been applied.
    ///
    /// * A multi-source job is finished with its first finished replica, failed when all replicas
    ///   have ended and one of them failed, and canceled only if all are canceled.
    /// * A chain fails with the first hop that fails.
    /// * Else, when all have ended: finished if all are, `FinishedDirty` if some are and some
    ///   failed, failed if some failed and none is finished, and otherwise canceled.
    /// * A job without files is finished.
    #[must_use]
    pub fn state(&self, kind: JobKind) -> JobState {
        if self.has_ended(kind) {
            self.last_state(kind)
        } else if self.is_only_archiving() {
            JobState::Archiving
        } else if self.has_begun() {
            JobState::Active
        } else if self.staging > 0 {
            JobState::Staging
        } else {
            JobState::Submitted
        }
    }

    fn is_only_archiving(&self) -> bool {
        self.archiving > 0 && self.staging + self.waiting + self.running == 0
    }

    fn has_begun(&self) -> bool {
        self.running + self.archiving + self.finished + self.failed + self.canceled > 0
    }

    fn has_ended(&self, kind: JobKind) -> bool {
        let live = self.staging + self.waiting + self.running + self.archiving;
        match kind {
            JobKind::MultiSource => self.finished > 0 || live + self.unused == 0,
            JobKind::Multihop => self.failed > 0 || self.canceled > 0 || live + self.unused == 0,
            JobKind::Normal | JobKind::SessionReuse => live + self.unused == 0,
        }
    }

    fn last_state(&self, kind: JobKind) -> JobState {
        match kind {
            JobKind::MultiSource if self.finished > 0 => JobState::Finished,
            JobKind::Multihop if self.failed > 0 => JobState::Failed,

            _ if self.failed > 0 && self.finished > 0 => JobState::FinishedDirty,
            _ if self.failed > 0 => JobState::Failed,
            _ if self.canceled > 0 => JobState::Canceled,
            _ => JobState::Finished,
        }
    }
}

/// What happens to the rest of a job when one of its files ends. Applied in the transaction that
/// ends the file, before [`JobTally::state`] is read. A job that is canceled as a whole has no
/// consequences: each of its files is canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consequence {
    /// Nothing.
    Nothing,
    /// The next spare replica is used: the first in the order of `selection`.
    ActivateNextReplica,
    /// The next hop is used: the unused file with the lowest index.
    ActivateNextHop,
    /// The files that are not used yet are canceled, with this reason. Where a file failed, the
    /// job fails with it.
    CancelUnused(Unused),
}

/// Why files are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unused {
    /// A hop before them failed.
    HopFailed,
    /// A hop before them was canceled.
    HopCanceled,
    /// Another replica was copied, but did not reach tape.
    ArchivingFailed,
}

impl Unused {
    /// The reason of the canceled file.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::HopFailed => "not used: a previous hop failed",
            Self::HopCanceled => "not used: a previous hop was canceled",
            Self::ArchivingFailed => "not used: another replica was copied, but did not reach tape",
        }
    }
}

impl Consequence {
    /// What follows when a file of a job goes from one state to another.
    ///
    /// Spare replicas stay unused when another one has finished: Rucio takes a canceled file of a
    /// finished job for a failure, and an unused one for success. Unused hops are canceled, since
    /// DIRAC takes a job that has ended with files that have not for an error.
    #[must_use]
    pub fn of(kind: JobKind, from: FileState, to: FileState, after: &JobTally) -> Self {
        if after.unused == 0 || !to.is_terminal() {
            return Self::Nothing;
        }
        match (kind, to) {
            (JobKind::MultiSource, FileState::Failed) if from == FileState::Archiving => {
                Self::CancelUnused(Unused::ArchivingFailed)
            }
            (JobKind::MultiSource, FileState::Failed | FileState::Canceled) => Self::ActivateNextReplica,
            (JobKind::Multihop, FileState::Finished) => Self::ActivateNextHop,
            (JobKind::Multihop, FileState::Failed) => Self::CancelUnused(Unused::HopFailed),
            (JobKind::Multihop, FileState::Canceled) => Self::CancelUnused(Unused::HopCanceled),
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{Entry, FileEvent};
    use FileState::{
        Active, Archiving, Canceled, Failed, Finished, NotUsed, OnHold, Ready, Staging, StagingStarted, Submitted,
    };

    #[test]
    fn a_job_has_the_state_that_fts_gives_it() {
        let table: [(JobKind, &[FileState], JobState); 30] = [
            (JobKind::Normal, &[], JobState::Finished),
            (JobKind::Normal, &[Submitted, Submitted], JobState::Submitted),
            (JobKind::Normal, &[OnHold], JobState::Submitted),
            (JobKind::Normal, &[Staging, Submitted], JobState::Staging),
            (JobKind::Normal, &[StagingStarted], JobState::Staging),
            (JobKind::Normal, &[Staging, Active], JobState::Active),
            (JobKind::Normal, &[Ready, Submitted], JobState::Active),
            (JobKind::Normal, &[Finished, Submitted], JobState::Active),
            (JobKind::Normal, &[Failed, Submitted], JobState::Active),
            (JobKind::Normal, &[Archiving, Submitted], JobState::Active),
            (JobKind::Normal, &[Archiving, Archiving], JobState::Archiving),
            (JobKind::Normal, &[Archiving, Failed], JobState::Archiving),
            (JobKind::Normal, &[Archiving, Finished], JobState::Archiving),
            (JobKind::Normal, &[Finished, Finished], JobState::Finished),
            (JobKind::Normal, &[Finished, Failed], JobState::FinishedDirty),
            (JobKind::Normal, &[Finished, Failed, Canceled], JobState::FinishedDirty),
            (JobKind::Normal, &[Finished, Canceled], JobState::Canceled),
            (JobKind::Normal, &[Failed, Canceled], JobState::Failed),
            (JobKind::Normal, &[Failed], JobState::Failed),
            (JobKind::SessionReuse, &[Finished, Failed], JobState::FinishedDirty),
            (JobKind::MultiSource, &[Failed, Finished, NotUsed], JobState::Finished),
            (JobKind::MultiSource, &[Canceled, Finished], JobState::Finished),
            (JobKind::MultiSource, &[Failed, Canceled], JobState::Failed),
            (JobKind::MultiSource, &[Canceled, Canceled], JobState::Canceled),
            (JobKind::MultiSource, &[Failed, Submitted], JobState::Active),
            (JobKind::MultiSource, &[Archiving, NotUsed], JobState::Archiving),
            (JobKind::Multihop, &[Submitted, NotUsed], JobState::Submitted),
            (JobKind::Multihop, &[Finished, Submitted], JobState::Active),
            (JobKind::Multihop, &[Finished, Failed, Canceled], JobState::Failed),
            (JobKind::Multihop, &[Finished, Canceled], JobState::Canceled),
        ];
        for (kind, files, expected) in table {
            let tally = JobTally::of(files.iter().copied());
            assert_eq!(tally.state(kind), expected, "{kind:?} {files:?}");
        }
    }

    /// A job of the kind, with the first of three files queued; plays one event after the other
    /// on the only file that lives, with what follows from it.
    fn play(kind: JobKind, events: &[FileEvent]) -> (Vec<FileState>, JobState) {
        let mut files = vec![Submitted, NotUsed, NotUsed];
        let mut tally = JobTally::of(files.iter().copied());
        for event in events {
            let live = |state: &FileState| !state.is_terminal() && *state != NotUsed;
            let place = files.iter().position(live).expect("one file lives");
            let from = files[place];
            files[place] = from.after(*event).unwrap();
            tally.move_file(from, files[place]);
            let (follows, all) = match Consequence::of(kind, from, files[place], &tally) {
                Consequence::Nothing => continue,
                Consequence::CancelUnused(_) => (FileEvent::Unused, true),
                _ => (FileEvent::Activated(Entry::Copy), false),
            };
            let count = if all { files.len() } else { 1 };
            for file in files.iter_mut().filter(|state| **state == NotUsed).take(count) {
                let next = file.after(follows).unwrap();
                tally.move_file(*file, next);
                *file = next;
            }
        }
        assert_eq!(tally, JobTally::of(files.iter().copied()));
        (files, tally.state(kind))
    }

    const FAILED: FileEvent = FileEvent::Failed {
        is_recoverable: false,
        has_attempts: true,
        is_expired: false,
    };
    const RUN: [FileEvent; 3] = [
        FileEvent::Claimed,
        FileEvent::Started,
        FileEvent::Copied { archives: false },
    ];

    #[test]
    fn replicas_are_tried_in_order_until_one_is_copied() {
        let events = [&[FAILED], RUN.as_slice()].concat();
        let (files, job) = play(JobKind::MultiSource, &events);
        assert_eq!((files, job), (vec![Failed, Finished, NotUsed], JobState::Finished));

        let (files, job) = play(JobKind::MultiSource, &[FAILED, FileEvent::Canceled, FAILED]);
        assert_eq!((files, job), (vec![Failed, Canceled, Failed], JobState::Failed));
    }

    #[test]
    fn a_replica_that_does_not_reach_tape_fails_its_job() {
        let to_tape = FileEvent::Copied { archives: true };
        let events = [FileEvent::Claimed, FileEvent::Started, to_tape, FAILED];
        let (files, job) = play(JobKind::MultiSource, &events);
        assert_eq!((files, job), (vec![Failed, Canceled, Canceled], JobState::Failed));
    }

    #[test]
    fn hops_follow_each_other_and_end_with_the_first_that_fails() {
        let (files, job) = play(JobKind::Multihop, &RUN.repeat(3));
        assert_eq!((files, job), (vec![Finished; 3], JobState::Finished));

        let events = [RUN.as_slice(), &[FAILED]].concat();
        let (files, job) = play(JobKind::Multihop, &events);
        assert_eq!((files, job), (vec![Finished, Failed, Canceled], JobState::Failed));

        let (files, job) = play(JobKind::Multihop, &[FileEvent::Canceled]);
        assert_eq!((files, job), (vec![Canceled; 3], JobState::Canceled));
    }
}
