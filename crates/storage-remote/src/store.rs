//! The store itself: each call is one request to the server, or a few.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use credentials::Activities;
use remote::{Attribute, AttributeCall, GetOptions, Resource};
use storage::{
    Answer, Beside, COPIED, Check, DirectoryReader, FindOwner, Held, Kind, Overwrite, ReadHandle, Replacing, Space,
    Stat, Store, TreeFailure, UploadOptions, WriteHandle, name_aside,
};
use tokio::time::timeout;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::fault::fault;
use crate::file::RemoteFile;
use crate::limits::{STORED_CHECKSUM_WAIT, TREE_DEPTH_MAX};
use crate::listing::Directory;
use crate::minter::{CHANGE, DELETE, LOOK, MANAGE, READ};
use crate::stat::{DIRECTORY_MODE, stat};
use crate::upload::RemoteUpload;
use crate::upstream::Upstream;

/// The checksums that servers keep, best first.
const KEPT: [ChecksumAlgorithm; 2] = [ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Crc32c];

/// What is said of space that the server does not tell.
pub(crate) const UNKNOWN: Space = Space {
    total_bytes: i64::MAX.unsigned_abs(),
    free_bytes: i64::MAX.unsigned_abs(),
    used_bytes: 0,
    quota_bytes: None,
    device: None,
};

/// The files of a directory on another server. Cheap to clone.
#[derive(Clone)]
pub struct RemoteStore {
    pub(crate) upstream: Upstream,
    /// Knows the client's token, if the other server is shown it.
    owner: Option<Arc<dyn FindOwner>>,
}

impl RemoteStore {
    /// The files of this directory.
    #[must_use]
    pub fn new(upstream: Upstream) -> Self {
        Self { upstream, owner: None }
    }

    /// The same with the client's token, where the other server is shown it.
    async fn for_client(&self) -> Result<Self> {
        self.upstream.counts().requests.fetch_add(1, Ordering::Relaxed);
        let this = match &self.owner {
            _ if !self.upstream.is_clients() => self.clone(),
            None => Self::new(self.upstream.showing(None)?),
            Some(owner) => Self::new(self.upstream.showing(owner.find().await?.client)?),
        };
        this.settle().await;
        Ok(this)
    }

    fn resource(&self, path: &LogicalPath, needed: Activities) -> Resource {
        self.upstream.resource_for(path, needed)
    }

    /// What the server says of a name.
    async fn entry(&self, path: &LogicalPath) -> Result<remote::Entry> {
        let entry = self.upstream.client.stat(&self.resource(path, LOOK)).await;
        let entry = entry.map_err(|error| self.upstream.blame(&error, path))?;
        if entry.is_special {
            let error = self.fault(ErrorCode::PathRefused, "this is neither a file nor a directory");
            return Err(error.with_subject(path));
        }
        if !entry.is_directory && entry.size_bytes.is_none() {
            return self.measured(entry, path).await;
        }
        Ok(entry)
    }

    /// The same with the length of the file, by a request for its first byte: servers that make
    /// their answers while they send them tell none in HEAD.
    async fn measured(&self, entry: remote::Entry, path: &LogicalPath) -> Result<remote::Entry> {
        let first = GetOptions {
            range: Some(ByteRange::new(0, 1)),
            ..GetOptions::default()
        };
        let asked = self.upstream.client.get(&self.resource(path, READ), &first).await;
        match self.told(asked, path)?.facts().size_bytes {
            Some(size_bytes) => Ok(remote::Entry {
                size_bytes: Some(size_bytes),
                ..entry
            }),
            None => {
                let words = "it does not tell how long the file is, which has to be known before it is served";
                Err(self.fault(ErrorCode::PeerMisbehaved, words).with_subject(path))
            }
        }
    }

    /// The properties of a name; `None` if it does not exist.
    pub(crate) async fn found(&self, path: &LogicalPath) -> Result<Option<Stat>> {
        match self.entry(path).await {
            Ok(entry) => Ok(Some(stat(&entry))),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn fault(&self, code: ErrorCode, words: &str) -> Error {
        fault(code, Phase::Open, self.upstream.root(), words)
    }

    /// The answer to a request, as one of this store.
    pub(crate) fn told<T>(&self, answer: Result<T>, path: &LogicalPath) -> Result<T> {
        answer.map_err(|error| self.upstream.blame(&error, path))
    }

    async fn make(&self, path: &LogicalPath) -> Result<()> {
        // XRootD takes an existing directory for a new one.
        match self.found(path).await? {
            Some(found) if found.is_directory() => return Err(refused(ErrorCode::DirectoryExists, path)),
            Some(_) => return Err(refused(ErrorCode::Exists, path)),
            None => {}
        }
        let made = match self.upstream.is_object_store() {
            true => {
                self.check_parent(path).await?;
                self.upstream.client.mark_directory(&self.resource(path, MANAGE)).await
            }
            false => self.upstream.client.make_directory(&self.resource(path, MANAGE)).await,
        };
        match self.told(made, path) {
            // Another client was faster.
            Err(error) if error.code() == ErrorCode::Exists => Err(refused(ErrorCode::DirectoryExists, path)),
            Err(error) if error.code() == ErrorCode::NotFound => Err(refused(ErrorCode::ParentMissing, path)),
            made => made,
        }
    }

    /// Refuses a directory whose parent is missing or is a file. Object stores would make it.
    async fn check_parent(&self, path: &LogicalPath) -> Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        match self.found(&parent).await? {
            Some(found) if found.is_directory() => Ok(()),
            Some(_) => Err(refused(ErrorCode::NotDirectory, &parent)),
            None => Err(refused(ErrorCode::ParentMissing, path)),
        }
    }

    /// Makes the missing directories above a name.
    async fn make_parents(&self, path: &LogicalPath) -> Result<()> {
        let mut missing = Vec::new();
        let mut next = path.parent();
        while let Some(parent) = next.filter(|parent| !parent.is_root()) {
            match self.found(&parent).await? {
                Some(found) if found.is_directory() => break,
                Some(_) => return Err(refused(ErrorCode::NotDirectory, &parent)),
                None => {}
            }
            next = parent.parent();
            missing.push(parent);
        }
        for parent in missing.iter().rev() {
            match self.make(parent).await {
                // Another client was faster.
                Err(error) if error.code() == ErrorCode::DirectoryExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    async fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        match self.make(path).await {
            Err(error) if parents && error.code() == ErrorCode::ParentMissing => {
                self.make_parents(path).await?;
                self.make(path).await
            }
            made => made,
        }
    }

    pub(crate) async fn create_there(&self, path: &LogicalPath, options: &UploadOptions) -> Result<RemoteUpload> {
        match RemoteUpload::begin(&self.upstream, path, options).await {
            Err(error) if options.create_parents && !self.upstream.is_object_store() && is_without_parent(&error) => {
                self.make_parents(path).await?;
                RemoteUpload::begin(&self.upstream, path, options).await
            }
            begun => begun,
        }
    }

    /// Refuses a directory that has entries. Over WebDAV a server removes a directory with all that
    /// is in it (RFC 4918 §9.6.1).
    pub(crate) async fn check_empty(&self, path: &LogicalPath) -> Result<()> {
        let mut directory = Directory::begin(&self.upstream, path).await?;
        match directory.next_batch().await?.is_empty() {
            true => Ok(()),
            false => Err(refused(ErrorCode::NotEmpty, path)),
        }
    }

    pub(crate) async fn remove_found(&self, path: &LogicalPath, is_directory: bool) -> Result<()> {
        let resource = self.resource(path, DELETE);
        let client = &self.upstream.client;
        let removed = match is_directory {
            true => client.remove_directory(&resource).await,
            false => client.delete(&resource).await,
        };
        let told = self.told(removed, path);
        if told.is_ok() {
            self.upstream.ended(path).await;
        }
        told
    }

    pub(crate) async fn remove_one(&self, path: &LogicalPath) -> Result<()> {
        if path.is_root() {
            return Err(refused(ErrorCode::Forbidden, path));
        }
        let is_directory = self.entry(path).await?.is_directory;
        if is_directory {
            self.check_empty(path).await?;
        }
        self.remove_found(path, is_directory).await
    }

    /// Removes a file, or a directory with everything in it.
    pub(crate) async fn remove_any(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        match self.entry(path).await?.is_directory {
            _ if path.is_root() => Err(refused(ErrorCode::Forbidden, path)),
            true => self.remove_whole(path, 0).await,
            false => self.remove_found(path, false).await.map(|()| None),
        }
    }

    /// Removes a directory with everything in it. Goes on after a failure, and returns the first. A
    /// link to a directory is removed as a link: no protocol tells links from directories, but only
    /// directories that are not empty are refused as such.
    pub(crate) async fn remove_whole(&self, path: &LogicalPath, depth: usize) -> Result<Option<TreeFailure>> {
        if depth > TREE_DEPTH_MAX {
            return Err(refused(ErrorCode::NotEmpty, path).with_detail("the tree is too deep"));
        }
        // A server of objects has no links, and removes the mark of a directory that is not empty.
        if !self.upstream.is_object_store() {
            match self.remove_found(path, true).await {
                Ok(()) => return Ok(None),
                Err(error) if is_no_directory(&error) => return self.remove_found(path, false).await.map(|()| None),
                Err(_) => {}
            }
        }
        let failure = self.empty_out(path, depth).await?;
        if failure.is_none() {
            self.remove_found(path, true).await?;
        }
        Ok(failure)
    }

    async fn empty_out(&self, path: &LogicalPath, depth: usize) -> Result<Option<TreeFailure>> {
        let mut directory = Directory::begin(&self.upstream, path).await?;
        let mut failure = None;
        loop {
            let batch = directory.next_batch().await?;
            if batch.is_empty() {
                return Ok(failure);
            }
            for entry in batch {
                let child = path.join(&entry.name)?;
                let failed = match entry.stat.kind {
                    Kind::Directory => Box::pin(self.remove_whole(&child, depth + 1)).await,
                    Kind::File => self.remove_found(&child, false).await.map(|()| None),
                };
                let failed = failed.unwrap_or_else(|error| Some(TreeFailure { path: child, error }));
                failure = failure.or(failed);
            }
        }
    }

    async fn attribute_call(&self, path: &LogicalPath, call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
        let needed = match call {
            AttributeCall::List | AttributeCall::Get(_) => LOOK,
            AttributeCall::Set(..) | AttributeCall::Remove(_) => CHANGE,
        };
        let resource = self.for_client().await?.resource(path, needed);
        let answer = self.upstream.client.attributes(&resource, call).await;
        self.told(answer, path)
    }

    async fn space(&self) -> Result<Space> {
        let root = LogicalPath::root();
        let resource = self.resource(&root, LOOK);
        if let Ok(entry) = self.upstream.client.stat(&resource).await
            && let Some(free_bytes) = entry.quota_available_bytes
        {
            let used_bytes = entry.quota_used_bytes.unwrap_or(0);
            return Ok(Space {
                total_bytes: used_bytes.saturating_add(free_bytes),
                free_bytes,
                used_bytes,
                quota_bytes: None,
                device: None,
            });
        }
        let space = match self.told(self.upstream.client.space(&resource).await, &root) {
            Ok(space) => space,
            // A server that does not tell is no reason to refuse an upload.
            Err(error) if matches!(error.code(), ErrorCode::NotImplemented | ErrorCode::Forbidden) => {
                return Ok(UNKNOWN);
            }
            Err(error) => return Err(error),
        };
        Ok(Space {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            used_bytes: space.used_bytes,
            quota_bytes: space.quota_bytes,
            device: None,
        })
    }

    /// The checksums that the server tells of a file, if it does soon.
    async fn checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        let resource = self.resource(path, LOOK);
        let known = self.upstream.known(&resource, path, &KEPT);
        match timeout(STORED_CHECKSUM_WAIT, known).await {
            Ok(known) => self.told(known, path),
            Err(_) => Ok(Vec::new()),
        }
    }
}

pub(crate) fn refused(code: ErrorCode, path: &LogicalPath) -> Error {
    Error::new(code, Side::Upstream, Phase::Open).with_subject(path)
}

/// Whether a server refuses to remove a directory because it is none. There is no error number for
/// that.
fn is_no_directory(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    error.code() == ErrorCode::NotDirectory || words.contains("not a directory")
}

/// Whether an upload may have been refused because its directory is missing. Servers have many
/// answers to that.
fn is_without_parent(error: &Error) -> bool {
    let is_missing = matches!(error.code(), ErrorCode::ParentMissing | ErrorCode::NotFound);
    is_missing || (error.code() == ErrorCode::PeerFailed && error.peer_status().is_some())
}

impl Store for RemoteStore {
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        Arc::new(Self { owner, ..self.clone() })
    }

    /// The work of a call ends with its future, which the caller has.
    fn holding(&self, _held: Held) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn renames(&self) -> bool {
        !self.upstream.is_object_store()
    }

    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        Box::pin(async move {
            match self.for_client().await?.entry(path).await {
                Ok(entry) => Ok(stat(&entry)),
                // Some servers do not describe the directory in which all others are.
                Err(error) if path.is_root() && error.code() == ErrorCode::NotImplemented => Ok(root()),
                Err(error) if self.upstream.is_empty_root(path, &error) => Ok(root()),
                Err(error) => Err(error),
            }
        })
    }

    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        Box::pin(async move {
            let directory = Directory::begin(&self.for_client().await?.upstream, path).await?;
            Ok(Box::new(directory) as Box<dyn DirectoryReader>)
        })
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move {
            let this = self.for_client().await?;
            let entry = this.entry(path).await?;
            if entry.is_directory {
                return Err(refused(ErrorCode::IsDirectory, path));
            }
            let file = RemoteFile::new(this.upstream.clone(), path, &entry);
            Ok(Arc::new(file) as Arc<dyn ReadHandle>)
        })
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move { self.for_client().await?.create(path, options).await })
    }

    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move { Err(self.upstream.refuse_changes(path)) })
    }

    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()> {
        Box::pin(async move { self.for_client().await?.make_directory(path, parents).await })
    }

    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()> {
        Box::pin(async move { self.for_client().await?.remove_one(path).await })
    }

    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool> {
        Box::pin(async move { self.for_client().await?.rename_to(from, to, overwrite).await })
    }

    fn copy<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, Stat> {
        Box::pin(async move {
            // Only object stores copy by themselves, all others need not be asked.
            match self.upstream.is_object_store() {
                true => self.for_client().await?.copy_within(from, to, overwrite).await,
                false => Err(refused(ErrorCode::NotImplemented, to)),
            }
        })
    }

    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>> {
        Box::pin(async move { self.for_client().await?.remove_any(path).await })
    }

    fn beside<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Beside> {
        Box::pin(async move {
            let aside = name_aside(path, COPIED)?;
            let note = self.upstream.note(&aside, path, None).await;
            Ok(Beside {
                path: aside,
                held: note.map(|note| Arc::new(note) as Held),
            })
        })
    }

    fn replace<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        replacing: Replacing,
        check: Check<'a>,
    ) -> Answer<'a, bool> {
        Box::pin(async move { self.for_client().await?.move_to(from, to, replacing, check).await })
    }

    fn move_over<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, replacing: Replacing) -> Answer<'a, bool> {
        Box::pin(async move {
            let nothing = Box::pin(async { Ok(()) });
            self.for_client().await?.move_to(from, to, replacing, nothing).await
        })
    }

    fn set_mode<'a>(&'a self, path: &'a LogicalPath, mode: u32) -> Answer<'a, ()> {
        Box::pin(async move {
            let mode = u16::try_from(mode & 0o777).unwrap_or_default();
            let resource = self.for_client().await?.resource(path, CHANGE);
            let set = self.upstream.client.set_mode(&resource, mode).await;
            self.told(set, path)
        })
    }

    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let list = self.attribute_call(path, AttributeCall::List).await?;
            Ok(list.into_iter().map(|attribute| attribute.name).collect())
        })
    }

    fn attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            match self.attribute_call(path, AttributeCall::Get(name)).await {
                Ok(found) => Ok(found.into_iter().next().map(|attribute| attribute.value)),
                Err(error) if error.code() == ErrorCode::AttributeNotFound => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        name: &'a str,
        value: &'a [u8],
        overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if overwrite == Overwrite::Refuse && Store::attribute(self, path, name).await?.is_some() {
                return Err(refused(ErrorCode::Exists, path));
            }
            let call = AttributeCall::Set(name, value);
            self.attribute_call(path, call).await.map(drop)
        })
    }

    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            match self.attribute_call(path, AttributeCall::Remove(name)).await {
                Ok(_) => Ok(true),
                Err(error) if error.code() == ErrorCode::AttributeNotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn space(&self) -> Answer<'_, Space> {
        Box::pin(async move { self.for_client().await?.space().await })
    }

    fn stored_checksums<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async move { self.for_client().await?.checksums(path).await })
    }

    fn origin_checksum<'a>(
        &'a self,
        path: &'a LogicalPath,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Option<Checksum>> {
        Box::pin(async move {
            let resource = self.for_client().await?.resource(path, LOOK);
            let known = self.upstream.known(&resource, path, &[algorithm]).await;
            let mut known = self.told(known, path)?.into_iter();
            Ok(known.find(|known| known.algorithm() == algorithm))
        })
    }

    fn store_checksums<'a>(
        &'a self,
        path: &'a LogicalPath,
        seen: &'a Stat,
        checksums: &'a [Checksum],
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if !self.upstream.is_object_store() {
                return Ok(());
            }
            let this = self.for_client().await?;
            let entry = this.entry(path).await?;
            if stat(&entry).same_content(seen) {
                let resource = this.resource(path, CHANGE);
                this.upstream.keep(&resource, entry.etag.as_deref(), checksums).await;
            }
            Ok(())
        })
    }
}

/// The directory of the store, where no server describes it.
pub(crate) fn root() -> Stat {
    Stat {
        kind: Kind::Directory,
        size_bytes: 0,
        modified: std::time::UNIX_EPOCH,
        mode: DIRECTORY_MODE,
        inode: 1,
    }
}
