//! Symbolic links: every call checks the path that they lead to.

use std::sync::{Arc, Mutex};

use storage::{LinkChecker, LinkUse, Overwrite, Owner, Storage, UploadOptions, refused_behind_link};
use types::{ErrorCode, LogicalPath, Result};

use crate::support::{bare_names, code, names, path, posix, put};

/// Closes everything below `/closed` and records what it was asked.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl LinkChecker for Recorder {
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        self.0.lock().unwrap().push(format!("{reached} {used:?}"));
        let mut ends = vec![reached];
        if let LinkUse::Rename { target, .. } = used {
            ends.push(target);
        }
        match ends.iter().any(|end| end.is_within(&path("/closed"))) {
            true => Err(refused_behind_link(ErrorCode::Forbidden)),
            false => Ok(()),
        }
    }
}

#[test]
fn the_target_of_a_link_is_checked_in_every_call() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["closed/d", "open/d", "a"] {
        std::fs::create_dir_all(at(name)).unwrap();
        std::fs::write(at(name).join("f"), "secret").unwrap();
    }
    for (target, name) in [
        ("../closed", "a/bad"),
        ("../closed/d/f", "a/bad-file"),
        ("bad", "a/bad-twice"),
        ("../open", "a/good"),
        ("../open/d/f", "a/good-file"),
    ] {
        std::os::unix::fs::symlink(target, at(name)).unwrap();
    }
    let recorder = Arc::new(Recorder::default());
    let store = posix(directory.path());
    let owner = Owner {
        links: Some(recorder.clone()),
        ..Owner::default()
    };
    let store = store.acting_for(&owner).unwrap();
    let store = store.as_ref();
    type Call = fn(&dyn Storage, &str) -> Option<ErrorCode>;
    let create = |store: &dyn Storage, name: &str, create_parents| {
        let options = UploadOptions {
            create_parents,
            ..UploadOptions::default()
        };
        code(store.create(&path(name), &options))
    };
    let calls: [(&str, Call); 12] = [
        ("stat", |store, dir| code(store.stat(&path(&format!("{dir}/d/f"))))),
        ("open", |store, dir| code(store.open(&path(&format!("{dir}/d/f"))))),
        ("list", |store, dir| code(store.list(&path(&format!("{dir}/d"))))),
        ("checksums", |store, dir| {
            code(store.stored_checksums(&path(&format!("{dir}/d/f"))))
        }),
        ("open_update", |store, dir| {
            code(store.open_update(&path(&format!("{dir}/d/f"))))
        }),
        ("set_mode", |store, dir| {
            code(store.set_mode(&path(&format!("{dir}/d/f")), 0o600))
        }),
        ("make_directory", |store, dir| {
            code(store.make_directory(&path(&format!("{dir}/new/x")), true))
        }),
        ("attributes", |store, dir| {
            code(store.attributes(&path(&format!("{dir}/d/f"))))
        }),
        ("copy", |store, dir| {
            code(store.copy(&path(&format!("{dir}/d/f")), &path("/a/copied"), Overwrite::Allow))
        }),
        ("move away", |store, dir| {
            code(store.rename(&path(&format!("{dir}/d/f")), &path("/a/g"), Overwrite::Allow))
        }),
        ("move here", |store, dir| {
            code(store.rename(&path("/a/f"), &path(&format!("{dir}/d/f")), Overwrite::Allow))
        }),
        ("remove", |store, dir| code(store.remove(&path(&format!("{dir}/d/f"))))),
    ];
    for (name, call) in calls {
        let refused = call(store, "/a/bad");
        assert_eq!(refused, Some(ErrorCode::Forbidden), "{name}");
        assert_eq!(call(store, "/a/good"), None, "{name}");
    }
    for (name, parents) in [
        ("/a/bad/new", false),
        ("/a/bad/x/y/new", true),
        ("/a/bad-twice/d/f", false),
    ] {
        assert_eq!(create(store, name, parents), Some(ErrorCode::Forbidden), "{name}");
    }
    assert_eq!(code(store.open(&path("/a/bad-file"))), Some(ErrorCode::Forbidden));
    assert_eq!(std::fs::read(at("closed/d/f")).unwrap(), b"secret");
    assert_eq!(
        std::fs::read_dir(at("closed")).unwrap().count(),
        1,
        "nothing was created there"
    );
    assert_eq!(
        names(store, "/a"),
        ["copied", "g", "good"],
        "only visible names are listed"
    );
    // Without a link, the recorder is not asked.
    recorder.0.lock().unwrap().clear();
    assert!(store.stat(&path("/closed/d/f")).is_ok());
    put(store, "/closed/new", b"12", Overwrite::Allow).unwrap();
    assert_eq!(recorder.0.lock().unwrap().as_slice(), [""; 0]);
}

#[test]
fn a_directory_that_becomes_a_link_during_an_upload_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("closed")).unwrap();
    std::fs::create_dir_all(directory.path().join("open")).unwrap();
    std::os::unix::fs::symlink("open", directory.path().join("link")).unwrap();
    let owner = Owner {
        links: Some(Arc::new(Recorder::default())),
        ..Owner::default()
    };
    let store = posix(directory.path()).acting_for(&owner).unwrap();
    let upload = store.create(&path("/link/f"), &UploadOptions::default()).unwrap();
    std::fs::rename(directory.path().join("open"), directory.path().join("closed/open")).unwrap();
    std::fs::remove_file(directory.path().join("link")).unwrap();
    std::os::unix::fs::symlink("closed/open", directory.path().join("link")).unwrap();
    let refused = code(upload.commit(&storage::CommitFacts::default()));
    assert_eq!(refused, Some(ErrorCode::Forbidden));
    assert!(!directory.path().join("closed/open/f").exists());
}

/// How many links a listing of `/a` leaves out.
fn dead_links(store: &dyn Storage) -> u64 {
    let mut listing = store.list(&path("/a")).unwrap();
    while !listing.next_batch().unwrap().is_empty() {}
    let unlisted = listing.unlisted();
    assert_eq!(unlisted.names.count, 0);
    unlisted.links.count
}

#[test]
fn links_that_lead_nowhere_or_out_are_counted_unless_they_lead_to_what_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["closed", "open", "a"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("closed/real"), "secret").unwrap();
    std::fs::write(at("a/file"), "x").unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("a/pipe")).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/etc/passwd", at("closed/out")).unwrap();
    std::os::unix::fs::symlink("../closed", at("open/closed")).unwrap();
    let link = |name: &str, target: &str| std::os::unix::fs::symlink(target, at("a").join(name)).unwrap();
    for (name, target) in [("good", "../open"), ("to-file", "file"), ("to-pipe", "pipe")] {
        link(name, target);
    }
    let dead = [
        ("dead", "gone"),
        ("out", "/etc/passwd"),
        ("up", "../../etc/passwd"),
        ("loop", "loop"),
        ("chain", "dead"),
        ("below-file", "file/x"),
        ("far", "../open/none/x/y"),
    ];
    // For these, a listing does not reveal whether something exists; for the last two the end of
    // the link cannot be determined.
    let closed = [
        ("closed-dead", "../closed/none"),
        ("closed-far", "../closed/none/x/y"),
        ("closed-out", "../closed/out"),
        ("closed-through", "../open/closed/none"),
        ("closed-chain", "closed-dead"),
        ("winding", "../open/../gone"),
        ("winding-out", "../open/closed/../../../etc"),
    ];
    for (name, target) in dead.into_iter().chain(closed) {
        link(name, target);
    }
    link("closed-real", "../closed/real");
    let store = posix(directory.path());
    assert_eq!(dead_links(&store), 14);
    let owner = Owner {
        links: Some(Arc::new(Recorder::default())),
        ..Owner::default()
    };
    let checked = store.acting_for(&owner).unwrap();
    assert_eq!(dead_links(checked.as_ref()), 7);
    assert_eq!(names(checked.as_ref(), "/a"), ["file", "good", "to-file"]);
    // Without properties the same is listed and left out.
    for (store, links) in [(&store as &dyn Storage, 14), (checked.as_ref(), 7)] {
        let (bare, unlisted) = bare_names(store, "/a");
        assert_eq!(bare, names(store, "/a"));
        assert_eq!((unlisted.names.count, unlisted.links.count), (0, links));
    }
}

/// Closes everything below `/closed` for looking, and for nothing else.
#[derive(Debug)]
struct Blind;

impl LinkChecker for Blind {
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        match used == LinkUse::Stat && reached.is_within(&path("/closed")) {
            true => Err(refused_behind_link(ErrorCode::Forbidden)),
            false => Ok(()),
        }
    }
}

#[test]
fn a_directory_behind_a_link_is_listed_for_who_may_look_at_it() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["closed", "open"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join(name).join("f"), "x").unwrap();
        std::os::unix::fs::symlink(name, directory.path().join(format!("to-{name}"))).unwrap();
    }
    let owner = Owner {
        links: Some(Arc::new(Blind)),
        ..Owner::default()
    };
    let store = posix(directory.path()).acting_for(&owner).unwrap();
    assert_eq!(names(store.as_ref(), "/to-open"), ["f"]);
    assert_eq!(code(store.list(&path("/to-closed"))), Some(ErrorCode::Forbidden));
}
