//! Our own client at XRootD over HTTP, which writes files in place and keeps what a broken upload
//! left.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use conformance::{Lab, Reply, Scripted, Seen, Site, background, bytes, json_lines, last_json, run, until};
use testkit::{Direction, Fault, Process, Relay, XrootdVersion, available};

use crate::trees::text;

const PATIENCE: Duration = Duration::from_secs(60);

fn site(test: &str, name: &str) -> Option<Site> {
    available(test, Site::with_xrootd_of(XrootdVersion::V5, name, "xrootd"))
}

#[test]
fn the_beginning_of_a_file_is_replaced_and_nothing_else() {
    let test = "the_beginning_of_a_file_is_replaced_and_nothing_else";
    let Some(site) = site(test, "beginnings") else { return };
    let whole = bytes(300_000, 700);
    let mut other = whole[..200_000].to_vec();
    other[199_999] ^= 1;
    let there = [
        ("begun", &whole[..200_000]),
        ("empty", &[][..]),
        ("other", &other[..]),
        ("longer", &[&whole[..], b"!"].concat()),
    ];
    let from = site.lab.fresh("from");
    fs::create_dir(&from).expect("a directory");
    for (name, content) in there {
        fs::write(from.join(name), &whole).expect("a file");
        site.first.put(&format!("from/{name}"), &whole);
        for target in ["local", "http"] {
            site.theirs().put(&format!("{target}/{name}"), content);
        }
    }
    for (target, source) in [
        ("local", format!("{}/", text(&from))),
        ("http", site.first.davs("from/")),
    ] {
        let url = site.theirs().davs(target);
        let copied = site.lab.run_client("copy", &["-r", "--json", &source, &url]);
        let failed: Vec<_> = json_lines(&copied)
            .into_iter()
            .filter(|line| line["event"] == "failed")
            .map(|line| (line["destination"].clone(), line["error"]["code"].clone()))
            .collect();
        let said = copied.said();
        assert_eq!(failed.len(), 2, "{said}");
        assert!(failed.iter().all(|(_, code)| code == "exists"), "{said}");
        let stored = |name: &str| site.theirs().stored(&format!("{target}/{name}")).expect("a file");
        assert!(stored("begun") == whole && stored("empty") == whole, "{said}");
        assert!(stored("other") == other && stored("longer").len() == 300_001, "{said}");
    }
}

/// Begins to copy a tree to XRootD, until files stand still in the middle.
fn begin(site: &Site, source: &str, target: &str) -> (Relay, Process) {
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.theirs().port()))).expect("a relay");
    relay.set_fault(Fault::StallAfter(Direction::ToTarget, 2_000_000), usize::MAX);
    let url = format!("https://localhost:{}/data/{target}", relay.port());
    let arguments = site
        .lab
        .client_arguments("copy", &["-r", "--transfers", "3", source, &url]);
    let mut command = site.lab.client(arguments).expect("the client is built");
    let copying = background(&mut command, site.lab.scratch()).expect("it starts");
    until("files stand still", PATIENCE, || relay.struck() >= 3);
    (relay, copying)
}

#[test]
fn a_killed_copy_of_a_tree_is_completed_by_the_next() {
    let test = "a_killed_copy_of_a_tree_is_completed_by_the_next";
    let Some(site) = site(test, "killed") else { return };
    let from = site.lab.fresh("from");
    fs::create_dir(&from).expect("a directory");
    for number in 0..6 {
        fs::write(from.join(format!("f{number}")), bytes(4 << 20, number)).expect("a file");
    }
    let source = format!("{}/", text(&from));
    // What is left is newer than its source, which --update leaves alone otherwise.
    for (signal, option) in [("KILL", "--recursive"), ("INT", "--recursive"), ("KILL", "--update")] {
        let target = format!("{signal}{option}");
        site.theirs().make_directory(&target);
        let (relay, mut copying) = begin(&site, &source, &target);
        let there = site.theirs().data().join(&target);
        until("beginnings are there", PATIENCE, || {
            let sizes = fs::read_dir(&there).expect("a directory").flatten();
            sizes
                .filter_map(|entry| entry.metadata().ok())
                .any(|found| found.len() > 0)
        });
        let kill = format!("kill -{signal} {}", copying.id());
        run(std::process::Command::new("sh").args(["-c", &kill])).succeeded();
        until("it ends", PATIENCE, || !copying.is_running());
        drop(relay);
        let url = site.theirs().davs(&target);
        let arguments: &[&str] = match option {
            "--update" => &["-r", "--update", "--json", &source, &url],
            _ => &["-r", "--json", &source, &url],
        };
        let second = site.lab.run_client("copy", arguments);
        let summary = last_json(&second);
        assert_eq!(summary["failed"], 0, "{target}: {}", second.said());
        for number in 0..6 {
            let stored = fs::read(there.join(format!("f{number}"))).expect("a file");
            assert!(stored == bytes(4 << 20, number), "{target}: {number} differs");
        }
    }
}

/// A tree with one file of 4 MiB, whose first half is at XRootD, and XRootD behind a relay.
fn half_there(site: &Site) -> (String, Relay) {
    let from = site.lab.fresh("from");
    fs::create_dir(&from).expect("a directory");
    fs::write(from.join("f"), bytes(4 << 20, 7)).expect("a file");
    site.theirs().put("half/f", &bytes(4 << 20, 7)[..2 << 20]);
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.theirs().port()))).expect("a relay");
    (text(&from).to_owned(), relay)
}

#[test]
fn a_source_that_is_replaced_during_the_comparison_costs_nothing() {
    let test = "a_source_that_is_replaced_during_the_comparison_costs_nothing";
    let Some(site) = site(test, "rotated") else { return };
    let (from, relay) = half_there(&site);
    relay.set_fault(Fault::Limit(Direction::ToClient, 500_000), usize::MAX);
    let source = format!("{from}/");
    let url = format!("https://localhost:{}/data/half", relay.port());
    let arguments = site
        .lab
        .client_arguments("copy", &["-r", "-vv", "--retries", "0", &source, &url]);
    let mut command = site.lab.client(arguments).expect("the client is built");
    let mut copying = background(&mut command, site.lab.scratch()).expect("it starts");
    // It reads the destination by ranges, for four seconds.
    until("it compares", PATIENCE, || {
        copying.stderr().to_lowercase().contains("range: bytes")
    });
    let file = std::path::Path::new(&from).join("f");
    fs::rename(&file, site.lab.fresh("old")).expect("rotated");
    fs::write(&file, b"fresh").expect("a new file");
    until("it ends", PATIENCE, || !copying.is_running());
    let said = copying.stderr();
    assert!(said.contains("was replaced while its beginning was compared"), "{said}");
    let stored = site.theirs().stored("half/f").expect("a file");
    assert!(stored == bytes(4 << 20, 7)[..2 << 20], "{} bytes: {said}", stored.len());
}

#[test]
fn a_comparison_that_fails_is_called_that() {
    let test = "a_comparison_that_fails_is_called_that";
    let Some(site) = site(test, "cut") else { return };
    let (from, relay) = half_there(&site);
    relay.set_fault(Fault::CutAfter(Direction::ToClient, 600_000), usize::MAX);
    let source = format!("{from}/");
    let url = format!("https://localhost:{}/data/half", relay.port());
    let copied = site
        .lab
        .run_client("copy", &["-r", "--json", "--retries", "0", &source, &url]);
    let failed = json_lines(&copied).into_iter().find(|line| line["event"] == "failed");
    let failed = failed.unwrap_or_else(|| panic!("{}", copied.said()));
    assert_eq!(failed["error"]["code"], "peer_closed", "{failed:#}");
    assert_eq!(failed["error"]["retry"], true, "{failed:#}");
    relay.heal();
    site.lab.run_client("copy", &["-r", &source, &url]).succeeded();
    assert!(site.theirs().stored("half/f").expect("a file") == bytes(4 << 20, 7));
}

/// In its listings XRootD encodes nothing.
#[test]
fn files_with_odd_names_are_all_copied() {
    let test = "files_with_odd_names_are_all_copied";
    let names = [
        "q", "p%2Fq", "rA", "r%41", "sp end ", " x", "x", "a&b", "u#v", "y%", "s+t",
    ];
    for version in XrootdVersion::ALL {
        let site = Site::with_xrootd_of(version, "odd-names", "xrootd");
        let Some(site) = available(test, site) else { continue };
        for name in names {
            site.theirs().put(&format!("odd/{name}"), name.as_bytes());
        }
        let to = site.lab.fresh("odd");
        let copied = site
            .lab
            .run_client("copy", &["-r", &site.theirs().davs("odd/"), text(&to)])
            .succeeded();
        for name in names {
            let found = fs::read(to.join(name)).unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&found), name, "{}", copied.said());
        }
        assert_eq!(fs::read_dir(&to).expect("a directory").count(), names.len());
    }
}

/// XRootD 5.5.3 was seen to answer no question for the checksum of a directory after some of them.
#[test]
fn a_directory_whose_checksum_gets_no_answer_is_refused() {
    let test = "a_directory_whose_checksum_gets_no_answer_is_refused";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    let server = Scripted::start(|seen: &Seen| {
        let found =
            b"<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/d/</D:href><D:propstat>\
            <D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status>\
            </D:propstat></D:response></D:multistatus>";
        match seen.method.as_str() {
            "PROPFIND" => Reply::whole(seen, "207 Multi-Status", &["Content-Type: application/xml"], found),
            _ => Reply::SayAndStall(Vec::new()),
        }
    });
    let begin = Instant::now();
    let summed = lab.run_client("sum", &[&server.url("/d")]).failed_with(21);
    assert!(summed.said().contains("Is a directory"), "{}", summed.said());
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

/// XRootD 5.5.3 sends the checksum of a file that was asked for with later answers about others,
/// and may stand behind a proxy.
#[test]
fn a_checksum_that_was_not_asked_for_is_not_compared() {
    let test = "a_checksum_that_was_not_asked_for_is_not_compared";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    for server in ["XrootD/v5.5.3", "nginx"] {
        let server = Scripted::start(move |seen: &Seen| {
            let of_another_file = ["Digest: adler32=00000001", &format!("Server: {server}")];
            let asked = ["Digest: adler32=042d01b5", &format!("Server: {server}")];
            match seen.header("want-digest") {
                Some(_) => Reply::whole(seen, "200 OK", &asked, b"cont"),
                None => Reply::whole(seen, "200 OK", &of_another_file, b"cont"),
            }
        });
        let to = lab.fresh("copied");
        let copied = lab.run_client("copy", &[&server.url("/f"), text(&to)]).succeeded();
        assert!(copied.said().contains("adler32:042d01b5"), "{}", copied.said());
    }
}
