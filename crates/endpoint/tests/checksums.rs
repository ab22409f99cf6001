//! Checksums that have to be computed: readers are never kept busy for no client, nor for one
//! client alone.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use endpoint::limits::REREADS_OF_CLIENT_MAX;
use endpoint::{ClientId, FairShare, ShareKind, ShareLimits, Store};
use storage::{
    BlockingWriter, CommitFacts, FileReader, Patience, Posix, PosixOptions, Stat, Upload, UploadOptions, WriteHandle,
};
use types::{ChecksumAlgorithm, ErrorCode, LogicalPath};

/// Upper limit for each wait, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// A sparse file of this size takes hours to read.
const LARGE_BYTES: u64 = 1 << 42;

fn client(last: u8) -> ClientId {
    ClientId::at(IpAddr::from([192, 0, 2, last]))
}

fn path(name: &str) -> LogicalPath {
    LogicalPath::parse(&format!("/{name}")).unwrap()
}

fn add(directory: &Path, name: &str, bytes: u64) {
    File::create(directory.join(name)).unwrap().set_len(bytes).unwrap();
}

fn store(directory: &Path) -> Store {
    Store::new(Arc::new(Posix::open(directory, &PosixOptions::default()).unwrap()))
}

/// Whether this process has the file open.
fn is_open(file: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(file)))
}

async fn until(what: impl Fn() -> bool) {
    let wait = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it hangs");
}

#[tokio::test]
async fn a_file_is_read_as_long_as_a_client_waits() {
    let directory = tempfile::tempdir().unwrap();
    add(directory.path(), "large", LARGE_BYTES);
    let file = directory.path().join("large");
    let store = store(directory.path());
    let ask = |last| {
        store
            .ask_checksum(&path("large"), ChecksumAlgorithm::Md5, &client(last))
            .unwrap()
    };
    let (first, second) = (ask(1), ask(2));
    until(|| is_open(&file)).await;
    drop(first);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(is_open(&file), "the second one still waits");
    drop(second);
    until(|| !is_open(&file)).await;
}

#[tokio::test]
async fn a_removed_or_replaced_file_is_not_read_further() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for (name, code) in [("removed", ErrorCode::NotFound), ("replaced", ErrorCode::SourceChanged)] {
        add(directory.path(), name, LARGE_BYTES);
        let file = directory.path().join(name);
        let mut requester = store
            .ask_checksum(&path(name), ChecksumAlgorithm::Crc32c, &client(1))
            .unwrap();
        until(|| is_open(&file)).await;
        if code == ErrorCode::SourceChanged {
            add(directory.path(), "new", 10);
            std::fs::rename(directory.path().join("new"), &file).unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        let failed = tokio::time::timeout(PATIENCE, requester.wait())
            .await
            .expect("it hangs");
        assert_eq!(failed.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn small_files_are_not_stuck_behind_large_ones() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let mut busy = Vec::new();
    for number in 0..8 {
        let name = format!("large{number}");
        add(directory.path(), &name, LARGE_BYTES);
        let asked = store.ask_checksum(&path(&name), ChecksumAlgorithm::Adler32, &client(number / 4));
        busy.push(asked.unwrap());
    }
    add(directory.path(), "small", 1000);
    add(directory.path(), "other", 1000);
    let ask = |name, last| {
        let (store, client) = (store.clone(), client(last));
        async move {
            let path = path(name);
            let asked = store.checksum(&path, ChecksumAlgorithm::Adler32, &client);
            tokio::time::timeout(PATIENCE, asked).await.expect("it hangs").unwrap()
        }
    };
    // For another client, and for the one that asked for large files.
    assert_eq!(ask("small", 9).await.to_string(), "adler32:03e80001");
    assert_eq!(ask("other", 1).await.to_string(), "adler32:03e80001");
}

#[tokio::test]
async fn a_client_has_its_share_and_a_pending_checksum_continues() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ShareLimits {
        checksums: 16,
        ..ShareLimits::default()
    };
    let fair_share = FairShare::new(&limits, None);
    let store = store(directory.path()).sharing(fair_share.clone());
    add(directory.path(), "large", LARGE_BYTES);
    let ask = |last| store.ask_checksum(&path("large"), ChecksumAlgorithm::Md5, &client(last));
    let held: Vec<_> = (0..8).map(|_| ask(1).unwrap()).collect();
    let Err(refused) = ask(1) else {
        panic!("it has its share")
    };
    assert_eq!(refused.code(), ErrorCode::ShareUsedUp);
    drop(held);
    let pending = ask(2).unwrap().wait_for(Duration::ZERO).await;
    assert_eq!(pending.unwrap_err().code(), ErrorCode::ChecksumPending);
    assert_eq!(
        fair_share.in_use(ShareKind::Checksums),
        1,
        "the computation continues for the next request"
    );
    std::fs::remove_file(directory.path().join("large")).unwrap();
    until(|| fair_share.in_use(ShareKind::Checksums) == 0).await;
}

/// A file that never ends.
struct Endless(Stat);

impl FileReader for Endless {
    fn stat(&self) -> &Stat {
        &self.0
    }

    fn read_vectored_at(&self, slices: &mut [std::io::IoSliceMut<'_>], _: u64, _: Patience) -> std::io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }
}

/// An upload that can be read back only when a gate opens.
#[derive(Clone, Default)]
struct Gated {
    entered: Arc<AtomicUsize>,
    gate: Arc<(Mutex<bool>, Condvar)>,
    content: Option<Arc<Endless>>,
}

impl Gated {
    fn showing(content: Arc<Endless>) -> Self {
        let this = Self {
            content: Some(content),
            ..Self::default()
        };
        this.open();
        this
    }

    fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::Relaxed)
    }
}

/// What stands behind a gate, and cannot be read.
struct Behind(Gated, Stat);

impl FileReader for Behind {
    fn stat(&self) -> &Stat {
        &self.1
    }

    fn read_vectored_at(&self, _: &mut [std::io::IoSliceMut<'_>], _: u64, _: Patience) -> std::io::Result<usize> {
        self.0.entered.fetch_add(1, Ordering::Relaxed);
        let is_open = self.0.gate.0.lock().unwrap();
        drop(self.0.gate.1.wait_while(is_open, |is_open| !*is_open).unwrap());
        Err(std::io::Error::other("it cannot be read"))
    }
}

/// Opens the gates on drop, so that no thread waits behind a failed test.
struct Opened(Vec<Gated>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.iter().for_each(Gated::open);
    }
}

fn empty() -> Stat {
    Stat {
        kind: storage::Kind::File,
        size_bytes: 0,
        modified: std::time::UNIX_EPOCH,
        mode: 0o644,
        inode: 1,
    }
}

impl Upload for Gated {
    fn reader(&self) -> types::Result<Arc<dyn FileReader>> {
        match &self.content {
            Some(content) => Ok(content.clone()),
            None => Ok(Arc::new(Behind(self.clone(), empty()))),
        }
    }

    fn write_vectored_at(&self, _: &[std::io::IoSlice<'_>], _: u64) -> types::Result<()> {
        unreachable!()
    }

    fn commit(&self, _: &CommitFacts) -> types::Result<Stat> {
        unreachable!()
    }

    fn abort(&self) {}
}

#[tokio::test]
async fn reading_back_uploads_of_one_client_leaves_slots_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let (busy, other) = (Gated::default(), Gated::default());
    let opened = Opened(vec![busy.clone(), other.clone()]);
    let reread = |upload: &Gated, last| {
        let (store, upload) = (
            store.clone(),
            Arc::new(BlockingWriter::new(Arc::new(upload.clone()))) as Arc<dyn WriteHandle>,
        );
        async move { store.reread(&upload, &[ChecksumAlgorithm::Md5], &client(last)).await }
    };
    let mut copies = tokio::task::JoinSet::new();
    for _ in 0..5 * REREADS_OF_CLIENT_MAX {
        copies.spawn(reread(&busy, 1));
    }
    until(|| busy.entered() == REREADS_OF_CLIENT_MAX).await;
    copies.spawn(reread(&other, 2));
    until(|| other.entered() == 1).await;
    assert_eq!(busy.entered(), REREADS_OF_CLIENT_MAX);
    // A copy that is cancelled while it waits takes no slot from those behind it.
    copies.abort_all();
    drop(opened);
    let again = tokio::time::timeout(PATIENCE, reread(&busy, 1)).await;
    assert!(again.expect("it hangs").is_err());
}

#[tokio::test]
async fn an_upload_is_read_back_as_long_as_its_copy_lasts() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let upload = store.create(&path("f"), &UploadOptions::default()).await.unwrap();
    store.set_length(&upload, 100_000_000).await.unwrap();
    let sums = store
        .reread(&upload, &[ChecksumAlgorithm::Adler32], &client(1))
        .await
        .unwrap();
    assert_eq!(sums[0].to_string(), "adler32:3a6a0001", "over several slices");
    let endless = Arc::new(Endless(store.stat(&path("")).await.unwrap()));
    let weak = Arc::downgrade(&endless);
    let copy = tokio::spawn({
        let (store, client) = (store.clone(), client(1));
        let upload = BlockingWriter::new(Arc::new(Gated::showing(endless)));
        let upload = Arc::new(upload) as Arc<dyn WriteHandle>;
        async move { store.reread(&upload, &[ChecksumAlgorithm::Md5], &client).await }
    });
    // One reference of the upload, and one of the reader.
    until(|| weak.strong_count() > 1).await;
    copy.abort();
    until(|| weak.strong_count() == 0).await;
}
