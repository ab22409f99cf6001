//! Writes through the cache: the origin gets them, and the cache forgets the file.

use std::sync::Arc;

use net::Batch;
use storage::{Answer, CommitFacts, Held, HoldMemory, ReadHandle, Stat, WriteHandle, WriteOrder};
use types::{LogicalPath, Result};

use crate::cache::Cache;
use crate::key::Key;

/// A change at the origin. When it is dropped, that is when the work at the origin has ended, the
/// cache forgets what it knows about the name: however the change ended, and whether its caller
/// still waits.
pub(crate) struct Change {
    pub(crate) cache: Arc<Cache>,
    pub(crate) origin: Arc<str>,
    pub(crate) path: LogicalPath,
    pub(crate) is_tree: bool,
}

impl Drop for Change {
    fn drop(&mut self) {
        self.cache.note_change(&self.origin, &self.path, self.is_tree);
    }
}

/// A file that is open for changes in place. It is not cached until then.
pub(crate) struct Updating {
    cache: Arc<Cache>,
    key: Key,
}

impl Updating {
    pub(crate) fn begin(cache: &Arc<Cache>, key: Key) -> Self {
        cache.checked.begin_changes(key);
        Self {
            cache: cache.clone(),
            key,
        }
    }
}

impl Drop for Updating {
    fn drop(&mut self) {
        self.cache.checked.end_changes(self.key);
    }
}

/// An upload, or a file that is changed in place.
pub(crate) struct CachedWriter {
    pub(crate) inner: Arc<dyn WriteHandle>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) origin: Arc<str>,
    pub(crate) path: LogicalPath,
    /// For changes in place.
    pub(crate) updating: Option<Arc<Updating>>,
}

impl CachedWriter {
    /// What a call holds until its work has ended.
    fn held(&self, held: Option<Held>) -> Option<Held> {
        let change = Change {
            cache: self.cache.clone(),
            origin: self.origin.clone(),
            path: self.path.clone(),
            is_tree: false,
        };
        Some(Arc::new((change, self.updating.clone(), held)))
    }
}

impl WriteHandle for CachedWriter {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        self.inner.write(batch, offset)
    }

    fn order(&self) -> WriteOrder {
        self.inner.order()
    }

    fn discard_block(&self, start: u64) {
        self.inner.discard_block(start);
    }

    fn is_readable(&self) -> bool {
        self.inner.is_readable()
    }

    fn keeps_replaced(&self) -> bool {
        self.inner.keeps_replaced()
    }

    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }

    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat> {
        self.inner.commit(facts, self.held(held))
    }

    fn reader(&self) -> Answer<'_, Arc<dyn ReadHandle>> {
        self.inner.reader()
    }

    fn copy_system_file<'a>(&'a self, source: &'a Arc<dyn ReadHandle>) -> Answer<'a, bool> {
        self.inner.copy_system_file(source)
    }

    fn resume<'a>(&'a self, mark: &'a str) -> Answer<'a, u64> {
        self.inner.resume(mark)
    }

    fn limit_resume(&self, bytes: u64) {
        self.inner.limit_resume(bytes);
    }

    fn count_memory(&self, memory: Arc<dyn HoldMemory>) {
        self.inner.count_memory(memory);
    }

    fn set_length(&self, size_bytes: u64, held: Option<Held>) -> Answer<'_, ()> {
        self.inner.set_length(size_bytes, self.held(held))
    }

    fn sync(&self, held: Option<Held>) -> Answer<'_, ()> {
        self.inner.sync(self.held(held))
    }
}
