//! The cache of an export, as its keys describe it.

use std::path::Path;
use std::time::Duration;

use crate::keys::Export;

/// Smallest cache, in bytes.
const SIZE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// The cache of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportCache<'a> {
    /// Its directory.
    pub directory: &'a Path,
    /// Most bytes that it may take.
    pub size_bytes: u64,
    /// How long an answer of the store behind it counts; `None`: until the next start.
    pub revalidate_after: Option<Duration>,
    /// Blocks to fetch ahead.
    pub prefetch_blocks: u32,
}

impl Export {
    /// Its cache, if it has one.
    pub fn cache(&self) -> Option<ExportCache<'_>> {
        Some(ExportCache {
            directory: self.cache_directory.as_deref()?,
            size_bytes: self.cache_size_bytes.0,
            revalidate_after: (!self.cache_immutable).then_some(self.cache_revalidate_after),
            prefetch_blocks: self.cache_prefetch_blocks,
        })
    }
}

/// Mistakes in the caches of these exports.
pub(crate) fn faults(exports: &[Export]) -> Vec<String> {
    let mut faults = Vec::new();
    let caches: Vec<ExportCache<'_>> = exports.iter().filter_map(Export::cache).collect();
    for (index, cache) in caches.iter().enumerate() {
        let directory = cache.directory.display();
        if cache.size_bytes < SIZE_BYTES_MIN {
            faults.push(format!("cache_size_bytes: the cache {directory} needs at least 64MiB"));
        }
        let differs =
            |other: &ExportCache<'_>| other.directory == cache.directory && other.size_bytes != cache.size_bytes;
        if caches[..index].iter().any(differs) {
            faults.push(format!("cache_size_bytes: the cache {directory} has two sizes"));
        }
    }
    faults
}
