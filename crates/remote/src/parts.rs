//! A file that is stored in parts, several at the same time, where a protocol has that.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use net::{Batch, Ends};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::options::Stored;
use crate::outlet::Outlet;
use crate::protocol::Pending;

/// A file that is stored in parts, in one protocol. Dropping it before [`PartsUpload::complete`]
/// removes its parts.
pub trait PartsUpload: fmt::Debug + Send + Sync {
    /// As [`Parts::part_bytes`].
    fn part_bytes(&self) -> u64;

    /// As [`Parts::begin`].
    fn begin(&self, index: u64) -> Pending<'_, Outlet>;

    /// As [`Parts::end`].
    fn end(&self, index: u64, part: Outlet) -> Pending<'_, ()>;

    /// As [`Parts::complete`].
    fn complete(self: Box<Self>) -> Pending<'static, Stored>;
}

/// A file that is stored in parts, in any order. It appears under its name when all are there.
#[derive(Debug)]
pub struct Parts(Box<dyn PartsUpload>);

impl Parts {
    /// An upload that was begun in some protocol.
    #[must_use]
    pub fn new(upload: impl PartsUpload + 'static) -> Self {
        Self(Box::new(upload))
    }

    /// Bytes of each part; the last one has the rest of the file.
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        self.0.part_bytes()
    }

    /// Begins to send a part. Parts are counted from 0.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn begin(&self, index: u64) -> Result<Outlet> {
        self.0.begin(index).await
    }

    /// Ends a part after its last byte.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn end(&self, index: u64, part: Outlet) -> Result<()> {
        self.0.end(index, part).await
    }

    /// Makes a file of the parts.
    ///
    /// # Errors
    /// The server's refusal; `internal` if a part is missing.
    pub async fn complete(self) -> Result<Stored> {
        self.0.complete().await
    }
}

/// A file in parts that is written by offset. The bytes of one part come in order from its
/// beginning, by one writer at a time.
#[derive(Debug)]
pub struct PartsWriter {
    /// `None` once the file is complete.
    upload: tokio::sync::RwLock<Option<Parts>>,
    part_bytes: u64,
    size_bytes: u64,
    /// The parts that are being sent, by their index.
    open: Mutex<HashMap<u64, Outlet>>,
}

impl PartsWriter {
    /// A file of this size.
    #[must_use]
    pub fn new(upload: Parts, size_bytes: u64) -> Self {
        Self {
            part_bytes: upload.part_bytes(),
            upload: tokio::sync::RwLock::new(Some(upload)),
            size_bytes,
            open: Mutex::default(),
        }
    }

    /// Bytes of each part but the last one.
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Outlet>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a batch that belongs at `offset`. A part that comes from its beginning again replaces
    /// what came of it before. `sent` hears how many bytes went over which connection.
    ///
    /// # Errors
    /// The server's refusal; `internal` for bytes out of order.
    pub async fn write(&self, mut batch: Batch, mut offset: u64, sent: impl Fn(Ends, u64)) -> Result<()> {
        let upload = self.upload.read().await;
        let upload = upload.as_ref().ok_or_else(|| internal("the file is complete"))?;
        while !batch.is_empty() {
            let index = offset / self.part_bytes;
            let (start, end) = (
                index * self.part_bytes,
                ((index + 1) * self.part_bytes).min(self.size_bytes),
            );
            if offset >= end {
                return Err(internal("more was to be sent than was announced"));
            }
            let open = self.open().remove(&index).filter(|_| offset > start);
            let mut part = match open {
                Some(part) => part,
                None if offset == start => upload.begin(index).await?,
                None => return Err(internal("a part does not begin at its beginning")),
            };
            if part.sent_bytes() != offset - start {
                return Err(internal("the bytes of a part are out of order"));
            }
            let mut outgoing = part.outgoing().await?.limited(end - offset);
            let filled = outgoing.fill_from(&mut batch);
            part.send(outgoing, filled).await?;
            if let Some(ends) = part.ends() {
                sent(ends, filled as u64);
            }
            offset += filled as u64;
            match offset == end {
                true => upload.end(index, part).await?,
                false => drop(self.open().insert(index, part)),
            }
        }
        Ok(())
    }

    /// Forgets what was sent of the part that begins at `start`: it will come again.
    pub fn discard(&self, start: u64) {
        self.open().remove(&(start / self.part_bytes));
    }

    /// Makes a file of the parts.
    ///
    /// # Errors
    /// As [`Parts::complete`].
    pub async fn complete(&self) -> Result<Stored> {
        match self.upload.write().await.take() {
            Some(upload) => upload.complete().await,
            None => Err(internal("the file is complete")),
        }
    }
}

fn internal(words: &str) -> Error {
    Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(words)
}
