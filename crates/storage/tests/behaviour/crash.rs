//! A killed server leaves only complete files, and after the next start-up nothing else.

use std::io::{BufRead, BufReader, IoSlice, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Barrier;

use storage::{Overwrite, Posix, Storage};
use testkit::{Scratch, Tmpfs, available};

use crate::support::{again, names, options, parts_in, path, posix, put, quick_directory, read, size};

/// The variable with the path of the export, for the process that will be killed.
const VARIABLE: &str = "CROSSLOAD_TEST_CRASH";
const UPLOADS: usize = 20;
/// Commits that must happen before the process is killed.
const COMMITS: usize = 30;
const FILE_BYTES: usize = 256 * 1024;
/// Size of the other mount: the server's reserve, plus more than all files.
const OTHER_BYTES: u64 = types::limits::SPACE_RESERVE_BYTES + (64 << 20);
const OLD: &[u8] = b"the old file";

#[test]
fn parts_of_a_dead_server_are_removed_and_those_of_a_living_one_stay() {
    let directory = tempfile::tempdir().unwrap();
    let living = posix(directory.path());
    let upload = living.create(&path("/f"), &options(Some(2), Overwrite::Allow)).unwrap();
    let dead = directory.path().join(".crossload/uploads/dead");
    std::fs::create_dir(&dead).unwrap();
    std::fs::write(dead.join("1.part"), "x").unwrap();
    std::fs::write(dead.join("2.elsewhere"), "/\n.crossload-2.part").unwrap();
    std::fs::write(directory.path().join(".crossload-2.part"), "x").unwrap();
    let second = posix(directory.path());
    assert_eq!(
        (
            second.cleaned().instances,
            second.cleaned().parts,
            second.cleaned().failed
        ),
        (1, 2, 0)
    );
    assert!(!dead.exists() && !directory.path().join(".crossload-2.part").exists());
    upload.write_vectored_at(&[IoSlice::new(b"ok")], 0).unwrap();
    upload.commit(&size(2)).unwrap();
    assert_eq!(read(&second, "/f"), b"ok");
}

#[test]
fn servers_may_start_and_end_at_the_same_time() {
    let directory = quick_directory();
    let start = Barrier::new(4);
    let come_and_go = || {
        start.wait();
        for _ in 0..100 {
            let store = posix(directory.path());
            let upload = store.create(&path("/f"), &options(Some(2), Overwrite::Allow)).unwrap();
            upload.write_vectored_at(&[IoSlice::new(b"12")], 0).unwrap();
            upload.commit(&size(2)).unwrap();
            assert_eq!((store.cleaned().parts, store.cleaned().failed), (0, 0));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(come_and_go))));
    let uploads = directory.path().join(".crossload/uploads");
    drop(posix(directory.path()));
    assert_eq!(std::fs::read_dir(uploads).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_removed_does_not_keep_a_server_from_starting() {
    let directory = quick_directory();
    drop(posix(directory.path()));
    // A directory in place of the lock: no server created it, and it cannot be locked.
    let odd = directory.path().join(".crossload/uploads/dead/lock");
    std::fs::create_dir_all(&odd).unwrap();
    let store = posix(directory.path());
    assert_eq!((store.cleaned().instances, store.cleaned().failed), (0, 1));
    put(&store, "/f", b"12", Overwrite::Allow).unwrap();
}

/// Reports progress to the waiting parent, past the test harness.
fn tell(word: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{word}").unwrap();
}

/// Half of the uploads stay half-written over old files; the others commit again and again.
fn upload_until_killed(store: &Posix, place: &str, number: usize) {
    let content = vec![number as u8; FILE_BYTES];
    let half = FILE_BYTES / 2;
    for generation in (0..=u8::MAX).cycle() {
        let name = path(&format!("{place}/f{number}"));
        let announced = number.is_multiple_of(3).then_some(FILE_BYTES as u64);
        let upload = store.create(&name, &options(announced, Overwrite::Allow)).unwrap();
        upload.write_vectored_at(&[IoSlice::new(&content[..half])], 0).unwrap();
        if number < UPLOADS / 2 {
            tell("half");
            loop {
                std::thread::park();
            }
        }
        let mut rest = content[half..].to_vec();
        rest[0] = generation;
        upload.write_vectored_at(&[IoSlice::new(&rest)], half as u64).unwrap();
        upload.commit(&size(FILE_BYTES as u64)).unwrap();
        tell("committed");
    }
}

fn run_child(export: &Path) {
    let store = posix(export);
    std::thread::scope(|scope| {
        for number in 0..UPLOADS {
            let (store, place) = (&store, if number % 2 == 0 { "" } else { "/other" });
            scope.spawn(move || upload_until_killed(store, place, number));
        }
    });
}

/// Waits until all half-written uploads exist, and enough others were committed.
fn wait_until_busy(child: &mut Child) {
    let (mut halves, mut commits) = (0, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The harness prints its own lines before the first one.
        match line.unwrap().rsplit(' ').next() {
            Some("half") => halves += 1,
            Some("committed") => commits += 1,
            _ => {}
        }
        if halves == UPLOADS / 2 && commits >= COMMITS {
            return;
        }
    }
    panic!("the child exited early");
}

fn check_after_kill(export: &Path, parts_left: usize) {
    let store = posix(export);
    let cleaned = store.cleaned();
    assert_eq!((cleaned.instances, cleaned.failed), (1, 0));
    assert!(cleaned.parts >= parts_left as u64, "{cleaned:?}");
    assert_eq!(parts_in(export), 0);
    for number in 0..UPLOADS {
        let place = if number % 2 == 0 { "" } else { "/other" };
        let content = read(&store, &format!("{place}/f{number}"));
        if number < UPLOADS / 2 {
            assert_eq!(content, OLD, "f{number}");
        } else if content != OLD {
            assert_eq!(content.len(), FILE_BYTES, "f{number}");
            let half = FILE_BYTES / 2;
            let others = content.iter().enumerate().filter(|(index, _)| *index != half);
            assert!(others.into_iter().all(|(_, byte)| *byte == number as u8), "f{number}");
        }
    }
}

fn kill_in_the_middle(test: &str, export: &Path) {
    let store = posix(export);
    for number in 0..UPLOADS {
        let place = if number % 2 == 0 { "" } else { "/other" };
        put(&store, &format!("{place}/f{number}"), OLD, Overwrite::Allow).unwrap();
    }
    drop(store);
    let mut child = again(test, VARIABLE, export).stdout(Stdio::piped()).spawn().unwrap();
    wait_until_busy(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let left = parts_in(export);
    assert!(left >= UPLOADS / 2, "{left} parts: it was not killed in the middle");
    check_after_kill(export, UPLOADS / 2);
}

#[test]
fn a_kill_in_the_middle_of_twenty_uploads_leaves_only_whole_files() {
    if let Some(export) = std::env::var_os(VARIABLE) {
        return run_child(Path::new(&export));
    }
    let directory = tempfile::tempdir().unwrap();
    let test = "crash::a_kill_in_the_middle_of_twenty_uploads_leaves_only_whole_files";
    kill_in_the_middle(test, directory.path());
}

#[test]
fn a_kill_leaves_nothing_on_another_mount_of_the_export_either() {
    let test = "crash::a_kill_leaves_nothing_on_another_mount_of_the_export_either";
    if let Some(export) = std::env::var_os(VARIABLE) {
        return run_child(Path::new(&export));
    }
    let scratch = Scratch::new("mounts").unwrap();
    let export = scratch.create("export").unwrap();
    let mounted = Tmpfs::mount(&export.join("other"), OTHER_BYTES);
    let Some(_other) = available(test, mounted) else { return };
    kill_in_the_middle(test, &export);
}

#[test]
fn a_directory_bound_into_the_export_takes_its_parts_beside_the_name() {
    let test = "a_directory_bound_into_the_export_takes_its_parts_beside_the_name";
    let scratch = Scratch::new("bound").unwrap();
    let (export, source) = (scratch.create("export").unwrap(), scratch.create("source").unwrap());
    let arguments = ["--bind", source.to_str().unwrap()];
    let bound = crate::support::Mount::new(&arguments, &export.join("bound"));
    let Some(_bound) = available(test, bound) else { return };
    let store = posix(&export);
    let upload = store
        .create(&path("/bound/new/f"), &options(None, Overwrite::Allow))
        .unwrap();
    assert_eq!(parts_in(&source), 1, "a rename works only within a mount");
    assert!(crate::support::names(&store, "/bound").iter().all(|name| name == "new"));
    upload.write_vectored_at(&[IoSlice::new(b"12")], 0).unwrap();
    upload.commit(&size(2)).unwrap();
    assert_eq!(std::fs::read(source.join("new/f")).unwrap(), b"12");
    assert_eq!(parts_in(&export), 0);
}

#[test]
fn a_directory_that_was_emptied_by_hand_takes_uploads_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = posix(directory.path());
    put(&store, "/d/f", b"0123", Overwrite::Allow).unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        std::fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    put(&store, "/d/f", b"4567", Overwrite::Allow).unwrap();
    assert_eq!(read(&store, "/d/f"), b"4567");
    assert_eq!(names(&store, "/"), ["d"]);
    drop(store);
    // Nothing is left for the next start to remove.
    assert_eq!(posix(directory.path()).cleaned(), storage::Cleaned::default());
}
