//! What the destination has of an attempt whose worker was lost before it stored the end.
//!
//! The last byte may have arrived, so the file would be copied for nothing, or fail because it
//! exists. A file counts as ours only if an attempt of this file had begun: an equal file of
//! another client is no success of a job that may not overwrite.

use catalog::ChecksumMode;
use remote::{Facts, Resource};
use transfer::remove_part;
use types::Checksum;

use super::{Attempt, in_time};

/// A file that the destination has whole.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) size_bytes: u64,
    /// The checksum of both sides; `None`: the job compares none, and the sides gave none.
    pub(super) checksum: Option<Checksum>,
}

impl Attempt<'_> {
    /// Looks whether an existing destination is the work of an attempt that was lost. Returns the
    /// whole file, or else what is at the destination after a part of ours was removed.
    pub(super) async fn look_at_lost_copy(
        &self,
        source: &Facts,
        expected: Option<&Checksum>,
        found: Facts,
    ) -> (Option<Whole>, Option<Facts>) {
        if !self.claimed.file.is_interrupted {
            return (None, Some(found));
        }
        if let Some(whole) = self.compare_lost_copy(source, expected, &found).await {
            self.progress.set_total(whole.size_bytes);
            return (Some(whole), None);
        }
        match self.remove_lost_part(source).await {
            true => (None, None),
            false => (None, Some(found)),
        }
    }

    /// The file, if it has the source's size and checksum. Without a checksum of one side, the size
    /// is enough only for a job that does not compare the destination's: some servers reserve the
    /// whole size before the data.
    async fn compare_lost_copy(&self, source: &Facts, expected: Option<&Checksum>, found: &Facts) -> Option<Whole> {
        let size_bytes = found.size_bytes.filter(|size| source.size_bytes == Some(*size))?;
        let wanted = match expected {
            Some(expected) => Some(expected.clone()),
            None => self.checksum_of(&self.source).await,
        };
        let stored = self.checksum_of(&self.destination).await;
        let compares = matches!(self.order.checksum.mode, ChecksumMode::Target | ChecksumMode::Both);
        match (wanted, stored) {
            (Some(wanted), Some(stored)) => (wanted == stored).then_some(Whole {
                size_bytes,
                checksum: Some(stored),
            }),
            _ if compares => None,
            _ => Some(Whole {
                size_bytes,
                checksum: None,
            }),
        }
    }

    async fn checksum_of(&self, file: &Resource) -> Option<Checksum> {
        let algorithm = self.order.checksum.algorithm;
        let asked = in_time(file, self.copier.client.head(file, &[algorithm])).await;
        let sums = asked.ok()?.checksums;
        sums.into_iter().find(|sum| sum.algorithm() == algorithm)
    }

    /// Removes a part of the file. Bytes of it had moved, and the job may not overwrite: so the
    /// lost attempt had found no file there. The content has to prove the rest.
    async fn remove_lost_part(&self, source: &Facts) -> bool {
        let hop = self.claimed.file.hop.as_ref();
        // The bytes are those of the copy to the hop if that was made again since.
        let is_of_another = hop.is_some_and(|hop| hop.destination_interrupted);
        let had_begun = self.claimed.file.moved_bytes > 0 && !is_of_another;
        if self.order.overwrites || !had_begun {
            return false;
        }
        remove_part(&self.copier.client, &self.source, &self.destination, source.size_bytes).await;
        matches!(self.ask_destination().await, Ok(None))
    }
}
