//! Files of local users: created, changed and removed with their rights, never with the server's.

use std::io::{BufRead, BufReader, IoSlice, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use storage::{LocalUser, Overwrite, Owner, Patience, Posix, PosixOptions, Storage, UploadOptions, can_act_as};
use testkit::{Scratch, Tmpfs, available};
use types::{Checksum, ErrorCode};

use crate::support::{again, code, names, options, parts_in, path, posix, put, quick_directory, read, size};

/// IDs that no machine assigns.
const ATLAS: u32 = 70_001;
const CMS: u32 = 70_002;
const SHARED_GROUP: u32 = 70_010;
const VARIABLE: &str = "CROSSLOAD_TEST_USERS";

fn owner(uid: u32, groups: &[u32]) -> Owner {
    let user = LocalUser::new("made-up", uid, uid, groups.iter().copied()).unwrap();
    Owner {
        user: Some(Arc::new(user)),
        ..Owner::default()
    }
}

fn may_switch(test: &str) -> bool {
    let possible = can_act_as(owner(ATLAS, &[1]).user.as_ref().unwrap());
    let reason = || testkit::Error::Missing("acting as other users needs root".to_owned());
    available(test, possible.then_some(()).ok_or_else(reason)).is_some()
}

/// A store whose root directory is world-writable, for the server and for two users.
fn three(directory: &Path) -> (Posix, Arc<dyn Storage>, Arc<dyn Storage>) {
    let store = posix(directory);
    mode(directory, 0o777);
    let users = [ATLAS, CMS].map(|uid| store.acting_for(&owner(uid, &[])).unwrap());
    let [atlas, cms] = users;
    (store, atlas, cms)
}

fn mode(file: &Path, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn owner_of(file: &Path) -> (u32, u32) {
    let facts = std::fs::symlink_metadata(file).unwrap();
    (facts.uid(), facts.gid())
}

#[test]
fn what_a_user_creates_belongs_to_it() {
    if !may_switch("what_a_user_creates_belongs_to_it") {
        return;
    }
    let directory = quick_directory();
    let (store, atlas, _) = three(directory.path());
    put(&*atlas, "/new/below/f", b"abc", Overwrite::Allow).unwrap();
    atlas.make_directory(&path("/d/e"), true).unwrap();
    atlas
        .copy(&path("/new/below/f"), &path("/new/c"), Overwrite::Refuse)
        .unwrap();
    atlas.rename(&path("/new/c"), &path("/d/c"), Overwrite::Refuse).unwrap();
    for made in ["new", "new/below", "new/below/f", "d", "d/e", "d/c"] {
        assert_eq!(owner_of(&directory.path().join(made)), (ATLAS, ATLAS), "{made}");
    }
    assert_eq!(
        store.stored_checksums(&path("/new/below/f")).unwrap(),
        [Checksum::adler32(7)]
    );
    assert_eq!(atlas.stored_checksums(&path("/d/c")).unwrap(), [Checksum::adler32(7)]);
    let update = atlas.open_update(&path("/d/c")).unwrap();
    update.write_vectored_at(&[IoSlice::new(b"xyz")], 0).unwrap();
    update.commit(&size(3)).unwrap();
    assert!(atlas.stored_checksums(&path("/d/c")).unwrap().is_empty());
    atlas.set_mode(&path("/d/c"), 0o640).unwrap();
    atlas
        .set_attribute(&path("/d/c"), "k", b"v", Overwrite::Refuse)
        .unwrap();
    assert_eq!(atlas.attribute(&path("/d/c"), "k").unwrap().unwrap(), b"v");
    assert!(atlas.remove_attribute(&path("/d/c"), "k").unwrap());
    atlas.remove(&path("/d/c")).unwrap();
    assert_eq!(parts_in(directory.path()), 0);
    // The store itself works as before.
    put(&store, "/own", b"abc", Overwrite::Allow).unwrap();
    assert_eq!(
        owner_of(&directory.path().join("own")).0,
        rustix::process::geteuid().as_raw()
    );
    drop((store, atlas));
    let left = std::fs::read_dir(directory.path().join(".crossload/uploads")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn one_user_cannot_touch_the_files_of_another() {
    if !may_switch("one_user_cannot_touch_the_files_of_another") {
        return;
    }
    let directory = quick_directory();
    let (store, atlas, cms) = three(directory.path());
    put(&*atlas, "/atlas/f", b"theirs", Overwrite::Allow).unwrap();
    let refused = Some(ErrorCode::Forbidden);
    for name in ["/atlas/f", "/atlas/g", "/atlas/new/g"] {
        assert_eq!(code(put(&*cms, name, b"mine", Overwrite::Allow)), refused, "{name}");
    }
    assert_eq!(code(cms.remove(&path("/atlas/f"))), refused);
    assert_eq!(
        code(cms.rename(&path("/atlas/f"), &path("/f"), Overwrite::Allow)),
        refused
    );
    assert_eq!(code(cms.make_directory(&path("/atlas/d"), false)), refused);
    assert_eq!(code(cms.open_update(&path("/atlas/f"))), refused);
    assert_eq!(code(cms.set_mode(&path("/atlas/f"), 0o777)), refused);
    assert_eq!(
        code(cms.set_attribute(&path("/atlas/f"), "k", b"v", Overwrite::Allow)),
        refused
    );
    // It may read what others may read, and the server stores the checksum that it computed.
    assert_eq!(read(&*cms, "/atlas/f"), b"theirs");
    let seen = cms.stat(&path("/atlas/f")).unwrap();
    cms.store_checksum(&path("/atlas/f"), &seen, &Checksum::crc32c(9))
        .unwrap();
    assert!(
        store
            .stored_checksums(&path("/atlas/f"))
            .unwrap()
            .contains(&Checksum::crc32c(9))
    );
    mode(&directory.path().join("atlas"), 0o700);
    assert_eq!(code(cms.stat(&path("/atlas/f"))), refused);
    assert_eq!(code(cms.open(&path("/atlas/f"))), refused);
    assert_eq!(code(cms.list(&path("/atlas"))), refused);
    assert_eq!(names(&*atlas, "/atlas"), ["f"]);
    assert_eq!(parts_in(directory.path()), 0);
}

#[test]
fn a_shared_directory_does_not_give_access_to_others_files() {
    if !may_switch("a_shared_directory_does_not_give_access_to_others_files") {
        return;
    }
    let directory = quick_directory();
    let (_store, atlas, cms) = three(directory.path());
    put(&*atlas, "/f", b"theirs", Overwrite::Allow).unwrap();
    put(&*cms, "/g", b"mine", Overwrite::Allow).unwrap();
    let refused = Some(ErrorCode::Forbidden);
    assert_eq!(code(put(&*cms, "/f", b"mine", Overwrite::Allow)), refused);
    assert_eq!(code(cms.rename(&path("/g"), &path("/f"), Overwrite::Allow)), refused);
    // It appears while the upload runs.
    let upload = cms.create(&path("/late"), &options(Some(2), Overwrite::Allow)).unwrap();
    put(&*atlas, "/late", b"theirs", Overwrite::Allow).unwrap();
    upload.write_vectored_at(&[IoSlice::new(b"12")], 0).unwrap();
    assert_eq!(code(upload.commit(&size(2))), refused);
    assert_eq!(
        (read(&*atlas, "/f"), read(&*atlas, "/late")),
        (b"theirs".to_vec(), b"theirs".to_vec())
    );
    // In a sticky directory, the kernel itself refuses.
    mode(directory.path(), 0o1777);
    assert_eq!(code(cms.remove(&path("/f"))), refused);
    assert_eq!(parts_in(directory.path()), 0);
}

#[test]
fn groups_count_and_are_inherited() {
    if !may_switch("groups_count_and_are_inherited") {
        return;
    }
    let directory = quick_directory();
    let (store, _, cms) = three(directory.path());
    let shared = directory.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(SHARED_GROUP)).unwrap();
    mode(&shared, 0o2775);
    assert_eq!(
        code(put(&*cms, "/shared/f", b"12", Overwrite::Allow)),
        Some(ErrorCode::Forbidden)
    );
    let member = store.acting_for(&owner(CMS, &[SHARED_GROUP])).unwrap();
    put(&*member, "/shared/f", b"12", Overwrite::Allow).unwrap();
    put(&*member, "/shared/new/f", b"12", Overwrite::Allow).unwrap();
    for made in ["f", "new", "new/f"] {
        assert_eq!(owner_of(&shared.join(made)), (CMS, SHARED_GROUP), "{made}");
    }
    // The user is not in the group, but files there inherit it.
    mode(&shared, 0o2777);
    put(&*cms, "/shared/g", b"12", Overwrite::Allow).unwrap();
    assert_eq!(owner_of(&shared.join("g")), (CMS, SHARED_GROUP));
}

#[test]
fn tricks_with_links_do_not_lead_to_parts() {
    if !may_switch("tricks_with_links_do_not_lead_to_parts") {
        return;
    }
    let directory = quick_directory();
    let (store, atlas, cms) = three(directory.path());
    let upload = atlas.create(&path("/f"), &options(None, Overwrite::Allow)).unwrap();
    upload.write_vectored_at(&[IoSlice::new(b"not yet")], 0).unwrap();
    assert_eq!(parts_in(directory.path()), 1);
    let instance = std::fs::read_dir(directory.path().join(".crossload/uploads")).unwrap();
    let instance = instance.flatten().next().unwrap().file_name().into_string().unwrap();
    let hidden = format!(".crossload/uploads/{instance}/users");
    let part = std::fs::read_dir(directory.path().join(&hidden))
        .unwrap()
        .flatten()
        .next()
        .unwrap();
    assert_eq!(owner_of(&part.path()), (ATLAS, ATLAS));
    let part = part.file_name().into_string().unwrap();
    for (name, target) in [
        ("a", ".crossload".to_owned()),
        ("b", hidden.clone()),
        ("c", format!("{hidden}/{part}")),
    ] {
        symlink(target, directory.path().join(name)).unwrap();
        let name = path(&format!("/{name}"));
        for who in [&store as &dyn Storage, &*atlas, &*cms] {
            assert!(
                who.stat(&name).is_err() && who.open(&name).is_err() && who.list(&name).is_err(),
                "{name}"
            );
        }
    }
    assert!(store.stat(&path(&format!("/b/{part}"))).is_err());
    assert!(names(&store, "/").is_empty(), "links to what is hidden are not shown");
    // A link elsewhere is followed as before.
    put(&*atlas, "/d/g", b"12", Overwrite::Allow).unwrap();
    symlink("d/g", directory.path().join("ok")).unwrap();
    assert_eq!(read(&store, "/ok"), b"12");
    // No hard link to a part either: only the server can reach it.
    for place in [
        ".crossload",
        ".crossload/uploads",
        &format!(".crossload/uploads/{instance}"),
    ] {
        let facts = std::fs::metadata(directory.path().join(place)).unwrap();
        assert_eq!((facts.uid(), facts.mode() & 0o777), (0, 0o700), "{place}");
    }
    upload.commit(&size(7)).unwrap();
}

#[test]
fn parts_on_another_mount_belong_to_the_user_too() {
    let test = "parts_on_another_mount_belong_to_the_user_too";
    if !may_switch(test) {
        return;
    }
    let scratch = Scratch::new("users").unwrap();
    let export = scratch.create("export").unwrap();
    let mounted = Tmpfs::mount(&export.join("other"), types::limits::SPACE_RESERVE_BYTES + (16 << 20));
    let Some(other) = available(test, mounted) else { return };
    let (_store, atlas, cms) = three(&export);
    mode(other.path(), 0o755);
    chown(other.path(), Some(ATLAS), None).unwrap();
    let refused = cms.create(&path("/other/g"), &options(Some(2), Overwrite::Allow));
    assert_eq!(code(refused), Some(ErrorCode::Forbidden));
    let upload = atlas
        .create(&path("/other/new/f"), &options(Some(2), Overwrite::Allow))
        .unwrap();
    assert_eq!(parts_in(&export), 2, "the part, and its entry in the journal");
    upload.write_vectored_at(&[IoSlice::new(b"12")], 0).unwrap();
    upload.commit(&size(2)).unwrap();
    assert_eq!(owner_of(&other.path().join("new/f")), (ATLAS, ATLAS));
    let dropped = atlas
        .create(&path("/other/g"), &options(None, Overwrite::Allow))
        .unwrap();
    drop(dropped);
    assert_eq!(parts_in(&export), 0);
}

fn upload_until_killed(export: &Path) {
    let store = posix(export);
    let half = |uid: u32, name: &str| {
        let user = store.acting_for(&owner(uid, &[SHARED_GROUP])).unwrap();
        let upload = user.create(&path(name), &options(None, Overwrite::Allow)).unwrap();
        upload.write_vectored_at(&[IoSlice::new(&[7; 4096])], 0).unwrap();
        upload
    };
    let _uploads = [half(ATLAS, "/a"), half(CMS, "/b"), half(ATLAS, "/c/d")];
    writeln!(std::io::stdout().lock(), "half").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_kill_leaves_nothing_of_users_behind() {
    let test = "users::a_kill_leaves_nothing_of_users_behind";
    if let Some(export) = std::env::var_os(VARIABLE) {
        return upload_until_killed(Path::new(&export));
    }
    if !may_switch(test) {
        return;
    }
    let directory = quick_directory();
    mode(directory.path(), 0o777);
    let mut child = again(test, VARIABLE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("half")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(parts_in(directory.path()), 3);
    let store = posix(directory.path());
    let cleaned = store.cleaned();
    assert_eq!((cleaned.instances, cleaned.parts, cleaned.failed), (1, 3, 0));
    assert_eq!(parts_in(directory.path()), 0);
    assert_eq!(names(&store, "/"), ["c"]);
}

/// The effective and file-system IDs of all threads of this process.
fn numbers_of_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let lines = status.map(|text| {
        let wanted = text
            .lines()
            .filter(|line| ["Uid:", "Gid:", "Groups:"].iter().any(|key| line.starts_with(key)));
        wanted.collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

#[test]
fn no_thread_keeps_an_identity_that_is_not_its_own() {
    let test = "users::no_thread_keeps_an_identity_that_is_not_its_own";
    // In a separate process, because threads of other tests act as other users at the same time.
    if let Some(export) = std::env::var_os(VARIABLE) {
        return many_threads_as_many_users(Path::new(&export));
    }
    if !may_switch(test) {
        return;
    }
    let directory = quick_directory();
    mode(directory.path(), 0o777);
    let child = again(test, VARIABLE, directory.path()).status().unwrap();
    assert!(child.success());
}

fn many_threads_as_many_users(export: &Path) {
    let store = posix(export);
    let own = numbers_of_threads().swap_remove(0);
    let work = |thread: u32| {
        for round in 0..50 {
            let uid = ATLAS + (thread + round) % 5;
            let groups = [SHARED_GROUP + uid % 3];
            let user = store
                .acting_for(&owner(uid, if round % 2 == 0 { &groups } else { &[] }))
                .unwrap();
            let name = format!("/{uid}/f{thread}");
            put(&*user, &name, b"12", Overwrite::Allow).unwrap();
            assert_eq!(owner_of(&export.join(&name[1..])), (uid, uid));
            drop(user.create(&path(&name), &UploadOptions::default()));
            let _ = user.remove(&path(&format!("/{}/f{thread}", ATLAS + thread % 5)));
            assert!(user.list(&path("/")).unwrap().next_batch().is_ok());
            let mine = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(own.split(' ').all(|line| mine.contains(line.trim())), "{mine}");
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    for numbers in numbers_of_threads() {
        assert_eq!(numbers, own);
    }
}

#[test]
fn an_open_file_is_read_and_written_without_switching_users() {
    if !may_switch("an_open_file_is_read_and_written_without_switching_users") {
        return;
    }
    let directory = quick_directory();
    let (_store, atlas, _) = three(directory.path());
    put(&*atlas, "/f", b"abc", Overwrite::Allow).unwrap();
    let reader = atlas.open(&path("/f")).unwrap();
    mode(&directory.path().join("f"), 0o000);
    let mut content = [0; 3];
    let mut slices = [std::io::IoSliceMut::new(&mut content)];
    assert_eq!(reader.read_vectored_at(&mut slices, 0, Patience::Wait).unwrap(), 3);
    assert_eq!(
        code(atlas.open(&path("/f"))),
        Some(ErrorCode::Forbidden),
        "the superuser's rights are disabled"
    );
}

#[test]
fn a_read_only_store_is_read_only_for_users_too() {
    if !may_switch("a_read_only_store_is_read_only_for_users_too") {
        return;
    }
    let directory = quick_directory();
    std::fs::write(directory.path().join("f"), "abc").unwrap();
    mode(directory.path(), 0o777);
    let options = PosixOptions {
        writable: false,
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &options).unwrap();
    let atlas = store.acting_for(&owner(ATLAS, &[])).unwrap();
    assert_eq!(read(&*atlas, "/f"), b"abc");
    assert_eq!(
        code(put(&*atlas, "/g", b"12", Overwrite::Allow)),
        Some(ErrorCode::ReadOnly)
    );
    assert!(!directory.path().join(".crossload").exists());
}

#[test]
fn a_mode_that_forbids_reading_can_be_changed_back() {
    if !may_switch("a_mode_that_forbids_reading_can_be_changed_back") {
        return;
    }
    let directory = quick_directory();
    let (_, atlas, cms) = three(directory.path());
    put(&*atlas, "/f", b"abc", Overwrite::Allow).unwrap();
    atlas.make_directory(&path("/d"), false).unwrap();
    for (name, usual) in [("/f", 0o644), ("/d", 0o755)] {
        atlas.set_mode(&path(name), 0).unwrap();
        assert_eq!(code(cms.set_mode(&path(name), usual)), Some(ErrorCode::Forbidden));
        atlas.set_mode(&path(name), usual).unwrap();
        assert_eq!(atlas.stat(&path(name)).unwrap().mode, usual);
    }
    assert_eq!(read(&*atlas, "/f"), b"abc");
}
