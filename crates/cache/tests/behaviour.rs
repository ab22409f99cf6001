//! What readers of a cache, and the store behind it, notice.

use std::collections::HashSet;
use std::future::Future;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cache::{Cache, CachedStore, Settings};
use net::{Batch, Outgoing};
use storage::{
    Answer, BlockingStore, CommitFacts, DirectoryReader, FindOwner, Held, Memory, Overwrite, Owner, ReadHandle, Space,
    Stat, Store, UploadOptions, WriteHandle,
};
use tokio::sync::Semaphore;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

const MIB: usize = 1024 * 1024;

/// A store in memory that counts what is read, and reads or refuses on command.
#[derive(Clone)]
struct Origin {
    files: Arc<dyn Store>,
    facts: Arc<Facts>,
    owner: Option<Arc<dyn FindOwner>>,
}

struct Facts {
    read_bytes: AtomicU64,
    opened: AtomicU64,
    /// Each read takes one.
    reads: Semaphore,
    /// Owners that may not open files.
    refused: Mutex<HashSet<String>>,
    /// Owners whose reads fail.
    failing: Mutex<HashSet<String>>,
}

impl Origin {
    fn new() -> Self {
        let facts = Facts {
            read_bytes: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            reads: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            refused: Mutex::default(),
            failing: Mutex::default(),
        };
        Self {
            files: Arc::new(BlockingStore::new(Arc::new(Memory::new(1 << 32)))),
            facts: Arc::new(facts),
            owner: None,
        }
    }

    fn read_bytes(&self) -> u64 {
        self.facts.read_bytes.load(Ordering::Relaxed)
    }

    fn opened(&self) -> u64 {
        self.facts.opened.load(Ordering::Relaxed)
    }
}

impl Store for Origin {
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        Arc::new(Self { owner, ..self.clone() })
    }
    fn holding(&self, held: Held) -> Arc<dyn Store> {
        Arc::new(Self {
            files: self.files.holding(held),
            ..self.clone()
        })
    }
    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        self.files.stat(path)
    }
    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        self.files.list(path)
    }
    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move {
            self.facts.opened.fetch_add(1, Ordering::Relaxed);
            let owner = match &self.owner {
                Some(owner) => owner.find().await?.vo.unwrap().to_string(),
                None => String::new(),
            };
            if self.facts.refused.lock().unwrap().contains(&owner) {
                return Err(Error::new(ErrorCode::Forbidden, Side::Active, Phase::Open));
            }
            Ok(Arc::new(OriginHandle {
                file: self.files.open(path).await?,
                facts: self.facts.clone(),
                owner,
            }) as Arc<dyn ReadHandle>)
        })
    }
    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        self.files.create(path, options)
    }
    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()> {
        self.files.make_directory(path, parents)
    }
    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()> {
        self.files.remove(path)
    }
    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool> {
        self.files.rename(from, to, overwrite)
    }
    fn space(&self) -> Answer<'_, Space> {
        self.files.space()
    }
    fn stored_checksums<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        self.files.stored_checksums(path)
    }
    fn origin_checksum<'a>(
        &'a self,
        path: &'a LogicalPath,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Option<Checksum>> {
        Box::pin(async move {
            let known = self.files.stored_checksums(path).await?;
            Ok(known.into_iter().find(|known| known.algorithm() == algorithm))
        })
    }
}

struct OriginHandle {
    file: Arc<dyn ReadHandle>,
    facts: Arc<Facts>,
    owner: String,
}

impl ReadHandle for OriginHandle {
    fn stat(&self) -> &Stat {
        self.file.stat()
    }
    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        Box::pin(async move {
            self.facts.reads.acquire().await.unwrap().forget();
            if self.facts.failing.lock().unwrap().contains(&self.owner) {
                return Err(Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Transfer));
            }
            let batch = self.file.read_batch(range).await?;
            self.facts.read_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
            Ok(batch)
        })
    }
}

struct Named(&'static str);

impl FindOwner for Named {
    fn find(&self) -> Answer<'_, Owner> {
        Box::pin(async {
            Ok(Owner {
                vo: Some(self.0.into()),
                ..Owner::default()
            })
        })
    }
}

/// An origin behind a cache.
struct Place {
    origin: Origin,
    cache: Arc<Cache>,
    layer: CachedStore,
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self::sized(1 << 30)
    }

    fn sized(size_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (cache, origin) = (open(directory.path(), size_bytes), Origin::new());
        let settings = Settings {
            revalidate_after: Some(Duration::from_secs(3600)),
            prefetch_blocks: 2,
        };
        let layer = CachedStore::new(Arc::new(origin.clone()), cache.clone(), "origin", settings);
        Self {
            origin,
            cache,
            layer,
            directory,
        }
    }

    fn for_owner(&self, name: &'static str) -> Arc<dyn Store> {
        self.layer.acting_for(Some(Arc::new(Named(name))))
    }

    /// Stores a file at the origin.
    async fn put(&self, name: &str, size_bytes: usize) -> Vec<u8> {
        put(&self.origin, name, size_bytes).await
    }
}

fn open(directory: &Path, size_bytes: u64) -> Arc<Cache> {
    Cache::open(directory, size_bytes, Box::new(|_| {})).unwrap()
}

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

/// Stores a file that was modified long ago.
async fn put(store: &dyn Store, name: &str, size_bytes: usize) -> Vec<u8> {
    let mut content = vec![0; size_bytes];
    fastrand::Rng::with_seed(size_bytes as u64 + name.len() as u64).fill(&mut content);
    let upload = store.create(&path(name), &UploadOptions::default()).await.unwrap();
    for (number, chunk) in content.chunks(200_000).enumerate() {
        upload
            .write(Batch::copied(chunk), number as u64 * 200_000)
            .await
            .unwrap();
    }
    let facts = CommitFacts {
        size_bytes: content.len() as u64,
        checksums: vec![Checksum::adler32(size_bytes as u32)],
        modified: Some(SystemTime::now() - Duration::from_secs(100)),
        mode: None,
    };
    upload.commit(facts, None).await.unwrap();
    content
}

async fn read(handle: &dyn ReadHandle, mut range: ByteRange) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while !range.is_empty() {
        let batch = handle.read_batch(range).await?;
        assert!(!batch.is_empty());
        batch.append_to(&mut bytes);
        range.take_front(batch.len() as u64);
    }
    Ok(bytes)
}

async fn read_all(store: &dyn Store, name: &str) -> Result<Vec<u8>> {
    let handle = store.open(&path(name)).await?;
    read(handle.as_ref(), ByteRange::whole(handle.stat().size_bytes)).await
}

async fn until(mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(120), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("it never holds");
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(test);
}

#[test]
fn many_readers_of_a_cold_file_cost_the_origin_one_read() {
    run(async {
        let place = Place::new();
        let content = Arc::new(place.put("/big", 20 * MIB + 5).await);
        let readers: Vec<_> = (0..32)
            .map(|_| {
                let (layer, content) = (place.layer.clone(), content.clone());
                tokio::spawn(async move { assert!(read_all(&layer, "/big").await.unwrap() == *content) })
            })
            .collect();
        for reader in readers {
            reader.await.unwrap();
        }
        let cost = place.origin.read_bytes() as f64 / content.len() as f64;
        assert!(cost <= 1.02, "the origin was read {cost} times");
        let (opened, before) = (place.origin.opened(), place.origin.read_bytes());
        until(|| place.cache.counts().fetched_bytes <= place.cache.usage().bytes).await;
        assert!(read_all(&place.layer, "/big").await.unwrap() == *content);
        assert_eq!(
            (place.origin.opened(), place.origin.read_bytes()),
            (opened, before),
            "all of it is cached"
        );
    });
}

#[test]
fn a_cached_file_is_refused_to_an_owner_that_the_origin_refuses() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", MIB).await;
        let [ann, bob] = ["ann", "bob"].map(|name| place.for_owner(name));
        place.origin.facts.refused.lock().unwrap().insert("bob".to_owned());
        assert!(read_all(ann.as_ref(), "/f").await.unwrap() == content);
        // The server itself may read it, and remembers that; this is nothing to others.
        read_all(&place.layer, "/f").await.unwrap();
        let refused = bob.open(&path("/f")).await.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::Forbidden);
        let before = place.origin.read_bytes();
        assert!(read_all(ann.as_ref(), "/f").await.unwrap() == content);
        assert_eq!(place.origin.read_bytes(), before, "from the cache");
        place.origin.facts.refused.lock().unwrap().insert("ann".to_owned());
        let refused = ann.open(&path("/f")).await.err().unwrap();
        assert_eq!(
            refused.code(),
            ErrorCode::Forbidden,
            "a right that has ended is not remembered"
        );
    });
}

/// Two readers of one block; the origin answers the first one's fetch only when the second waits.
async fn second_reader(
    place: &Place,
) -> (
    tokio::task::JoinHandle<Result<Vec<u8>>>,
    tokio::task::JoinHandle<Result<Vec<u8>>>,
) {
    let reads = &place.origin.facts.reads;
    reads.forget_permits(usize::MAX);
    let [first, second] = ["ann", "bob"].map(|name| place.for_owner(name));
    let first = tokio::spawn(async move { read_all(first.as_ref(), "/f").await });
    until(|| place.origin.opened() == 1).await;
    let second = tokio::spawn(async move { read_all(second.as_ref(), "/f").await });
    until(|| place.origin.opened() == 2).await;
    (first, second)
}

#[test]
fn a_reader_whose_rights_end_does_not_fail_the_others() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", MIB).await;
        let (first, second) = second_reader(&place).await;
        place.origin.facts.failing.lock().unwrap().insert("ann".to_owned());
        place.origin.facts.reads.add_permits(1000);
        assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::StorageFailed);
        assert!(second.await.unwrap().unwrap() == content);
    });
}

#[test]
fn an_origin_that_fails_does_so_before_a_range_is_promised() {
    run(async {
        let place = Place::new();
        place.put("/f", MIB).await;
        let store = place.for_owner("ann");
        let whole = ByteRange::whole(MIB as u64);
        let set_failing = |fails: bool| match fails {
            true => place.origin.facts.failing.lock().unwrap().insert("ann".to_owned()),
            false => place.origin.facts.failing.lock().unwrap().remove("ann"),
        };
        set_failing(true);
        let handle = store.open(&path("/f")).await.unwrap();
        let refused = handle.begin(whole).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::StorageFailed);
        set_failing(false);
        read_all(store.as_ref(), "/f").await.unwrap();
        until(|| place.cache.usage().bytes >= 1 << 20).await;
        // What is stored cannot fail.
        set_failing(true);
        let handle = store.open(&path("/f")).await.unwrap();
        handle.begin(whole).await.unwrap();
    });
}

#[test]
fn a_reader_that_leaves_does_not_fail_the_others() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", MIB).await;
        let (first, second) = second_reader(&place).await;
        first.abort();
        place.origin.facts.reads.add_permits(1000);
        assert!(second.await.unwrap().unwrap() == content);
        assert_eq!(place.origin.read_bytes(), MIB as u64);
    });
}

#[test]
fn the_first_bytes_do_not_wait_for_the_block() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", MIB).await;
        let reads = &place.origin.facts.reads;
        reads.forget_permits(usize::MAX);
        reads.add_permits(1);
        let handle = place.layer.open(&path("/f")).await.unwrap();
        let batch = handle.read_batch(ByteRange::new(10, 20)).await.unwrap();
        assert_eq!(batch.front().unwrap(), &content[10..20]);
        assert!(place.origin.read_bytes() < MIB as u64);
        reads.add_permits(1000);
    });
}

#[test]
fn a_full_disk_is_no_error_for_a_reader() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let mounted = testkit::Tmpfs::mount(&scratch.path().join("small"), 3 << 20);
        let Some(small) = testkit::available("a_full_disk_is_no_error_for_a_reader", mounted) else {
            return;
        };
        let place = Place::new();
        let content = place.put("/big", 8 * MIB).await;
        let troubles = Arc::new(Mutex::new(Vec::new()));
        let seen = troubles.clone();
        let on_trouble = move |trouble: &cache::Trouble| seen.lock().unwrap().push(trouble.clone());
        let full = Cache::open(small.path(), 1 << 30, Box::new(on_trouble)).unwrap();
        let settings = Settings {
            revalidate_after: None,
            prefetch_blocks: 0,
        };
        let layer = CachedStore::new(Arc::new(place.origin.clone()), full.clone(), "origin", settings);
        for _ in 0..2 {
            assert!(read_all(&layer, "/big").await.unwrap() == content);
        }
        assert_eq!(troubles.lock().unwrap().first(), Some(&cache::Trouble::DiskFull));
        let counts = full.counts();
        assert!(
            counts.disk_failures > 0 && counts.hit_bytes > 0 && counts.bypass_bytes > 0,
            "{counts:?}"
        );
    });
}

#[test]
fn files_are_evicted_before_the_size_is_reached() {
    run(async {
        let place = Place::sized(20 << 20);
        for number in 0..40 {
            let name = format!("/f{number}");
            let content = place.put(&name, MIB).await;
            assert!(read_all(&place.layer, &name).await.unwrap() == content);
            until(|| place.cache.usage().bytes <= 20 << 20 && place.cache.stores()).await;
        }
        let counts = place.cache.counts();
        assert!(counts.evicted_files >= 19, "{counts:?}");
        assert!(place.cache.usage().files <= 20);
    });
}

#[test]
fn a_file_larger_than_the_cache_is_read_to_its_end() {
    run(async {
        let place = Place::sized(4 << 20);
        let content = place.put("/big", 10 * MIB).await;
        // While it is open, it is not evicted.
        let handle = place.layer.open(&path("/big")).await.unwrap();
        let whole = ByteRange::whole(content.len() as u64);
        assert!(read(handle.as_ref(), whole).await.unwrap() == content);
        until(|| place.cache.usage().bytes >= 3 << 20).await;
        assert!(read(handle.as_ref(), ByteRange::whole(MIB as u64)).await.unwrap() == content[..MIB]);
        assert!(place.cache.counts().bypass_bytes > 0);
        // A file system may keep a block of its own for where the others are.
        let with_one_block_more = (5 << 20) + (16 << 10);
        assert!(
            place.cache.usage().bytes <= with_one_block_more,
            "{:?}",
            place.cache.usage()
        );
    });
}

#[test]
fn a_checksum_of_another_version_is_not_given() {
    run(async {
        let place = Place::new();
        place.put("/f", MIB).await;
        read_all(&place.layer, "/f").await.unwrap();
        assert_eq!(
            place.layer.stored_checksums(&path("/f")).await.unwrap(),
            [Checksum::adler32(MIB as u32)]
        );
        place.put("/f", MIB + 1).await;
        assert_eq!(
            place.layer.stat(&path("/f")).await.unwrap().size_bytes,
            MIB as u64,
            "not asked yet"
        );
        let asked = async |name: &str| {
            let told = place
                .layer
                .origin_checksum(&path(name), ChecksumAlgorithm::Adler32)
                .await;
            told.unwrap()
        };
        assert_eq!(asked("/f").await, None, "of the new version");
        place.put("/g", MIB).await;
        read_all(&place.layer, "/g").await.unwrap();
        assert_eq!(asked("/g").await, Some(Checksum::adler32(MIB as u32)));
        place.put("/f", MIB).await;
        read_all(&place.layer, "/f").await.unwrap();
        place.put("/f", MIB + 1).await;
        assert_eq!(place.layer.stored_checksums(&path("/f")).await.unwrap(), []);
        assert_eq!(place.layer.stat(&path("/f")).await.unwrap().size_bytes, MIB as u64 + 1);
    });
}

#[test]
fn a_reader_whose_file_is_gone_learns_that_it_was_changed() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", 2 * MIB).await;
        read_all(&place.layer, "/f").await.unwrap();
        until(|| place.cache.usage().bytes >= 2 << 20).await;
        let opened = place.origin.opened();
        let handle = place.layer.open(&path("/f")).await.unwrap();
        assert_eq!(place.origin.opened(), opened, "the origin is not needed");
        place.origin.files.remove(&path("/f")).await.unwrap();
        let cached = cache::inspect::find(place.directory.path(), &path("/f")).unwrap();
        let file = std::fs::File::options().write(true).open(&cached[0].file).unwrap();
        let end = file.metadata().unwrap().len();
        file.write_all_at(&[!content[2 * MIB - 1]], end - 1).unwrap();
        let first = read(handle.as_ref(), ByteRange::whole(MIB as u64)).await.unwrap();
        assert!(first == content[..MIB]);
        let last = ByteRange::new(2 * MIB as u64 - 1, 2 * MIB as u64);
        let changed = read(handle.as_ref(), last).await.unwrap_err();
        assert_eq!(changed.code(), ErrorCode::SourceChanged);
    });
}

#[test]
fn a_cached_file_survives_a_restart_and_belongs_to_one_process() {
    run(async {
        let Place {
            origin,
            cache,
            layer,
            directory,
        } = Place::new();
        let content = put(&origin, "/f", 2 * MIB).await;
        read_all(&layer, "/f").await.unwrap();
        let busy = Cache::open(directory.path(), 1 << 30, Box::new(|_| {})).err().unwrap();
        assert_eq!(busy.code(), ErrorCode::Busy);
        until(|| cache.usage().bytes >= 2 << 20).await;
        let old = Arc::downgrade(&cache);
        drop((cache, layer));
        until(|| old.strong_count() == 0).await;
        let cache = open(directory.path(), 1 << 30);
        until(|| cache.usage().files == 1).await;
        assert!(cache.usage().bytes >= 2 << 20);
        let settings = Settings {
            revalidate_after: None,
            prefetch_blocks: 0,
        };
        let before = origin.read_bytes();
        let layer = CachedStore::new(Arc::new(origin.clone()), cache, "origin", settings);
        assert!(read_all(&layer, "/f").await.unwrap() == content);
        assert_eq!(origin.read_bytes(), before);
    });
}

#[test]
fn what_is_read_into_a_room_is_checked_as_well() {
    run(async {
        let place = Place::new();
        let content = place.put("/f", 2 * MIB + 70_001).await;
        read_all(&place.layer, "/f").await.unwrap();
        until(|| place.cache.usage().bytes >= content.len() as u64).await;
        let handle = place.layer.open(&path("/f")).await.unwrap();
        let fetched = place.origin.read_bytes();
        let into_room = async |offset: usize, want: usize| {
            let (mut room, filled) = handle.read(Outgoing::unconnected(), want, offset as u64).await.unwrap();
            let bytes: Vec<u8> = room.slots(filled).iter().flat_map(|slot| slot.to_vec()).collect();
            assert!(bytes == content[offset..offset + filled], "{want} from {offset}");
            filled
        };
        let page = cache::limits::PAGE_BYTES;
        for (offset, want, filled) in [
            (0, page, page),
            (page, 3 * page, 3 * page),
            (0, 100_000, page),
            (2 * page, 10, 10),
            (5, page, page - 5),
            (MIB - page, 4 * page, page),
            (2 * MIB, MIB, 70_001),
            (2 * MIB + page, MIB, 70_001 - page),
            (content.len(), MIB, 0),
        ] {
            let got = into_room(offset, want).await;
            assert!(
                got == filled || (got > filled && got <= want),
                "{got} of {want} from {offset}"
            );
        }
        assert_eq!(place.origin.read_bytes(), fetched);
        // A page that is damaged comes from the origin.
        let cached = cache::inspect::find(place.directory.path(), &path("/f")).unwrap();
        let file = std::fs::File::options().write(true).open(&cached[0].file).unwrap();
        let end = file.metadata().unwrap().len();
        file.write_all_at(&[!content[content.len() - 1]], end - 1).unwrap();
        assert_eq!(into_room(2 * MIB + page, MIB).await, 70_001 - page);
        assert_eq!(place.cache.counts().bad_blocks, 1);
        assert!(place.origin.read_bytes() > fetched);
    });
}

#[test]
fn a_reader_learns_the_age_of_what_is_cached_and_may_demand_a_fresh_state() {
    run(async {
        let place = Place::new();
        place.put("/f", 3 * MIB).await;
        let (name, first) = (path("/f"), ByteRange::whole(MIB as u64));
        let handle = place.layer.open(&name).await.unwrap();
        let old = handle.stat().clone();
        assert_eq!(handle.cached_age(first).await.unwrap(), None);
        assert_eq!(place.layer.cached_age(&name, &old).await.unwrap(), None);

        read(handle.as_ref(), first).await.unwrap();
        until(|| place.cache.usage().bytes >= MIB as u64).await;
        assert!(handle.cached_age(first).await.unwrap().is_some());
        let whole = ByteRange::whole(old.size_bytes);
        assert_eq!(handle.cached_age(whole).await.unwrap(), None, "a part is missing");

        read(handle.as_ref(), whole).await.unwrap();
        until(|| place.cache.usage().bytes >= old.size_bytes).await;
        assert!(handle.cached_age(whole).await.unwrap().is_some());
        assert!(place.layer.cached_age(&name, &old).await.unwrap().is_some());

        place.put("/f", 2 * MIB).await;
        assert!(
            place.layer.stat(&name).await.unwrap().same_content(&old),
            "not asked yet"
        );
        let within_an_hour = place.layer.checked_within(Duration::from_secs(3600)).unwrap();
        assert!(within_an_hour.stat(&name).await.unwrap().same_content(&old));
        let fresh = place.layer.checked_within(Duration::ZERO).unwrap();
        let new = fresh.stat(&name).await.unwrap();
        assert_eq!(new.size_bytes, 2 * MIB as u64);
        assert_eq!(fresh.cached_age(&name, &new).await.unwrap(), None, "of another version");
        assert!(
            place.layer.stat(&name).await.unwrap().same_content(&new),
            "all learn of it"
        );
    });
}
