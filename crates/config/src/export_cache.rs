//! The cache of an export, as its keys describe it.

use std::path::Path;
use std::time::Duration;

use crate::keys::Export;

/// Size of a cache when none is given, in bytes.
const SIZE_BYTES_DEFAULT: u64 = 10 << 30;
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

/// Mistakes in the cache of an export. Those `before` it may share it.
pub(crate) fn faults(export: &Export, before: &[Export]) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(cache) = export.cache() else {
        return unused(export).into_iter().collect();
    };
    let directory = cache.directory.display();
    if cache.size_bytes < SIZE_BYTES_MIN {
        faults.push(format!("cache_size_bytes: the cache {directory} needs at least 64MiB; write more"));
    }
    let mut others = before.iter().filter_map(Export::cache);
    if others.any(|other| other.directory == cache.directory && other.size_bytes != cache.size_bytes) {
        faults.push(format!(
            "cache_size_bytes: the cache {directory} has two sizes; write the same in all exports that share it"
        ));
    }
    faults
}

/// A size without the cache that it is for. The default may be written, as in the example of all
/// keys.
fn unused(export: &Export) -> Option<String> {
    let has_size = export.cache_size_bytes.0 != SIZE_BYTES_DEFAULT;
    has_size.then(|| "cache_size_bytes: belongs to cache_directory, which is missing; set it, too".to_owned())
}
