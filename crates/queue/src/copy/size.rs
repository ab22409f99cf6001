//! The size of a file that went through this machine and whose checksum is not compared.

use catalog::ChecksumMode;
use transfer::route::Way;
use transfer::{Copied, refuses_to_tell};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::{Attempt, in_time};

impl Attempt<'_> {
    /// Compares the size at the destination, as FTS always does. Copies between the storages, and
    /// those with a checksum of the destination, have compared it; a strict copy asks nothing.
    ///
    /// # Errors
    /// `peer_size_differs`; that the file is not there.
    pub(super) async fn check_size(&self, copied: Copied) -> Result<Copied> {
        let is_compared = matches!(self.order.checksum.mode, ChecksumMode::Target | ChecksumMode::Both);
        if copied.way != Way::Stream || is_compared || self.claimed.job.options.is_strict_copy {
            return Ok(copied);
        }
        let asked = in_time(&self.destination, self.copier.client.head(&self.destination, &[])).await;
        let found_bytes = match asked {
            Ok(facts) => facts.size_bytes,
            // A credential for writing may not allow it.
            Err(error) if refuses_to_tell(&error) || error.peer_status().is_none() => None,
            Err(error) => return Err(error),
        };
        match found_bytes {
            Some(found_bytes) if found_bytes != copied.bytes => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
                let words = format!("{} bytes were sent, it stored {found_bytes}", copied.bytes);
                Err(error.with_detail(words).with_subject(&self.destination.location))
            }
            _ => Ok(copied),
        }
    }
}
