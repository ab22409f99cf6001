//! Quotas of virtual organisations: which files count, where, and what happens when one is full.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use storage::{LocalUser, Overwrite, Owner, Posix, PosixOptions, Storage, VoQuota, can_act_as};
use types::ErrorCode;

use crate::support::{code, options, path, put, quick_directory, size};

const ATLAS: u32 = 70_001;

fn quota(vo: &str, below: &str, limit_bytes: u64) -> VoQuota {
    VoQuota {
        vo: vo.into(),
        path: path(below),
        shown: path(&format!("/shown{below}")),
        limit_bytes,
        uids: if vo == "atlas" { vec![ATLAS] } else { Vec::new() },
    }
}

fn open(directory: &Path) -> Posix {
    let options = PosixOptions {
        vo_quotas: vec![
            quota("atlas", "/", 1000),
            quota("atlas", "/a", 300),
            quota("cms", "/", 500),
        ],
        ..PosixOptions::default()
    };
    let store = Posix::open(directory, &options).unwrap();
    while !store.usage_is_known() {
        std::thread::yield_now();
    }
    store
}

fn of(store: &Posix, vo: &str) -> Arc<dyn Storage> {
    let owner = Owner {
        vo: Some(vo.into()),
        ..Owner::default()
    };
    store.acting_for(&owner).unwrap()
}

/// Usage of `atlas` everywhere, of `atlas` below `/a`, and of `cms`.
fn used(store: &Posix) -> [u64; 3] {
    let usage = store.usage();
    [0, 1, 2].map(|index| usage[index].used_bytes)
}

/// Whether the file system stores marks; the count at start-up depends on it.
fn keeps_marks(directory: &Path) -> bool {
    let probe = std::fs::File::create(directory.join("probe")).unwrap();
    let kept = rustix::fs::fsetxattr(&probe, "user.probe", b"1", rustix::fs::XattrFlags::empty()).is_ok();
    std::fs::remove_file(directory.join("probe")).unwrap();
    let reason = || testkit::Error::Missing("the file system stores no attributes".to_owned());
    testkit::available("quotas", kept.then_some(()).ok_or_else(reason)).is_some()
}

#[test]
fn a_full_quota_refuses_before_the_first_byte_and_says_whose_it_is() {
    let directory = quick_directory();
    let store = open(directory.path());
    let atlas = of(&store, "atlas");
    put(&*atlas, "/a/f", &[1; 200], Overwrite::Allow).unwrap();
    assert_eq!(used(&store), [200, 200, 0]);
    let error = atlas
        .create(&path("/a/g"), &options(Some(101), Overwrite::Allow))
        .err()
        .unwrap();
    assert_eq!(error.code(), ErrorCode::QuotaExceeded);
    let words = error.public();
    assert!(
        words.contains("101 bytes are needed, 100 of 300 are left for the VO atlas below /shown/a"),
        "{words}"
    );
    // Elsewhere, and for other VOs, there is room; and the same space is not reserved twice.
    let first = atlas
        .create(&path("/g"), &options(Some(700), Overwrite::Allow))
        .unwrap();
    let second = atlas.create(&path("/h"), &options(Some(101), Overwrite::Allow));
    assert_eq!(code(second), Some(ErrorCode::QuotaExceeded));
    put(&*of(&store, "cms"), "/a/h", &[1; 400], Overwrite::Allow).unwrap();
    put(&*of(&store, "lhcb"), "/i", &[1; 4000], Overwrite::Allow).unwrap();
    put(&store, "/j", &[1; 4000], Overwrite::Allow).unwrap();
    first.abort();
    assert!(atlas.create(&path("/h"), &options(Some(800), Overwrite::Allow)).is_ok());
    // An upload of unknown size is stopped at the end of the quota.
    let unknown = atlas.create(&path("/a/u"), &options(None, Overwrite::Allow)).unwrap();
    unknown.write_vectored_at(&[IoSlice::new(&[1; 100])], 0).unwrap();
    let full = unknown.write_vectored_at(&[IoSlice::new(&[1; 1])], 100);
    assert_eq!(code(full), Some(ErrorCode::QuotaExceeded));
    drop(unknown);
    assert_eq!(used(&store), [200, 200, 400]);
}

#[test]
fn files_count_for_the_vo_that_stored_them_after_every_change() {
    let directory = quick_directory();
    if !keeps_marks(directory.path()) {
        return;
    }
    let store = open(directory.path());
    let (atlas, cms) = (of(&store, "atlas"), of(&store, "cms"));
    put(&*atlas, "/f", &[1; 100], Overwrite::Allow).unwrap();
    put(&*cms, "/g", &[1; 10], Overwrite::Allow).unwrap();
    assert_eq!(used(&store), [100, 0, 10]);
    // Overwritten by another VO.
    put(&*cms, "/f", &[1; 20], Overwrite::Allow).unwrap();
    assert_eq!(used(&store), [0, 0, 30]);
    // Renamed from one quota to another, by any VO.
    put(&*atlas, "/h", &[1; 200], Overwrite::Allow).unwrap();
    store.make_directory(&path("/a"), false).unwrap();
    cms.rename(&path("/h"), &path("/a/h"), Overwrite::Allow).unwrap();
    assert_eq!(used(&store), [200, 200, 30]);
    put(&*atlas, "/k", &[1; 101], Overwrite::Allow).unwrap();
    let full = store.rename(&path("/k"), &path("/a/k"), Overwrite::Allow);
    assert_eq!(code(full), Some(ErrorCode::QuotaExceeded));
    // Renamed over another file.
    cms.rename(&path("/g"), &path("/k"), Overwrite::Allow).unwrap();
    assert_eq!(used(&store), [200, 200, 30]);
    // A copy counts for the VO that made it. An update in place does not change the VO.
    cms.copy(&path("/a/h"), &path("/c"), Overwrite::Refuse).unwrap();
    assert_eq!(used(&store), [200, 200, 230]);
    let update = cms.open_update(&path("/a/h")).unwrap();
    update.set_length(250).unwrap();
    let full = update.set_length(301);
    assert_eq!(code(full), Some(ErrorCode::QuotaExceeded));
    update.commit(&size(250)).unwrap();
    assert_eq!(used(&store), [250, 250, 230]);
    // A restart counts the same.
    drop((store, atlas, cms, update));
    let store = open(directory.path());
    assert_eq!(used(&store), [250, 250, 230]);
    for name in ["/a/h", "/c", "/f", "/k"] {
        store.remove(&path(name)).unwrap();
    }
    assert_eq!(used(&store), [0, 0, 0]);
}

#[test]
fn a_directory_does_not_move_from_one_quota_to_another() {
    let directory = quick_directory();
    let store = open(directory.path());
    put(&store, "/d/f", &[1; 10], Overwrite::Allow).unwrap();
    store.make_directory(&path("/a"), false).unwrap();
    let refused = store.rename(&path("/d"), &path("/a/d"), Overwrite::Refuse);
    assert_eq!(code(refused), Some(ErrorCode::CrossExport));
    store.rename(&path("/d"), &path("/e"), Overwrite::Refuse).unwrap();
}

#[test]
fn a_vo_that_asks_for_space_gets_its_own_quota() {
    let directory = quick_directory();
    let store = open(directory.path());
    let atlas = of(&store, "atlas");
    put(&*atlas, "/a/f", &[1; 200], Overwrite::Allow).unwrap();
    let space = atlas.space_at(&path("/a/x")).unwrap();
    assert_eq!(
        (space.quota_bytes, space.used_bytes, space.free_bytes),
        (Some(300), 200, 100)
    );
    let space = atlas.space_at(&path("/")).unwrap();
    assert_eq!(
        (space.quota_bytes, space.used_bytes, space.free_bytes),
        (Some(1000), 200, 800)
    );
    let others = of(&store, "lhcb").space_at(&path("/a")).unwrap();
    assert_eq!(others.quota_bytes, None);
    assert_eq!(store.usage()[1].path, path("/shown/a"));
}

#[test]
fn without_a_mark_the_owner_decides() {
    let directory = quick_directory();
    let user = LocalUser::new("made-up", ATLAS, ATLAS, []).map(Arc::new);
    if !can_act_as(user.as_ref().unwrap()) {
        let reason = "files of other users need root".to_owned();
        testkit::available::<()>("without_a_mark_the_owner_decides", Err(testkit::Error::Missing(reason)));
        return;
    }
    let file = directory.path().join("old");
    std::fs::write(&file, [1; 70]).unwrap();
    std::os::unix::fs::chown(&file, Some(ATLAS), None).unwrap();
    std::fs::write(directory.path().join("nobodys"), [1; 70]).unwrap();
    let store = open(directory.path());
    assert_eq!(used(&store), [70, 0, 0]);
    // Files that only their owner may read count too.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let owner = Owner {
        user,
        vo: Some("cms".into()),
        ..Owner::default()
    };
    let mapped = store.acting_for(&owner).unwrap();
    put(&*mapped, "/f", &[1; 30], Overwrite::Allow).unwrap();
    mapped.set_mode(&path("/f"), 0o000).unwrap();
    assert_eq!(used(&store), [70, 0, 30]);
    mapped.remove(&path("/f")).unwrap();
    store.remove(&path("/old")).unwrap();
    assert_eq!(used(&store), [0, 0, 0]);
}

#[test]
fn counts_stay_exact_with_many_at_once() {
    let directory = quick_directory();
    let store = open(directory.path());
    let work = |thread: u64| {
        let (own, other) = match thread % 2 {
            0 => (of(&store, "atlas"), of(&store, "cms")),
            _ => (of(&store, "cms"), of(&store, "atlas")),
        };
        for round in 0..100u64 {
            let name = format!("{}/f{}", if round % 2 == 0 { "" } else { "/a" }, round % 3);
            let _ = put(&*own, &name, &vec![1; (thread + round % 7) as usize], Overwrite::Allow);
            match (thread + round) % 5 {
                0 => drop(other.remove(&path(&name))),
                1 => drop(own.rename(&path(&name), &path("/a/f1"), Overwrite::Allow)),
                _ => {}
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| (1..5).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    let before = used(&store);
    let free = of(&store, "cms").space_at(&path("/")).unwrap().free_bytes;
    assert_eq!(free, 500 - before[2], "nothing stays reserved");
    drop(store);
    if keeps_marks(directory.path()) {
        assert_eq!(used(&open(directory.path())), before);
    }
}
