//! Checksums that have to be computed: nobody keeps the readers busy for nothing, or for himself alone.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storage::{Posix, PosixOptions};
use transfer::{ClientId, FairShare, ShareKind, ShareLimits, Store};
use types::{ChecksumAlgorithm, ErrorCode, LogicalPath};

/// No wait may take longer: then something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// A sparse file of this size would be read for hours.
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
async fn a_file_is_read_as_long_as_somebody_waits() {
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
async fn a_file_that_is_gone_is_not_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for (name, code) in [("removed", ErrorCode::NotFound), ("replaced", ErrorCode::SourceChanged)] {
        add(directory.path(), name, LARGE_BYTES);
        let file = directory.path().join(name);
        let mut asker = store
            .ask_checksum(&path(name), ChecksumAlgorithm::Crc32c, &client(1))
            .unwrap();
        until(|| is_open(&file)).await;
        if code == ErrorCode::SourceChanged {
            add(directory.path(), "new", 10);
            std::fs::rename(directory.path().join("new"), &file).unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        let failed = tokio::time::timeout(PATIENCE, asker.wait()).await.expect("it hangs");
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
    // For somebody else, and for one who has asked for large ones himself.
    assert_eq!(ask("small", 9).await.to_string(), "adler32:03e80001");
    assert_eq!(ask("other", 1).await.to_string(), "adler32:03e80001");
}

#[tokio::test]
async fn a_client_has_its_share_and_what_it_is_to_ask_again_for_goes_on() {
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
        "it is computed on for who asks again"
    );
    std::fs::remove_file(directory.path().join("large")).unwrap();
    until(|| fair_share.in_use(ShareKind::Checksums) == 0).await;
}
