//! Compares the two sides of a copy between servers. Neither protocol reports what the destination
//! has verified, and with a rendezvous key it may not be able to ask the source. So the client asks
//! both.

use std::slice;
use std::sync::OnceLock;
use std::time::Instant;

use remote::{Facts, Resource};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::{Comparison, ThirdParty, ThirdPartyOutcome};
use crate::engine::refuses_to_tell;
use crate::options::{Uncompared, Verified};

/// The algorithms to request, the most common first.
pub(super) const COMMON: [ChecksumAlgorithm; 3] = [
    ChecksumAlgorithm::Adler32,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Md5,
];

impl ThirdParty<'_> {
    /// Compares the file, stored at `stored_at`, with the source, or with what the order expects:
    /// by size only if there is no checksum to compare.
    ///
    /// # Errors
    /// `peer_size_differs`, `checksum_mismatch`. A wrong file is removed if it is proven ours.
    pub(super) async fn compare(&self, stored_at: Instant) -> Result<ThirdPartyOutcome> {
        self.progress.enter(Phase::Checksum);
        let wrong = OnceLock::new();
        let compared = self.compare_sides(&wrong).await;
        let is_wrong = |error: &Error| matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers);
        let outcome = match compared {
            Err(error) if is_wrong(&error) => {
                let whole_bytes = self.whole_bytes().await;
                let wrong = wrong.get().map(slice::from_ref).unwrap_or_default();
                return Err(self.clean_up(error, stored_at, whole_bytes, Some(wrong)).await);
            }
            compared => compared?,
        };
        self.progress.set_moved(outcome.bytes);
        Ok(outcome)
    }

    /// Compares, and notes a checksum of the destination that differs.
    async fn compare_sides(&self, wrong: &OnceLock<Checksum>) -> Result<ThirdPartyOutcome> {
        let expected = self.order.expected.as_slice();
        let own = expected.first().map(Checksum::algorithm);
        let (theirs, stored) = match self.compares {
            Comparison::Sides => tokio::join!(self.sums(self.source, &COMMON), self.stored(&COMMON)),
            Comparison::Expected => (expected.to_vec(), self.stored(own.as_slice()).await),
            Comparison::Size => (Vec::new(), self.stored(&[]).await),
        };
        let stored = stored?;
        let bytes = self.check_size(stored.as_ref())?;
        let agreed = |verified| ThirdPartyOutcome {
            bytes,
            verified,
            lost: None,
        };
        if theirs.is_empty() {
            return Ok(agreed(Verified::SizeOnly(match self.compares {
                Comparison::Sides => Uncompared::NoneAtSource,
                Comparison::Expected | Comparison::Size => Uncompared::NotAsked,
            })));
        }
        let stored = stored.map(|facts| facts.checksums).unwrap_or_default();
        match self.same_kind_of_both(&theirs, stored).await {
            Some((declared, stored)) if stored != declared => {
                let error = Error::new(ErrorCode::ChecksumMismatch, Side::Destination, Phase::Checksum);
                let detail = match self.compares {
                    Comparison::Expected => format!("it has {stored}, expected is {declared}"),
                    _ => format!("the source has {declared}, the destination {stored}"),
                };
                let _ = wrong.set(stored);
                Err(error.with_detail(detail).with_subject(&self.destination.location))
            }
            Some((_, stored)) => Ok(agreed(Verified::Agreed(stored))),
            None => Ok(agreed(Verified::SizeOnly(Uncompared::NoneAtDestination))),
        }
    }

    /// Checksums of one algorithm, of the source and of the destination. A server that is asked for
    /// several tells one, and an object store only those that it keeps, so each side is asked for
    /// what the other one has told.
    pub(super) async fn same_kind_of_both(
        &self,
        theirs: &[Checksum],
        stored: Vec<Checksum>,
    ) -> Option<(Checksum, Checksum)> {
        let pair = |ours: &[Checksum], theirs: &[Checksum]| {
            let pairs = |sum: &Checksum| Some((sum.clone(), same_kind(theirs, sum)?));
            ours.iter().find_map(pairs)
        };
        if let Some(found) = pair(theirs, &stored) {
            return Some(found);
        }
        let more = self.sums(self.destination, &algorithms(theirs)).await;
        if let Some(found) = pair(theirs, &more) {
            return Some(found);
        }
        // What the order expects is not to be asked from the source.
        if self.compares != Comparison::Sides {
            return None;
        }
        let more = self.sums(self.source, &algorithms(&stored)).await;
        pair(&more, &stored)
    }

    /// The checksums that a side reports; empty if it reports none, for any reason.
    pub(super) async fn sums(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Vec<Checksum> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let facts = self.client.head(file, wanted).await;
        facts.map(|facts| facts.checksums).unwrap_or_default()
    }

    /// The facts of the destination's file; `None` if the client may not ask for them.
    async fn stored(&self, wanted: &[ChecksumAlgorithm]) -> Result<Option<Facts>> {
        let (client, target) = (self.client, self.destination);
        let found = match client.head(target, wanted).await {
            // Perhaps only the checksum takes too long.
            Err(error) if error.peer_status().is_none() && !wanted.is_empty() => client.head(target, &[]).await,
            found => found,
        };
        match found {
            Ok(facts) => Ok(Some(facts)),
            // A credential for writing may not allow stat.
            Err(error) if refuses_to_tell(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks the size: a server may report success and still have less.
    fn check_size(&self, stored: Option<&Facts>) -> Result<u64> {
        match (stored.and_then(|facts| facts.size_bytes), self.progress.total_bytes()) {
            (Some(stored), Some(wanted)) if stored != wanted => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
                let detail = format!("the source has {wanted} bytes, the destination {stored}");
                Err(error.with_detail(detail).with_subject(&self.destination.location))
            }
            (stored, wanted) => Ok(stored.or(wanted).unwrap_or(self.progress.moved_bytes())),
        }
    }
}

pub(super) fn algorithms(sums: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    sums.iter().map(Checksum::algorithm).collect()
}

/// The checksum of the same algorithm.
fn same_kind(sums: &[Checksum], wanted: &Checksum) -> Option<Checksum> {
    sums.iter().find(|sum| sum.algorithm() == wanted.algorithm()).cloned()
}
