//! Random operations against a plain model: what a reader gets is the version that it opened, or an
//! error that has a reason.
//!
//! `CACHE_MODEL_ROUNDS` sets the number of rounds, `CACHE_MODEL_SEED` the seed of the first.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cache::{Cache, CachedStore, Settings};
use net::Batch;
use storage::{
    Answer, BlockingStore, CommitFacts, Effect, Fault, Faulty, FindOwner, Memory, Operation, Overwrite, Owner,
    ReadHandle, Stat, Store, UploadOptions,
};
use types::{ByteRange, ErrorCode, LogicalPath, Result};

const ROUNDS: u64 = 1000;
const STEPS: usize = 20;
const MIB: usize = 1024 * 1024;

/// Names that differ in case only, and one below a directory.
const NAMES: [&str; 3] = ["/a", "/A", "/d/b"];

struct Anyone;

impl FindOwner for Anyone {
    fn find(&self) -> Answer<'_, Owner> {
        Box::pin(async { Ok(Owner::default()) })
    }
}

/// What tells versions apart.
type Version = (u64, SystemTime, u64);

fn version(stat: &Stat) -> Version {
    (stat.inode, stat.modified, stat.size_bytes)
}

struct Reader {
    handle: Arc<dyn ReadHandle>,
    path: LogicalPath,
    /// Changes of the path when it was opened.
    changes: u64,
}

struct World {
    random: fastrand::Rng,
    origin: Memory,
    has_faults: bool,
    faulty: Arc<dyn Store>,
    directory: PathBuf,
    cache: Option<Arc<Cache>>,
    settings: Settings,
    size_bytes: u64,
    /// Everything that was ever stored.
    contents: HashMap<Version, Arc<Vec<u8>>>,
    /// What is there now.
    current: HashMap<LogicalPath, Version>,
    changes: HashMap<LogicalPath, u64>,
    /// Paths that were changed behind the cache's back since they could be checked.
    stale: HashSet<LogicalPath>,
    readers: Vec<Reader>,
    time: SystemTime,
    /// What the caches did: hits, misses, bypass, prefetches, bad blocks, evictions, failures.
    seen: [u64; 7],
}

impl World {
    fn new(seed: u64, directory: &Path) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let origin = Memory::new(1 << 30);
        let mut faults = Vec::new();
        if random.bool() {
            for operation in [Operation::Open, Operation::Read, Operation::Commit, Operation::Write] {
                let nth = random.u64(1..40);
                let effect = Effect::Fail(ErrorCode::StorageFailed);
                faults.push(Fault { operation, nth, effect });
            }
        }
        let has_faults = !faults.is_empty();
        let revalidate_after = match random.u8(..3) {
            0 => Some(Duration::ZERO),
            1 => Some(Duration::from_secs(3600)),
            _ => None,
        };
        Self {
            settings: Settings {
                revalidate_after,
                prefetch_blocks: random.u64(..3),
            },
            size_bytes: if random.u8(..4) == 0 { 2 << 20 } else { 1 << 30 },
            random,
            faulty: Arc::new(BlockingStore::new(Arc::new(Faulty::new(origin.clone(), faults)))),
            origin,
            has_faults,
            directory: directory.to_owned(),
            cache: None,
            contents: HashMap::new(),
            current: HashMap::new(),
            changes: HashMap::new(),
            stale: HashSet::new(),
            readers: Vec::new(),
            time: SystemTime::now() - Duration::from_secs(1 << 20),
            seen: [0; 7],
        }
    }

    fn path(&mut self) -> LogicalPath {
        LogicalPath::parse(NAMES[self.random.usize(..NAMES.len())]).unwrap()
    }

    fn layer(&mut self, for_owner: bool) -> Arc<dyn Store> {
        let cache = self
            .cache
            .get_or_insert_with(|| Cache::open(&self.directory, self.size_bytes, Box::new(|_| {})).unwrap());
        let layer = CachedStore::new(self.faulty.clone(), cache.clone(), "origin", self.settings);
        layer.acting_for(for_owner.then(|| Arc::new(Anyone) as Arc<dyn FindOwner>))
    }

    fn content(&mut self) -> Arc<Vec<u8>> {
        let edges = [0, 1, 65_537, MIB - 1, MIB, MIB + 1];
        let large = 2 * MIB + 300_000;
        let size = edges
            .get(self.random.usize(..2 * edges.len()))
            .copied()
            .unwrap_or(large);
        let mut bytes = vec![0; size];
        self.random.fill(&mut bytes);
        Arc::new(bytes)
    }

    fn note(&mut self, path: &LogicalPath, now: Option<(Stat, Arc<Vec<u8>>)>) {
        *self.changes.entry(path.clone()).or_default() += 1;
        match now {
            Some((stat, content)) => {
                self.contents.insert(version(&stat), content);
                self.current.insert(path.clone(), version(&stat));
            }
            None => {
                self.current.remove(path);
            }
        }
    }

    /// Writes a new file, through the cache or behind its back.
    async fn write(&mut self, behind: bool) {
        let (path, content) = (self.path(), self.content());
        self.time += Duration::from_secs(1);
        let store: Arc<dyn Store> = match behind {
            true => Arc::new(BlockingStore::new(Arc::new(self.origin.clone()))),
            false => self.layer(false),
        };
        match put(store.as_ref(), &path, &content, self.time).await {
            Ok(stat) => {
                self.note(&path, Some((stat, content)));
                match behind {
                    true => self.stale.insert(path),
                    false => self.stale.remove(&path),
                };
            }
            Err(_) => assert!(self.has_faults, "a write failed without a reason"),
        }
    }

    /// Changes a file in place.
    async fn update(&mut self, behind: bool) {
        let path = self.path();
        let Some(old) = self.current.get(&path) else { return };
        let mut content = self.contents[old].as_ref().clone();
        if content.is_empty() {
            return;
        }
        let at = self.random.usize(..content.len());
        content[at] ^= 1;
        let store: Arc<dyn Store> = match behind {
            true => Arc::new(BlockingStore::new(Arc::new(self.origin.clone()))),
            false => self.layer(false),
        };
        let Ok(upload) = store.open_update(&path).await else {
            return assert!(self.has_faults);
        };
        if upload.write(Batch::copied(&content[at..=at]), at as u64).await.is_err() {
            return assert!(self.has_faults);
        }
        let stat = upload.stat().unwrap();
        let facts = CommitFacts {
            size_bytes: stat.size_bytes,
            ..CommitFacts::default()
        };
        // A failure here changes nothing.
        let _ = upload.commit(facts, None).await;
        self.note(&path, Some((stat, Arc::new(content))));
        match behind {
            true => self.stale.insert(path),
            false => self.stale.remove(&path),
        };
    }

    async fn remove_or_rename(&mut self) {
        let (from, to, layer) = (self.path(), self.path(), self.layer(false));
        if self.random.bool() {
            if layer.remove(&from).await.is_ok() {
                self.note(&from, None);
                self.stale.remove(&from);
            }
        } else if from != to && layer.rename(&from, &to, Overwrite::Allow).await.is_ok() {
            let moved = self.current[&from];
            let content = self.contents[&moved].clone();
            self.note(&from, None);
            *self.changes.entry(to.clone()).or_default() += 1;
            self.contents.insert(moved, content);
            self.current.insert(to.clone(), moved);
            self.stale.remove(&from);
            self.stale.remove(&to);
        }
    }

    async fn open(&mut self) {
        let path = self.path();
        let for_owner = self.random.u8(..3) == 0;
        let opened = self.layer(for_owner).open(&path).await;
        let may_be_old = self.settings.revalidate_after != Some(Duration::ZERO) && !for_owner;
        let is_certain = !(may_be_old && self.stale.contains(&path));
        match (opened, self.current.get(&path)) {
            (Ok(handle), current) => {
                let found = version(handle.stat());
                assert!(self.contents.contains_key(&found), "a version that never was");
                if is_certain {
                    assert_eq!(Some(&found), current, "an old version of {path}");
                }
                let changes = self.changes.get(&path).copied().unwrap_or_default();
                self.readers.push(Reader { handle, path, changes });
            }
            (Err(error), Some(_)) => assert!(self.has_faults, "{path}: {error:?}"),
            (Err(_), None) => {}
        }
    }

    /// Several readers read at the same time.
    async fn read(&mut self) {
        let mut tasks = Vec::new();
        for number in 0..self.readers.len() {
            let reader = &self.readers[number];
            let content = self.contents[&version(reader.handle.stat())].clone();
            let size = content.len() as u64;
            let start = self.random.u64(..=size);
            let start = if self.random.bool() { 0 } else { start };
            let length = [1, 100_000, 3 << 20][self.random.usize(..3)];
            let range = ByteRange::new(start, size.min(start + length));
            let handle = reader.handle.clone();
            tasks.push((
                number,
                tokio::spawn(async move { check(handle.as_ref(), range, &content).await }),
            ));
        }
        for (number, task) in tasks {
            let reader = &self.readers[number];
            let Err(error) = task.await.unwrap() else { continue };
            let has_changed = self.changes.get(&reader.path).copied().unwrap_or_default() != reader.changes;
            let is_stale = self.stale.contains(&reader.path);
            let has_reason = self.has_faults || (error == ErrorCode::SourceChanged && (has_changed || is_stale));
            assert!(has_reason, "{}: {error:?}", reader.path);
        }
        let keep = self.random.usize(..=2);
        self.readers.truncate(keep);
    }

    /// Damages the files of the cache.
    fn damage(&mut self) {
        let mut files = Vec::new();
        collect(&self.directory.join("files"), &mut files);
        if files.is_empty() {
            return;
        }
        let name = &files[self.random.usize(..files.len())];
        // The cache may remove it at the same time.
        let Ok(file) = std::fs::File::options().read(true).write(true).open(name) else {
            return;
        };
        let length = file.metadata().unwrap().len();
        let directory = self.directory.join("files");
        match self.random.u8(..32) {
            0 => drop(std::fs::remove_file(name)),
            // The cache may create files there meanwhile.
            1 => drop(std::fs::remove_dir_all(directory)),
            // Nothing can be stored any more.
            2 => drop(std::fs::remove_dir_all(&directory).and_then(|()| std::fs::write(directory, ""))),
            3..=5 => file.set_len(self.random.u64(..=length)).unwrap(),
            _ if length == 0 => {}
            kind => {
                // A bit of the header, of the table, or of a block.
                let limit = if kind < 14 { length.min(400) } else { length };
                let at = self.random.u64(..limit);
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                byte[0] ^= 1 << self.random.u8(..8);
                file.write_all_at(&byte, at).unwrap();
            }
        }
    }

    async fn restart(&mut self) {
        self.readers.clear();
        if let Some(cache) = self.cache.take() {
            let counts = cache.counts();
            let seen = [
                counts.hit_bytes,
                counts.miss_bytes,
                counts.bypass_bytes,
                counts.prefetched_bytes,
            ];
            let seen = seen
                .into_iter()
                .chain([counts.bad_blocks, counts.evicted_files, counts.disk_failures]);
            self.seen.iter_mut().zip(seen).for_each(|(all, new)| *all += new);
            let cache = {
                let weak = Arc::downgrade(&cache);
                drop(cache);
                weak
            };
            // Fetches that still run, and the keeper, hold it for a moment.
            while cache.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.stale.clear();
    }

    async fn step(&mut self) {
        match self.random.u8(..24) {
            0 => self.write(false).await,
            1 => self.write(true).await,
            2 => self.update(false).await,
            3 => self.update(true).await,
            4 => self.remove_or_rename().await,
            5..=11 => self.open().await,
            12..=18 => self.read().await,
            19..=22 => self.damage(),
            _ => self.restart().await,
        }
    }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => collect(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

async fn put(store: &dyn Store, path: &LogicalPath, content: &[u8], modified: SystemTime) -> Result<Stat> {
    let options = UploadOptions {
        create_parents: true,
        ..UploadOptions::default()
    };
    let upload = store.create(path, &options).await?;
    let mut at = 0;
    for chunk in content.chunks(200_000) {
        upload.write(Batch::copied(chunk), at).await?;
        at += chunk.len() as u64;
    }
    let facts = CommitFacts {
        size_bytes: content.len() as u64,
        modified: Some(modified),
        ..CommitFacts::default()
    };
    upload.commit(facts, None).await
}

/// Reads a range and compares it; returns the error of the first read that fails.
async fn check(handle: &dyn ReadHandle, mut left: ByteRange, content: &[u8]) -> Result<(), ErrorCode> {
    while !left.is_empty() {
        let batch = handle.read_batch(left).await.map_err(|error| error.code())?;
        assert!(!batch.is_empty(), "it ends early, at {}", left.start);
        let mut bytes = Vec::new();
        batch.append_to(&mut bytes);
        let start = left.start as usize;
        assert!(
            bytes == content[start..start + bytes.len()],
            "wrong bytes from {start} on"
        );
        left.take_front(bytes.len() as u64);
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn readers_get_the_version_that_they_opened_or_an_error_with_a_reason() {
    let first = number("CACHE_MODEL_SEED", 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut seen = [0; 7];
    let rounds = number("CACHE_MODEL_ROUNDS", ROUNDS);
    for seed in first..first + rounds {
        let directory = tempfile::tempdir().unwrap();
        let round = async {
            let mut world = World::new(seed, directory.path());
            for _ in 0..3 {
                world.write(false).await;
            }
            for _ in 0..STEPS {
                world.step().await;
            }
            world.restart().await;
            world.seen
        };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(round)));
        let Ok(new) = done else {
            panic!("failed with CACHE_MODEL_SEED={seed} CACHE_MODEL_ROUNDS=1");
        };
        seen.iter_mut().zip(new).for_each(|(all, new)| *all += new);
    }
    if rounds >= ROUNDS {
        assert!(!seen.contains(&0), "something never happened: {seen:?}");
    }
}
