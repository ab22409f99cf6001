//! Long transfers are worked on by threads that are nicer than the others, so that whoever asks for little does not wait for
//! them. How long that would be is a question to the benchmark; here it is looked which threads worked.

use std::fs;

use conformance::{Lab, bytes};
use testkit::{Crossload, Thread, available, require};

const LONG_BYTES: usize = 64 << 20;
/// How much nicer these threads are than the one that the process began with.
const NICER: i32 = 10;
/// Of each thread up to one tick is not counted yet; this many tell nevertheless which half of the work was where.
const ENOUGH_TICKS: u64 = 20;
const MAXIMUM_TRANSFERS: usize = 100;

/// Those that work in the background, and all.
fn parted(server: &mut Crossload) -> (Vec<Thread>, Vec<Thread>) {
    let all = server.process().threads().expect("a running server");
    let background = all.iter().filter(|thread| thread.name == "background");
    (background.cloned().collect(), all)
}

/// Processor time of threads in ticks.
fn ticks(threads: &[Thread]) -> u64 {
    threads.iter().map(|thread| thread.ticks).sum()
}

/// Demands that more than half of what `transfer` takes is done in the background. It is asked again and again, until so much
/// was taken that it can be told: a long transfer takes less than the tick of a quick machine.
fn check(server: &mut Crossload, what: &str, transfer: impl Fn()) {
    let before = parted(server);
    for _ in 0..MAXIMUM_TRANSFERS {
        transfer();
        let after = parted(server);
        assert!(!after.0.is_empty(), "{what}: no thread of the background");
        let usual = after.1[0].niceness;
        let are_nicer = after.0.iter().all(|thread| thread.niceness - usual == NICER);
        assert!(are_nicer, "{what}: {after:?}");
        let background = ticks(&after.0) - ticks(&before.0);
        let all = ticks(&after.1) - ticks(&before.1);
        if all >= ENOUGH_TICKS {
            assert!(background * 2 > all, "{what}: {background} of {all} ticks");
            return;
        }
    }
    panic!("{what}: {MAXIMUM_TRANSFERS} transfers took fewer than {ENOUGH_TICKS} ticks");
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
        let stored = server.data().join(name);
        check(&mut server, name, || {
            lab.upload(&url, &content, &[]).expect(201);
            assert!(fs::read(&stored).expect("stored") == content, "{name}");
            fs::remove_file(&stored).expect("its own file");
        });
    }
}
