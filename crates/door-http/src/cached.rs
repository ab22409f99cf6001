//! What a client may demand of an export's cache, and what it learns of it (RFC 9111).

use std::sync::Arc;
use std::time::Duration;

use endpoint::{ExportPath, refusal};
use http_wire::{CacheDirectives, RequestHead};
use storage::ReadHandle;
use types::{ByteRange, ErrorCode, Result};

use crate::exchange::FileExchange;

impl FileExchange<'_, '_> {
    /// The file as the client wants it of a cache. An export without a cache has the bytes
    /// themselves, and follows no directives.
    pub(crate) fn follow_cache_directives(&mut self, head: &RequestHead, export_path: &mut ExportPath) {
        let directives = head.cache_directives();
        if directives == CacheDirectives::default() {
            return;
        }
        let max_age = directives.max_age.unwrap_or(Duration::MAX);
        if let Some(store) = export_path.store.checked_within(max_age) {
            export_path.store = store;
            self.cached_only = directives.only_if_cached;
        }
    }

    /// Refuses what is not cached to a client that wants nothing else. `size_bytes` is that of the
    /// whole file: an empty one has nothing that could be cached.
    pub(crate) fn check_cached(&self, age: Option<Duration>, size_bytes: u64) -> Result<()> {
        match self.cached_only && age.is_none() && size_bytes > 0 {
            true => Err(refusal(ErrorCode::NotCached, &self.http.path)),
            false => Ok(()),
        }
    }
}

/// How long ago the origin was asked, if the cache has all of these ranges; without ranges, the
/// whole file.
pub(crate) async fn age_of(reader: &Arc<dyn ReadHandle>, ranges: &[ByteRange]) -> Result<Option<Duration>> {
    if ranges.is_empty() {
        return reader.cached_age(ByteRange::whole(reader.stat().size_bytes)).await;
    }
    let mut oldest = None;
    for range in ranges {
        let Some(age) = reader.cached_age(*range).await? else {
            return Ok(None);
        };
        oldest = oldest.max(Some(age));
    }
    Ok(oldest)
}
