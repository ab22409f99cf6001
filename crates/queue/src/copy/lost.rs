//! What the destination has of an attempt whose worker was lost before it stored the end.
//!
//! The last byte may have arrived, so the file would be copied for nothing, or fail because it
//! exists. A file counts as ours only if an attempt of this file had begun, and both sides have the
//! same checksum: an equal file of another client is no success of a job that may not overwrite.
//!
//! Anything else stays. When the worker was lost is not known to the second, so nothing proves that
//! a part is its own: another client may have begun to store the same file since.

use remote::{Facts, Resource};
use types::{Checksum, Error};

use super::{Attempt, in_time};

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
    pub(super) fn with_lost_part(&self, refusal: Error, found: &Facts) -> Error {
        let file = &self.claimed.file;
        // The bytes are those of the copy to the hop if that was made again since.
        let is_of_another = file.hop.as_ref().is_some_and(|hop| hop.destination_interrupted);
        let may_be_ours = file.is_interrupted && file.moved_bytes > 0 && !is_of_another;
        match (may_be_ours, found.size_bytes) {
            (true, Some(bytes)) => refusal.with_detail(format!(
                "its {bytes} bytes may be a part that an earlier attempt left, whose worker was lost; nothing proves it"
            )),
            _ => refusal,
        }
    }
}
