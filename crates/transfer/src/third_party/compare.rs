//! Comparing the two sides of a copy that servers have made. Neither protocol says what the destination compared by itself,
//! and a destination that came with a key may not ask every source: the client that ordered the copy asks both.

use remote::{Facts, Resource};
use storage::Overwrite;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::{ThirdParty, ThirdPartyOutcome};
use crate::engine::refuses_to_tell;
use crate::options::Verified;

/// What servers are asked for, the commonest first.
pub(super) const COMMON: [ChecksumAlgorithm; 3] = [
    ChecksumAlgorithm::Adler32,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Md5,
];

impl ThirdParty<'_> {
    /// Compares the stored file with the source: by size alone where one side has no checksum to
    /// offer, and where the caller compares.
    ///
    /// # Errors
    /// `peer_size_differs`, `checksum_mismatch`. What is wrong is removed when the copy made it.
    pub(super) async fn compare(&self) -> Result<ThirdPartyOutcome> {
        self.progress.enter(Phase::Checksum);
        let compared = self.compare_sides().await;
        if let Err(error) = &compared
            && matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers)
            && self.order.overwrite == Overwrite::Refuse
        {
            self.progress.enter(Phase::Cleanup);
            let _ = self.client.delete(self.destination).await;
        }
        let outcome = compared?;
        self.progress.set_moved(outcome.bytes);
        Ok(outcome)
    }

    async fn compare_sides(&self) -> Result<ThirdPartyOutcome> {
        let wanted: &[_] = if self.compares { &COMMON } else { &[] };
        let (theirs, stored) = tokio::join!(self.sums(self.source, wanted), self.stored(wanted));
        let stored = stored?;
        let bytes = self.check_size(stored.as_ref())?;
        let agreed = |verified| ThirdPartyOutcome {
            bytes,
            verified,
            lost: None,
        };
        let Some(declared) = theirs.first() else {
            return Ok(agreed(Verified::SizeOnly));
        };
        let stored = stored.map(|facts| facts.checksums).unwrap_or_default();
        let stored = match same_kind(&stored, declared) {
            None => same_kind(&self.sums(self.destination, &[declared.algorithm()]).await, declared),
            found => found,
        };
        match stored {
            Some(stored) if stored != *declared => {
                let error = Error::new(ErrorCode::ChecksumMismatch, Side::Destination, Phase::Checksum);
                let detail = format!("{stored} is stored there, the source declares {declared}");
                Err(error.with_detail(detail).with_subject(&self.destination.location))
            }
            Some(stored) => Ok(agreed(Verified::Agreed(stored))),
            None => Ok(agreed(Verified::SizeOnly)),
        }
    }

    /// The checksums that a side tells; none where it tells none, for whatever reason.
    pub(super) async fn sums(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Vec<Checksum> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let facts = self.client.head(file, wanted).await;
        facts.map(|facts| facts.checksums).unwrap_or_default()
    }

    /// What is stored at the destination; `None` where that may not be asked.
    async fn stored(&self, wanted: &[ChecksumAlgorithm]) -> Result<Option<Facts>> {
        let (client, target) = (self.client, self.destination);
        let found = match client.head(target, wanted).await {
            // It may be that only the checksum takes too long.
            Err(error) if error.peer_status().is_none() && !wanted.is_empty() => client.head(target, &[]).await,
            found => found,
        };
        match found {
            Ok(facts) => Ok(Some(facts)),
            // Writing may be allowed where looking is not.
            Err(error) if refuses_to_tell(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A server may say that all went well and still have less: its answer is not all that counts.
    fn check_size(&self, stored: Option<&Facts>) -> Result<u64> {
        match (stored.and_then(|facts| facts.size_bytes), self.progress.total_bytes()) {
            (Some(stored), Some(wanted)) if stored != wanted => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
                let detail = format!("{stored} bytes are stored there, the source has {wanted}");
                Err(error.with_detail(detail).with_subject(&self.destination.location))
            }
            (stored, wanted) => Ok(stored.or(wanted).unwrap_or(self.progress.moved_bytes())),
        }
    }
}

/// The checksum of the same algorithm.
pub(super) fn same_kind(sums: &[Checksum], wanted: &Checksum) -> Option<Checksum> {
    sums.iter().find(|sum| sum.algorithm() == wanted.algorithm()).cloned()
}
