//! Late answers.

use std::sync::{Arc, Condvar, Mutex};

use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use storage::{FileReader, Listing, Memory, Overwrite, Patience, Space, Stat, Storage, Upload, UploadOptions};
use types::{Checksum, LogicalPath, Result};
use xroot_wire::request::{Expect, Query, QueryKind, Request};
use xroot_wire::{ErrorNumber, ProtocolOptions, StreamId};

use crate::harness::{Raw, Server, export, login, soon};

/// Blocks reads of files until it is opened.
#[derive(Clone, Default)]
struct Weir(Arc<(Mutex<bool>, Condvar)>);

impl Weir {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// A store whose files are read slowly.
struct Slow(Memory, Weir);

struct SlowReader(Arc<dyn FileReader>, Weir);

impl FileReader for SlowReader {
    fn stat(&self) -> &Stat {
        self.0.stat()
    }

    fn read_vectored_at(
        &self,
        slices: &mut [std::io::IoSliceMut<'_>],
        offset: u64,
        patience: Patience,
    ) -> std::io::Result<usize> {
        self.1.pass();
        self.0.read_vectored_at(slices, offset, patience)
    }
}

impl Storage for Slow {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        self.0.stat(path)
    }
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        self.0.list(path)
    }
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(SlowReader(self.0.open(path)?, self.1.clone())))
    }
    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        self.0.create(path, options)
    }
    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        self.0.make_directory(path, parents)
    }
    fn remove(&self, path: &LogicalPath) -> Result<()> {
        self.0.remove(path)
    }
    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        self.0.rename(from, to, overwrite)
    }
    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        self.0.stored_checksums(path)
    }
    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()> {
        self.0.store_checksum(path, seen, checksum)
    }
    fn space(&self) -> Result<Space> {
        self.0.space()
    }
}

fn slow_server() -> (Server, Weir) {
    let weir = Weir::default();
    let (memory, own) = (Memory::new(1 << 20), weir.clone());
    let files = memory.clone();
    let mut server = Server::start(|settings| {
        let slow = export("/data", AnonymousAccess::Write, Slow(files, own));
        settings.site.exports = SharedExports::new(Exports::new(vec![slow]));
    });
    server.store = memory;
    server.put("/f", b"hello checksum world\n");
    (server, weir)
}

fn checksum() -> Request<'static> {
    Request::Query(Query::new(QueryKind::Checksum, b"/data/f\0"))
}

/// The answer within an unsolicited message.
async fn attention(raw: &mut Raw) -> (StreamId, u16, Vec<u8>) {
    let answer = raw.answer().await;
    assert_eq!((answer.stream, answer.status), (StreamId::ZERO, 4001));
    assert_eq!(answer.body[..8], [0, 0, 0x13, 0x90, 0, 0, 0, 0]);
    let inner = &answer.body[8..];
    let status = u16::from_be_bytes([inner[2], inner[3]]);
    (StreamId([inner[0], inner[1]]), status, inner[8..].to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_comes_by_itself_while_others_are_served() {
    let (server, weir) = slow_server();
    let mut raw = server.client().await;
    raw.say(7, &checksum()).await;
    let promised = raw.answer().await;
    assert_eq!((promised.stream, promised.status), (StreamId::new(7), 4006));
    raw.ask(&Request::Ping).await.ok();
    weir.open();
    let (stream, status, body) = attention(&mut raw).await;
    assert_eq!(
        (stream, status, &body[..]),
        (StreamId::new(7), 0, &b"adler32 590d07da\0"[..])
    );
    assert_eq!(raw.ask(&checksum()).await.text(), "adler32 590d07da", "now it is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_late_answers_gets_a_plain_one_later() {
    let (server, weir) = slow_server();
    let mut raw = server.connect().await;
    raw.greet(ProtocolOptions::empty(), Expect::Login).await;
    raw.ask(&login(false)).await.ok();
    raw.say(7, &checksum()).await;
    raw.ask(&Request::Ping).await.ok();
    weir.open();
    let answer = raw.answer().await;
    assert_eq!(answer.stream, StreamId::new(7));
    assert_eq!(answer.text(), "adler32 590d07da");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_can_be_given_up() {
    let (server, weir) = slow_server();
    let mut raw = server.client().await;
    raw.say(7, &checksum()).await;
    assert_eq!(raw.answer().await.status, 4006);
    let cancel = Request::Query(Query::new(QueryKind::CancelChecksum, b"/data/f"));
    raw.say(8, &cancel).await;
    let (stream, status, body) = attention(&mut raw).await;
    assert_eq!((stream, status), (StreamId::new(7), 4003));
    assert_eq!(body[..4], ErrorNumber::CANCELLED.0.to_be_bytes());
    let answer = raw.answer().await;
    assert_eq!((answer.stream, answer.status), (StreamId::new(8), 0));
    weir.open();
    raw.ask(&Request::Ping).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn few_answers_are_worked_on_at_a_time() {
    let (server, weir) = slow_server();
    let mut raw = server.client().await;
    for _ in 0..door_xroot::limits::XROOT_LATE_ANSWERS_MAX {
        assert_eq!(raw.ask(&checksum()).await.status, 4006);
    }
    assert_eq!(raw.ask(&checksum()).await.error(), ErrorNumber::OVERLOADED);
    weir.open();
    for _ in 0..door_xroot::limits::XROOT_LATE_ANSWERS_MAX {
        assert_eq!(attention(&mut raw).await.1, 0);
    }
}

/// Whether this process has the file open.
fn is_open(file: &std::path::Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(file)))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_computed_for_a_session_that_has_ended_or_a_file_that_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let posix = storage::Posix::open(directory.path(), &storage::PosixOptions::default()).unwrap();
    let server = Server::start(|settings| {
        let sparse = export("/data", AnonymousAccess::Write, posix);
        settings.site.exports = SharedExports::new(Exports::new(vec![sparse]));
    });
    // A sparse file that takes hours to read.
    std::fs::File::create(&file).unwrap().set_len(1 << 42).unwrap();
    let mut raw = server.client().await;
    assert_eq!(raw.ask(&checksum()).await.status, 4006);
    soon(async {
        while !is_open(&file) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(raw);
    soon(async {
        while is_open(&file) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut raw = server.client().await;
    assert_eq!(raw.ask(&checksum()).await.status, 4006);
    std::fs::remove_file(&file).unwrap();
    let (_, status, body) = attention(&mut raw).await;
    assert_eq!(
        (status, &body[..4]),
        (4003, &ErrorNumber::NOT_FOUND.0.to_be_bytes()[..])
    );
}
