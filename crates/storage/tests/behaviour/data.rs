//! Reads of cached data, and copies within the store.

use std::io::{ErrorKind, IoSliceMut};
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::{Advice, fadvise, statfs};
use storage::local::LocalFiles;
use storage::{Overwrite, Patience, Storage};
use testkit::available;
use types::ErrorCode;

use crate::support::{code, options, path, posix, put, read, size};

/// ext4, XFS and Btrfs can tell whether a page is in memory.
const TELLS_WHAT_IS_CACHED: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

fn content(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn tells_what_is_cached(directory: &Path) -> testkit::Result<()> {
    let magic = statfs(directory).unwrap().f_type as i64;
    match TELLS_WHAT_IS_CACHED.contains(&magic) {
        true => Ok(()),
        false => Err(testkit::Error::Missing(format!(
            "file system {magic:x} cannot tell what is cached"
        ))),
    }
}

/// How often the kernel is asked to drop a file's pages.
const DROPS_MAX: u32 = 10_000;

#[test]
fn a_read_without_patience_does_not_wait_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let possible = tells_what_is_cached(directory.path());
    if available("a_read_without_patience_does_not_wait_for_the_disk", possible).is_none() {
        return;
    }
    let store = posix(directory.path());
    let content = content(1 << 20);
    put(&store, "/f", &content, Overwrite::Allow).unwrap();
    let reader = store.open(&path("/f")).unwrap();
    let mut buffer = vec![0; content.len()];
    let mut read = |patience| reader.read_vectored_at(&mut [IoSliceMut::new(&mut buffer)], 0, patience);
    let mut is_refused = || {
        // After a commit the pages are clean and can be dropped. That is advice: the kernel keeps
        // pages that another processor is using at that moment, and has to be asked again.
        fadvise(reader.as_file().unwrap(), 0, None, Advice::DontNeed).unwrap();
        read(Patience::CachedOnly).map_err(|error| error.kind()) == Err(ErrorKind::WouldBlock)
    };
    assert!((0..DROPS_MAX).any(|_| is_refused()), "no read was refused");
    assert_eq!(read(Patience::Wait).unwrap(), content.len());
    assert!(read(Patience::CachedOnly).unwrap() > 0, "it is cached now");
    assert!(buffer == content);
}

#[test]
fn only_files_of_a_file_system_in_memory_are_always_there() {
    const TMPFS: i64 = 0x0102_1994;
    let directory = crate::support::quick_directory();
    let is_in_memory = statfs(directory.path()).unwrap().f_type as i64 == TMPFS;
    let store = posix(directory.path());
    put(&store, "/f", b"12", Overwrite::Allow).unwrap();
    assert_eq!(store.open(&path("/f")).unwrap().is_in_memory(), is_in_memory);
    // Whatever is mounted below.
    let other = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(other.path().join("g"), "34").unwrap();
    let bound = directory.path().join("bound");
    let mount = crate::support::Mount::new(&["--bind", &other.path().display().to_string()], &bound);
    let Some(_mount) = available("only_files_of_a_file_system_in_memory_are_always_there", mount) else {
        return;
    };
    assert!(!store.open(&path("/bound/g")).unwrap().is_in_memory());
}

#[test]
fn copies_are_equal_within_and_between_file_systems() {
    let directory = tempfile::tempdir().unwrap();
    let memory = crate::support::quick_directory();
    let (store, other) = (posix(directory.path()), posix(memory.path()));
    for length in [1, 4096, (3 << 20) + 17] {
        let content = content(length);
        put(&store, "/a", &content, Overwrite::Allow).unwrap();
        store.copy(&path("/a"), &path("/b"), Overwrite::Allow).unwrap();
        assert!(read(&store, "/b") == content, "{length} bytes within a file system");
        let source = store.open(&path("/a")).unwrap();
        let upload = other.create(&path("/c"), &options(None, Overwrite::Allow)).unwrap();
        assert_eq!(upload.copy_from(source.as_ref()).unwrap(), length as u64);
        upload.commit(&size(length as u64)).unwrap();
        assert!(read(&other, "/c") == content, "{length} bytes between two");
    }
    assert_eq!(
        store.stored_checksums(&path("/b")).unwrap(),
        store.stored_checksums(&path("/a")).unwrap(),
        "stored checksums are copied too"
    );
    assert_ne!(
        store.stat(&path("/a")).unwrap().inode,
        store.stat(&path("/b")).unwrap().inode
    );
}

#[test]
fn a_copy_of_a_file_that_was_overwritten_in_place_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let local = |name: &str| path(&format!("{}/{name}", directory.path().display()));
    let stores: [(&dyn Storage, _, _); 2] = [
        (&posix(directory.path()), path("/f"), path("/copy")),
        (&LocalFiles, local("f"), local("copy")),
    ];
    for (store, from, to) in stores {
        std::fs::write(&file, "content").unwrap();
        let reader = store.open(&from).unwrap();
        std::fs::write(&file, "CONTENT").unwrap();
        let open = std::fs::File::options().write(true).open(&file).unwrap();
        open.set_modified(UNIX_EPOCH).unwrap();
        let upload = store.create(&to, &options(Some(7), Overwrite::Refuse)).unwrap();
        assert_eq!(code(upload.copy_from(reader.as_ref())), Some(ErrorCode::SourceChanged));
        drop(upload);
        assert!(!directory.path().join("copy").exists());
        assert!(
            store.copy(&from, &to, Overwrite::Refuse).is_ok(),
            "it no longer changes"
        );
        store.remove(&to).unwrap();
    }
}
