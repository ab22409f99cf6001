//! What can be observed only from inside: files kept open, and failures that no test can cause from
//! outside.

use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::api::CommitFacts;

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn put(store: &Posix, name: &str, content: &[u8]) {
    let upload = store.create(&path(name), &UploadOptions::default()).unwrap();
    upload.write_vectored_at(&[IoSlice::new(content)], 0).unwrap();
    let facts = CommitFacts {
        size_bytes: content.len() as u64,
        ..CommitFacts::default()
    };
    upload.commit(&facts).unwrap();
}

#[test]
fn replaced_and_removed_files_keep_their_blocks_until_the_late_close() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let (late_close, files) = LateClose::held_back();
    store.shared = Arc::new(Shared {
        root: Arc::clone(&store.root),
        directories: RwLock::new(()),
        properties: Mutex::new(()),
        group_sync: GroupSync::default(),
        space: Arc::clone(&store.shared.space),
        late_close,
        in_memory: false,
        device: 0,
        locks_inode: false,
        checksum_cache: ChecksumCache::default(),
        secrets: SecretFiles::default(),
    });
    let name = directory.path().join("f");
    put(&store, "/f", &[1; 1 << 20]);
    for step in ["replaced by an upload", "replaced by a rename", "removed"] {
        let old = std::fs::metadata(&name).unwrap();
        match step {
            "replaced by an upload" => put(&store, "/f", &[2; 1 << 20]),
            "replaced by a rename" => {
                put(&store, "/g", &[3; 1 << 20]);
                assert!(store.rename(&path("/g"), &path("/f"), Overwrite::Allow).unwrap());
            }
            _ => store.remove(&path("/f")).unwrap(),
        }
        let held = files
            .try_recv()
            .unwrap_or_else(|_| panic!("{step}: nothing is closed late"));
        let raw = fs::fstat(&held).unwrap();
        assert_eq!((raw.st_ino, raw.st_nlink), (old.ino(), 0), "{step}");
        assert_eq!(
            raw.st_blocks as u64,
            old.blocks(),
            "{step}: its blocks are not freed yet"
        );
    }
    assert!(!name.exists() && files.try_recv().is_err());
}

#[test]
fn a_name_that_could_not_be_synced_is_reported_as_being_in_place() {
    let directory = tempfile::tempdir().unwrap();
    // A path-only descriptor cannot be synced.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let unsyncable = fs::open(directory.path(), flags, Mode::empty()).unwrap();
    let error = sync_names(&GroupSync::default(), &unsyncable, &path("/f")).unwrap_err();
    assert_eq!((error.code(), error.phase()), (ErrorCode::StorageFailed, Phase::Commit));
    assert!(error.public().contains("in its place"), "{}", error.public());
}

#[test]
fn failures_of_a_rename_are_distinguished() {
    let code = |errno, moves_directory| not_moved(errno, moves_directory, &path("/t")).code();
    assert_eq!(code(Errno::NOTDIR, true), ErrorCode::Exists);
    assert_eq!(code(Errno::NOTDIR, false), ErrorCode::NotDirectory);
    assert_eq!(code(Errno::INVAL, true), ErrorCode::Forbidden);
    assert_eq!(code(Errno::XDEV, false), ErrorCode::CrossExport);
    assert_eq!(code(Errno::ISDIR, false), ErrorCode::IsDirectory);
    assert_eq!(code(Errno::NOSPC, false), ErrorCode::NoSpace);
}
