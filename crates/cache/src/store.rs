//! A store behind a cache.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storage::{
    Answer, Beside, ChangeProperties, Check, DirectoryReader, FindOwner, Held, LinkUse, Overwrite, ReadHandle,
    Replacing, Space, Stat, Store, TreeFailure, UploadOptions, VoUsage, WriteHandle,
};
use tokio::sync::OnceCell;
use types::{Checksum, ChecksumAlgorithm, LogicalPath, Result};

use crate::cache::Cache;
use crate::checked::KnownVersion;
use crate::key::Key;
use crate::limits::FILE_BYTES_MAX;
use crate::open_file::OpenFile;
use crate::origins;
use crate::reader::{CachedReader, Origin};
use crate::writer::{CachedWriter, Change, Updating};

/// How a store uses its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long the origin's word about the version of a file counts; `None`: until the next start,
    /// because files never change.
    pub revalidate_after: Option<Duration>,
    /// Blocks to fetch ahead of a reader that reads one block after another.
    pub prefetch_blocks: u64,
}

/// A store whose files are cached on a disk.
///
/// **Who may read.** Doors ask for rights before each call, so a cached file is refused like any
/// other. Beyond that, a store that acts for an owner ([`Store::acting_for`]) opens the file at the
/// origin as that owner for each reader, and asks whether it may be read
/// ([`ReadHandle::check_readable`]), before any cached byte is given: what the origin refuses to
/// the owner, the cache does not give. Only a store that acts for the server itself relies on an
/// earlier answer, within [`Settings::revalidate_after`].
///
/// **Which version.** A reader gets the version that it opened: the blocks of that version, and
/// the rest from the origin while it still has that version; otherwise `source_changed`.
#[derive(Clone)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    cache: Arc<Cache>,
    origin: Arc<str>,
    settings: Settings,
    acts_for_owner: bool,
    held: Option<Held>,
}

impl CachedStore {
    /// Puts the cache in front of `inner`. `origin` names the store in the keys of cached files:
    /// stores with different files need different names, also across restarts.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, cache: Arc<Cache>, origin: &str, settings: Settings) -> Self {
        origins::note(&cache.directory, origin);
        Self {
            inner,
            cache,
            origin: origin.into(),
            settings,
            acts_for_owner: false,
            held: None,
        }
    }

    fn key(&self, path: &LogicalPath) -> Key {
        Key::of(&self.origin, path)
    }

    fn age(&self) -> Duration {
        self.settings.revalidate_after.unwrap_or(Duration::MAX)
    }

    /// The version of a file, if the origin need not be asked.
    fn known_version(&self, key: Key) -> Option<KnownVersion> {
        if self.acts_for_owner || self.cache.checked.is_changing(key) {
            return None;
        }
        self.cache.checked.find(key, self.age())
    }

    /// Whether the origin still has the version that readers get: then its checksums are those of
    /// that version.
    async fn has_known_version(&self, path: &LogicalPath) -> Result<bool> {
        let key = self.key(path);
        let Some(known) = self.known_version(key) else {
            return Ok(true);
        };
        let is_same = self.inner.stat(path).await?.same_content(&known.version);
        if !is_same {
            self.cache.checked.forget(key);
        }
        Ok(is_same)
    }

    /// The cached file with this version, if it can be cached.
    async fn open_file(&self, key: Key, path: &LogicalPath, version: &Stat) -> Option<Arc<OpenFile>> {
        if !can_cache(version) || self.cache.checked.is_changing(key) {
            return None;
        }
        let (cache, origin) = (self.cache.clone(), self.origin.clone());
        let (path, version) = (path.clone(), version.clone());
        let open = move || Ok(cache.open_file(key, &origin, &path, &version));
        self.cache.lane.run(open).await.ok()?
    }

    fn reader(
        &self,
        open: Arc<OpenFile>,
        path: &LogicalPath,
        known: KnownVersion,
        handle: Option<Arc<dyn ReadHandle>>,
    ) -> Arc<dyn ReadHandle> {
        let origin = Origin {
            store: self.inner.clone(),
            path: path.clone(),
            version: known.version,
            handle: OnceCell::new_with(handle),
        };
        Arc::new(CachedReader {
            cache: self.cache.clone(),
            open,
            origin,
            asked_at: known.asked_at,
            prefetch_blocks: self.settings.prefetch_blocks,
            last_block: AtomicU64::new(0),
            row: AtomicU64::new(0),
        })
    }

    /// The origin's store for a change of `path`.
    fn for_change(&self, path: &LogicalPath, is_tree: bool) -> Arc<dyn Store> {
        let change = Change {
            cache: self.cache.clone(),
            origin: self.origin.clone(),
            path: path.clone(),
            is_tree,
        };
        self.inner.holding(Arc::new((change, self.held.clone())))
    }

    /// The same for a change of two names.
    fn for_both(&self, from: &LogicalPath, to: &LogicalPath) -> Arc<dyn Store> {
        let change = |path: &LogicalPath| Change {
            cache: self.cache.clone(),
            origin: self.origin.clone(),
            path: path.clone(),
            is_tree: true,
        };
        self.inner
            .holding(Arc::new((change(from), change(to), self.held.clone())))
    }

    fn writer(
        &self,
        path: &LogicalPath,
        inner: Arc<dyn WriteHandle>,
        updating: Option<Arc<Updating>>,
    ) -> Arc<dyn WriteHandle> {
        Arc::new(CachedWriter {
            inner,
            cache: self.cache.clone(),
            origin: self.origin.clone(),
            path: path.clone(),
            updating,
        })
    }
}

/// Whether a version can be distinguished from another one of the same file. A file that was
/// modified a moment ago may be modified again without a new time: clocks tick every 10 ms at most,
/// and some stores count whole seconds.
fn can_cache(version: &Stat) -> bool {
    if version.is_directory() || !(1..=FILE_BYTES_MAX).contains(&version.size_bytes) {
        return false;
    }
    let Ok(after) = version.modified.duration_since(UNIX_EPOCH) else {
        return true;
    };
    if after.is_zero() {
        return version.inode != 0;
    }
    let tick = match after.subsec_nanos() {
        0 => Duration::from_secs(2),
        _ => Duration::from_millis(50),
    };
    SystemTime::now()
        .duration_since(version.modified)
        .is_ok_and(|age| age > tick)
}

impl Store for CachedStore {
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        Arc::new(Self {
            acts_for_owner: owner.is_some(),
            inner: self.inner.acting_for(owner),
            ..self.clone()
        })
    }

    fn holding(&self, held: Held) -> Arc<dyn Store> {
        Arc::new(Self {
            inner: self.inner.holding(held.clone()),
            held: Some(held),
            ..self.clone()
        })
    }

    fn renames(&self) -> bool {
        self.inner.renames()
    }

    fn beside<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Beside> {
        self.inner.beside(path)
    }

    fn replace<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        replacing: Replacing,
        check: Check<'a>,
    ) -> Answer<'a, bool> {
        Box::pin(async move { self.for_both(from, to).replace(from, to, replacing, check).await })
    }

    fn copies_system_files(&self) -> bool {
        self.inner.copies_system_files()
    }

    fn usage(&self) -> Vec<VoUsage> {
        self.inner.usage()
    }

    fn check_links<'a>(&'a self, path: &'a LogicalPath, used: LinkUse<'static>) -> Answer<'a, ()> {
        self.inner.check_links(path, used)
    }

    fn checked_within(&self, age: Duration) -> Option<Arc<dyn Store>> {
        let settings = Settings {
            revalidate_after: Some(self.age().min(age)),
            ..self.settings
        };
        Some(Arc::new(Self {
            settings,
            ..self.clone()
        }))
    }

    fn cached_age<'a>(&'a self, path: &'a LogicalPath, version: &'a Stat) -> Answer<'a, Option<Duration>> {
        Box::pin(async move {
            let key = self.key(path);
            let (cache, origin) = (self.cache.clone(), self.origin.clone());
            let (path, version) = (path.clone(), version.clone());
            let look = move || Ok(cache.has_whole(key, &origin, &path, &version));
            let is_whole = self.cache.lane.run(look).await?;
            // Without a note of it, the version comes from the origin's answer of a moment ago.
            let known = self.known_version(key);
            Ok(is_whole.then(|| known.map_or(Duration::ZERO, |known| known.asked_at.elapsed())))
        })
    }

    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        Box::pin(async move {
            let key = self.key(path);
            if let Some(known) = self.known_version(key) {
                return Ok(known.version);
            }
            let ticket = self.cache.checked.ticket();
            let stat = self.inner.stat(path).await?;
            if !self.acts_for_owner && can_cache(&stat) {
                self.cache.checked.note(ticket, key, &self.origin, path, &stat);
            }
            Ok(stat)
        })
    }

    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        self.inner.list(path)
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move {
            let key = self.key(path);
            if let Some(known) = self.known_version(key) {
                let open = self.open_file(key, path, &known.version).await;
                // With a part of it missing the origin is needed anyway, and can refuse now.
                if let Some(open) = open.filter(|open| open.is_complete()) {
                    return Ok(self.reader(open, path, known, None));
                }
            }
            let (ticket, asked_at) = (self.cache.checked.ticket(), Instant::now());
            let handle = self.inner.open(path).await?;
            let version = handle.stat().clone();
            let Some(open) = self.open_file(key, path, &version).await else {
                self.cache.counters.bypassed_files.add(1);
                return Ok(handle);
            };
            // Opening may need less than reading, and the store does not hear of cached reads.
            handle.check_readable(self.age()).await?;
            if !self.acts_for_owner {
                self.cache.checked.note(ticket, key, &self.origin, path, &version);
            }
            Ok(self.reader(open, path, KnownVersion { version, asked_at }, Some(handle)))
        })
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let inner = self.inner.create(path, options).await?;
            Ok(self.writer(path, inner, None))
        })
    }

    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let updating = Arc::new(Updating::begin(&self.cache, self.key(path)));
            let inner = self.for_change(path, false).open_update(path).await?;
            Ok(self.writer(path, inner, Some(updating)))
        })
    }

    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()> {
        self.inner.make_directory(path, parents)
    }

    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()> {
        Box::pin(async move { self.for_change(path, false).remove(path).await })
    }

    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool> {
        Box::pin(async move { self.for_both(from, to).rename(from, to, overwrite).await })
    }

    fn copy<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, Stat> {
        Box::pin(async move { self.for_change(to, false).copy(from, to, overwrite).await })
    }

    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>> {
        Box::pin(async move { self.for_change(path, true).remove_tree(path).await })
    }

    fn copy_tree<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        members: bool,
        replacing: Replacing,
    ) -> Answer<'a, bool> {
        Box::pin(async move { self.for_change(to, true).copy_tree(from, to, members, replacing).await })
    }

    fn move_over<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, replacing: Replacing) -> Answer<'a, bool> {
        Box::pin(async move { self.for_both(from, to).move_over(from, to, replacing).await })
    }

    fn set_mode<'a>(&'a self, path: &'a LogicalPath, mode: u32) -> Answer<'a, ()> {
        Box::pin(async move { self.for_change(path, false).set_mode(path, mode).await })
    }

    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>> {
        self.inner.attributes(path)
    }

    fn attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, Option<Vec<u8>>> {
        self.inner.attribute(path, name)
    }

    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        name: &'a str,
        value: &'a [u8],
        overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        self.inner.set_attribute(path, name, value, overwrite)
    }

    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, bool> {
        self.inner.remove_attribute(path, name)
    }

    fn dead_properties<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<u8>> {
        self.inner.dead_properties(path)
    }

    fn dead_properties_in<'a>(&'a self, directory: &'a LogicalPath, names: &'a [String]) -> Answer<'a, Vec<Vec<u8>>> {
        self.inner.dead_properties_in(directory, names)
    }

    fn change_dead_properties<'a>(&'a self, path: &'a LogicalPath, change: ChangeProperties) -> Answer<'a, ()> {
        self.inner.change_dead_properties(path, change)
    }

    fn space(&self) -> Answer<'_, Space> {
        self.inner.space()
    }

    fn space_at<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Space> {
        self.inner.space_at(path)
    }

    fn stored_checksums<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async move {
            match self.has_known_version(path).await? {
                true => self.inner.stored_checksums(path).await,
                false => Ok(Vec::new()),
            }
        })
    }

    fn origin_checksum<'a>(
        &'a self,
        path: &'a LogicalPath,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Option<Checksum>> {
        Box::pin(async move {
            match self.has_known_version(path).await? {
                true => self.inner.origin_checksum(path, algorithm).await,
                false => Ok(None),
            }
        })
    }

    fn store_checksums<'a>(
        &'a self,
        path: &'a LogicalPath,
        seen: &'a Stat,
        checksums: &'a [Checksum],
    ) -> Answer<'a, ()> {
        self.inner.store_checksums(path, seen, checksums)
    }
}
