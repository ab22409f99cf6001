//! Checksums stored with a file, and when they become invalid.

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use storage::{CommitFacts, Overwrite, Posix, PosixOptions, Storage};
use testkit::{Scratch, available};
use types::{Checksum, ChecksumAlgorithm, ErrorCode};

use crate::support::{Mount, code, options, path, posix, put, read};

/// Whether the file system below `directory` stores attributes.
fn keeps_attributes(directory: &std::path::Path) -> testkit::Result<()> {
    let probe = tempfile::NamedTempFile::new_in(directory)?;
    match rustix::fs::setxattr(probe.path(), "user.probe", b"1", rustix::fs::XattrFlags::empty()) {
        Ok(()) => Ok(()),
        Err(errno) => Err(testkit::Error::Missing(format!("no user attributes: {errno}"))),
    }
}

fn commit(store: &Posix, name: &str, content: &[u8], checksums: &[Checksum]) {
    let upload = store.create(&path(name), &options(None, Overwrite::Allow)).unwrap();
    upload.write_vectored_at(&[IoSlice::new(content)], 0).unwrap();
    let facts = CommitFacts {
        size_bytes: content.len() as u64,
        checksums: checksums.to_vec(),
        modified: None,
        mode: None,
    };
    upload.commit(&facts).unwrap();
}

fn all_kinds() -> Vec<Checksum> {
    ChecksumAlgorithm::ALL
        .iter()
        .map(|algorithm| Checksum::new(*algorithm, &vec![0x5a; algorithm.value_bytes()]).unwrap())
        .collect()
}

#[test]
fn kept_checksums_survive_a_restart_a_rename_and_additions() {
    let directory = tempfile::tempdir().unwrap();
    let test = "kept_checksums_survive_a_restart_a_rename_and_additions";
    if available(test, keeps_attributes(directory.path())).is_none() {
        return;
    }
    let all = all_kinds();
    commit(&posix(directory.path()), "/f", b"content", &all[..3]);
    let store = posix(directory.path());
    store.rename(&path("/f"), &path("/g"), Overwrite::Allow).unwrap();
    let seen = store.stat(&path("/g")).unwrap();
    store.store_checksum(&path("/g"), &seen, &all[3]).unwrap();
    let kept = store.stored_checksums(&path("/g")).unwrap();
    assert_eq!(kept.len(), all.len());
    assert!(all.iter().all(|checksum| kept.contains(checksum)), "{kept:?}");
    let again = Checksum::adler32(1);
    store.store_checksum(&path("/g"), &seen, &again).unwrap();
    let kept = store.stored_checksums(&path("/g")).unwrap();
    assert_eq!(kept.len(), all.len(), "one value per algorithm: {kept:?}");
    assert!(kept.contains(&again));
}

#[test]
fn a_file_changed_behind_our_back_has_no_checksums() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    let file = |name: &str| File::options().write(true).open(directory.path().join(name)).unwrap();
    let restore = |name: &str, time: SystemTime| file(name).set_modified(time).unwrap();
    let kept = |name: &str| store.stored_checksums(&path(&format!("/{name}"))).unwrap();
    for name in ["touched", "rewritten", "longer", "nanosecond"] {
        commit(&store, &format!("/{name}"), b"content", &all_kinds());
    }
    let before = store.stat(&path("/longer")).unwrap().modified;
    restore("touched", before + Duration::from_secs(5));
    file("rewritten").write_at(b"C", 0).unwrap();
    file("longer").write_at(b"!", 7).unwrap();
    restore("longer", before);
    let stamp = store.stat(&path("/nanosecond")).unwrap().modified;
    restore("nanosecond", stamp + Duration::from_nanos(1));
    for name in ["touched", "rewritten", "longer", "nanosecond"] {
        assert_eq!(kept(name), [], "{name}");
    }
}

#[test]
fn a_file_system_without_attributes_stores_files_without_checksums() {
    let test = "a_file_system_without_attributes_stores_files_without_checksums";
    let scratch = Scratch::new("plain").unwrap();
    let plain = scratch.join("plain");
    let mounted = Mount::new(&["-t", "ramfs", "ramfs"], &plain);
    let Some(_mounted) = available(test, mounted) else {
        return;
    };
    if keeps_attributes(&plain).is_ok() {
        let reason = "this kernel's ramfs stores attributes".to_owned();
        available::<()>(test, Err(testkit::Error::Missing(reason)));
        return;
    }
    // It does not report its size either, which must not count as full.
    let store = posix(&plain);
    commit(&store, "/f", b"content", &all_kinds());
    let seen = store.stat(&path("/f")).unwrap();
    let committed = store.stored_checksums(&path("/f")).unwrap();
    assert_eq!(committed.len(), all_kinds().len(), "the upload's checksums are cached");
    store.store_checksum(&path("/f"), &seen, &Checksum::adler32(1)).unwrap();
    let remembered = store.stored_checksums(&path("/f")).unwrap();
    assert_eq!(remembered.len(), committed.len());
    assert!(remembered.contains(&Checksum::adler32(1)));
    assert_eq!(
        posix(&plain).stored_checksums(&path("/f")).unwrap(),
        [],
        "and not by another store"
    );
    assert_eq!(read(&store, "/f"), b"content");
}

#[test]
fn cached_checksums_do_not_outlive_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("f");
    let read_only = PosixOptions {
        writable: false,
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &read_only).unwrap();
    let kept = || store.stored_checksums(&path("/f")).unwrap();
    let remember = || {
        let seen = store.stat(&path("/f")).unwrap();
        store.store_checksum(&path("/f"), &seen, &Checksum::adler32(1)).unwrap();
        assert_eq!(kept(), [Checksum::adler32(1)]);
        seen
    };
    std::fs::write(&place, "12").unwrap();
    let seen = remember();
    let file = File::options().write(true).open(&place).unwrap();
    // The same size and date, as programs leave that copy dates.
    file.write_at(b"3", 0).unwrap();
    file.set_modified(seen.modified).unwrap();
    assert!(store.stat(&path("/f")).unwrap().same_content(&seen));
    assert_eq!(kept(), []);
    remember();
    std::fs::remove_file(&place).unwrap();
    std::fs::write(&place, "45").unwrap();
    File::options()
        .write(true)
        .open(&place)
        .unwrap()
        .set_modified(seen.modified)
        .unwrap();
    assert_eq!(kept(), [], "another file, even with the same inode number");
}

#[test]
fn a_read_only_export_is_never_changed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("f"), "12").unwrap();
    let read_only = PosixOptions {
        writable: false,
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &read_only).unwrap();
    let seen = store.stat(&path("/f")).unwrap();
    store.store_checksum(&path("/f"), &seen, &Checksum::adler32(1)).unwrap();
    assert_eq!(store.stored_checksums(&path("/f")).unwrap(), [Checksum::adler32(1)]);
    let anew = Posix::open(directory.path(), &read_only).unwrap();
    assert_eq!(anew.stored_checksums(&path("/f")).unwrap(), []);
    assert_eq!(
        code(put(&store, "/g", b"12", Overwrite::Allow)),
        Some(ErrorCode::ReadOnly)
    );
    assert_eq!(code(store.remove(&path("/f"))), Some(ErrorCode::ReadOnly));
    assert_eq!(code(store.make_directory(&path("/d"), true)), Some(ErrorCode::ReadOnly));
    assert_eq!(
        code(store.rename(&path("/f"), &path("/g"), Overwrite::Allow)),
        Some(ErrorCode::ReadOnly)
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
