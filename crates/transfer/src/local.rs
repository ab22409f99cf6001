//! Copies within this server: between two exports, or within one whose store does not copy by
//! itself. The bytes pass through no other server than those that have the files.

use std::sync::Arc;

use endpoint::ExportPath;
use storage::{CommitFacts, Kind, Overwrite, ReadHandle, Replacing, Stat, TreeFailure, UploadOptions, name_aside};
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::budget::Flow;
use crate::engine::{Source, StoreSink, StoreSource, copy};
use crate::limits::{LOCAL_TREE_DEPTH_MAX, LOCAL_TREE_ENTRIES_MAX};
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

/// What is copied of a tree.
struct Member {
    path: LogicalPath,
    stat: Stat,
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
    /// first failure is returned, with the path in the store of the copy.
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
    fn with_client_path(&self, error: Error) -> Error {
        let end = match error.side() {
            Side::Source => &self.from,
            _ => &self.to,
        };
        let subject = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
        let inner = subject.filter(|inner| inner.is_within(&end.path) || inner == &end.path);
        let shown = inner.unwrap_or_else(|| end.path.clone()).under(&end.export);
        error.with_subject(shown)
    }

    /// Copies one file. Overwriting a file in place could destroy the source, which may have this
    /// name, too: a link, or another export with the same file.
    async fn one(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<()> {
        let store = &self.to.store;
        if overwrite == Overwrite::Refuse || !store.replaces_in_place() {
            return self.onto(from, to, overwrite).await;
        }
        let beside = name_aside(to, ".copied-")?;
        self.onto(from, &beside, Overwrite::Refuse).await?;
        let renamed = store.rename(&beside, to, Overwrite::Allow).await;
        if renamed.is_err() {
            // The old file is there; what became of the copy is not the error to report.
            let _ = store.remove(&beside).await;
        }
        renamed.map(drop).map_err(|error| blame_store(error, Side::Destination))
    }

    async fn onto(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<()> {
        let opened = self.from.store.open(from).await;
        let reader = opened.map_err(|error| at_source(error, from))?;
        if self.by_the_system(&reader, from, to, overwrite).await? {
            return Ok(());
        }
        let source: Arc<dyn Source> = Arc::new(StoreSource::of(&self.from.store, from, reader));
        let sink = StoreSink::new(&self.to.store, to);
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

    async fn whole_tree(&self, members: bool, replacing: Replacing) -> Result<Option<TreeFailure>> {
        let all = self.members(members).await?;
        self.check_apart(&all).await?;
        self.check_space(&all).await?;
        self.free_name(replacing).await?;
        let mut failure: Option<TreeFailure> = None;
        for member in all {
            let Some(path) = member
                .path
                .below(&self.from.path)
                .map(|below| below.under(&self.to.path))
            else {
                continue;
            };
            let is_top = path == self.to.path;
            let done = match member.stat.kind {
                Kind::Directory => self.to.store.make_directory(&path, false).await,
                Kind::File => self.one(&member.path, &path, Overwrite::Refuse).await,
            };
            match done {
                Ok(()) => {}
                Err(error) if is_top => return Err(error),
                Err(error) => {
                    let error = self.with_client_path(error);
                    failure = failure.or(Some(TreeFailure { path, error }));
                }
            }
        }
        Ok(failure)
    }

    /// Everything to copy, directories before what is in them.
    async fn members(&self, members: bool) -> Result<Vec<Member>> {
        let top = self.from.store.stat(&self.from.path).await;
        let top = top.map_err(|error| at_source(error, &self.from.path))?;
        let goes_in = members && top.is_directory();
        let mut all = vec![Member {
            path: self.from.path.clone(),
            stat: top,
        }];
        let mut next = 0;
        while let Some(member) = all.get(next).filter(|_| goes_in) {
            next += 1;
            if member.stat.is_directory() {
                let path = member.path.clone();
                let found = self.list(&path, all.len()).await;
                all.extend(found.map_err(|error| at_source(error, &path))?);
            }
        }
        Ok(all)
    }

    /// What is in a directory; `known` entries of the tree were found before.
    async fn list(&self, path: &LogicalPath, known: usize) -> Result<Vec<Member>> {
        let depth = path.components().count() - self.from.path.components().count();
        if depth >= LOCAL_TREE_DEPTH_MAX {
            return Err(too_large(&format!("it has more than {LOCAL_TREE_DEPTH_MAX} levels")));
        }
        let mut pages = self.from.store.list(path).await?;
        let mut found = Vec::new();
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(found);
            }
            for entry in page {
                found.push(Member {
                    path: path.join(&entry.name)?,
                    stat: entry.stat,
                });
            }
            if known + found.len() > LOCAL_TREE_ENTRIES_MAX {
                return Err(too_large(&format!("it has more than {LOCAL_TREE_ENTRIES_MAX} entries")));
            }
        }
    }

    /// Two exports may show the same directory: refuses a target that is in the source, or is the
    /// source.
    async fn check_apart(&self, all: &[Member]) -> Result<()> {
        let (from, to) = (&self.from, &self.to);
        let is_same_export = from.export == to.export;
        if is_same_export && (to.path.is_within(&from.path) || from.path.is_within(&to.path)) {
            return Err(into_itself(&to.path));
        }
        let parent = to.path.parent();
        for path in std::iter::once(&to.path).chain(parent.as_ref()) {
            let Ok(stat) = to.store.stat(path).await else { continue };
            if all
                .iter()
                .any(|member| member.stat.same_content(&stat) && member.stat.kind == stat.kind)
            {
                return Err(into_itself(&to.path));
            }
        }
        Ok(())
    }

    async fn check_space(&self, all: &[Member]) -> Result<()> {
        let files = all.iter().filter(|member| !member.stat.is_directory());
        let bytes = files.fold(0_u64, |sum, file| sum.saturating_add(file.stat.size_bytes));
        match self.to.store.space_at(&self.to.path).await?.free_bytes < bytes {
            true => Err(Error::new(ErrorCode::NoSpace, Side::Destination, Phase::Open)),
            false => Ok(()),
        }
    }

    /// Removes what has the new name, if it may be replaced. A directory that another export shows
    /// might contain the source, so it has to be empty.
    async fn free_name(&self, replacing: Replacing) -> Result<()> {
        let (store, path) = (&self.to.store, &self.to.path);
        let Ok(found) = store.stat(path).await else {
            return Ok(());
        };
        let files: &dyn storage::Store = &**store;
        let may_empty = replacing == Replacing::Tree && self.from.export == self.to.export;
        match (replacing, found.is_directory() && may_empty) {
            (Replacing::Nothing, _) => Err(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open)),
            (_, true) => match files.remove_tree(path).await? {
                Some(failure) => Err(failure.error),
                None => Ok(()),
            },
            _ => store.remove(path).await,
        }
    }
}

fn at_source(error: Error, path: &LogicalPath) -> Error {
    blame_store(error, Side::Source).with_subject(path)
}

fn into_itself(path: &LogicalPath) -> Error {
    let error = Error::new(ErrorCode::Forbidden, Side::Active, Phase::Open);
    error
        .with_detail("a directory is not copied into itself")
        .with_subject(path)
}

fn too_large(why: &str) -> Error {
    let error = Error::new(ErrorCode::Forbidden, Side::Source, Phase::Open);
    error.with_detail(format!("{why}: copy its parts"))
}
