//! A file that is read through the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::buffer::LARGE_BYTES;
use net::{Batch, Buffer, Outgoing};
use storage::{Answer, ReadHandle, Stat, Store};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::cache::Cache;
use crate::fetch::{fetch, prefetch};
use crate::file::Found;
use crate::flight::{End, Flight};
use crate::limits::{BLOCK_BYTES, PART_BYTES};
use crate::open_file::{Joined, OpenFile};

/// The file at the origin, opened when it is needed, in the name of the reader.
pub(crate) struct Origin {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) path: LogicalPath,
    pub(crate) version: Stat,
    pub(crate) handle: OnceCell<Arc<dyn ReadHandle>>,
}

impl Origin {
    /// The open file, in the version that the reader began with.
    async fn handle(&self) -> Result<&Arc<dyn ReadHandle>> {
        let open = || async {
            let handle = self.store.open(&self.path).await.map_err(gone_is_changed)?;
            match handle.stat().same_content(&self.version) {
                true => Ok(handle),
                false => Err(source_changed()),
            }
        };
        self.handle.get_or_try_init(open).await
    }
}

/// The reader has begun with a version, so a name that is gone means that it was changed.
fn gone_is_changed(error: Error) -> Error {
    match error.code() {
        ErrorCode::NotFound | ErrorCode::NotDirectory | ErrorCode::IsDirectory => source_changed(),
        _ => error,
    }
}

pub(crate) fn source_changed() -> Error {
    Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Transfer)
}

/// A file that is read through the cache.
pub(crate) struct CachedReader {
    pub(crate) cache: Arc<Cache>,
    pub(crate) open: Arc<OpenFile>,
    pub(crate) origin: Origin,
    /// When the origin was asked about the version.
    pub(crate) asked_at: Instant,
    /// Blocks to fetch ahead of a sequential reader.
    pub(crate) prefetch_blocks: u64,
    /// The number of the block read last, plus one.
    pub(crate) last_block: AtomicU64,
    /// Blocks that were read one after another.
    pub(crate) row: AtomicU64,
}

impl CachedReader {
    /// Reads from the disk; `None` if the block is not there.
    async fn read_stored(&self, range: ByteRange) -> Result<Option<Batch>> {
        let (open, mut buffer) = (self.open.clone(), Buffer::large());
        let read = move || {
            let found = open.file.read(range, &mut buffer[..LARGE_BYTES]);
            Ok((found, buffer))
        };
        let (found, buffer) = self.cache.lane.run(read).await?;
        let block = range.start / BLOCK_BYTES;
        match found {
            Ok(Found::Data(place)) => {
                self.cache.counters.hit_bytes.add(place.len() as u64);
                self.open.note_read(block);
                return Ok(Some(Batch::new(buffer, std::iter::once(place))));
            }
            Ok(Found::Absent) => {}
            Ok(Found::Damaged) => self.open.drop_block(block),
            Err(error) => {
                self.open.set_gone();
                self.cache.note_failure(&error);
            }
        }
        Ok(None)
    }

    /// The same into a room; 0 bytes if the block is not there, or the range begins within a page.
    /// What is wrong is found out by [`CachedReader::read_stored`].
    async fn read_stored_into(&self, range: ByteRange, mut room: Outgoing) -> Result<(Outgoing, usize)> {
        if range.is_empty() {
            return Ok((room, 0));
        }
        let open = self.open.clone();
        let read = move || {
            let filled = open.file.read_into(range, &mut room).unwrap_or(0);
            Ok((room, filled))
        };
        let (room, filled) = self.cache.lane.run(read).await?;
        if filled > 0 {
            let block = range.start / BLOCK_BYTES;
            self.cache.counters.hit_bytes.add(filled as u64);
            self.open.note_read(block);
            self.look_ahead(block);
        }
        Ok((room, filled))
    }

    /// Reads from the origin, and stores nothing.
    async fn read_past(&self, range: ByteRange) -> Result<Batch> {
        let origin = self.origin_handle().await?;
        let batch = origin.read_batch(range).await?;
        origin.check_unchanged().await?;
        self.cache.counters.bypass_bytes.add(batch.len() as u64);
        Ok(batch)
    }

    async fn origin_handle(&self) -> Result<&Arc<dyn ReadHandle>> {
        let opened = self.origin.handle().await;
        opened.inspect_err(|error| self.forget_if_changed(error))
    }

    fn forget_if_changed(&self, error: &Error) {
        if error.code() == ErrorCode::SourceChanged {
            self.cache.checked.forget(self.open.key);
        }
    }

    /// Reads a block that is not on the disk: joins its fetch, or begins it. `None` if a fetch has
    /// just ended.
    async fn read_missing(&self, range: ByteRange, ended_before: u64) -> Result<Option<Batch>> {
        if self.open.is_gone() || !self.cache.stores() || Handle::try_current().is_err() {
            return self.read_past(range).await.map(Some);
        }
        let block = range.start / BLOCK_BYTES;
        let origin = self.origin_handle().await?;
        let (flight, leads) = match self.open.join(block, ended_before) {
            Joined::LooksAgain => return Ok(None),
            Joined::Follows(flight) => (flight, false),
            Joined::Leads(landing) => {
                let flight = landing.flight.clone();
                tokio::spawn(fetch(self.cache.clone(), landing, origin.clone(), true));
                (flight, true)
            }
        };
        match self.read_part(&flight, range).await {
            Ok(batch) => Ok(Some(batch)),
            Err(End::Failed(error)) if leads => {
                self.forget_if_changed(&error);
                Err(error)
            }
            // The failure of another reader may be its own: of its rights, for example.
            Err(_) => self.read_past(range).await.map(Some),
        }
    }

    async fn read_part(&self, flight: &Flight, range: ByteRange) -> Result<Batch, End> {
        let block = range.start / BLOCK_BYTES;
        let from = (range.start - block * BLOCK_BYTES) as usize;
        let part = flight.part(from / PART_BYTES).await?;
        let rest = part.get(from % PART_BYTES..).unwrap_or_default();
        let count = rest.len().min(usize::try_from(range.len()).unwrap_or(usize::MAX));
        self.cache.counters.miss_bytes.add(count as u64);
        self.open.note_read(block);
        Ok(Batch::copied(&rest[..count]))
    }

    /// Begins to fetch what a sequential reader will ask for.
    fn look_ahead(&self, block: u64) {
        let before = self.last_block.swap(block + 1, Ordering::Relaxed);
        if before == block + 1 {
            return;
        }
        if before != block || block == 0 {
            self.row.store(0, Ordering::Relaxed);
            return;
        }
        let row = self.row.fetch_add(1, Ordering::Relaxed) + 1;
        let ahead = self.prefetch_blocks.min(row * 2);
        let Some(origin) = self.origin.handle.get().filter(|_| !self.open.is_complete()) else {
            return;
        };
        prefetch(&self.cache, &self.open, origin, block + 1..block + 1 + ahead);
    }
}

impl ReadHandle for CachedReader {
    fn stat(&self) -> &Stat {
        &self.origin.version
    }

    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        Box::pin(async move {
            let range = ByteRange::new(range.start, range.end.min(self.origin.version.size_bytes));
            if range.is_empty() {
                return Ok(Batch::copied(&[]));
            }
            self.look_ahead(range.start / BLOCK_BYTES);
            loop {
                let ended_before = self.open.ended_fetches();
                if let Some(batch) = self.read_stored(range).await? {
                    return Ok(batch);
                }
                if let Some(batch) = self.read_missing(range, ended_before).await? {
                    return Ok(batch);
                }
            }
        })
    }

    /// From the disk directly into the room, where that is possible.
    fn read(&self, room: Outgoing, want: usize, offset: u64) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let end = offset.saturating_add(want as u64).min(self.origin.version.size_bytes);
            let range = ByteRange::new(offset.min(end), end);
            let (mut room, filled) = self.read_stored_into(range, room).await?;
            if filled > 0 {
                return Ok((room, filled));
            }
            let mut batch = self.read_batch(range).await?;
            let filled = room.fill_from(&mut batch);
            Ok((room, filled))
        })
    }

    /// Begins the fetch of the first block, so that an origin that fails does so before the range
    /// is promised.
    fn begin(&self, range: ByteRange) -> Answer<'_, ()> {
        Box::pin(async move {
            if range.is_empty() || self.open.is_complete() {
                return Ok(());
            }
            if self.open.is_gone() || !self.cache.stores() {
                return self.origin_handle().await?.begin(range).await;
            }
            let first = ByteRange::new(range.start, range.start + 1);
            self.read_batch(first).await.map(drop)
        })
    }

    fn cached_age(&self, range: ByteRange) -> Answer<'_, Option<Duration>> {
        Box::pin(async move {
            if !self.open.is_complete() {
                let open = self.open.clone();
                let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
                let has_all = move || Ok(open.file.has_all(blocks).unwrap_or(false));
                if !self.cache.lane.run(has_all).await? {
                    return Ok(None);
                }
            }
            Ok(Some(self.asked_at.elapsed()))
        })
    }

    fn check_unchanged(&self) -> Answer<'_, ()> {
        match self.origin.handle.get() {
            Some(origin) => origin.check_unchanged(),
            // All of it came from blocks of one version.
            None => Box::pin(async { Ok(()) }),
        }
    }
}
