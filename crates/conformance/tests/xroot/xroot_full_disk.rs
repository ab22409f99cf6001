//! A disk that is full in the middle of an upload of the XRootD protocol: the client learns it, an
//! old file stays whole, and the space is given back.

use std::time::Duration;

use conformance::{
    Endpoint, Lab, RootSocket, bytes, opcode, parameters, parts, reserving_nothing, run_with_input, until, visible,
};
use testkit::{Result, Tmpfs, available, require};

/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(15);
const DISK_BYTES: u64 = 24 << 20;
/// `kXR_NoSpace`.
const NO_SPACE: u32 = 3009;
/// Options of an open: a new file, an old one that is replaced, an old one that is changed.
const NEW: u16 = 0x8;
const REPLACE: u16 = 0x2;
const UPDATE: u16 = 0x20;

/// A server on a small disk.
struct Small {
    lab: Lab,
    server: Endpoint,
    _disk: Tmpfs,
}

fn small(name: &str) -> Result<Small> {
    let lab = Lab::new(name)?;
    let disk = Tmpfs::mount(&lab.fresh("small"), DISK_BYTES)?;
    let mut options = lab.options("server");
    options.exports[0].directory = disk.path().join("data");
    let server = lab.crossload(reserving_nothing(options))?;
    Ok(Small {
        server: Endpoint::Crossload(Box::new(server)),
        lab,
        _disk: disk,
    })
}

impl Small {
    /// Only these files are left, nothing unfinished, and there is room for a file of 16 MiB.
    fn assert_given_back(&self, names: &[&str]) {
        let data = self.server.data();
        until("nothing unfinished is left", SOON, || {
            visible(data) == names && parts(data).is_empty()
        });
        let fits = bytes(16 << 20, 3);
        self.lab.upload(&self.server.url("fits"), &fits, &[]).expect(201);
        std::fs::remove_file(data.join("fits")).expect("it was stored");
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_is_said_to_a_client_that_writes() {
    let test = "a_disk_that_is_full_in_the_middle_is_said_to_a_client_that_writes";
    let Some(small) = available(test, small("root-full")) else {
        return;
    };
    let old = bytes(1 << 20, 1);
    for name in ["changed", "old"] {
        small.lab.upload(&small.server.url(name), &old, &[]).expect(201);
    }
    let block = bytes(4 << 20, 2);
    for (name, options) in [("new", NEW), ("old", REPLACE)] {
        let mut client = RootSocket::session(small.server.root_port());
        let handle = client.open(&format!("/data/{name}"), options);
        let refused = (0..10).find_map(|number| {
            let answer = client.write(handle, number * (4 << 20), &block);
            (answer.status != 0).then_some(answer)
        });
        refused.expect("40 MiB do not fit").expect_error(NO_SPACE);
        // What was lost cannot become a file.
        assert_ne!(client.close(handle).status, 0, "{name}");
        small.assert_given_back(&["changed", "old"]);
        assert!(small.server.stored("old") == Some(old.clone()), "{name}");
    }
    // A file that is changed where it lies keeps what it had.
    let mut client = RootSocket::session(small.server.root_port());
    let handle = client.open("/data/changed", UPDATE);
    let end: i64 = 1 << 20;
    let refused = (0..10).find_map(|number| {
        let answer = client.write(handle, end + number * (4 << 20), &block);
        (answer.status != 0).then_some(answer)
    });
    refused.expect("40 MiB do not fit").expect_error(NO_SPACE);
    let _ = client.close(handle);
    let kept = small.server.stored("changed").expect("it is there");
    assert!(kept.starts_with(&old), "its old content");
    let mut client = RootSocket::session(small.server.root_port());
    let handle = client.open("/data/changed", UPDATE);
    let cut = parameters(&[&handle, &end.to_be_bytes()]);
    let _ = client.ask(1, opcode::TRUNCATE, &cut, &[]).expect_ok();
    let _ = client.close(handle).expect_ok();
    small.assert_given_back(&["changed", "old"]);
}

#[test]
fn a_disk_that_is_full_is_said_to_real_clients() {
    let test = "a_disk_that_is_full_is_said_to_real_clients";
    let Some(small) = available(test, require("xrdcp").and_then(|_| small("xrdcp-full"))) else {
        return;
    };
    let large = bytes(40 << 20, 4);
    let local = small.lab.file(&large);
    let local = local.to_str().expect("plain");
    let copied = small.lab.xrdcp(&[local, &small.server.root("xrdcp")]);
    assert_ne!(copied.code, Some(0), "{}", copied.said());
    assert!(copied.said().to_lowercase().contains("no space"), "{}", copied.said());
    // Without a size the disk is full only in the middle.
    for url in [small.server.root("stream"), small.server.davs("stream")] {
        let command = small.lab.client(["copy", "-", &url]).expect("a client");
        let copied = run_with_input(&command, &large).failed_with(28);
        assert!(copied.said().contains("No space left on device"), "{}", copied.said());
    }
    // A copy of the XRootD protocol.
    let other = small.lab.crossload(small.lab.options("other")).expect("it starts");
    let other = Endpoint::Crossload(Box::new(other));
    other.put("large", &large);
    let (from, to) = (other.root("large"), small.server.root("pulled"));
    let copied = small.lab.run_client("copy", &["--mode", "pull", &from, &to]);
    let copied = copied.failed_with(28);
    assert!(copied.said().contains("No space left on device"), "{}", copied.said());
    small.assert_given_back(&[]);
}
