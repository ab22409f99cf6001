//! Names: what cannot be named, what cannot be replaced, and who wins a race.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use storage::{Overwrite, Patience, Posix, PosixOptions, Storage};
use types::{ErrorCode, LogicalPath};

use crate::support::{code, names, options, path, posix, put, quick_directory, read, size};

const SWAP_ROUNDS: usize = 3000;
const RACE_ROUNDS: usize = 40;
const RACERS: usize = 8;

#[test]
fn links_that_leave_the_export_and_hidden_names_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    std::fs::write(directory.path().join("inside"), "x").unwrap();
    let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, directory.path().join(name)).unwrap();
    link(outside.path(), "absolute");
    link(Path::new(".."), "up");
    link(Path::new("up"), "chained");
    link(Path::new("inside"), "good");
    let store = posix(directory.path());
    for bad in ["/absolute/secret", "/absolute", "/up", "/chained"] {
        assert_eq!(code(store.stat(&path(bad))), Some(ErrorCode::SymlinkEscapes), "{bad}");
    }
    assert_eq!(
        code(put(&store, "/absolute/new", b"12", Overwrite::Allow)),
        Some(ErrorCode::SymlinkEscapes)
    );
    assert_eq!(names(&store, "/"), ["good", "inside"]);
    assert_eq!(read(&store, "/good"), b"x");
    assert_eq!(
        code(store.list(&path("/.crossload/uploads"))),
        Some(ErrorCode::NotFound)
    );
    assert_eq!(
        code(put(&store, "/.crossload/x", b"12", Overwrite::Allow)),
        Some(ErrorCode::PathRefused)
    );
}

#[test]
fn hidden_names_cannot_be_addressed_by_any_spelling() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    put(&store, "/f", b"12", Overwrite::Allow).unwrap();
    std::fs::write(directory.path().join(".crossload-1.part"), "x").unwrap();
    let spellings = [
        "/.crossload",
        "//.crossload/",
        "/./.crossload/lock",
        "/%2ecrossload/uploads",
        "/.crossload-1.part",
        "/%2Ecrossload%2d1.part",
        // Another export may begin at any directory, and has its hidden one there.
        "/d/.crossload",
        "/d/.crossload/uploads",
    ];
    std::fs::create_dir_all(directory.path().join("d/.crossload/uploads")).unwrap();
    assert!(names(&store, "/d").is_empty());
    for spelling in spellings {
        let hidden = LogicalPath::parse_url_path(spelling).unwrap();
        let (from, to) = (path("/f"), path("/g"));
        assert_eq!(code(store.stat(&hidden)), Some(ErrorCode::NotFound), "{spelling}");
        assert_eq!(code(store.open(&hidden)), Some(ErrorCode::NotFound), "{spelling}");
        assert_eq!(code(store.list(&hidden)), Some(ErrorCode::NotFound), "{spelling}");
        assert_eq!(code(store.remove(&hidden)), Some(ErrorCode::NotFound), "{spelling}");
        assert_eq!(
            code(store.stored_checksums(&hidden)),
            Some(ErrorCode::NotFound),
            "{spelling}"
        );
        let moved_out = store.rename(&hidden, &to, Overwrite::Allow);
        assert_eq!(code(moved_out), Some(ErrorCode::NotFound), "{spelling}");
        let moved_in = store.rename(&from, &hidden, Overwrite::Allow);
        assert_eq!(code(moved_in), Some(ErrorCode::PathRefused), "{spelling}");
        let made = store.make_directory(&hidden, true);
        assert_eq!(code(made), Some(ErrorCode::PathRefused), "{spelling}");
        let created = store.create(&hidden, &options(None, Overwrite::Allow));
        assert_eq!(code(created), Some(ErrorCode::PathRefused), "{spelling}");
    }
    assert_eq!(names(&store, "/"), ["d", "f"]);
}

#[test]
fn names_that_are_too_long_are_refused_and_the_longest_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    let longest = format!("/{}", "x".repeat(255));
    put(&store, &longest, b"12", Overwrite::Allow).unwrap();
    assert_eq!(read(&store, &longest), b"12");
    let longer = LogicalPath::parse(&format!("{longest}x"));
    assert_eq!(code(longer), Some(ErrorCode::NameTooLong));
    let deep = LogicalPath::parse(&format!("/{}", "d/".repeat(2048)));
    assert_eq!(code(store.stat(&deep.unwrap())), Some(ErrorCode::NotFound));
    assert_eq!(
        code(LogicalPath::parse(&format!("/{}", "d/".repeat(2049)))),
        Some(ErrorCode::NameTooLong)
    );
}

#[test]
fn the_obstacle_of_a_rename_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    put(&store, "/file", b"12", Overwrite::Allow).unwrap();
    put(&store, "/other", b"34", Overwrite::Allow).unwrap();
    put(&store, "/full/x", b"56", Overwrite::Allow).unwrap();
    store.make_directory(&path("/empty"), false).unwrap();
    let rename = |from, to, overwrite| code(store.rename(&path(from), &path(to), overwrite));
    for overwrite in [Overwrite::Allow, Overwrite::Refuse] {
        assert_eq!(rename("/file", "/empty", overwrite), Some(ErrorCode::IsDirectory));
        assert_eq!(rename("/full", "/empty", overwrite), Some(ErrorCode::IsDirectory));
        assert_eq!(rename("/full", "/file", overwrite), Some(ErrorCode::Exists));
        assert_eq!(rename("/file", "/none/x", overwrite), Some(ErrorCode::ParentMissing));
        assert_eq!(rename("/file", "/other/x", overwrite), Some(ErrorCode::NotDirectory));
        assert_eq!(rename("/none", "/x", overwrite), Some(ErrorCode::NotFound));
        assert_eq!(rename("/full", "/full/x/y", overwrite), Some(ErrorCode::NotDirectory));
        assert_eq!(rename("/full", "/full/y", overwrite), Some(ErrorCode::Forbidden));
        assert_eq!(rename("/", "/x", overwrite), Some(ErrorCode::Forbidden));
    }
    assert_eq!(names(&store, "/"), ["empty", "file", "full", "other"]);
    assert_eq!(read(&store, "/file"), b"12");
}

#[test]
fn a_directory_moved_into_itself_through_a_link_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    put(&store, "/d/x", b"12", Overwrite::Allow).unwrap();
    std::os::unix::fs::symlink("d", directory.path().join("link")).unwrap();
    for overwrite in [Overwrite::Allow, Overwrite::Refuse] {
        let moved = store.rename(&path("/d"), &path("/link/y"), overwrite);
        assert_eq!(code(moved), Some(ErrorCode::Forbidden), "{overwrite:?}");
    }
    assert_eq!(read(&store, "/d/x"), b"12");
}

#[test]
fn exactly_one_of_many_uploads_that_refuse_to_overwrite_wins() {
    let directory = quick_directory();
    let store = posix(directory.path());
    for round in 0..RACE_ROUNDS {
        let name = path(&format!("/f{round}"));
        let start = Barrier::new(RACERS);
        let race = |racer: usize| {
            let upload = store.create(&name, &options(Some(8), Overwrite::Refuse)).unwrap();
            upload.write_vectored_at(&[IoSlice::new(&[racer as u8; 8])], 0).unwrap();
            start.wait();
            code(upload.commit(&size(8)))
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..RACERS).map(|racer| scope.spawn(move || race(racer))).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let winners: Vec<usize> = (0..RACERS).filter(|racer| outcomes[*racer].is_none()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        assert!(outcomes.iter().flatten().all(|code| *code == ErrorCode::Exists));
        assert_eq!(read(&store, name.as_str()), [winners[0] as u8; 8]);
    }
    assert_eq!(crate::support::parts_in(directory.path()), 0);
}

/// Exchanges a directory of the export with a link that leads out, over and over.
fn swap(export: &Path, outside: &Path, ended: &AtomicBool) {
    let (inner, other) = (export.join("d"), export.join("swapped"));
    std::os::unix::fs::symlink(outside, &other).unwrap();
    while !ended.load(Ordering::Relaxed) {
        renameat_with(CWD, &inner, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_out() {
    let (outside, directory) = (quick_directory(), quick_directory());
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::fs::write(directory.path().join("d/f"), "inside").unwrap();
    std::fs::write(outside.path().join("f"), "secret").unwrap();
    let store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let ended = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(directory.path(), outside.path(), &ended));
        for round in 0..SWAP_ROUNDS {
            match store.open(&path("/d/f")) {
                Ok(reader) => {
                    let mut content = [0; 6];
                    let mut slices = [IoSliceMut::new(&mut content)];
                    reader.read_vectored_at(&mut slices, 0, Patience::Wait).unwrap();
                    assert_eq!(&content, b"inside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            let new = format!("/d/new{}", round % 8);
            let _ = put(&store, &new, b"12", Overwrite::Allow);
            let _ = store.remove(&path(&new));
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(
        inside > 0 && refused > 0,
        "both cases occurred: {inside} inside, {refused} refused"
    );
    let outside: Vec<_> = std::fs::read_dir(outside.path()).unwrap().flatten().collect();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(std::fs::read(outside[0].path()).unwrap(), b"secret");
}

#[test]
fn a_secret_of_the_server_is_refused_under_every_name() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = elsewhere.path().join("secret");
    std::fs::write(&secret, "the key").unwrap();
    let secrets = storage::SecretFiles::default();
    let options = storage::PosixOptions {
        secrets: secrets.clone(),
        ..storage::PosixOptions::default()
    };
    let store = storage::Posix::open(directory.path(), &options).unwrap();
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::fs::hard_link(&secret, directory.path().join("d/linked")).unwrap();
    let linked = path("/d/linked");
    assert!(
        store.open(&linked).is_ok(),
        "it is an ordinary file until it is declared secret"
    );
    secrets.replace([&secret, &elsewhere.path().join("none")]);
    let refused = Some(types::ErrorCode::Forbidden);
    assert_eq!(code(store.open(&linked)), refused);
    assert_eq!(code(store.open_update(&linked)), refused);
    assert_eq!(code(store.set_mode(&linked, 0o644)), refused);
    assert_eq!(code(store.copy(&linked, &path("/copy"), Overwrite::Allow)), refused);
    let whole = store.copy_tree(&path("/d"), &path("/e"), true, storage::Replacing::Nothing);
    assert_eq!(code(whole), refused);
    assert_eq!(std::fs::read(&secret).unwrap(), b"the key");
    // The name is no secret, and can be removed.
    store.remove(&linked).unwrap();
    assert!(secret.exists());
}
