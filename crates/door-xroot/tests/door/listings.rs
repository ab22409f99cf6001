//! Listings ask the store for what the client asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use storage::{Entry, FileReader, Listing, Memory, Overwrite, Space, Stat, Storage, Upload, UploadOptions};
use types::{Checksum, LogicalPath, Result};
use xroot_wire::request::{ListDirectory, Request};
use xroot_wire::{Argument, ErrorNumber, ListOptions};

use crate::harness::{Server, export};

/// What a store was asked for.
#[derive(Clone, Default)]
struct Asked(Arc<[AtomicUsize; 2]>);

impl Asked {
    fn note(&self, place: usize) {
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Stats of single names, and batches of entries with properties, since the last call.
    fn take(&self) -> [usize; 2] {
        [0, 1].map(|place| self.0[place].swap(0, Ordering::Relaxed))
    }
}

/// A store that counts.
struct Counting(Memory, Asked);

struct CountingListing(Box<dyn Listing>, Asked);

impl Listing for CountingListing {
    fn next_batch(&mut self) -> Result<Vec<Entry>> {
        self.1.note(1);
        self.0.next_batch()
    }

    fn next_names(&mut self) -> Result<Vec<String>> {
        self.0.next_names()
    }
}

impl Storage for Counting {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        self.1.note(0);
        self.0.stat(path)
    }
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        Ok(Box::new(CountingListing(self.0.list(path)?, self.1.clone())))
    }
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        self.0.open(path)
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

fn list(path: &str, options: ListOptions) -> Request<'_> {
    let path = Argument::new(path.as_bytes());
    Request::ListDirectory(ListDirectory { options, path })
}

#[tokio::test]
async fn a_listing_of_names_asks_for_no_properties() {
    let (memory, asked) = (Memory::new(1 << 20), Asked::default());
    let (files, counts) = (memory.clone(), asked.clone());
    let mut server = Server::start(|settings| {
        let counting = export("/data", AnonymousAccess::Write, Counting(files, counts));
        settings.site.exports = SharedExports::new(Exports::new(vec![counting]));
    });
    server.store = memory;
    server.put("/d/a", b"1");
    server.put("/d/b/c", b"2");
    let mut raw = server.client().await;
    let names = raw.ask(&list("/data/d", ListOptions::empty())).await.ok();
    assert_eq!(names, b"a\nb\0");
    assert_eq!(asked.take(), [0, 0]);
    let text = raw.ask(&list("/data/d", ListOptions::STAT)).await.ok();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with(".\n0 0 0 0\na\n"), "{text}");
    assert_eq!(asked.take(), [0, 2]);
    // Only to say what is wrong, the name itself is looked at.
    let file = raw.ask(&list("/data/d/a", ListOptions::empty())).await;
    assert_eq!(file.error(), ErrorNumber::FILE_SYSTEM);
    let missing = raw.ask(&list("/data/d/none", ListOptions::empty())).await;
    assert_eq!(missing.error(), ErrorNumber::NOT_FOUND);
    assert_eq!(asked.take(), [2, 0]);
}
