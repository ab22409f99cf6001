//! A file that is stored in parts, several at the same time, where a protocol has that.

use std::fmt;

use types::Result;

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
