//! Verifies that a peer stored what was sent.

use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::{Asked, Copy, Moved};
use crate::options::{Order, Verification, Verified};
use crate::verify::{are_comparable, compare, wanted};

/// Whether a server refuses to report what it has. Any other refusal means that the file is missing
/// or wrong.
#[must_use]
pub fn refuses_to_tell(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported
    )
}

/// Whether the peer does not report what it stored. Any other failure means that the file is
/// missing or wrong.
fn is_no_word(error: &Error) -> bool {
    refuses_to_tell(error) || error.peer_status().is_none()
}

fn algorithms(checksums: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    checksums.iter().map(Checksum::algorithm).collect()
}

impl Copy<'_> {
    /// The peer must report the same size and, if it reports one, the same checksum. A peer that
    /// sent its checksum with the answer to the upload is not asked again, which saves a round
    /// trip.
    pub(super) async fn confirm(&self, asked: &Asked, moved: &Moved) -> Result<Verified> {
        self.progress.enter(Phase::Checksum);
        let Moved {
            bytes, ours, stored, ..
        } = moved;
        let (told, is_pending) = (&stored.checksums, stored.is_pending);
        let order = Order {
            expected: None,
            ..self.order.clone()
        };
        if order.verification == Verification::Never && !is_pending {
            return compare(&order, ours, &[], Side::Destination);
        }
        if are_comparable(ours, told) && !is_pending {
            asked.note_wrong(ours, told);
            return compare(&order, ours, told, Side::Destination);
        }
        let algorithms = wanted(&Order {
            keep: algorithms(ours),
            ..order.clone()
        });
        let facts = match self.sink.look(&algorithms).await {
            Ok(facts) => facts,
            Err(error) if order.verification == Verification::WhenAvailable && !is_pending && is_no_word(&error) => {
                return compare(&order, ours, &[], Side::Destination);
            }
            Err(error) => return Err(error.in_phase(Phase::Checksum)),
        };
        asked.note_wrong(ours, &facts.checksums);
        if let Some(stored) = facts.size_bytes.filter(|stored| stored != bytes) {
            let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
            return Err(error.with_detail(format!("{bytes} bytes were sent, it stored {stored}")));
        }
        compare(&order, ours, &facts.checksums, Side::Destination)
    }
}
