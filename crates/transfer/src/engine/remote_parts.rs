//! A file on another server that is stored in parts: each stream sends parts of its own.

use net::Batch;
use remote::{PartsWriter, Stored};
use storage::{Answer, Hasher, WriteOrder};
use types::{Checksum, ChecksumAlgorithm};

use crate::part_file::PartFile;

/// The parts of one file.
pub(super) struct RemoteParts(PartsWriter);

impl RemoteParts {
    pub(super) fn new(parts: PartsWriter) -> Self {
        Self(parts)
    }
}

impl PartFile for RemoteParts {
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.0.write(batch, offset))
    }

    fn order(&self) -> WriteOrder {
        WriteOrder::Blocks(self.0.part_bytes())
    }

    fn discard_block(&self, start: u64) {
        self.0.discard(start);
    }

    fn is_readable(&self) -> bool {
        false
    }

    /// Never called: nothing is resumed.
    fn reread_front(&self, _bytes: u64, hasher: Hasher) -> Answer<'_, Hasher> {
        Box::pin(async { Ok(hasher) })
    }

    fn reread<'a>(&'a self, _algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn commit(&self, _size_bytes: u64, _checksums: Vec<Checksum>) -> Answer<'_, Stored> {
        Box::pin(async move { self.0.complete().await })
    }
}
