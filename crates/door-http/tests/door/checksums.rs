//! Checksums that have to be computed first.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use policy::AnonymousAccess;
use storage::{Posix, PosixOptions};

use crate::harness::{Server, export};

/// Reading a sparse file of this size would take hours.
const LARGE_BYTES: u64 = 1 << 42;
const HEAD: &str = "HEAD /data/large\nWant-Digest: md5\n";

async fn start(directory: &Path, wait: Duration) -> Server {
    File::create(directory.join("large"))
        .unwrap()
        .set_len(LARGE_BYTES)
        .unwrap();
    let posix = Posix::open(directory, &PosixOptions::default()).unwrap();
    let exports = vec![export("/data", AnonymousAccess::Read, posix)];
    Server::start(exports, |settings| settings.limits.checksum_wait = wait).await
}

async fn until(what: impl Fn() -> bool) {
    let wait = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("it hangs");
}

fn is_open(file: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(file)))
}

#[tokio::test]
async fn a_client_is_told_to_ask_again_for_a_checksum_that_takes_long() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), Duration::ZERO).await;
    let pending = server.ask(HEAD, b"").await;
    assert_eq!((pending.status, pending.header("Retry-After").is_some()), (503, true));
    let part = server
        .ask("GET /data/large\nWant-Digest: md5\nRange: bytes=0-3\n", b"")
        .await;
    assert_eq!((part.status, part.header("Digest")), (206, None));
    std::fs::remove_file(directory.path().join("large")).unwrap();
    assert_eq!(server.ask(HEAD, b"").await.status, 404);
}

#[tokio::test]
async fn a_client_that_leaves_is_not_computed_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large");
    let server = start(directory.path(), Duration::from_secs(600)).await;
    let mut raw = server.connect().await;
    raw.send("HEAD /data/large HTTP/1.1\r\nHost: h\r\nWant-Digest: md5\r\n\r\n")
        .await;
    until(|| is_open(&file)).await;
    drop(raw);
    until(|| !is_open(&file)).await;
    let told = server.log.request("HEAD").await;
    assert_eq!(told.error.unwrap().code, "client_gone");
}
