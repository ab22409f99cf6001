//! Changes besides uploads: updates in place, modes, attributes.

use std::io::IoSlice;

use storage::{CommitFacts, Memory, Overwrite, Storage};
use types::{Checksum, ErrorCode};

use crate::support::{code, path, posix, put, read};

/// Runs the same check for both stores.
fn both(check: impl Fn(&dyn Storage)) {
    let directory = tempfile::tempdir().unwrap();
    check(&posix(directory.path()));
    check(&Memory::new(1 << 20));
}

#[test]
fn a_file_is_changed_in_place_and_loses_its_checksums_with_the_first_change() {
    both(|store| {
        put(store, "/f", b"0123456789", Overwrite::Allow).unwrap();
        let untouched = store.open_update(&path("/f")).unwrap();
        untouched.commit(&CommitFacts::default()).unwrap();
        assert_eq!(store.stored_checksums(&path("/f")).unwrap(), [Checksum::adler32(7)]);
        let update = store.open_update(&path("/f")).unwrap();
        update
            .write_vectored_at(&[IoSlice::new(b"ab"), IoSlice::new(b"c")], 8)
            .unwrap();
        assert_eq!(read(store, "/f"), b"01234567abc", "it is visible at once");
        assert!(store.stored_checksums(&path("/f")).unwrap().is_empty());
        update.set_length(9).unwrap();
        update.sync().unwrap();
        assert_eq!(update.reader().unwrap().stat().size_bytes, 9);
        assert_eq!(update.commit(&CommitFacts::default()).unwrap().size_bytes, 9);
        drop(update);
        assert_eq!(read(store, "/f"), b"01234567a");
        assert_eq!(code(store.open_update(&path("/none"))), Some(ErrorCode::NotFound));
        assert_eq!(code(store.open_update(&path("/"))), Some(ErrorCode::IsDirectory));
    });
}

#[test]
fn a_change_of_a_file_that_lost_its_name_is_no_success() {
    let losses: [fn(&dyn Storage); 3] = [
        |store| put(store, "/d/f", b"another", Overwrite::Allow).unwrap(),
        |store| store.remove(&path("/d/f")).unwrap(),
        |store| {
            store.rename(&path("/d"), &path("/e"), Overwrite::Refuse).unwrap();
        },
    ];
    for lose in losses {
        both(|store| {
            put(store, "/d/f", b"0123", Overwrite::Allow).unwrap();
            let update = store.open_update(&path("/d/f")).unwrap();
            update.write_vectored_at(&[IoSlice::new(b"ab")], 0).unwrap();
            lose(store);
            assert_eq!(code(update.commit(&CommitFacts::default())), Some(ErrorCode::NotFound));
        });
    }
}

#[test]
fn an_upload_into_a_moved_directory_fails() {
    for replaced in [false, true] {
        both(|store| {
            put(store, "/arch/keep", b"x", Overwrite::Allow).unwrap();
            put(store, "/in/job/f", b"first", Overwrite::Allow).unwrap();
            let upload = store
                .create(&path("/in/job/f"), &crate::support::options(None, Overwrite::Allow))
                .unwrap();
            upload.write_vectored_at(&[IoSlice::new(b"second")], 0).unwrap();
            let to = path("/arch/job");
            store.rename(&path("/in/job"), &to, Overwrite::Refuse).unwrap();
            if replaced {
                store.make_directory(&path("/in/job"), false).unwrap();
            }
            let committed = upload.commit(&crate::support::size(6)).map(drop);
            assert_eq!(read(store, "/arch/job/f"), b"first", "it is another file");
            match committed {
                // Either the name that was asked for, or an error.
                Ok(()) => assert_eq!(read(store, "/in/job/f"), b"second"),
                Err(error) => assert_eq!(error.code(), ErrorCode::ParentMissing),
            }
        });
    }
}

#[test]
fn the_length_of_an_upload_can_be_set() {
    both(|store| {
        let options = crate::support::options(None, Overwrite::Allow);
        let upload = store.create(&path("/f"), &options).unwrap();
        upload.write_vectored_at(&[IoSlice::new(b"0123456789")], 0).unwrap();
        upload.set_length(4).unwrap();
        upload.set_length(6).unwrap();
        upload.commit(&crate::support::size(6)).unwrap();
        assert_eq!(read(store, "/f"), b"0123\0\0");
    });
}

#[test]
fn modes_can_be_changed() {
    both(|store| {
        put(store, "/f", b"01", Overwrite::Allow).unwrap();
        store.make_directory(&path("/d"), false).unwrap();
        for (name, mode) in [("/f", 0o640), ("/d", 0o711)] {
            store.set_mode(&path(name), mode).unwrap();
            assert_eq!(store.stat(&path(name)).unwrap().mode, mode);
        }
        assert_eq!(code(store.set_mode(&path("/none"), 0o600)), Some(ErrorCode::NotFound));
        assert_eq!(code(store.set_mode(&path("/"), 0)), Some(ErrorCode::Forbidden));
    });
}

#[test]
fn attributes_are_kept_with_files_and_directories() {
    both(|store| {
        put(store, "/f", b"01", Overwrite::Allow).unwrap();
        for name in ["/f", "/"] {
            let place = path(name);
            assert!(
                store.attributes(&place).unwrap().is_empty(),
                "{name}: none of our own attributes is listed"
            );
            store
                .set_attribute(&place, "a b", b"\0\xff", Overwrite::Refuse)
                .unwrap();
            store.set_attribute(&place, "c", b"", Overwrite::Allow).unwrap();
            let taken = store.set_attribute(&place, "c", b"x", Overwrite::Refuse);
            assert_eq!(code(taken), Some(ErrorCode::Exists));
            store.set_attribute(&place, "c", b"yz", Overwrite::Allow).unwrap();
            let mut names = store.attributes(&place).unwrap();
            names.sort();
            assert_eq!(names, ["a b", "c"]);
            assert_eq!(store.attribute(&place, "a b").unwrap().unwrap(), b"\0\xff");
            assert_eq!(store.attribute(&place, "c").unwrap().unwrap(), b"yz");
            assert_eq!(store.attribute(&place, "d").unwrap(), None);
            assert!(store.remove_attribute(&place, "c").unwrap());
            assert!(!store.remove_attribute(&place, "c").unwrap());
        }
        assert_eq!(code(store.attributes(&path("/none"))), Some(ErrorCode::NotFound));
    });
}

#[test]
fn only_the_file_with_the_name_is_cut() {
    both(|store| {
        put(store, "/f", b"0123456789", Overwrite::Allow).unwrap();
        let update = store.open_update(&path("/f")).unwrap();
        store.rename(&path("/f"), &path("/g"), Overwrite::Allow).unwrap();
        assert_eq!(code(update.set_length(3)), Some(ErrorCode::NotFound));
        put(store, "/f", b"another", Overwrite::Allow).unwrap();
        assert_eq!(code(update.set_length(3)), Some(ErrorCode::NotFound));
        assert_eq!(
            (read(store, "/g"), read(store, "/f")),
            (b"0123456789".to_vec(), b"another".to_vec())
        );
    });
}

#[test]
fn an_upload_has_its_mode_before_its_name() {
    both(|store| {
        let upload = store.create(&path("/f"), &storage::UploadOptions::default()).unwrap();
        let facts = CommitFacts {
            mode: Some(0o640),
            ..CommitFacts::default()
        };
        assert_eq!(upload.commit(&facts).unwrap().mode, 0o640);
        assert_eq!(store.stat(&path("/f")).unwrap().mode, 0o640);
    });
}

#[test]
fn too_long_or_unsupported_values_are_named() {
    let store = Memory::new(1 << 20);
    let upload = store.create(&path("/f"), &storage::UploadOptions::default()).unwrap();
    let refused = upload.write_vectored_at(&[IoSlice::new(b"12")], u64::MAX).unwrap_err();
    assert!(
        refused.detail().is_some_and(|detail| detail.contains("bytes")),
        "{refused}"
    );
}
