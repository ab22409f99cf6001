//! Reads back what an upload has stored, for checksums that could not be computed while it arrived.
//! It reads in slices, in turn with other checksums, and ends with the copy or request that it
//! belongs to.

use std::sync::Arc;

use crate::limits::CHECKSUM_SLICE_BYTES;
use storage::{FileReader, Hasher, Patience, Upload, read_some};
use types::limits::BUFFER_BYTES;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::checksums::{Wanted, Watched};
use crate::fair_share::ClientId;
use crate::store::Store;

/// How far an upload is read.
#[derive(Clone, Copy)]
enum End {
    OfFile,
    At(u64),
}

impl Store {
    /// Checksums of what a client's upload has stored so far, read back from it.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub async fn reread(
        &self,
        upload: &Arc<dyn Upload>,
        algorithms: &[ChecksumAlgorithm],
        client: &ClientId,
    ) -> Result<Vec<Checksum>> {
        let hasher = Hasher::new(algorithms);
        Ok(self.read_back(upload, hasher, End::OfFile, client).await?.finish())
    }

    /// Feeds the first `bytes` bytes of an upload to a hasher.
    ///
    /// # Errors
    /// When they cannot be read back.
    pub async fn reread_front(
        &self,
        upload: &Arc<dyn Upload>,
        bytes: u64,
        hasher: Hasher,
        client: &ClientId,
    ) -> Result<Hasher> {
        self.read_back(upload, hasher, End::At(bytes), client).await
    }

    async fn read_back(
        &self,
        upload: &Arc<dyn Upload>,
        mut hasher: Hasher,
        end: End,
        client: &ClientId,
    ) -> Result<Hasher> {
        let turns = self.checksums.rereading(client);
        let wanted = Wanted::default();
        let mut opened: Option<Arc<dyn FileReader>> = None;
        loop {
            let held = turns.take().await?;
            let (upload, known, watched) = (upload.clone(), opened.take(), wanted.0.clone());
            let slice = move || {
                let _held = held;
                let reader = match known {
                    Some(reader) => reader,
                    None => Arc::new(Watched(upload.reader()?, watched)),
                };
                let is_all = read_slice(reader.as_ref(), &mut hasher, end)?;
                Ok((reader, hasher, is_all))
            };
            let (reader, seen, is_all) = self.lane().run_blocking(slice).await?;
            if is_all {
                return Ok(seen);
            }
            (opened, hasher) = (Some(reader), seen);
        }
    }
}

/// Reads the next slice; returns whether it was the last.
fn read_slice(reader: &dyn FileReader, hasher: &mut Hasher, end: End) -> Result<bool> {
    let End::At(end) = end else {
        return read_some(reader, hasher, CHECKSUM_SLICE_BYTES);
    };
    let slice_end = end.min(hasher.length_bytes().saturating_add(CHECKSUM_SLICE_BYTES));
    let mut buffer = vec![0; BUFFER_BYTES];
    let failed = || Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Open);
    while hasher.length_bytes() < slice_end {
        let left = usize::try_from(slice_end - hasher.length_bytes()).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut slices = [std::io::IoSliceMut::new(&mut buffer[..wanted])];
        let read = reader.read_vectored_at(&mut slices, hasher.length_bytes(), Patience::Wait);
        match read.map_err(|cause| failed().with_private(cause))? {
            0 => return Err(failed().with_private("the part became shorter")),
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.length_bytes() >= end)
}
