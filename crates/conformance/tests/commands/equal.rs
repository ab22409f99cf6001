//! Which files a repeated copy takes as equal, what it tells of ways that fail between two servers,
//! and that its lines come whole.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use conformance::{Endpoint, bytes, json_lines, run};
use testkit::{Crossload, available};

use crate::trees::{site, text};

#[test]
fn a_way_that_fails_between_two_servers_is_tried_and_told_once() {
    let test = "a_way_that_fails_between_two_servers_is_tried_and_told_once";
    let Some(site) = available(test, site()) else { return };
    let mut options = site.lab.options("shy-tree");
    options.allow_local_peers = false;
    let shy = Endpoint::Crossload(Box::new(Crossload::start(options).expect("it starts")));
    for name in 0..12 {
        site.first.put(&format!("once/{name:02}"), &bytes(1000, name));
    }
    let source = site.first.davs("once/");
    let copy = |target: &str, more: &[&str]| {
        let target = shy.davs(target);
        let arguments = [more, &["-r", &source, &target]].concat();
        site.lab.run_client("copy", &arguments).succeeded()
    };
    // The destination may not fetch from this machine, so the source sends.
    let one_by_one = copy("one-by-one", &["--transfers", "1", "--json"]);
    let lines = json_lines(&one_by_one);
    let of_kind = |name: &str| lines.iter().filter(|line| line["event"] == name).count();
    assert_eq!(
        (of_kind("mode_failed"), of_kind("done")),
        (1, 12),
        "{}",
        one_by_one.said()
    );
    let done = lines.iter().find(|line| line["event"] == "done").expect("a file");
    assert_eq!(done["mode"], "push", "{done}");
    let at_once = copy("at-once", &["--transfers", "8"]);
    assert_eq!(at_once.stderr.matches("pull failed").count(), 1, "{}", at_once.said());
    let quiet = copy("quiet", &["-q"]);
    assert_eq!(quiet.stderr, "", "{}", quiet.said());
}

/// Each write to standard error is one or more whole lines: the packets of a socket show it.
#[test]
fn lines_of_errors_are_written_at_once() {
    let test = "lines_of_errors_are_written_at_once";
    let Some(site) = available(test, site()) else { return };
    let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
    ours.set_nonblocking(true).expect("it does not wait");
    let missing = ["/nonexistent/1", "/nonexistent/2", "/nonexistent/3"];
    let mut client = site
        .lab
        .client(["stat"].iter().chain(&missing))
        .expect("the client is built");
    let mut child = client
        .stdout(Stdio::null())
        .stderr(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("it starts");
    child.wait().expect("it ends");
    let (mut packet, mut all) = ([0; 65536], String::new());
    while let Ok(length) = ours.recv(&mut packet) {
        let said = String::from_utf8_lossy(&packet[..length]);
        assert!(said.ends_with('\n'), "a torn line: {said:?}");
        all.push_str(&said);
    }
    assert_eq!(all.matches("crossload stat error").count(), 3, "{all}");
    assert!(all.ends_with("3 of 3 failed\n"), "{all}");
}

#[test]
fn each_name_that_is_not_removed_has_its_reason() {
    let test = "each_name_that_is_not_removed_has_its_reason";
    let Some(site) = available(test, site()) else { return };
    let top = site.lab.fresh("removed");
    fs::create_dir_all(top.join("directory")).expect("a directory");
    fs::write(top.join("file"), b"x").expect("a file");
    let [directory, none, file] = ["directory", "none", "file"].map(|name| text(&top.join(name)).to_owned());
    let mut client = site
        .lab
        .client(["rm", &directory, &none, &file])
        .expect("the client is built");
    let removed = run(&mut client).failed_with(1);
    let reasons: Vec<&str> = removed
        .stderr
        .lines()
        .filter(|line| line.contains("rm error"))
        .collect();
    assert_eq!(reasons.len(), 2, "{}", removed.said());
    assert!(
        reasons[0].contains(&directory) && reasons[1].contains(&none),
        "{reasons:?}"
    );
    assert!(
        removed.stderr.ends_with("2 of 3 could not be removed\n"),
        "{}",
        removed.said()
    );
    assert!(!top.join("file").exists());
}
