//! Long transfers are worked on by threads that are nicer than the others, so that whoever asks for little does not wait for
//! them. How long that would be is a question to the benchmark; here it is looked which threads worked.

use std::fs;
use std::path::{Path, PathBuf};

use conformance::{Lab, bytes};
use testkit::{Crossload, available, require};

const LONG_BYTES: usize = 64 << 20;
/// How much nicer these threads are.
const NICER: i64 = 10;

/// Processor time of the threads of a server's background and of all its threads, in ticks, and how nice the first are beside
/// the thread that the process began with.
#[derive(Debug, Default)]
struct Work {
    background: u64,
    all: u64,
    niceness: Vec<i64>,
}

/// Fields of proc_pid_stat(5), counted from the state, which is the third and the first behind the name.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const NICENESS: usize = 16;

/// Name and fields of a thread, those that are no numbers being 0.
fn thread(directory: &Path) -> Option<(String, Vec<i64>)> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let (name, fields) = stat.rsplit_once(") ")?;
    let fields = fields.split(' ').map(|field| field.trim().parse().unwrap_or(0));
    Some((name.to_owned(), fields.collect()))
}

impl Work {
    fn of(server: &mut Crossload) -> Self {
        let mut work = Self::default();
        let process = PathBuf::from(format!("/proc/{}", server.process().id()));
        let (_, first) = thread(&process).expect("a running server");
        for task in fs::read_dir(process.join("task")).expect("a running server") {
            // Threads of a pool come and go.
            let Some((name, fields)) = thread(&task.expect("a thread").path()) else {
                continue;
            };
            let ticks = (fields[USER_TIME] + fields[SYSTEM_TIME]).unsigned_abs();
            work.all += ticks;
            if name.ends_with("(background") {
                work.background += ticks;
                work.niceness.push(fields[NICENESS] - first[NICENESS]);
            }
        }
        work
    }
}

/// Demands that more than half of what `transfer` takes is done in the background.
fn check(server: &mut Crossload, what: &str, transfer: impl FnOnce()) {
    let before = Work::of(server);
    transfer();
    let after = Work::of(server);
    assert!(!after.niceness.is_empty(), "{what}: no thread of the background");
    assert!(
        after.niceness.iter().all(|own| *own == NICER),
        "{what}: {:?}",
        after.niceness
    );
    let (background, all) = (after.background - before.background, after.all - before.all);
    assert!(
        background * 2 > all && background > 0,
        "{what}: {background} of {all} ticks"
    );
}

#[test]
fn uploads_are_received_in_the_background() {
    let site = require("curl").and_then(|_| {
        let lab = Lab::new("background")?;
        let server = lab.crossload(lab.options("server"))?;
        Ok((lab, server))
    });
    let Some((lab, mut server)) = available("uploads_are_received_in_the_background", site) else {
        return;
    };
    let content = bytes(LONG_BYTES, 3);
    for (name, url) in [
        ("sealed", server.url("/data/sealed")),
        ("clear", server.clear_url("/data/clear")),
    ] {
        check(&mut server, name, || _ = lab.upload(&url, &content, &[]).expect(201));
    }
    for name in ["sealed", "clear"] {
        assert!(fs::read(server.data().join(name)).expect("stored") == content, "{name}");
    }
}
