//! A file in a store, as a source.

use std::ops::Deref;
use std::sync::Arc;

use endpoint::Store;
use net::Batch;
use remote::{GetOptions, Validator};
use storage::{Answer, ReadHandle};
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::source::{Incoming, Source, SourceAbilities, SourceFacts};
use crate::mover::Payload;
use crate::verify::blame_store;

/// An open file of a store.
pub struct StoreSource {
    store: Store,
    path: LogicalPath,
    reader: Arc<dyn ReadHandle>,
}

fn here(error: Error) -> Error {
    blame_store(error, Side::Source)
}

impl StoreSource {
    /// A file that is open.
    pub(crate) fn of(store: &Store, path: &LogicalPath, reader: Arc<dyn ReadHandle>) -> Self {
        Self {
            store: store.clone(),
            path: path.clone(),
            reader,
        }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn open(store: &Store, path: &LogicalPath) -> Result<Self> {
        let reader = store.open(path).await.map_err(here)?;
        Ok(Self::of(store, path, reader))
    }
}

impl Source for StoreSource {
    fn abilities(&self) -> SourceAbilities {
        SourceAbilities::default()
    }

    fn ask<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts> {
        Box::pin(async {
            let stat = self.reader.stat();
            Ok(SourceFacts {
                size_bytes: Some(stat.size_bytes),
                validator: Some(Validator::Tag(format!("{} {:?}", stat.inode, stat.modified))),
                checksums: self.store.stored_checksums(&self.path).await.unwrap_or_default(),
                accepts_ranges: Some(true),
            })
        })
    }

    fn read<'a>(&'a self, options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>> {
        let range = options
            .range
            .unwrap_or_else(|| ByteRange::whole(self.reader.stat().size_bytes));
        let reading = Reading::new(self.reader.clone(), range);
        Box::pin(async { Ok(Box::new(reading) as Box<dyn Incoming>) })
    }

    fn local(&self) -> Option<&dyn ReadHandle> {
        Some(self.reader.as_ref())
    }

    fn check_unchanged(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let checked = self.reader.check_unchanged().await;
            checked.map_err(|error| here(error).with_subject(&self.path))
        })
    }

    fn keep_checksums<'a>(&'a self, computed: &'a [Checksum]) -> Answer<'a, ()> {
        Box::pin(async {
            self.store
                .keep_checksums(&self.path, self.reader.stat(), computed)
                .await;
            Ok(())
        })
    }
}

/// Reads a range of the file into batches, for sinks that cannot take the file itself.
pub(super) struct Reading<R> {
    reader: R,
    left: ByteRange,
}

impl<R: Deref<Target: ReadHandle> + Send> Reading<R> {
    /// Reads this range.
    pub(super) fn new(reader: R, range: ByteRange) -> Self {
        reader.advise_sequential(range);
        Self { reader, left: range }
    }
}

impl<R: Deref<Target: ReadHandle> + Send> Payload for Reading<R> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let batch = self.reader.read_batch(self.left).await.map_err(here)?;
        if batch.is_empty() {
            let error = Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Transfer);
            return Err(error.with_detail("the file became shorter"));
        }
        self.left.take_front(batch.len() as u64);
        Ok(Some(batch))
    }
}

impl<R: Deref<Target: ReadHandle> + Send> Incoming for Reading<R> {
    fn next(&mut self) -> Answer<'_, Option<Batch>> {
        Box::pin(Payload::next(self))
    }
}
