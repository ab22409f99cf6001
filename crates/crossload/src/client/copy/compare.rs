//! Comparing the two sides of a copy that servers have made. What the destination compared by itself is not told by either
//! protocol, and a destination that came with a key may not ask every source: the one who ordered the copy asks both.

use remote::{Facts, Resource};
use storage::Overwrite;
use transfer::refuses_to_tell;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::ways::Job;

/// What servers are asked for, the commonest first.
const COMMON: [ChecksumAlgorithm; 3] = [
    ChecksumAlgorithm::Adler32,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Md5,
];

impl Job<'_> {
    /// Compares what is stored at the destination with the source. Gives its size and the checksum that both have; no
    /// checksum where one of them tells none, and where the caller compares with what it expects.
    ///
    /// # Errors
    /// `peer_size_differs`, `checksum_mismatch`. What is wrong is removed when the copy made it.
    pub(super) async fn compare(&self, source: &Resource, target: &Resource) -> Result<(u64, Option<Checksum>)> {
        self.progress.enter(Phase::Checksum);
        let compared = self.compare_sides(source, target).await;
        if let Err(error) = &compared
            && matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers)
            && self.order.overwrite == Overwrite::Refuse
        {
            self.progress.enter(Phase::Cleanup);
            let _ = self.session.client.delete(target).await;
        }
        compared
    }

    async fn compare_sides(&self, source: &Resource, target: &Resource) -> Result<(u64, Option<Checksum>)> {
        // Where the user wants a checksum, it is compared before and after anyway.
        let wanted: &[_] = if self.options.checksum.is_some() { &[] } else { &COMMON };
        let (theirs, stored) = tokio::join!(self.sums(source, wanted), self.stored(target, wanted));
        let stored = stored?;
        let bytes = self.check_size(stored.as_ref(), target)?;
        let Some(declared) = theirs.first() else {
            return Ok((bytes, None));
        };
        let same = |sums: &[Checksum]| sums.iter().find(|sum| sum.algorithm() == declared.algorithm()).cloned();
        let stored = stored.map(|facts| facts.checksums).unwrap_or_default();
        let stored = match same(&stored) {
            None => same(&self.sums(target, &[declared.algorithm()]).await),
            found => found,
        };
        match stored {
            Some(stored) if stored != *declared => {
                let error = Error::new(ErrorCode::ChecksumMismatch, Side::Destination, Phase::Checksum);
                let detail = format!("{stored} is stored there, the source declares {declared}");
                Err(error.with_detail(detail).with_subject(&target.location))
            }
            stored => Ok((bytes, stored)),
        }
    }

    /// The checksums that a side tells; none where it tells none, for whatever reason.
    async fn sums(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Vec<Checksum> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let facts = self.session.client.head(file, wanted).await;
        facts.map(|facts| facts.checksums).unwrap_or_default()
    }

    /// What is stored at the destination; `None` where that may not be asked.
    async fn stored(&self, target: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Option<Facts>> {
        let client = &self.session.client;
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
    fn check_size(&self, stored: Option<&Facts>, target: &Resource) -> Result<u64> {
        match (stored.and_then(|facts| facts.size_bytes), self.progress.total_bytes()) {
            (Some(stored), Some(wanted)) if stored != wanted => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
                let detail = format!("{stored} bytes are stored there, the source has {wanted}");
                Err(error.with_detail(detail).with_subject(&target.location))
            }
            (stored, wanted) => Ok(stored.or(wanted).unwrap_or(self.progress.moved_bytes())),
        }
    }
}
