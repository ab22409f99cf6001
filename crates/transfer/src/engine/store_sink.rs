//! A file in a store, as a sink.

use std::sync::Arc;
use std::time::SystemTime;

use endpoint::{ClientId, Permit, Store};
use net::Batch;
use remote::Stored;
use storage::{Answer, CommitFacts, Hasher, OldFile, Overwrite, UploadOptions, WriteHandle, WriteOrder};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::sink::{BeginOptions, Begun, Sink, SinkAbilities};
use crate::options::Order;
use crate::part_file::PartFile;
use crate::verify::blame_store;

/// A name in a store.
pub struct StoreSink {
    store: Store,
    path: LogicalPath,
    old_file: OldFile,
}

fn here(error: Error) -> Error {
    blame_store(error, Side::Destination)
}

impl StoreSink {
    /// The file `path` of `store`. An old file stays until the copy is complete, where the client
    /// may make another name beside it.
    #[must_use]
    pub fn new(store: &Store, path: &LogicalPath) -> Self {
        Self {
            store: store.clone(),
            path: path.clone(),
            old_file: OldFile::StaysIfAllowed,
        }
    }

    /// The same for a copy within this server: the old file may be the source under another name,
    /// and stays in any case.
    #[must_use]
    pub(crate) fn of_own_source(self) -> Self {
        Self {
            old_file: OldFile::Stays,
            ..self
        }
    }

    /// Whether the file exists, which decides its permissions and the wording of the answer.
    async fn look_up(&self, order: &Order) -> Result<Option<bool>> {
        let refused = |code| Err(Error::new(code, Side::Destination, Phase::Open).with_subject(&self.path));
        match self.store.stat(&self.path).await {
            Ok(stat) if stat.is_directory() => refused(ErrorCode::IsDirectory),
            Ok(_) if order.overwrite == Overwrite::Refuse => refused(ErrorCode::Exists),
            Ok(_) => Ok(Some(true)),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing) => Ok(Some(false)),
            Err(error) => Err(here(error)),
        }
    }

    async fn create(&self, options: &BeginOptions<'_>) -> Result<StorePart> {
        let order = options.order;
        let upload = UploadOptions {
            size_bytes: options.size_bytes,
            overwrite: order.overwrite,
            old_file: match options.is_absent {
                true => OldFile::ByStore,
                false => self.old_file,
            },
            create_parents: order.create_parents,
            checksums: order.keep.clone(),
            in_blocks: options.in_parts,
        };
        Ok(StorePart {
            upload: self.store.create(&self.path, &upload).await.map_err(here)?,
            store: self.store.clone(),
            path: self.path.clone(),
            modified: order.modified,
            permit: order.permit.clone(),
            client: order.client.clone(),
        })
    }
}

impl Sink for StoreSink {
    fn abilities(&self) -> SinkAbilities {
        SinkAbilities {
            any_order: true,
            ..SinkAbilities::default()
        }
    }

    fn existed<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<bool>> {
        Box::pin(self.look_up(order))
    }

    fn begin<'a>(&'a self, options: &'a BeginOptions<'a>) -> Answer<'a, Begun> {
        Box::pin(async { Ok(Begun::Part(Arc::new(self.create(options).await?))) })
    }
}

/// A hidden part in a store.
struct StorePart {
    store: Store,
    path: LogicalPath,
    upload: Arc<dyn WriteHandle>,
    modified: Option<SystemTime>,
    permit: Option<Permit>,
    client: ClientId,
}

impl StorePart {
    async fn publish(&self, size_bytes: u64, checksums: Vec<Checksum>) -> Result<Stored> {
        let facts = CommitFacts {
            size_bytes,
            checksums,
            modified: self.modified,
            ..CommitFacts::default()
        };
        // The configuration may have changed since the copy began.
        let store = match &self.permit {
            Some(permit) => self.store.during(&permit.check(&self.store, &self.path).await?),
            // The caller's store makes its changes.
            None => self.store.clone(),
        };
        store.commit(&self.upload, facts).await?;
        Ok(Stored::default())
    }
}

impl PartFile for StorePart {
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        self.upload.write(batch, offset)
    }

    fn order(&self) -> WriteOrder {
        self.upload.order()
    }

    fn discard_block(&self, start: u64) {
        self.upload.discard_block(start);
    }

    fn is_readable(&self) -> bool {
        self.upload.is_readable()
    }

    fn resume<'a>(&'a self, mark: &'a str) -> Answer<'a, u64> {
        Box::pin(async move { self.upload.resume(mark).await.map_err(here) })
    }

    fn limit_resume(&self, bytes: u64) {
        self.upload.limit_resume(bytes);
    }

    fn reread_front(&self, bytes: u64, hasher: Hasher) -> Answer<'_, Hasher> {
        Box::pin(async move {
            let seen = self.store.reread_front(&self.upload, bytes, hasher, &self.client).await;
            seen.map_err(here)
        })
    }

    fn reread<'a>(&'a self, algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async move {
            let computed = self.store.reread(&self.upload, algorithms, &self.client).await;
            computed.map_err(here)
        })
    }

    fn commit(&self, size_bytes: u64, checksums: Vec<Checksum>) -> Answer<'_, Stored> {
        Box::pin(async move { self.publish(size_bytes, checksums).await.map_err(here) })
    }
}
