//! Copies within this server: between two exports, or within one whose store does not copy by
//! itself. The bytes pass through no other server than those that have the files.

use std::sync::Arc;

use endpoint::ExportPath;
use storage::{CommitFacts, Overwrite, ReadHandle, Replacing, TreeFailure, UploadOptions};
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::budget::Flow;
use crate::engine::{Source, StoreSink, StoreSource, copy};
use crate::options::Order;
use crate::progress::Progress;
use crate::running::Slot;
use crate::verify::blame_store;

/// A file or directory to copy within this server. Rights and locks are the caller's concern.
#[derive(Debug)]
pub struct LocalCopy {
    /// What is copied.
    pub from: ExportPath,
    /// Its new name.
    pub to: ExportPath,
    /// What else the copy needs. The handling of an existing file is that of the calls here.
    pub order: Order,
    /// Its slot among the copies of the server.
    pub slot: Slot,
}

/// A running copy, cancelled on drop.
struct Running<T>(JoinHandle<Result<T>>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn until_done<T>(mut running: Running<T>) -> Result<T> {
    let lost = |broken| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(&broken);
    (&mut running.0).await.unwrap_or_else(|broken| Err(lost(broken)))
}

impl LocalCopy {
    /// Copies a file on the runtime of the slot. The new file appears when it is complete. Dropping
    /// the future cancels the copy.
    ///
    /// # Errors
    /// As [`copy`]; errors at the source have [`Side::Source`] and its path.
    pub async fn file(self, overwrite: Overwrite) -> Result<()> {
        let runtime = self.slot.runtime().clone();
        let work = async move {
            let copied = self.one(&self.from.path, &self.to.path, overwrite).await;
            copied.map_err(|error| self.with_client_path(error))
        };
        until_done(Running(runtime.spawn(work))).await
    }

    /// Copies a directory, and with `members` all that is in it. What is there is listed before
    /// anything is created. Each file appears when it is complete; what can be copied is, and the
    /// first failure is returned, with the path in the store of the copy. What has the name, unless
    /// it is an empty directory, is replaced when the copy is complete, and stays after a failure.
    ///
    /// # Errors
    /// Before anything is created: `exists`, `not_empty`, `no_space`, `forbidden` into itself, or
    /// for a tree that is too large or too deep; as [`storage::Store::list`].
    pub async fn tree(self, members: bool, replacing: Replacing) -> Result<Option<TreeFailure>> {
        let runtime = self.slot.runtime().clone();
        let work = async move {
            let copied = self.whole_tree(members, replacing).await;
            copied.map_err(|error| self.with_client_path(error))
        };
        until_done(Running(runtime.spawn(work))).await
    }

    /// The stores know only the paths within their exports.
    pub(crate) fn with_client_path(&self, error: Error) -> Error {
        let end = match error.side() {
            Side::Source => &self.from,
            _ => &self.to,
        };
        let subject = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
        let inner = subject.filter(|inner| inner.is_within(&end.path) || inner == &end.path);
        let shown = inner.unwrap_or_else(|| end.path.clone()).under(&end.export);
        error.with_subject(shown)
    }

    pub(crate) async fn one(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<()> {
        let opened = self.from.store.open(from).await;
        let reader = opened.map_err(|error| at_source(error, from))?;
        if self.by_the_system(&reader, from, to, overwrite).await? {
            return Ok(());
        }
        let source: Arc<dyn Source> = Arc::new(StoreSource::of(&self.from.store, from, reader));
        let sink = StoreSink::new(&self.to.store, to).of_own_source();
        let order = Order {
            overwrite,
            ..self.order.clone()
        };
        let budget = self.slot.budget();
        let progress = Progress::counted_in(budget, Flow::In);
        let copied = copy(&source, &sink, &order, budget, &progress).await;
        copied.map(drop).map_err(|error| match error.side() {
            Side::Source => error.with_subject(from),
            _ => error,
        })
    }

    /// Lets the system copy between two files that are its own, which shares their blocks where it
    /// can. Kept checksums go with the file. Returns whether it did.
    async fn by_the_system(
        &self,
        reader: &Arc<dyn ReadHandle>,
        from: &LogicalPath,
        to: &LogicalPath,
        overwrite: Overwrite,
    ) -> Result<bool> {
        let is_possible = reader.as_file().is_some() && self.to.store.copies_system_files();
        if !is_possible || self.order.expected.is_some() {
            return Ok(false);
        }
        let seen = reader.stat();
        let size_bytes = seen.size_bytes;
        self.order.check_size(size_bytes)?;
        let kept = self.from.store.stored_checksums(from).await.unwrap_or_default();
        let now = self.from.store.stat(from).await;
        // The name may have another file since.
        let checksums = if now.is_ok_and(|now| now.same_content(seen)) {
            kept
        } else {
            Vec::new()
        };
        let options = UploadOptions {
            size_bytes: Some(size_bytes),
            overwrite,
            ..UploadOptions::default()
        };
        let here = |error| blame_store(error, Side::Destination);
        let upload = self.to.store.create(to, &options).await.map_err(here)?;
        let copied = upload.copy_system_file(reader).await;
        let copied = copied.map_err(|error| match error.side() {
            Side::Source => error.with_subject(from),
            _ => error,
        });
        if !copied? {
            return Ok(false);
        }
        let facts = CommitFacts {
            size_bytes,
            checksums,
            ..CommitFacts::default()
        };
        self.to.store.commit(&upload, facts).await.map_err(here)?;
        Ok(true)
    }
}

pub(crate) fn at_source(error: Error, path: &LogicalPath) -> Error {
    blame_store(error, Side::Source).with_subject(path)
}
