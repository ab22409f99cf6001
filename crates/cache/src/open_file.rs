//! A cached file that readers have open.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::Counters;
use crate::file::BlockFile;
use crate::flight::{End, Flight};
use crate::key::Key;

/// A cached file, open for all of its readers together.
pub(crate) struct OpenFile {
    pub(crate) key: Key,
    pub(crate) file: BlockFile,
    /// Replaced, removed or evicted: nothing more is stored.
    is_gone: AtomicBool,
    stored_blocks: AtomicU64,
    flights: Mutex<Flights>,
    /// Blocks that were fetched ahead, and that no reader has read yet.
    unread: Mutex<HashSet<u64>>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Flights {
    running: HashMap<u64, Arc<Flight>>,
    /// How many have ended.
    ended: u64,
}

/// What a reader of a block does that was not on the disk.
pub(crate) enum Joined {
    /// It starts the fetch.
    Leads(Landing),
    /// The block is being fetched.
    Follows(Arc<Flight>),
    /// A fetch has ended since the reader looked at the disk: it looks again.
    LooksAgain,
}

impl OpenFile {
    pub(crate) fn new(key: Key, file: BlockFile, stored_blocks: u64, counters: &Arc<Counters>) -> Self {
        Self {
            key,
            file,
            is_gone: AtomicBool::new(false),
            stored_blocks: AtomicU64::new(stored_blocks),
            flights: Mutex::default(),
            unread: Mutex::default(),
            counters: counters.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many fetches have ended: asked before the disk is read, see [`OpenFile::join`].
    pub(crate) fn ended_fetches(&self) -> u64 {
        self.lock().ended
    }

    /// Joins the fetch of a block, or begins it.
    pub(crate) fn join(self: &Arc<Self>, block: u64, ended_before: u64) -> Joined {
        let mut flights = self.lock();
        if let Some(flight) = flights.running.get(&block) {
            return Joined::Follows(flight.clone());
        }
        if flights.ended != ended_before {
            return Joined::LooksAgain;
        }
        let flight = Arc::new(Flight::new());
        flights.running.insert(block, flight.clone());
        Joined::Leads(Landing {
            open: self.clone(),
            block,
            flight,
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    pub(crate) fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Whether all blocks are stored, according to the table.
    pub(crate) fn is_complete(&self) -> bool {
        self.stored_blocks.load(Ordering::Relaxed) >= self.file.places.blocks()
    }

    pub(crate) fn note_stored(&self) {
        self.stored_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets a damaged block.
    pub(crate) fn drop_block(&self, block: u64) {
        self.counters.bad_blocks.add(1);
        if self.file.clear(block).is_err() {
            self.counters.disk_failures.add(1);
            self.set_gone();
        }
        // It may be dropped twice; then the file only counts as incomplete for longer.
        let less = |count: u64| Some(count.saturating_sub(1));
        let _ = self
            .stored_blocks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(crate) fn note_prefetched(&self, block: u64) {
        self.counters.prefetched_bytes.add(self.file.places.block_bytes(block));
        self.unread().insert(block);
    }

    pub(crate) fn note_read(&self, block: u64) {
        self.unread().remove(&block);
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let unread = std::mem::take(&mut *self.unread());
        let wasted = unread.iter().map(|block| self.file.places.block_bytes(*block)).sum();
        self.counters.prefetch_wasted_bytes.add(wasted);
    }
}

/// A fetch that has begun. When it is dropped, however that happens, its readers learn that it has
/// ended.
pub(crate) struct Landing {
    pub(crate) open: Arc<OpenFile>,
    pub(crate) block: u64,
    pub(crate) flight: Arc<Flight>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flight.end(End::NotFetched);
        let mut flights = self.open.lock();
        flights.running.remove(&self.block);
        flights.ended += 1;
    }
}
