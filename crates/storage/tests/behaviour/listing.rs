//! Large directories are read in batches.

use std::path::Path;
use std::time::Instant;

use storage::{Memory, Overwrite, Storage};
use types::limits::LISTING_BATCH_ENTRIES;

use crate::support::{again, bare_names, names, options, path, posix, put, size};

const ENTRIES: usize = 100_000;
/// The variable with the path of the directory, for the process that is measured.
const VARIABLE: &str = "CROSSLOAD_TEST_LISTING";
/// The most that the process may grow while it lists: far less than the names alone would take.
const GROWTH_BYTES_MAX: u64 = 1 << 20;
const NAME_BYTES: usize = 64;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Lists everything; returns the number of entries, and the largest growth of the process after the
/// first few batches.
fn list_all(directory: &Path) -> (usize, u64) {
    let store = posix(directory);
    let mut listing = store.list(&path("/")).unwrap();
    let (mut count, mut growth_bytes) = (0, 0);
    let mut before = 0;
    for batches in 0.. {
        let batch = listing.next_batch().unwrap();
        assert!(batch.len() <= LISTING_BATCH_ENTRIES);
        if batch.is_empty() {
            break;
        }
        count += batch.len();
        drop(batch);
        match batches {
            0..8 => before = resident_bytes(),
            _ => growth_bytes = resident_bytes().saturating_sub(before).max(growth_bytes),
        }
    }
    (count, growth_bytes)
}

#[test]
fn a_hundred_thousand_entries_take_constant_memory() {
    // Memory can be measured only for a whole process, so use a separate one.
    if let Some(directory) = std::env::var_os(VARIABLE) {
        let (count, growth_bytes) = list_all(Path::new(&directory));
        assert_eq!(count, ENTRIES);
        assert!(growth_bytes <= GROWTH_BYTES_MAX, "grew by {growth_bytes} bytes");
        return;
    }
    assert!(
        (ENTRIES * NAME_BYTES) as u64 > 4 * GROWTH_BYTES_MAX,
        "a full list would be noticed"
    );
    let directory = crate::support::quick_directory();
    let name = |index| directory.path().join(format!("{index:0NAME_BYTES$}"));
    std::fs::write(name(0), "").unwrap();
    (1..ENTRIES).for_each(|index| drop(std::fs::File::create(name(index)).unwrap()));
    let test = "listing::a_hundred_thousand_entries_take_constant_memory";
    let output = again(test, VARIABLE, directory.path()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

/// Seconds of the fastest of many listings of `/d` in memory, whose entry `/d/big` holds `below`
/// files. The fastest, because a busy machine only makes the others slower.
fn seconds_with(below: usize) -> f64 {
    let store = Memory::new(1 << 30);
    for index in 0..below {
        put(&store, &format!("/d/big/{index}"), b"1", Overwrite::Allow).unwrap();
    }
    for index in 0..16 {
        put(&store, &format!("/d/big-{index}"), b"1", Overwrite::Allow).unwrap();
        put(&store, &format!("/d-{index}/f"), b"1", Overwrite::Allow).unwrap();
    }
    let timed = (0..100).map(|_| {
        let started = Instant::now();
        assert_eq!(crate::support::names(&store, "/d").len(), 17);
        started.elapsed().as_secs_f64()
    });
    timed.fold(f64::INFINITY, f64::min)
}

#[test]
fn a_listing_in_memory_does_not_walk_subdirectories() {
    let (small, large) = (seconds_with(10), seconds_with(20_000));
    // Walking 20 000 entries instead of 17 would take hundreds of times as long.
    assert!(large < small * 50.0, "{small} s and {large} s");
}

#[test]
fn a_directory_that_holds_only_names_that_no_path_can_hold_says_so() {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    let inner = directory.path().join("d");
    std::fs::create_dir(&inner).unwrap();
    for name in [&b"caf\xe9"[..], b"line\nfeed"] {
        std::fs::write(inner.join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let mut listing = store.list(&path("/d")).unwrap();
    assert!(listing.next_batch().unwrap().is_empty());
    let unlisted = listing.unlisted();
    assert_eq!(bare_names(&store, "/d"), (Vec::new(), unlisted.clone()));
    assert_eq!(unlisted.names.count, 2);
    let example = unlisted.names.example.unwrap();
    assert!([r"caf\xe9", r"line\nfeed"].contains(&example.as_str()), "{example}");
    let error = store.remove(&path("/d")).unwrap_err();
    assert_eq!(error.code(), types::ErrorCode::NotEmpty);
    assert!(
        error.public().contains("2 names that no path can hold"),
        "{}",
        error.public()
    );
}

#[test]
fn names_alone_are_those_of_a_listing_with_properties() {
    let directory = crate::support::quick_directory();
    let store = posix(directory.path());
    let memory = Memory::new(1 << 20);
    // More than a batch.
    for index in 0..LISTING_BATCH_ENTRIES + 7 {
        std::fs::write(directory.path().join(format!("f{index}")), "").unwrap();
        put(&memory, &format!("/f{index}"), b"1", Overwrite::Allow).unwrap();
    }
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::os::unix::fs::symlink("f1", directory.path().join("link")).unwrap();
    // Neither files nor directories, and the hidden directory: not listed.
    std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    for store in [&store as &dyn Storage, &memory] {
        let (bare, unlisted) = bare_names(store, "/");
        assert_eq!(bare, names(store, "/"));
        assert!(bare.len() >= LISTING_BATCH_ENTRIES + 7 && unlisted.is_empty());
    }
}

/// Asking each file would make listings three times as slow where none exist.
#[test]
fn a_listing_asks_for_dead_properties_once_there_are_any() {
    let directory = tempfile::tempdir().unwrap();
    let (store, other) = (posix(directory.path()), posix(directory.path()));
    put(&store, "/f", b"x", Overwrite::Allow).unwrap();
    let listed = |store: &dyn Storage| store.dead_properties_in(&path("/"), &["f".to_owned()]).unwrap();
    assert_eq!(listed(&store), [b""]);
    let mark = directory.path().join(".crossload/properties");
    assert!(!mark.exists());
    other
        .change_dead_properties(&path("/f"), &|_| Ok(b"held".to_vec()))
        .unwrap();
    assert!(mark.exists());
    assert_eq!(listed(&store), [b"held"]);
}

#[test]
fn dead_properties_that_came_during_an_upload_stay_with_the_name() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    let upload = store.create(&path("/f"), &options(Some(3), Overwrite::Allow)).unwrap();
    put(&store, "/f", b"x", Overwrite::Allow).unwrap();
    store
        .change_dead_properties(&path("/f"), &|_| Ok(b"held".to_vec()))
        .unwrap();
    upload.write_vectored_at(&[std::io::IoSlice::new(b"new")], 0).unwrap();
    upload.commit(&size(3)).unwrap();
    assert_eq!(crate::support::read(&store, "/f"), b"new");
    assert_eq!(store.dead_properties(&path("/f")).unwrap(), b"held");
}
