//! Space is checked before the first byte, and a full disk leaves nothing behind.

use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use storage::{Overwrite, Posix, PosixOptions, Storage};
use testkit::{Scratch, Tmpfs, available};
use types::ErrorCode;

use crate::support::{code, names, options, parts_in, path, posix, put, quick_directory, read, size};

const MEBIBYTE: u64 = 1 << 20;

fn with_reserve(directory: &Path, reserve_bytes: u64) -> Posix {
    let options = PosixOptions {
        reserve_bytes,
        ..PosixOptions::default()
    };
    Posix::open(directory, &options).unwrap()
}

fn small_disk(test: &str, scratch: &Scratch) -> Option<Tmpfs> {
    available(test, Tmpfs::mount(&scratch.join("small"), 8 * MEBIBYTE))
}

#[test]
fn a_quota_counts_what_was_there_before() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old"), vec![0; 600]).unwrap();
    let quota = PosixOptions {
        quota_bytes: Some(1000),
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &quota).unwrap();
    while !store.usage_is_known() {
        std::thread::yield_now();
    }
    assert_eq!(
        code(put(&store, "/f", &[1; 500], Overwrite::Allow)),
        Some(ErrorCode::QuotaExceeded)
    );
    store.remove(&path("/old")).unwrap();
    put(&store, "/f", &[1; 500], Overwrite::Allow).unwrap();
    assert_eq!(store.space().unwrap().used_bytes, 500);
}

#[test]
fn a_full_disk_refuses_an_announced_size_and_creates_nothing() {
    let scratch = Scratch::new("full").unwrap();
    let Some(small) = small_disk("a_full_disk_refuses_an_announced_size_and_creates_nothing", &scratch) else {
        return;
    };
    let store = with_reserve(small.path(), MEBIBYTE);
    for size_bytes in [8 * MEBIBYTE, 7 * MEBIBYTE + 1] {
        let refused = store.create(&path("/new/below/f"), &options(Some(size_bytes), Overwrite::Allow));
        assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    }
    assert!(names(&store, "/").is_empty());
    // The same space is not reserved twice; after an abort it is free again.
    let first = store
        .create(&path("/a"), &options(Some(4 * MEBIBYTE), Overwrite::Allow))
        .unwrap();
    let second = || store.create(&path("/b"), &options(Some(4 * MEBIBYTE), Overwrite::Allow));
    assert_eq!(code(second()), Some(ErrorCode::NoSpace));
    first.abort();
    assert!(second().is_ok());
    assert_eq!(parts_in(small.path()), 0);
}

#[test]
fn a_disk_that_fills_up_fails_the_upload_and_keeps_the_old_file() {
    let test = "a_disk_that_fills_up_fails_the_upload_and_keeps_the_old_file";
    let scratch = Scratch::new("fills").unwrap();
    let Some(small) = small_disk(test, &scratch) else {
        return;
    };
    let store = with_reserve(small.path(), 0);
    put(&store, "/f", b"old", Overwrite::Allow).unwrap();
    let free_bytes = store.space().unwrap().free_bytes;
    let block = vec![7; MEBIBYTE as usize];
    let fill = |size_bytes| {
        let upload = store
            .create(&path("/f"), &options(size_bytes, Overwrite::Allow))
            .unwrap();
        if size_bytes.is_some() {
            // Another program takes the reserved space.
            std::fs::write(small.path().join("intruder"), &block).unwrap();
        }
        let mut offsets = (0..8).map(|index| index * MEBIBYTE);
        let full = offsets.find_map(|offset| upload.write_vectored_at(&[IoSlice::new(&block)], offset).err());
        let full = full.unwrap();
        assert_eq!(full.code(), ErrorCode::NoSpace);
        assert_eq!(full.phase(), types::Phase::Transfer);
    };
    fill(None);
    assert_eq!((read(&store, "/f"), parts_in(small.path())), (b"old".to_vec(), 0));
    assert_eq!(store.space().unwrap().free_bytes, free_bytes, "the space is free again");
    fill(Some(7 * MEBIBYTE));
    assert_eq!((read(&store, "/f"), parts_in(small.path())), (b"old".to_vec(), 0));
}

#[test]
fn space_is_checked_on_the_file_system_of_the_file() {
    let test = "space_is_checked_on_the_file_system_of_the_file";
    let scratch = Scratch::new("elsewhere").unwrap();
    let export = scratch.create("export").unwrap();
    let mounted = Tmpfs::mount(&export.join("small"), 4 * MEBIBYTE);
    let Some(small) = available(test, mounted) else { return };
    let store = with_reserve(&export, 0);
    let target = path("/small/new/f");
    let refused = store.create(&target, &options(Some(5 * MEBIBYTE), Overwrite::Allow));
    assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    assert!(names(&store, "/small").is_empty(), "no parents are created for it");
    let first = store
        .create(&target, &options(Some(3 * MEBIBYTE), Overwrite::Allow))
        .unwrap();
    let second = store.create(&path("/small/g"), &options(Some(3 * MEBIBYTE), Overwrite::Allow));
    assert_eq!(
        code(second),
        Some(ErrorCode::NoSpace),
        "the first one's blocks are allocated"
    );
    first.abort();
    put(&store, "/small/new/f", b"12", Overwrite::Allow).unwrap();
    assert_eq!(read(&store, "/small/new/f"), b"12");
    assert_eq!(parts_in(&export), 0);
    drop(store);
    drop(small);
}

#[test]
fn blocks_of_an_announced_size_are_allocated() {
    let directory = tempfile::tempdir().unwrap();
    let probe = tempfile::tempfile_in(directory.path()).unwrap();
    let in_memory = std::fs::metadata(directory.path()).unwrap().dev() == memory_device();
    if in_memory || fallocate(&probe, FallocateFlags::KEEP_SIZE, 0, MEBIBYTE).is_err() {
        let reason = "the file system of temporary files allocates no blocks in advance".to_owned();
        available::<()>(
            "blocks_of_an_announced_size_are_allocated",
            Err(testkit::Error::Missing(reason)),
        );
        return;
    }
    let store = posix(directory.path());
    let upload = store
        .create(&path("/f"), &options(Some(4 * MEBIBYTE), Overwrite::Allow))
        .unwrap();
    let reader = upload.reader().unwrap();
    let facts = reader.as_file().unwrap().metadata().unwrap();
    assert_eq!(facts.len(), 0);
    assert!(facts.blocks() * 512 >= 4 * MEBIBYTE, "{} blocks", facts.blocks());
}

fn memory_device() -> u64 {
    std::fs::metadata("/dev/shm").map_or(0, |facts| facts.dev())
}

#[test]
fn the_quotas_count_stays_exact_under_commits_aborts_and_removals_at_once() {
    let directory = quick_directory();
    std::fs::write(directory.path().join("f0"), vec![0; 777]).unwrap();
    let quota_bytes = 256 * MEBIBYTE;
    let quota = PosixOptions {
        quota_bytes: Some(quota_bytes),
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &quota).unwrap();
    while !store.usage_is_known() {
        std::thread::yield_now();
    }
    let work = |thread: u64| {
        for round in 0..100u64 {
            let length = thread * 1000 + round;
            let name = path(&format!("/f{}", round % 3));
            let announced = round.is_multiple_of(2).then_some(length);
            let upload = store.create(&name, &options(announced, Overwrite::Allow)).unwrap();
            upload
                .write_vectored_at(&[IoSlice::new(&vec![1; length as usize])], 0)
                .unwrap();
            match (thread + round) % 5 {
                0 => upload.abort(),
                1 => drop(upload),
                _ => upload.commit(&size(length)).map(drop).unwrap(),
            }
            match (thread + round) % 7 {
                0 => drop(store.remove(&name)),
                1 => drop(store.rename(&name, &path("/f1"), Overwrite::Allow)),
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| (1..5).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    let held: u64 = names(&store, "/")
        .iter()
        .map(|name| std::fs::metadata(directory.path().join(name)).unwrap().len())
        .sum();
    let space = store.space().unwrap();
    assert_eq!(space.used_bytes, held);
    assert_eq!(space.free_bytes, quota_bytes - held, "nothing stays reserved");
}
