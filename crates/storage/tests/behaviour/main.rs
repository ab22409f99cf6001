//! What every store guarantees, tested with each back end; the modules test what one back end
//! guarantees alone.

mod blocking_store;
mod changes;
mod checksums;
mod crash;
mod data;
mod handles;
mod lane;
mod links;
mod listing;
mod names;
mod quotas;
mod space;
mod support;
mod trees;
mod users;
mod xrootd;

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;

use storage::{
    CommitFacts, Effect, Fault, Faulty, Memory, Operation, Overwrite, Patience, Replacing, Storage, UploadOptions,
};
use types::{Checksum, ErrorCode};

use support::{code, names, options, path, posix, put, read};

fn uploads_take_their_name_at_the_end(store: &dyn Storage) {
    put(store, "/u/f", b"old content", Overwrite::Allow).unwrap();
    let before = store.stat(&path("/u/f")).unwrap();
    let upload = store.create(&path("/u/f"), &options(None, Overwrite::Allow)).unwrap();
    upload.write_vectored_at(&[IoSlice::new(b"new")], 0).unwrap();
    assert_eq!(read(store, "/u/f"), b"old content");
    let wrong = CommitFacts {
        size_bytes: 4,
        ..CommitFacts::default()
    };
    assert_eq!(code(upload.commit(&wrong)), Some(ErrorCode::BodyIncomplete));
    assert_eq!(
        code(upload.write_vectored_at(&[IoSlice::new(b"x")], 0)),
        Some(ErrorCode::Cancelled)
    );
    upload.abort();
    assert_eq!(read(store, "/u/f"), b"old content");
    let reader = store.open(&path("/u/f")).unwrap();
    put(store, "/u/f", b"new content", Overwrite::Allow).unwrap();
    assert_eq!(read(store, "/u/f"), b"new content");
    assert_ne!(store.stat(&path("/u/f")).unwrap().etag(), before.etag());
    let mut old = [0; 3];
    reader
        .read_vectored_at(&mut [IoSliceMut::new(&mut old)], 0, Patience::Wait)
        .unwrap();
    assert_eq!(&old, b"old");
    assert_eq!(names(store, "/u"), ["f"]);
}

fn names_are_refused_as_documented(store: &dyn Storage) {
    put(store, "/n/f", b"12", Overwrite::Allow).unwrap();
    assert_eq!(
        code(put(store, "/n/f", b"34", Overwrite::Refuse)),
        Some(ErrorCode::Exists)
    );
    assert_eq!(
        code(put(store, "/n", b"34", Overwrite::Allow)),
        Some(ErrorCode::IsDirectory)
    );
    assert_eq!(
        code(put(store, "/n/f/x", b"34", Overwrite::Allow)),
        Some(ErrorCode::NotDirectory)
    );
    let without_parents = UploadOptions::default();
    assert_eq!(
        code(store.create(&path("/none/f"), &without_parents)),
        Some(ErrorCode::ParentMissing)
    );
    assert_eq!(code(store.open(&path("/n"))), Some(ErrorCode::IsDirectory));
    assert_eq!(code(store.list(&path("/n/f"))), Some(ErrorCode::NotDirectory));
    assert_eq!(
        code(store.make_directory(&path("/n"), true)),
        Some(ErrorCode::DirectoryExists)
    );
    assert_eq!(code(store.remove(&path("/n"))), Some(ErrorCode::NotEmpty));
    assert_eq!(code(store.remove(&path("/n/none"))), Some(ErrorCode::NotFound));
    let upload = store
        .create(&path("/n/g"), &options(Some(2), Overwrite::Allow))
        .unwrap();
    let too_much = upload.write_vectored_at(&[IoSlice::new(b"123")], 0);
    assert_eq!(code(too_much), Some(ErrorCode::PeerSizeDiffers));
}

fn one_of_two_uploads_that_refuse_to_overwrite_wins(store: &dyn Storage) {
    let uploads = [(); 2].map(|()| {
        store
            .create(&path("/race"), &options(Some(0), Overwrite::Refuse))
            .unwrap()
    });
    let [first, second] = std::thread::scope(|scope| {
        let threads = uploads
            .each_ref()
            .map(|upload| scope.spawn(|| code(upload.commit(&CommitFacts::default()))));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(matches!(
        (first, second),
        (None, Some(ErrorCode::Exists)) | (Some(ErrorCode::Exists), None)
    ));
}

fn moving_copying_and_checksums(store: &dyn Storage) {
    put(store, "/m/a", b"abc", Overwrite::Allow).unwrap();
    put(store, "/m/b", b"def", Overwrite::Allow).unwrap();
    assert_eq!(
        code(store.rename(&path("/m/a"), &path("/m/b"), Overwrite::Refuse)),
        Some(ErrorCode::Exists)
    );
    assert_eq!(
        code(store.rename(&path("/m"), &path("/m/c"), Overwrite::Allow)),
        Some(ErrorCode::Forbidden)
    );
    assert!(store.rename(&path("/m/a"), &path("/m/b"), Overwrite::Allow).unwrap());
    assert!(!store.rename(&path("/m"), &path("/k"), Overwrite::Refuse).unwrap());
    store.copy(&path("/k/b"), &path("/k/c"), Overwrite::Refuse).unwrap();
    assert_eq!(read(store, "/k/c"), b"abc");
    assert_eq!(names(store, "/k"), ["b", "c"]);
    let seen = store.stat(&path("/k/c")).unwrap();
    store
        .store_checksum(&path("/k/c"), &seen, &Checksum::crc32c(9))
        .unwrap();
    put(store, "/k/c", b"xyz", Overwrite::Allow).unwrap();
    let stale = store.store_checksum(&path("/k/c"), &seen, &Checksum::crc32c(9));
    assert_eq!(code(stale), Some(ErrorCode::SourceChanged));
}

fn trees_are_removed_with_everything_in_them(store: &dyn Storage) {
    for name in ["/t/d/e/f", "/t/d/g", "/t/h", "/u/f"] {
        put(store, name, b"abc", Overwrite::Allow).unwrap();
    }
    store.make_directory(&path("/t/empty"), false).unwrap();
    assert_eq!(code(store.remove(&path("/t"))), Some(ErrorCode::NotEmpty));
    assert!(store.remove_tree(&path("/t")).unwrap().is_none());
    assert_eq!(code(store.stat(&path("/t"))), Some(ErrorCode::NotFound));
    assert_eq!(code(store.remove_tree(&path("/t"))), Some(ErrorCode::NotFound));
    assert_eq!(code(store.remove_tree(&path("/"))), Some(ErrorCode::Forbidden));
    // A file can be removed the same way, and a free name can be taken again.
    assert!(store.remove_tree(&path("/u/f")).unwrap().is_none());
    store.make_directory(&path("/t"), false).unwrap();
    assert!(names(store, "/t").is_empty() && names(store, "/u").is_empty());
    store.remove_tree(&path("/t")).unwrap();
}

fn trees_are_copied_and_replaced(store: &dyn Storage) {
    for name in ["/c/from/d/f", "/c/from/g", "/c/full/old"] {
        put(store, name, b"abc", Overwrite::Allow).unwrap();
    }
    store.make_directory(&path("/c/from/empty"), false).unwrap();
    let copy = |to: &str, members, replacing| store.copy_tree(&path("/c/from"), &path(to), members, replacing);
    assert!(!copy("/c/to", true, Replacing::Nothing).unwrap());
    assert_eq!(names(store, "/c/to"), ["d", "empty", "g"]);
    assert_eq!(read(store, "/c/to/d/f"), b"abc");
    assert_eq!(
        store.stored_checksums(&path("/c/to/d/f")).unwrap(),
        [Checksum::adler32(7)]
    );
    assert!(!copy("/c/alone", false, Replacing::Nothing).unwrap());
    assert!(names(store, "/c/alone").is_empty());
    assert_eq!(code(copy("/c/to", true, Replacing::Nothing)), Some(ErrorCode::Exists));
    assert_eq!(
        code(copy("/c/full", true, Replacing::Single)),
        Some(ErrorCode::NotEmpty)
    );
    assert_eq!(
        code(copy("/c/none/x", true, Replacing::Nothing)),
        Some(ErrorCode::ParentMissing)
    );
    assert!(copy("/c/alone", true, Replacing::Single).unwrap());
    assert!(copy("/c/full", true, Replacing::Tree).unwrap());
    assert_eq!(
        [names(store, "/c/alone"), names(store, "/c/full")],
        [["d", "empty", "g"]; 2]
    );
    for inside in ["/c/from/x", "/c/from/d/x", "/c"] {
        assert_eq!(
            code(copy(inside, true, Replacing::Tree)),
            Some(ErrorCode::Forbidden),
            "{inside}"
        );
    }
    // A file in place of a directory, and the reverse.
    let (file, full) = (path("/c/from/g"), path("/c/full"));
    assert!(store.copy_tree(&file, &full, true, Replacing::Tree).unwrap());
    assert_eq!(read(store, "/c/full"), b"abc");
    assert!(copy("/c/full", true, Replacing::Single).unwrap());
    let over = |from: &str, to: &str, replacing| store.move_over(&path(from), &path(to), replacing);
    assert_eq!(
        code(over("/c/to", "/c/full", Replacing::Single)),
        Some(ErrorCode::NotEmpty)
    );
    assert!(over("/c/to/g", "/c/full", Replacing::Tree).unwrap());
    assert_eq!(read(store, "/c/full"), b"abc");
    assert!(over("/c/to", "/c/full", Replacing::Single).unwrap());
    assert_eq!(names(store, "/c/full"), ["d", "empty"]);
    assert_eq!(names(store, "/c"), ["alone", "from", "full"]);
    store.remove_tree(&path("/c")).unwrap();
}

fn dead_properties_are_changed_at_once_and_are_no_attributes(store: &dyn Storage) {
    put(store, "/p/f", b"abc", Overwrite::Allow).unwrap();
    assert!(store.dead_properties(&path("/p/f")).unwrap().is_empty());
    if code(store.set_attribute(&path("/p/f"), "a", b"1", Overwrite::Allow)) == Some(ErrorCode::NotImplemented) {
        return;
    }
    let add = |old: &[u8]| Ok([old, b"x"].concat());
    for name in ["/p/f", "/p/f", "/p"] {
        store.change_dead_properties(&path(name), &add).unwrap();
    }
    let missing = store.stat(&path("/none")).unwrap_err();
    let refused = store.change_dead_properties(&path("/p/f"), &|_| Err(missing.clone()));
    assert_eq!(code(refused), Some(ErrorCode::NotFound));
    assert_eq!(store.dead_properties(&path("/p/f")).unwrap(), b"xx");
    let in_directory = store.dead_properties_in(&path("/p"), &["none".into(), "f".into()]);
    assert_eq!(in_directory.unwrap(), [&b""[..], b"xx"]);
    assert_eq!(store.attributes(&path("/p/f")).unwrap(), ["a"]);
    store.change_dead_properties(&path("/p"), &|_| Ok(Vec::new())).unwrap();
    assert!(store.dead_properties(&path("/p")).unwrap().is_empty());
    assert_eq!(code(store.dead_properties(&path("/p/none"))), Some(ErrorCode::NotFound));
}

fn too_much_is_refused_before_the_first_byte(store: &dyn Storage) {
    let size = store.space().unwrap().total_bytes + 1;
    let refused = store.create(&path("/big"), &options(Some(size), Overwrite::Allow));
    assert!(matches!(
        code(refused),
        Some(ErrorCode::NoSpace | ErrorCode::QuotaExceeded)
    ));
}

fn suite(store: &dyn Storage) {
    uploads_take_their_name_at_the_end(store);
    names_are_refused_as_documented(store);
    one_of_two_uploads_that_refuse_to_overwrite_wins(store);
    moving_copying_and_checksums(store);
    too_much_is_refused_before_the_first_byte(store);
    trees_are_removed_with_everything_in_them(store);
    dead_properties_are_changed_at_once_and_are_no_attributes(store);
    trees_are_copied_and_replaced(store);
}

#[test]
fn memory() {
    suite(&Memory::new(1 << 30));
}

#[test]
fn posix_on_disk_keeps_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    suite(&store);
    assert!(!names(&store, "/").contains(&".crossload".to_owned()));
    drop(store);
    let left = std::fs::read_dir(directory.path().join(".crossload/uploads"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[test]
fn posix_in_memory() {
    let shared_memory = Path::new("/dev/shm");
    let place = if shared_memory.is_dir() {
        shared_memory
    } else {
        Path::new("/tmp")
    };
    let directory = tempfile::tempdir_in(place).unwrap();
    suite(&posix(directory.path()));
}

#[test]
fn faulty_without_faults() {
    suite(&Faulty::new(Memory::new(1 << 30), Vec::new()));
}

#[test]
fn an_old_file_survives_every_fault_of_an_upload() {
    let faults = [(Operation::Create, 2), (Operation::Write, 4), (Operation::Commit, 2)];
    for (operation, nth) in faults {
        let directory = tempfile::tempdir().unwrap();
        let fault = Fault {
            operation,
            nth,
            effect: Effect::Fail(ErrorCode::NoSpace),
        };
        let store = Faulty::new(posix(directory.path()), vec![fault]);
        put(&store, "/f", b"old", Overwrite::Allow).unwrap();
        assert_eq!(
            code(put(&store, "/f", b"new", Overwrite::Allow)),
            Some(ErrorCode::NoSpace),
            "{operation:?}"
        );
        assert_eq!(read(&store, "/f"), b"old");
        assert_eq!(support::parts_in(directory.path()), 0, "{operation:?}");
        put(&store, "/f", b"third", Overwrite::Allow).unwrap();
        assert_eq!(read(&store, "/f"), b"third");
    }
}
