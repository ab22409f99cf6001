//! Which files a repeated copy takes as equal, what it tells of ways that fail between two servers,
//! and that its lines come whole.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use conformance::{Endpoint, Reply, Run, Scripted, Seen, Site, bytes, json_lines, last_json, run};
use testkit::{Crossload, XrootdVersion, available};

use crate::trees::{site, text};

/// Files, failed, skipped, and those of the last that only size and time speak for.
fn counts(copied: &Run) -> [u64; 4] {
    let summary = last_json(copied);
    ["files", "failed", "skipped", "skipped_unverified"]
        .map(|name| summary[name].as_u64().unwrap_or_else(|| panic!("{}", copied.said())))
}

/// Writes a file that was changed so many seconds ago.
fn write_aged(path: &Path, content: &[u8], age_s: u64) {
    fs::write(path, content).expect("a file");
    age(path, age_s);
}

/// Makes a file older. XRootD keeps a checksum with the second in which its file was changed, and
/// would tell it of the next file that is stored within that second.
fn age(path: &Path, age_s: u64) {
    let file = fs::File::options().write(true).open(path).expect("it opens");
    let time = SystemTime::now() - Duration::from_secs(age_s);
    file.set_modified(time).expect("its time is set");
}

/// A tree at the source, and where it goes.
struct Pair {
    source: String,
    target: String,
    there: PathBuf,
}

impl Pair {
    fn new(source: String, target: String, there: PathBuf) -> Self {
        Self { source, target, there }
    }
}

/// A file of the source becomes another one of the same size, as old as before: a copy that is
/// newer says nothing about it.
fn other_content_is_copied(site: &Site, from: &Path, pairs: Vec<Pair>) {
    for (number, pair) in pairs.iter().enumerate() {
        let names = ["changed", "same"];
        for (seed, name) in names.iter().enumerate() {
            write_aged(&from.join(name), &bytes(5000, 300 + seed as u64), 100_000);
        }
        let sync = || {
            let arguments = ["--json", &pair.source, &pair.target];
            site.lab.run_client("sync", &arguments).succeeded()
        };
        let what = format!("{number}: {} => {}", pair.source, pair.target);
        let first = sync();
        assert_eq!(counts(&first), [2, 0, 0, 0], "{what}: {}", first.said());
        // It stays newer than the file that it was copied from.
        age(&pair.there.join("changed"), 50_000);
        let other = bytes(5000, 310);
        write_aged(&from.join("changed"), &other, 90_000);
        let second = sync();
        assert_eq!(counts(&second), [1, 0, 1, 0], "{what}: {}", second.said());
        let stored = fs::read(pair.there.join("changed")).expect("a copy");
        assert!(stored == other, "{what} has the old content: {}", second.said());
        let third = sync();
        assert_eq!(counts(&third), [0, 0, 2, 0], "{what}: {}", third.said());
    }
}

#[test]
fn a_newer_file_with_other_content_is_no_copy() {
    let Some(site) = available("a_newer_file_with_other_content_is_no_copy", site()) else {
        return;
    };
    let from = site.first.data().join("newer");
    fs::create_dir_all(&from).expect("a directory");
    let (local, http, root) = (
        format!("{}/", text(&from)),
        site.first.davs("newer/"),
        site.first.root("newer/"),
    );
    let back = site.lab.fresh("newer");
    let mut pairs = Vec::new();
    for (name, source) in [("local", local), ("http", http), ("root", root)] {
        let there = |way: &str| site.second.data().join(format!("newer-{name}-{way}"));
        let url = |way: &str| format!("newer-{name}-{way}");
        let here = back.join(name);
        pairs.push(Pair::new(source.clone(), text(&here).to_owned(), here));
        pairs.push(Pair::new(source.clone(), site.second.davs(&url("http")), there("http")));
        pairs.push(Pair::new(source.clone(), site.second.root(&url("root")), there("root")));
    }
    other_content_is_copied(&site, &from, pairs);
}

#[test]
fn a_newer_file_at_xrootd_is_compared_too() {
    let test = "a_newer_file_at_xrootd_is_compared_too";
    let started = Site::with_xrootd_of(XrootdVersion::V5, "newer-xrootd", "xrootd");
    let Some(site) = available(test, started) else { return };
    let from = site.first.data().join("newer");
    fs::create_dir_all(&from).expect("a directory");
    let there = |name: &str| site.second.data().join(name);
    let pairs = vec![
        Pair::new(format!("{}/", text(&from)), site.second.root("up"), there("up")),
        Pair::new(site.first.root("newer/"), site.second.root("root"), there("root")),
        Pair::new(site.first.davs("newer/"), site.second.davs("http"), there("http")),
    ];
    other_content_is_copied(&site, &from, pairs);
}

/// A WebDAV server with one file of five bytes, newer than any other, that knows no checksums.
fn server_without_checksums() -> Scripted {
    Scripted::start(|seen: &Seen| {
        let is_file = seen.path.ends_with("/f");
        let response = |href: &str, properties: &str| {
            format!(
                "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{properties}</D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )
        };
        let directory = response("/d/", "<D:resourcetype><D:collection/></D:resourcetype>");
        let file = response(
            "/d/f",
            "<D:resourcetype/><D:getcontentlength>5</D:getcontentlength>\
             <D:getlastmodified>Fri, 01 Jan 2100 00:00:00 GMT</D:getlastmodified>",
        );
        let found = match (is_file, seen.header("Depth")) {
            (true, _) => file,
            (false, Some("0")) => directory,
            (false, _) => directory + &file,
        };
        let found = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{found}</D:multistatus>");
        let say = |status: &str, headers: &[&str], body: &[u8]| Reply::whole(seen, status, headers, body);
        match seen.method.as_str() {
            "PROPFIND" => say("207 Multi-Status", &["Content-Type: application/xml"], found.as_bytes()),
            "HEAD" | "GET" => say("200 OK", &[], b"other"),
            "PUT" | "MKCOL" => say("201 Created", &[], b""),
            _ => say("405 Method Not Allowed", &[], b""),
        }
    })
}

#[test]
fn newer_files_without_checksums_are_skipped_and_counted() {
    let test = "newer_files_without_checksums_are_skipped_and_counted";
    let Some(site) = available(test, site()) else { return };
    let server = server_without_checksums();
    let from = site.lab.fresh("unverified");
    fs::create_dir_all(&from).expect("a directory");
    fs::write(from.join("f"), b"here!").expect("a file");
    let (source, target) = (format!("{}/", text(&from)), server.url("/d/"));
    let puts = || server.seen().iter().filter(|seen| seen.method == "PUT").count();
    let ran = |command: &str, more: &[&str]| {
        let arguments = [more, &[&source, &target]].concat();
        site.lab.run_client(command, &arguments).succeeded()
    };
    for (command, more, option) in [
        ("sync", &[][..], "--compare checksum copies it"),
        ("copy", &["-r"], "--force copies it"),
    ] {
        let skipped = ran(command, &[more, &["--json"]].concat());
        assert_eq!(counts(&skipped), [0, 0, 1, 1], "{}", skipped.said());
        let told = ran(command, more).stderr;
        let words = "1 file was skipped by size and time alone";
        assert!(told.contains(words) && told.contains(option), "{told}");
    }
    let compared = ran("compare", &["--compare", "auto", "--json"]);
    assert_eq!(last_json(&compared)["unverified"], 1, "{}", compared.said());
    let quick = ran("sync", &["--compare", "time", "--json"]);
    assert_eq!(counts(&quick), [0, 0, 1, 0], "it was asked for: {}", quick.said());
    assert_eq!(puts(), 0, "a tree is not copied again");
    let copied = ran("sync", &["--compare", "checksum", "--json"]);
    assert_eq!(counts(&copied), [1, 0, 0, 0], "{}", copied.said());
    assert_eq!(puts(), 1);
}

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
    let client = site
        .lab
        .client(["rm", &directory, &none, &file])
        .expect("the client is built");
    let removed = run(&client).failed_with(1);
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
