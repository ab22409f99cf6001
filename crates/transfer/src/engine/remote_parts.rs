//! A file on another server that is stored in parts: each stream sends parts of its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use net::Batch;
use remote::{Outlet, Parts, Stored};
use storage::{Answer, Hasher};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::part_file::PartFile;

/// The parts of one file. Bytes of one part come in order, and by one stream at a time.
pub(super) struct RemoteParts {
    /// `None` once the file is committed.
    upload: tokio::sync::RwLock<Option<Parts>>,
    part_bytes: u64,
    size_bytes: u64,
    /// The parts that are being sent, by their index.
    open: Mutex<HashMap<u64, Outlet>>,
}

impl RemoteParts {
    /// A file of this size.
    pub(super) fn new(upload: Parts, size_bytes: u64) -> Self {
        Self {
            part_bytes: upload.part_bytes(),
            upload: tokio::sync::RwLock::new(Some(upload)),
            size_bytes,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Outlet>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, mut batch: Batch, mut offset: u64) -> Result<()> {
        let upload = self.upload.read().await;
        let upload = upload.as_ref().ok_or_else(|| internal("the file is committed"))?;
        while !batch.is_empty() {
            let index = offset / self.part_bytes;
            let end = ((index + 1) * self.part_bytes).min(self.size_bytes);
            if offset >= end {
                return Err(internal("more was to be sent than was announced"));
            }
            let open = self.open().remove(&index);
            let mut part = match open {
                Some(part) => part,
                None if offset == index * self.part_bytes => upload.begin(index).await?,
                None => return Err(internal("a part does not begin at its beginning")),
            };
            if part.sent_bytes() != offset - index * self.part_bytes {
                return Err(internal("the bytes of a part are out of order"));
            }
            let mut outgoing = part.outgoing().await?.limited(end - offset);
            let filled = outgoing.fill_from(&mut batch);
            part.send(outgoing, filled).await?;
            offset += filled as u64;
            match offset == end {
                true => upload.end(index, part).await?,
                false => drop(self.open().insert(index, part)),
            }
        }
        Ok(())
    }
}

fn internal(words: &str) -> Error {
    Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(words)
}

impl PartFile for RemoteParts {
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.write(batch, offset))
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.part_bytes)
    }

    fn discard_block(&self, start: u64) {
        self.open().remove(&(start / self.part_bytes));
    }

    /// Never called: nothing is resumed.
    fn reread_front(&self, _bytes: u64, hasher: Hasher) -> Answer<'_, Hasher> {
        Box::pin(async { Ok(hasher) })
    }

    /// What is stored cannot be read before it is a file, so there are none.
    fn reread<'a>(&'a self, _algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn commit(&self, size_bytes: u64, _checksums: Vec<Checksum>) -> Answer<'_, Stored> {
        Box::pin(async move {
            if size_bytes != self.size_bytes {
                return Err(internal("not all of the file was sent"));
            }
            match self.upload.write().await.take() {
                Some(upload) => upload.complete().await,
                None => Err(internal("the file is committed")),
            }
        })
    }
}
