//! Reads back what an upload has stored, for checksums that could not be computed while it arrived.
//! It reads in slices, in turn with other checksums, and ends with the copy or request that it
//! belongs to.

use std::sync::Arc;

use storage::{Hasher, WriteHandle};
use types::{Checksum, ChecksumAlgorithm, Result};

use crate::checksums::{Wanted, slice};
use crate::fair_share::ClientId;
use crate::store::Store;

impl Store {
    /// Checksums of what a client's upload has stored so far, read back from it.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub async fn reread(
        &self,
        upload: &Arc<dyn WriteHandle>,
        algorithms: &[ChecksumAlgorithm],
        client: &ClientId,
    ) -> Result<Vec<Checksum>> {
        let hasher = Hasher::new(algorithms);
        Ok(self.read_back(upload, hasher, None, client).await?.finish())
    }

    /// Feeds the first `bytes` bytes of an upload to a hasher.
    ///
    /// # Errors
    /// When they cannot be read back.
    pub async fn reread_front(
        &self,
        upload: &Arc<dyn WriteHandle>,
        bytes: u64,
        hasher: Hasher,
        client: &ClientId,
    ) -> Result<Hasher> {
        self.read_back(upload, hasher, Some(bytes), client).await
    }

    async fn read_back(
        &self,
        upload: &Arc<dyn WriteHandle>,
        mut hasher: Hasher,
        front_bytes: Option<u64>,
        client: &ClientId,
    ) -> Result<Hasher> {
        let slots = self.checksums.rereading(client);
        let wanted = Wanted::default();
        let mut opened = None;
        loop {
            let held = slots.take().await?;
            let reader = match opened.take() {
                Some(reader) => reader,
                None => upload.reader().await?,
            };
            let (seen, is_all) = reader.hash(slice(hasher, front_bytes, &wanted.0, held)).await?;
            if is_all {
                return Ok(seen);
            }
            (opened, hasher) = (Some(reader), seen);
        }
    }
}
