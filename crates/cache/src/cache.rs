//! The cache of one directory: its open files, its space, and what happens when its disk fails.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use execution::Lane;
use rustix::fs::{FlockOperation, flock};
use storage::Stat;
use tokio::sync::Semaphore;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::checked::CheckedVersions;
use crate::counters::{Counters, Counts};
use crate::file::BlockFile;
use crate::index::Index;
use crate::keeper::{self, Order};
use crate::key::{Key, SHELVES};
use crate::layout::Header;
use crate::limits::{FAILURE_PAUSE, FETCHES_MAX, FULL_PAUSE, HIGH_WATER_PERCENT, LOW_WATER_PERCENT};
use crate::open_file::OpenFile;

/// Files whose table of blocks is not counted when they are opened have more blocks than this.
const COUNTED_BLOCKS_MAX: u64 = 64 * 1024;

/// What the owner of a cache learns about its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The disk is full: files are evicted, and nothing is stored for a moment.
    DiskFull,
    /// The disk failed with this error: nothing is stored for a while.
    DiskFailed(String),
}

/// Called when the disk of a cache has failed, once per pause.
pub type OnTrouble = Box<dyn Fn(&Trouble) + Send + Sync>;

/// The open files of a shelf.
type Shelf = HashMap<Key, Weak<OpenFile>>;

/// A directory with cached files, for any number of stores.
///
/// The directory belongs to one process at a time, which holds a lock on the file `lock` in it.
/// Memory: about 60 bytes for each cached file, 1 MiB for each block that is being fetched
/// ([`FETCHES_MAX`] at most), and for each open file one descriptor and some hundred bytes,
/// however many readers it has.
pub struct Cache {
    pub(crate) directory: PathBuf,
    /// Held until the cache is dropped.
    _lock: File,
    size_bytes: AtomicU64,
    shelves: Vec<Mutex<Shelf>>,
    index: Mutex<Index>,
    pub(crate) checked: CheckedVersions,
    pub(crate) fetches: Semaphore,
    pub(crate) counters: Arc<Counters>,
    pub(crate) lane: Lane,
    orders: SyncSender<Order>,
    is_evicting: AtomicBool,
    started: Instant,
    pub(crate) opened_at: SystemTime,
    /// Milliseconds after `started`.
    paused_until: AtomicU64,
    on_trouble: OnTrouble,
}

impl Cache {
    /// Opens the cache in a directory, which is created if it is missing. What it holds is counted
    /// in the background.
    ///
    /// # Errors
    /// `storage_failed` if the directory cannot be used, `busy` if another process uses it.
    pub fn open(directory: &Path, size_bytes: u64, on_trouble: OnTrouble) -> Result<Arc<Self>> {
        let lock = lock_directory(directory)?;
        let (orders, waiting) = std::sync::mpsc::sync_channel(crate::limits::ORDERS_MAX);
        let this = Arc::new(Self {
            directory: directory.to_owned(),
            _lock: lock,
            size_bytes: AtomicU64::new(size_bytes),
            shelves: (0..SHELVES).map(|_| Mutex::default()).collect(),
            index: Mutex::default(),
            checked: CheckedVersions::default(),
            fetches: Semaphore::new(FETCHES_MAX),
            counters: Arc::default(),
            lane: Lane::new(),
            orders,
            is_evicting: AtomicBool::new(false),
            started: Instant::now(),
            opened_at: SystemTime::now(),
            paused_until: AtomicU64::new(0),
            on_trouble,
        });
        let keeper = Arc::downgrade(&this);
        execution::start_thread("cache-keeper", move || keeper::run(&keeper, &waiting))
            .map_err(|error| unusable(ErrorCode::StorageFailed, directory, &error))?;
        Ok(this)
    }

    /// Changes the size.
    pub fn set_size(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        self.evict_soon();
    }

    /// The size that it may have.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// The number of cached files, and what they take together: of those counted so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let index = self.index();
        Usage {
            files: index.files(),
            bytes: index.total_bytes(),
        }
    }

    /// What it has done since its start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Whether blocks are stored now: the disk works and has space.
    #[must_use]
    pub fn stores(&self) -> bool {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        now_ms >= self.paused_until.load(Ordering::Relaxed) && self.index().total_bytes() < self.size_bytes()
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self, key: Key) -> MutexGuard<'_, Shelf> {
        self.shelves[key.shelf()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached file with this version, created if it is missing. `None`: the file cannot be
    /// cached now. Blocks.
    pub(crate) fn open_file(
        &self,
        key: Key,
        origin: &str,
        path: &LogicalPath,
        version: &Stat,
    ) -> Option<Arc<OpenFile>> {
        let mut shelf = self.shelf(key);
        let known = shelf.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known {
            let fits = known.file.is_of(origin, path.as_str(), version);
            if fits && !known.is_gone() && known.file.has_name() {
                self.index().note_use(key, now_s());
                return Some(known);
            }
            known.set_gone();
        }
        let file = match self.find_or_create(key, origin, path, version) {
            Ok(file) => file?,
            Err(error) => {
                self.note_failure(&error);
                return None;
            }
        };
        let stored_blocks = match file.places.blocks() <= COUNTED_BLOCKS_MAX {
            true => file.count_stored().unwrap_or(0),
            false => 0,
        };
        self.index().note_use(key, now_s());
        let open = Arc::new(OpenFile::new(key, file, stored_blocks, &self.counters));
        if shelf.len() >= shelf.capacity() {
            shelf.retain(|_, open| open.strong_count() > 0);
        }
        shelf.insert(key, Arc::downgrade(&open));
        Some(open)
    }

    /// Whether the whole file is stored in this version. Creates nothing. Blocks.
    pub(crate) fn has_whole(&self, key: Key, origin: &str, path: &LogicalPath, version: &Stat) -> bool {
        let fits = |file: &BlockFile| file.is_of(origin, path.as_str(), version);
        let has_all = |file: &BlockFile| file.has_all(0..file.places.blocks()).unwrap_or(false);
        let known = self.shelf(key).get(&key).and_then(Weak::upgrade);
        match known.filter(|known| !known.is_gone() && known.file.has_name()) {
            Some(known) => fits(&known.file) && (known.is_complete() || has_all(&known.file)),
            None => BlockFile::open_to_read(&key.file(&self.directory))
                .is_ok_and(|file| file.is_some_and(|file| fits(&file) && has_all(&file))),
        }
    }

    fn find_or_create(
        &self,
        key: Key,
        origin: &str,
        path: &LogicalPath,
        version: &Stat,
    ) -> io::Result<Option<BlockFile>> {
        match BlockFile::open(&key.file(&self.directory)) {
            Ok(Some(file)) if file.is_of(origin, path.as_str(), version) => {
                file.note_use();
                self.index().adopt(key, file.disk_bytes(), now_s());
                return Ok(Some(file));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.stores() {
            return Ok(None);
        }
        let header = Header {
            random: fastrand::u64(..),
            origin: origin.to_owned(),
            path: path.as_str().to_owned(),
            version: version.clone(),
        };
        self.index().remove(key);
        let file = BlockFile::create(&self.directory, key, header)?;
        if let Some(file) = &file {
            self.index().grow(key, file.disk_bytes());
        }
        Ok(file)
    }

    /// Stores a block that was fetched. Blocks.
    pub(crate) fn put(&self, open: &Arc<OpenFile>, block: u64, parts: &[Arc<Vec<u8>>]) {
        if open.is_gone() || !self.stores() {
            return;
        }
        if let Err(error) = open.file.put(block, parts) {
            return self.note_failure(&error);
        }
        open.note_stored();
        let shelf = self.shelf(open.key);
        let is_current = shelf
            .get(&open.key)
            .is_some_and(|known| known.as_ptr() == Arc::as_ptr(open));
        if is_current && !open.is_gone() {
            self.index().grow(open.key, open.file.places.block_bytes(block));
        }
        drop(shelf);
        if self.index().total_bytes() > self.share(HIGH_WATER_PERCENT) {
            self.evict_soon();
        }
    }

    fn share(&self, percent: u64) -> u64 {
        self.size_bytes() / 100 * percent
    }

    fn evict_soon(&self) {
        if !self.is_evicting.swap(true, Ordering::Relaxed) {
            self.order(Order::Evict);
        }
    }

    fn order(&self, order: Order) {
        // With a full queue the order is left out: what it would free is found by eviction.
        let _ = self.orders.try_send(order);
    }

    /// Evicts files that are not open until the low water mark. On the keeper's thread.
    pub(crate) fn evict(&self, random: &mut fastrand::Rng) {
        self.is_evicting.store(false, Ordering::Relaxed);
        if self.index().total_bytes() <= self.share(HIGH_WATER_PERCENT) {
            return;
        }
        self.evict_to(self.share(LOW_WATER_PERCENT), random);
    }

    /// Frees a twentieth of what the files take, because the disk is full.
    pub(crate) fn make_space(&self, random: &mut fastrand::Rng) {
        let total_bytes = self.index().total_bytes();
        self.evict_to(total_bytes - total_bytes / 20, random);
    }

    fn evict_to(&self, target_bytes: u64, random: &mut fastrand::Rng) {
        let mut open_files = 0;
        while open_files < SHELVES {
            let victim = {
                let index = self.index();
                if index.total_bytes() <= target_bytes {
                    return;
                }
                index.victim(now_s(), random)
            };
            let Some(key) = victim else { return };
            if !self.remove_unless_open(key) {
                self.index().note_use(key, now_s());
                open_files += 1;
            }
        }
    }

    /// Removes a cached file that no reader has open; returns whether it did.
    fn remove_unless_open(&self, key: Key) -> bool {
        let mut shelf = self.shelf(key);
        if shelf.get(&key).is_some_and(|open| open.strong_count() > 0) {
            return false;
        }
        shelf.remove(&key);
        self.unlink(key);
        let bytes = self.index().remove(key);
        self.counters.evicted_files.add(1);
        self.counters.evicted_bytes.add(bytes);
        true
    }

    /// Forgets what a change of `path` makes invalid: the file with this name, and with `is_tree`
    /// all below it.
    pub(crate) fn note_change(&self, origin: &str, path: &LogicalPath, is_tree: bool) {
        let key = Key::of(origin, path);
        let below = match is_tree {
            true => self.checked.forget_below(origin, path),
            false => {
                self.checked.note_changed(key);
                Vec::new()
            }
        };
        for key in std::iter::once(key).chain(below) {
            self.order(Order::Remove(key));
        }
    }

    /// Removes a cached file. Readers that have it open keep it. On the keeper's thread.
    pub(crate) fn remove(&self, key: Key) {
        let mut shelf = self.shelf(key);
        if let Some(open) = shelf.remove(&key).and_then(|open| open.upgrade()) {
            open.set_gone();
        }
        self.unlink(key);
        self.index().remove(key);
    }

    fn unlink(&self, key: Key) {
        match std::fs::remove_file(key.file(&self.directory)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.note_failure(&error),
            _ => {}
        }
    }

    /// Stops storing for a while after a failure of the disk.
    pub(crate) fn note_failure(&self, error: &io::Error) {
        self.counters.disk_failures.add(1);
        let (trouble, pause) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (Trouble::DiskFull, FULL_PAUSE),
            _ => (Trouble::DiskFailed(error.to_string()), FAILURE_PAUSE),
        };
        let is_full = trouble == Trouble::DiskFull;
        let until = self.started.elapsed().saturating_add(pause);
        let until_ms = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        let before = self.paused_until.fetch_max(until_ms, Ordering::Relaxed);
        if Duration::from_millis(before) <= self.started.elapsed() {
            (self.on_trouble)(&trouble);
            if is_full {
                self.order(Order::MakeSpace);
            }
        }
    }
}

/// What the files of a cache take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// How many there are.
    pub files: usize,
    /// What they take on the disk, in bytes.
    pub bytes: u64,
}

/// Seconds since the epoch.
pub(crate) fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// How long a process waits for the lock: the one before it may be about to end.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

fn lock_directory(directory: &Path) -> Result<File> {
    let failed = |error: &io::Error| unusable(ErrorCode::StorageFailed, directory, error);
    std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"));
    let lock = lock.map_err(|error| failed(&error))?;
    let given_up_at = Instant::now() + LOCK_WAIT;
    let locked = loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < given_up_at => std::thread::sleep(LOCK_PAUSE),
            locked => break locked,
        }
    };
    match locked {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let error = Error::new(ErrorCode::Busy, Side::Active, Phase::Open);
            Err(error.with_detail(format!(
                "another process uses the cache directory {}",
                directory.display()
            )))
        }
        Err(errno) => Err(failed(&errno.into())),
    }
}

fn unusable(code: ErrorCode, directory: &Path, error: &io::Error) -> Error {
    let detail = format!("cannot use the cache directory {}: {error}", directory.display());
    Error::new(code, Side::Active, Phase::Open).with_detail(detail)
}
