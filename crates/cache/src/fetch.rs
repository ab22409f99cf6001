//! Fetches a block from the origin, for its readers and for the disk.

use std::ops::Range;
use std::sync::Arc;

use storage::ReadHandle;
use tokio::runtime::Handle;
use types::{ByteRange, Result};

use crate::cache::Cache;
use crate::flight::{End, Flight};
use crate::layout::Entry;
use crate::limits::{BLOCK_BYTES, FETCH_WAIT, FETCHES_FOR_READERS, PART_BYTES};
use crate::open_file::{Joined, Landing, OpenFile};
use crate::reader::source_changed;

/// Fetches a block and stores it. Runs as a task of its own: a reader that leaves does not end it
/// for the others, and gets its bytes before the rest has arrived. With `waits` it waits for its
/// turn among the fetches.
pub(crate) async fn fetch(cache: Arc<Cache>, landing: Landing, origin: Arc<dyn ReadHandle>, waits: bool) {
    let permit = match waits {
        true => tokio::time::timeout(FETCH_WAIT, cache.fetches.acquire()).await.ok(),
        false => cache.fetches.try_acquire().ok().map(Ok),
    };
    let Some(Ok(_permit)) = permit else { return };
    let (open, block) = (&landing.open, landing.block);
    let start = block * BLOCK_BYTES;
    let range = ByteRange::new(start, start + open.file.places.block_bytes(block));
    if let Err(error) = read_block(&cache, &landing.flight, origin.as_ref(), range).await {
        return landing.flight.end(End::Failed(error));
    }
    landing.flight.end(End::Complete);
    let (open, parts, keeps) = (open.clone(), landing.flight.parts(), cache.clone());
    let put = move || {
        keeps.put(&open, block, &parts);
        Ok(())
    };
    // Its failure is noted there, and readers have their bytes.
    let _ = cache.lane.run(put).await;
}

/// Nothing is stored unless the file is still the one that was opened when the block has come. On
/// this machine each part is checked before a reader gets it; on another server that would cost a
/// round trip for each.
async fn read_block(cache: &Cache, flight: &Flight, origin: &dyn ReadHandle, mut left: ByteRange) -> Result<()> {
    origin.advise_sequential(left);
    while !left.is_empty() {
        let mut part = Vec::with_capacity(PART_BYTES.min(left.len() as usize));
        let mut wanted = left.take_front(PART_BYTES as u64);
        while !wanted.is_empty() {
            let batch = origin.read_batch(wanted).await?;
            if batch.is_empty() {
                return Err(source_changed());
            }
            cache.counters.fetched_bytes.add(batch.len() as u64);
            wanted.take_front(batch.len() as u64);
            batch.append_to(&mut part);
        }
        // After the read: a change before it would show.
        if left.is_empty() || origin.checks_locally() {
            origin.check_unchanged().await?;
        }
        flight.add(Arc::new(part));
    }
    Ok(())
}

/// Begins to fetch blocks that are not stored, while fetches are free.
pub(crate) fn prefetch(cache: &Arc<Cache>, open: &Arc<OpenFile>, origin: &Arc<dyn ReadHandle>, blocks: Range<u64>) {
    if open.is_gone() || !cache.stores() || Handle::try_current().is_err() {
        return;
    }
    for block in blocks.start..blocks.end.min(open.file.places.blocks()) {
        let ended_before = open.ended_fetches();
        let is_absent = open.file.entry(block).is_ok_and(|entry| entry == Entry::Absent);
        if !is_absent || cache.fetches.available_permits() <= FETCHES_FOR_READERS {
            continue;
        }
        if let Joined::Leads(landing) = open.join(block, ended_before) {
            open.note_prefetched(block);
            tokio::spawn(fetch(cache.clone(), landing, origin.clone(), false));
        }
    }
}
