//! A path in an export: the store that has its files, and the path there.

use types::LogicalPath;

use crate::store::Store;

/// A path in an export, with the files as the client may use them.
#[derive(Clone, Debug)]
pub struct ExportPath {
    /// The files.
    pub store: Store,
    /// The path within the store.
    pub path: LogicalPath,
    /// The path of the export.
    pub export: LogicalPath,
    /// Whether directories are removed with everything in them.
    pub recursive_delete: bool,
    /// Whether clients can take locks.
    pub has_locks: bool,
}

impl ExportPath {
    /// The path as its store knows it, with that store.
    #[must_use]
    pub fn stored(&self) -> StoredPath<'_> {
        StoredPath {
            store: &self.store,
            inner: &self.path,
        }
    }
}

/// A path as a store knows it.
#[derive(Clone, Copy, Debug)]
pub struct StoredPath<'a> {
    /// The store.
    pub store: &'a Store,
    /// The path within it.
    pub inner: &'a LogicalPath,
}
