//! Removing and copying directory trees on a real file system.

use std::ffi::OsStr;
use std::fs;
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::Arc;

use storage::{LocalUser, Overwrite, Owner, Posix, PosixOptions, Replacing, Storage, can_act_as};
use types::ErrorCode;

use crate::support::{code, options, parts_in, path, posix, put, quick_directory, size};

/// Hidden trees left in an export.
fn hidden_trees(export: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![export.join(".crossload")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            match name.ends_with(".tree") {
                true => found.push(name),
                false if entry.file_type().unwrap().is_dir() => directories.push(entry.path()),
                false => {}
            }
        }
    }
    found
}

#[test]
fn links_are_removed_and_their_targets_stay() {
    let directory = quick_directory();
    let outside = quick_directory();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    let store = posix(directory.path());
    put(&store, "/other/kept", b"kept", Overwrite::Allow).unwrap();
    put(&store, "/t/d/f", b"gone", Overwrite::Allow).unwrap();
    let tree = directory.path().join("t");
    for (target, name) in [
        (outside.path(), "out"),
        (Path::new("../other"), "other"),
        (Path::new("."), "loop"),
        (Path::new("nowhere"), "dangling"),
        (Path::new("../../other/kept"), "d/file"),
    ] {
        symlink(target, tree.join(name)).unwrap();
    }
    assert!(store.remove_tree(&path("/t")).unwrap().is_none());
    assert!(!tree.exists());
    assert!(outside.path().join("kept").exists() && directory.path().join("other/kept").exists());
    assert!(hidden_trees(directory.path()).is_empty());
    // The link itself is removed, whatever its target.
    symlink("other", directory.path().join("link")).unwrap();
    assert!(store.remove_tree(&path("/link")).unwrap().is_none());
    assert!(directory.path().join("other/kept").exists());
    // Rules apply to paths as written, so a tree cannot be reached through a link.
    symlink("other", directory.path().join("link")).unwrap();
    fs::create_dir_all(directory.path().join("other/d/e")).unwrap();
    assert_eq!(code(store.remove_tree(&path("/link/d"))), Some(ErrorCode::PathRefused));
    assert!(directory.path().join("other/d/e").exists());
}

#[test]
fn a_tree_with_names_that_no_listing_shows_stays_whole() {
    let directory = quick_directory();
    let store = posix(directory.path());
    put(&store, "/t/d/f", b"kept", Overwrite::Allow).unwrap();
    let inner = directory.path().join("t/d");
    let odd = |name| inner.join(<OsStr as OsStrExt>::from_bytes(name));
    fs::create_dir(odd(b"not \xff text")).unwrap();
    fs::write(odd(b"not \xff text").join("f"), "kept").unwrap();
    fs::write(odd(b"line\nfeed"), "kept").unwrap();
    for name in ["/t", "/t/d"] {
        let refused = store.remove_tree(&path(name)).unwrap_err();
        assert_eq!((refused.code(), refused.subject()), (ErrorCode::NotEmpty, Some(name)));
        assert!(refused.public().contains("2 names that no path can hold"), "{refused}");
    }
    put(&store, "/other/f", b"new", Overwrite::Allow).unwrap();
    let moved = store.move_over(&path("/other"), &path("/t"), Replacing::Tree);
    let copied = store.copy_tree(&path("/other"), &path("/t"), true, Replacing::Tree);
    assert_eq!([code(moved), code(copied)], [Some(ErrorCode::NotEmpty); 2]);
    for kept in [inner.join("f"), odd(b"not \xff text").join("f"), odd(b"line\nfeed")] {
        assert!(kept.exists());
    }
    assert!(hidden_trees(directory.path()).is_empty());
    fs::remove_dir_all(odd(b"not \xff text")).unwrap();
    fs::remove_file(odd(b"line\nfeed")).unwrap();
    assert!(store.remove_tree(&path("/t")).unwrap().is_none());
}

#[test]
fn a_tree_may_be_as_deep_as_a_path_can_be_long() {
    let directory = quick_directory();
    let store = posix(directory.path());
    // The system's paths are shorter than those of the tree, so it is built from its end.
    let half = "d/".repeat(1000);
    fs::create_dir_all(directory.path().join("a").join(&half)).unwrap();
    fs::create_dir_all(directory.path().join("b").join(&half)).unwrap();
    let (from, to) = (
        directory.path().join("b"),
        directory.path().join("a").join(&half).join("b"),
    );
    fs::rename(from, to).unwrap();
    assert!(store.remove_tree(&path("/a")).unwrap().is_none());
    assert!(!directory.path().join("a").exists() && hidden_trees(directory.path()).is_empty());
}

#[test]
fn a_directory_with_many_entries_is_removed_whole() {
    let directory = quick_directory();
    let store = posix(directory.path());
    for number in 0..3000 {
        let name = directory.path().join(format!("t/d{}", number % 50));
        fs::create_dir_all(&name).unwrap();
        fs::write(name.join(format!("a file of number {number}")), "x").unwrap();
    }
    assert!(store.remove_tree(&path("/t")).unwrap().is_none());
    assert!(!directory.path().join("t").exists() && hidden_trees(directory.path()).is_empty());
}

#[test]
fn an_upload_into_a_removed_tree_fails_and_restores_nothing() {
    let directory = quick_directory();
    let store = posix(directory.path());
    put(&store, "/t/d/old", b"old", Overwrite::Allow).unwrap();
    let begin = |name| {
        let upload = store.create(&path(name), &options(Some(3), Overwrite::Allow)).unwrap();
        upload.write_vectored_at(&[IoSlice::new(b"new")], 0).unwrap();
        upload
    };
    let (deep, replacing) = (begin("/t/d/new"), begin("/t/d/old"));
    assert!(store.remove_tree(&path("/t")).unwrap().is_none());
    assert_eq!(code(deep.commit(&size(3))), Some(ErrorCode::ParentMissing));
    assert!(!directory.path().join("t").exists());
    // A directory that was created with this name since is another one.
    store.make_directory(&path("/t/d"), true).unwrap();
    assert_eq!(code(replacing.commit(&size(3))), Some(ErrorCode::ParentMissing));
    assert_eq!(fs::read_dir(directory.path().join("t/d")).unwrap().count(), 0);
}

#[test]
fn where_another_export_begins_nothing_is_removed() {
    let directory = quick_directory();
    let outer = posix(directory.path());
    put(&outer, "/t/a/f", b"1", Overwrite::Allow).unwrap();
    put(&outer, "/t/z/inner/f", b"2", Overwrite::Allow).unwrap();
    let inner = posix(&directory.path().join("t/z/inner"));
    let refused = outer.remove_tree(&path("/t")).unwrap_err();
    assert_eq!(
        (refused.code(), refused.subject()),
        (ErrorCode::Forbidden, Some("/t/z/inner"))
    );
    assert!(directory.path().join("t/a/f").exists() && inner.stat(&path("/f")).is_ok());
}

#[test]
fn quotas_subtract_a_removed_tree() {
    let directory = quick_directory();
    let quota = PosixOptions {
        quota_bytes: Some(1 << 20),
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &quota).unwrap();
    while !store.usage_is_known() {
        std::thread::yield_now();
    }
    put(&store, "/t/d/f", &[1; 5000], Overwrite::Allow).unwrap();
    put(&store, "/t/g", &[1; 300], Overwrite::Allow).unwrap();
    put(&store, "/kept", &[1; 70], Overwrite::Allow).unwrap();
    // A second name outside of the tree keeps the file.
    fs::hard_link(directory.path().join("t/g"), directory.path().join("g")).unwrap();
    assert_eq!(store.space().unwrap().used_bytes, 5370);
    store.remove_tree(&path("/t")).unwrap();
    assert_eq!(store.space().unwrap().used_bytes, 370);
}

#[test]
fn the_next_start_finishes_what_a_dead_server_was_removing() {
    let directory = quick_directory();
    drop(posix(directory.path()));
    let dead = directory.path().join(".crossload/uploads/dead");
    for place in ["x.tree/d/e", "users/y.tree/d"] {
        fs::create_dir_all(dead.join(place)).unwrap();
        fs::write(dead.join(place).join("f"), "x").unwrap();
    }
    fs::create_dir_all(directory.path().join("d/.crossload-1.part/e")).unwrap();
    fs::write(dead.join("1.elsewhere"), "/d\n.crossload-1.part").unwrap();
    let store = posix(directory.path());
    let cleaned = store.cleaned();
    assert_eq!((cleaned.instances, cleaned.parts, cleaned.failed), (1, 3, 0));
    assert!(!dead.exists());
    assert_eq!(fs::read_dir(directory.path().join("d")).unwrap().count(), 0);
}

#[test]
fn a_copy_that_was_to_replace_something_is_not_left() {
    let directory = quick_directory();
    let store = posix(directory.path());
    put(&store, "/d/f", b"old", Overwrite::Allow).unwrap();
    let left = || {
        let names = fs::read_dir(directory.path().join("d")).unwrap();
        names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let begin = || {
        let beside = store.beside(&path("/d/f")).unwrap();
        assert_eq!(beside.path.parent(), Some(path("/d")));
        store.make_directory(&beside.path, false).unwrap();
        put(
            &store,
            beside.path.join("new").unwrap().as_str(),
            b"new",
            Overwrite::Allow,
        )
        .unwrap();
        beside
    };
    // Given up.
    drop(begin());
    assert_eq!(left(), ["f"]);
    // As a server leaves it that is killed: with its notes, and without their lock.
    let beside = begin();
    let uploads = directory.path().join(".crossload/uploads");
    let own = fs::read_dir(&uploads).unwrap().next().unwrap().unwrap().path();
    let dead = uploads.join("dead");
    fs::create_dir(&dead).unwrap();
    for entry in fs::read_dir(own).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name() != "lock" {
            fs::copy(entry.path(), dead.join(entry.file_name())).unwrap();
        }
    }
    let cleaned = posix(directory.path()).cleaned();
    assert_eq!((cleaned.instances, cleaned.parts, cleaned.failed), (1, 1, 0));
    assert_eq!(left(), ["f"]);
    drop(beside);
    // Complete: nothing is noted any more.
    let beside = begin();
    store.move_over(&beside.path, &path("/d/f"), Replacing::Single).unwrap();
    drop(beside);
    assert_eq!((left(), parts_in(directory.path())), (vec!["f".into()], 0));
    let notes = || {
        fs::read_dir(&uploads)
            .unwrap()
            .flat_map(|own| fs::read_dir(own.unwrap().path()).unwrap())
    };
    assert!(notes().all(|note| note.unwrap().file_name() == "lock"));
}

#[test]
fn links_are_copied_as_links_and_a_failed_copy_is_invisible() {
    let directory = quick_directory();
    let store = posix(directory.path());
    put(&store, "/t/d/f", b"content", Overwrite::Allow).unwrap();
    let tree = directory.path().join("t");
    symlink("/etc", tree.join("out")).unwrap();
    symlink(".", tree.join("d/loop")).unwrap();
    store
        .set_attribute(&path("/t/d/f"), "a", b"1", Overwrite::Allow)
        .unwrap();
    let copy = |from: &str, to: &str| store.copy_tree(&path(from), &path(to), true, Replacing::Nothing);
    copy("/t", "/c").unwrap();
    let copied = directory.path().join("c");
    assert_eq!(fs::read_link(copied.join("out")).unwrap(), Path::new("/etc"));
    assert_eq!(fs::read_link(copied.join("d/loop")).unwrap(), Path::new("."));
    assert_eq!(
        store.attribute(&path("/c/d/f"), "a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    // Neither end may be reached through a link.
    symlink("t", directory.path().join("link")).unwrap();
    for (from, to) in [("/link/d", "/x"), ("/link", "/x"), ("/t/d", "/link/x")] {
        assert_eq!(code(copy(from, to)), Some(ErrorCode::PathRefused), "{from} {to}");
    }
    // An unreadable file is found in the middle.
    let Some([ann, _]) = users() else { return };
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(tree.join("d/f"), fs::Permissions::from_mode(0o600)).unwrap();
    let owner = Owner {
        user: Some(ann.clone()),
        ..Owner::default()
    };
    let hers = store.acting_for(&owner).unwrap();
    let broken = hers
        .copy_tree(&path("/t"), &path("/hers"), true, Replacing::Nothing)
        .unwrap_err();
    assert_eq!(
        (broken.code(), broken.subject()),
        (ErrorCode::Forbidden, Some("/t/d/f"))
    );
    assert!(!directory.path().join("hers").exists() && hidden_trees(directory.path()).is_empty());
    fs::set_permissions(tree.join("d/f"), fs::Permissions::from_mode(0o644)).unwrap();
    hers.copy_tree(&path("/t"), &path("/hers"), true, Replacing::Nothing)
        .unwrap();
    assert_eq!(
        fs::metadata(directory.path().join("hers/d/f")).unwrap().uid(),
        ann.uid()
    );
}

#[test]
fn a_copied_tree_counts_against_the_quota_and_is_refused_before_it_begins() {
    let directory = quick_directory();
    let quota = PosixOptions {
        quota_bytes: Some(12_000),
        ..PosixOptions::default()
    };
    let store = Posix::open(directory.path(), &quota).unwrap();
    while !store.usage_is_known() {
        std::thread::yield_now();
    }
    put(&store, "/t/d/f", &[1; 5000], Overwrite::Allow).unwrap();
    let copy = |to: &str, replacing| store.copy_tree(&path("/t"), &path(to), true, replacing);
    copy("/c", Replacing::Nothing).unwrap();
    assert_eq!(store.space().unwrap().used_bytes, 10_000);
    assert_eq!(code(copy("/x", Replacing::Nothing)), Some(ErrorCode::QuotaExceeded));
    assert_eq!(store.space().unwrap().used_bytes, 10_000);
    store.move_over(&path("/t"), &path("/c"), Replacing::Tree).unwrap();
    assert_eq!(store.space().unwrap().used_bytes, 5000);
}

/// Users that the tests act as; `None` without the necessary rights.
fn users() -> Option<[Arc<LocalUser>; 2]> {
    let user = |uid| Arc::new(LocalUser::new("made-up", uid, uid, [70_010]).unwrap());
    let users = [user(70_001), user(70_002)];
    let possible = can_act_as(&users[0]);
    if !possible {
        let why = "acting as other users needs root".to_owned();
        testkit::available::<()>("trees", Err(testkit::Error::Missing(why)));
    }
    possible.then_some(users)
}

fn own(file: &Path, uid: u32, mode: u32) {
    chown(file, Some(uid), Some(70_010)).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_user_can_remove_only_what_its_own_rights_allow() {
    let Some([ann, bob]) = users() else { return };
    let directory = quick_directory();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let server = posix(directory.path());
    let store = |user: &Arc<LocalUser>| {
        let owner = Owner {
            user: Some(user.clone()),
            ..Owner::default()
        };
        server.acting_for(&owner).unwrap()
    };
    for name in ["/t/a/f", "/t/b/f", "/t/c"] {
        put(store(&ann).as_ref(), name, b"1", Overwrite::Allow).unwrap();
    }
    let at = |name: &str| directory.path().join(name);
    // A directory of another user in the middle.
    own(&at("t/b"), bob.uid(), 0o755);
    let refused = store(&ann).remove_tree(&path("/t")).unwrap_err();
    assert_eq!(
        (refused.code(), refused.subject()),
        (ErrorCode::Forbidden, Some("/t/b/f"))
    );
    // In a world-writable directory, others' files can be removed only if it is not sticky.
    own(&at("t/b"), bob.uid(), 0o1777);
    fs::write(at("t/b/g"), "of the server").unwrap();
    assert_eq!(code(store(&ann).remove_tree(&path("/t"))), Some(ErrorCode::Forbidden));
    assert!(at("t/a/f").exists() && at("t/b/f").exists() && at("t/c").exists());
    assert_eq!(fs::metadata(at("t")).unwrap().uid(), ann.uid());
    own(&at("t/b"), bob.uid(), 0o777);
    assert!(store(&ann).remove_tree(&path("/t")).unwrap().is_none());
    assert!(!at("t").exists() && hidden_trees(directory.path()).is_empty());
    // A directory of another user that is group-writable.
    fs::create_dir_all(at("team/d")).unwrap();
    own(&at("team"), bob.uid(), 0o770);
    own(&at("team/d"), bob.uid(), 0o770);
    assert!(store(&ann).remove_tree(&path("/team")).unwrap().is_none());
    assert!(!at("team").exists() && hidden_trees(directory.path()).is_empty());
}

#[test]
fn a_tree_that_is_too_deep_is_refused_with_the_limit() {
    use rustix::fs::{Mode, OFlags};
    let directory = quick_directory();
    let store = posix(directory.path());
    let top = directory.path().join("t");
    fs::create_dir(&top).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut here = rustix::fs::open(&top, flags, Mode::empty()).unwrap();
    for _ in 0..=storage::limits::STORED_TREE_DEPTH_MAX {
        rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, "d", flags, Mode::empty()).unwrap();
    }
    let refused = store.copy_tree(&path("/t"), &path("/u"), true, Replacing::Nothing);
    let error = refused.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Forbidden);
    let words = error.public();
    assert!(words.contains("more than 4096 levels of directories), /t"), "{words}");
    // The clean-up of temporary directories holds one level open inside the other.
    let removed = std::process::Command::new("rm").arg("-rf").arg(&top).status();
    assert!(removed.unwrap().success());
}

/// What has this name under its other one, by a mount.
#[test]
fn a_directory_that_is_mounted_twice_is_not_copied_onto_itself() {
    let test = "a_directory_that_is_mounted_twice_is_not_copied_onto_itself";
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    for made in [first.join("d/sub"), second.clone()] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(first.join("d/f"), "content").unwrap();
    let mount = crate::support::Mount::new(&["--bind", &first.display().to_string()], &second);
    let Some(_mount) = testkit::available(test, mount) else {
        return;
    };
    let store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    for (from, to) in [
        ("/a/d", "/b/d"),
        ("/a/d", "/b/d/sub"),
        ("/a/d/sub", "/b/d"),
        ("/a/d", "/b/d/new"),
    ] {
        for members in [false, true] {
            let copied = store.copy_tree(&path(from), &path(to), members, Replacing::Tree);
            assert_eq!(copied.unwrap_err().code(), ErrorCode::Forbidden, "{from} {to}");
            assert_eq!(fs::read(first.join("d/f")).unwrap(), b"content", "{from} {to}");
        }
    }
    store
        .copy_tree(&path("/a/d"), &path("/b/e"), true, Replacing::Tree)
        .unwrap();
}

#[test]
fn a_file_is_not_renamed_over_another_name_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), "content").unwrap();
    fs::hard_link(directory.path().join("f"), directory.path().join("g")).unwrap();
    let store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let renamed = store.rename(&path("/f"), &path("/g"), Overwrite::Allow);
    assert_eq!(renamed.unwrap_err().code(), ErrorCode::Forbidden);
    assert!(directory.path().join("f").exists() && directory.path().join("g").exists());
}
