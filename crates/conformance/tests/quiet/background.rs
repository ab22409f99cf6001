//! Small requests do not wait for long transfers: these run on threads with a higher nice value,
//! and third-party copies on other threads than those that serve connections. The benchmark
//! measures the wait; these tests check which threads did the work.

use std::fs;

use conformance::{Lab, bytes};
use testkit::{Crossload, Thread, available, require};

const LONG_BYTES: usize = 64 << 20;
/// The nice increment of these threads over the process's first one.
const NICER: i32 = 10;
/// Up to one tick of each thread is not counted yet; this many still show where half of the work
/// was.
const ENOUGH_TICKS: u64 = 20;
const MAXIMUM_TRANSFERS: usize = 100;

/// Processor time of threads in ticks.
fn ticks(threads: &[Thread]) -> u64 {
    threads.iter().map(|thread| thread.ticks).sum()
}

/// Threads of this name, and all.
fn parted(server: &mut Crossload, name: &str) -> [Vec<Thread>; 2] {
    let all = server.process().threads().expect("a running server");
    let named = all.iter().filter(|thread| thread.name == name).cloned().collect();
    [named, all]
}

/// The ticks of `transfer` on threads of this name, and on all threads. It is repeated until there
/// are enough ticks to compare: on a quick machine a long transfer takes less than one.
fn taken(server: &mut Crossload, name: &str, transfer: impl Fn()) -> [u64; 2] {
    let before = parted(server, name);
    for _ in 0..MAXIMUM_TRANSFERS {
        transfer();
        let after = parted(server, name);
        assert!(!after[0].is_empty(), "no thread is called {name}");
        let taken = [0, 1].map(|part| ticks(&after[part]) - ticks(&before[part]));
        if taken[1] >= ENOUGH_TICKS {
            return taken;
        }
    }
    panic!("{MAXIMUM_TRANSFERS} transfers took fewer than {ENOUGH_TICKS} ticks");
}

#[test]
fn uploads_are_received_in_the_background() {
    let site = require("curl").and_then(|_| {
        let lab = Lab::new("background")?;
        let mut options = lab.options("server");
        options.server = format!("bulk_niceness = {NICER}\n");
        let server = lab.crossload(options)?;
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
        let [background, all] = taken(&mut server, "background", || {
            lab.upload(&url, &content, &[]).expect(201);
            assert!(fs::read(&stored).expect("stored") == content, "{name}");
            fs::remove_file(&stored).expect("its own file");
        });
        assert!(background * 2 > all, "{name}: {background} of {all} ticks");
        let [background, all] = parted(&mut server, "background");
        let are_nicer = background
            .iter()
            .all(|thread| thread.niceness - all[0].niceness == NICER);
        assert!(are_nicer, "{name}: {background:?}");
    }
}

/// The configuration decides how nice the threads of long transfers are: those that receive, and
/// those that send.
#[test]
fn bulk_threads_are_as_nice_as_the_configuration_says() {
    let lab = require("curl").and_then(|_| Lab::new("niceness"));
    let Some(lab) = available("bulk_threads_are_as_nice_as_the_configuration_says", lab) else {
        return;
    };
    let content = bytes(LONG_BYTES, 5);
    for steps in [0, 4] {
        let mut options = lab.options("server");
        options.server = format!("bulk_niceness = {steps}\n");
        let Some(mut server) = available("a server", lab.crossload(options)) else {
            return;
        };
        let url = server.url("/data/file");
        lab.upload(&url, &content, &[]).expect(201);
        assert!(lab.curl(&[&url]).body == content);
        for name in ["background", "send"] {
            // A thread that sent a file waits for another one for a second.
            let [named, all] = parted(&mut server, name);
            assert!(name == "send" || !named.is_empty());
            let are_so = named.iter().all(|thread| thread.niceness - all[0].niceness == steps);
            assert!(are_so, "{name} with {steps}: {named:?}");
        }
    }
}

#[test]
fn copies_are_made_by_others_than_those_that_serve_connections() {
    let sites = require("curl").and_then(|_| {
        let lab = Lab::new("copies")?;
        let (there, here) = (
            lab.crossload(lab.options("there"))?,
            lab.crossload(lab.options("here"))?,
        );
        Ok((lab, there, here))
    });
    let test = "copies_are_made_by_others_than_those_that_serve_connections";
    let Some((lab, there, mut here)) = available(test, sites) else {
        return;
    };
    // A pull: what is sent is sent by threads that are gone afterwards.
    let content = bytes(LONG_BYTES, 4);
    fs::write(there.data().join("file"), &content).expect("a file to copy");
    let source = format!("Source: {}", there.url("/data/file"));
    let (copied, target) = (here.data().join("file"), here.url("/data/file"));
    let [serving, all] = taken(&mut here, "connections", || {
        lab.copy(&target, &source, &[]).expect(202);
        assert!(fs::read(&copied).expect("copied") == content);
        fs::remove_file(&copied).expect("its own file");
    });
    assert!(serving * 4 < all, "{serving} of {all} ticks");
}
