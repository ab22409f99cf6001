//! What the destination has of an attempt whose worker was lost before it stored the end.
//!
//! The last byte may have arrived, so the file would be copied for nothing, or fail because it
//! exists. A file counts as ours only if an attempt of this file had begun, and both sides have the
//! same checksum: an equal file of another client is no success of a job that may not overwrite.
//!
//! Anything else stays. When the worker was lost is not known to the second, so nothing proves that
//! a part is its own: another client may have begun to store the same file since. But storages
//! remove parts whose client is gone, so the file waits for that some minutes before it fails.

use std::sync::atomic::Ordering;

use remote::{Facts, Resource};
use types::{Checksum, Error, ErrorCode};

use super::{Attempt, Before, in_time, problem};
use crate::clock::{milliseconds, now_ms};
use crate::limits::{LOST_PART_LOOKS_MAX, LOST_PART_PAUSE, LOST_PART_PAUSE_MAX};
use crate::service::CopyResult;

/// A file that the destination has whole.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) size_bytes: u64,
    /// The checksum of both sides.
    pub(super) checksum: Checksum,
}

impl Attempt<'_> {
    /// The existing file of the destination, if it is the whole work of an attempt that was lost:
    /// it has the source's size and checksum.
    pub(super) async fn look_at_lost_copy(
        &self,
        source: &Facts,
        expected: Option<&Checksum>,
        found: &Facts,
    ) -> Option<Whole> {
        if !self.claimed.file.is_interrupted {
            return None;
        }
        let size_bytes = found.size_bytes.filter(|size| source.size_bytes == Some(*size))?;
        let wanted = match expected {
            Some(expected) => expected.clone(),
            None => self.checksum_of(&self.source).await?,
        };
        let checksum = self.checksum_of(&self.destination).await?;
        self.progress.set_total(size_bytes);
        (wanted == checksum).then_some(Whole { size_bytes, checksum })
    }

    async fn checksum_of(&self, file: &Resource) -> Option<Checksum> {
        let algorithm = self.order.checksum.algorithm;
        let asked = in_time(file, self.copier.client.head(file, &[algorithm])).await;
        let sums = asked.ok()?.checksums;
        sums.into_iter().find(|sum| sum.algorithm() == algorithm)
    }

    /// The refusal to overwrite, with a word about a part that a lost attempt may have left.
    pub(super) fn with_lost_part(&self, refusal: Error, source: &Facts, found: &Facts) -> Error {
        let is_whole = found
            .size_bytes
            .zip(source.size_bytes)
            .is_some_and(|(found, whole)| found >= whole);
        self.has_lost_part.store(!is_whole, Ordering::Relaxed);
        match (self.may_have_left_part(), found.size_bytes) {
            (true, Some(bytes)) => refusal.with_detail(format!(
                "its {bytes} bytes may be a part that an earlier attempt left, whose worker was lost; nothing proves it"
            )),
            _ => refusal,
        }
    }

    /// Whether the destination's file may be a part that a lost attempt of this file left.
    fn may_have_left_part(&self) -> bool {
        let file = &self.claimed.file;
        // The bytes are those of the copy to the hop if that was made again since.
        let is_of_another = file.hop.as_ref().is_some_and(|hop| hop.destination_interrupted);
        file.is_interrupted && !is_of_another && self.has_lost_part.load(Ordering::Relaxed)
    }

    /// The wait for the next look, if an error says that the destination has a file that may be
    /// such a part: storages remove it when they notice that its client is gone, or minutes later.
    pub(super) fn wait_for_lost_part(&self, error: &Error) -> Option<CopyResult> {
        let looks = self.claimed.file.lost_part_looks.saturating_add(1);
        let exists = error.code() == ErrorCode::PeerExists && self.may_have_left_part();
        if !exists || looks >= LOST_PART_LOOKS_MAX {
            return None;
        }
        let pause = (LOST_PART_PAUSE * (1 << (looks - 1))).min(LOST_PART_PAUSE_MAX);
        let mut problem = problem(error);
        problem.is_recoverable = true;
        problem.reason.push_str(&format!(
            "; the storage may still remove it, so the next attempt looks again in {} s",
            pause.as_secs()
        ));
        Some(CopyResult::Remains {
            problem,
            until_ms: now_ms().saturating_add(milliseconds(pause)),
            looks,
        })
    }

    /// Removes what the copy left that was stopped, where its server named the file.
    pub(super) async fn remove_created(&self) {
        let before = Before::default();
        let order = self.engine_order(&before);
        self.between(&order, &before).remove_created().await;
    }
}
