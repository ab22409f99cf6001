//! Uploads that leave the file which they replace as it is until they are complete. Servers differ
//! in that, and do not say so: XRootD overwrites a file as the bytes come, over both protocols.

use std::sync::Arc;

use net::Batch;
use storage::{
    Answer, CommitFacts, Held, HoldMemory, OldFile, Overwrite, Stat, Store as _, UploadOptions, WriteHandle,
};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::store::{RemoteStore, refused};
use crate::upload::RemoteUpload;

impl RemoteStore {
    /// Begins an upload. An old file stays until its end, where that is asked for.
    pub(crate) async fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn WriteHandle>> {
        if path.is_root() {
            return Err(refused(ErrorCode::IsDirectory, path));
        }
        if options.overwrite == Overwrite::Allow && options.old_file != OldFile::ByStore && self.renames() {
            let found = self.found(path).await?;
            if found.is_some_and(|found| !found.is_directory()) {
                match ReplacingUpload::begin(self, path, options).await {
                    Err(error) if options.old_file == OldFile::StaysIfAllowed && is_refused(&error) => {}
                    begun => return Ok(Arc::new(begun?)),
                }
            }
        }
        Ok(Arc::new(self.create_there(path, options).await?))
    }
}

/// Whether the client may not do this there.
fn is_refused(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::Forbidden | ErrorCode::NotImplemented)
}

/// An upload under another name, which is renamed at its end.
pub(crate) struct ReplacingUpload {
    store: RemoteStore,
    to: LogicalPath,
    beside: LogicalPath,
    upload: RemoteUpload,
    _note: Option<Held>,
}

impl ReplacingUpload {
    pub(crate) async fn begin(store: &RemoteStore, to: &LogicalPath, options: &UploadOptions) -> Result<Self> {
        let beside = store.beside(to).await?;
        let new = UploadOptions {
            overwrite: Overwrite::Refuse,
            create_parents: false,
            ..options.clone()
        };
        let upload = RemoteUpload::begin(&store.upstream, &beside.path, &new).await;
        Ok(Self {
            upload: upload.map_err(|error| error.with_subject(to))?,
            store: store.clone(),
            to: to.clone(),
            beside: beside.path,
            _note: beside.held,
        })
    }

    async fn replace(&self, facts: CommitFacts, held: Option<Held>) -> Result<Stat> {
        let stored = self.upload.commit(facts, held).await;
        let done = match stored {
            Ok(stored) => {
                let renamed = self.store.give_name(&self.beside, &self.to, Overwrite::Allow).await;
                renamed.map(|()| stored)
            }
            Err(error) => Err(error),
        };
        let Ok(stored) = done else {
            // The old file is there; what becomes of the copy is not the error to report.
            let _ = self.store.remove_found(&self.beside, false).await;
            return done;
        };
        // Entity tags of other servers may change with the name.
        let now = self.store.found(&self.to).await;
        Ok(now.ok().flatten().unwrap_or(stored))
    }

    fn named<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| error.with_subject(&self.to))
    }
}

impl WriteHandle for ReplacingUpload {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(async move { self.named(self.upload.write(batch, offset).await) })
    }

    fn stat(&self) -> Result<Stat> {
        self.upload.stat()
    }

    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat> {
        Box::pin(async move { self.named(self.replace(facts, held).await) })
    }

    fn count_memory(&self, memory: Arc<dyn HoldMemory>) {
        self.upload.count_memory(memory);
    }

    fn set_length(&self, size_bytes: u64, held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async move { self.named(self.upload.set_length(size_bytes, held).await) })
    }
}
