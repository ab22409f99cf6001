//! Our own client on trees with symbolic links, loops, pipes and sockets, local and on servers, in
//! both protocols: nothing is followed, and whatever is left out is named.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Site, Slot, json_lines, run, shared, visible};
use serde_json::Value;
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::with_xrootd("links", "xrootd"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

fn server_log(server: &Endpoint) -> &testkit::Process {
    match server {
        Endpoint::Crossload(server) => server.log(),
        Endpoint::Xrootd(_) => panic!("ours"),
    }
}

fn pipe(path: &Path) {
    run(Command::new("mkfifo").arg(path)).succeeded();
}

/// A directory whose files must survive whatever happens to links that lead there.
fn precious(lab: &Lab) -> std::path::PathBuf {
    let outside = lab.fresh("precious");
    fs::create_dir_all(outside.join("below")).expect("directories");
    fs::write(outside.join("below/file"), b"precious").expect("a file");
    outside
}

/// What a JSON report says was left out: the last name, and why.
fn left_out(run: &Run) -> Vec<(String, String)> {
    let lines = json_lines(run);
    let out = lines.iter().filter(|line| line["event"] == "left_out");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = out
        .map(|line| {
            let source = word(&line["source"]);
            let name = source.rsplit('/').next().unwrap_or_default().to_owned();
            (name, word(&line["reason"]))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_local_link_is_removed_and_its_target_stays() {
    let Some(site) = available("a_local_link_is_removed_and_its_target_stays", site()) else {
        return;
    };
    let (outside, tree) = (precious(&site.lab), site.lab.fresh("tree"));
    fs::create_dir_all(tree.join("dir")).expect("directories");
    symlink(&outside, tree.join("dir/link")).expect("a link");
    symlink(outside.join("below/file"), tree.join("dir/to-file")).expect("a link");
    symlink(".", tree.join("dir/loop")).expect("a link");
    symlink("nowhere", tree.join("dir/dangling")).expect("a link");
    pipe(&tree.join("dir/pipe"));
    let _socket = UnixListener::bind(tree.join("dir/socket")).expect("a socket");
    site.lab.run_client("rm", &["-r", text(&tree)]).succeeded();
    assert!(!tree.exists());
    assert_eq!(visible(&outside), ["below/file"]);
    // The link itself is what the command line names, with -r and without.
    for (name, arguments) in [("one", &["-r"][..]), ("two", &[])] {
        let link = site.lab.fresh(name);
        symlink(&outside, &link).expect("a link");
        let all = [arguments, &[text(&link)]].concat();
        site.lab.run_client("rm", &all).succeeded();
        assert!(link.symlink_metadata().is_err());
        assert_eq!(visible(&outside), ["below/file"]);
    }
    let (link, moved) = (site.lab.fresh("link"), site.lab.fresh("moved"));
    symlink(&outside, &link).expect("a link");
    site.lab.run_client("mv", &[text(&link), text(&moved)]).succeeded();
    assert!(moved.is_symlink() && outside.is_dir());
}

#[test]
fn a_link_on_a_server_is_removed_and_its_target_stays() {
    let Some(site) = available("a_link_on_a_server_is_removed_and_its_target_stays", site()) else {
        return;
    };
    site.compare(|lab, server| {
        for (protocol, url) in [("http", server.davs("")), ("root", server.root(""))] {
            let names = [format!("keep-{protocol}"), format!("tree-{protocol}")];
            server.put(&format!("{}/below/file", names[0]), b"precious");
            server.put(&format!("{}/dir/plain", names[1]), b"x");
            let tree = server.data().join(&names[1]);
            let link = tree.join("dir/link");
            symlink(format!("../../{}", names[0]), &link).expect("a link");
            symlink(".", tree.join("dir/loop")).expect("a link");
            let removed = lab.run_client("rm", &["-r", &format!("{url}{}", names[1])]);
            assert_eq!(visible(&server.data().join(&names[0])), ["below/file"]);
            if !server.is_ours() {
                // XRootD 5.5 removes no link to a directory over HTTP, and no `loop` over its own
                // protocol: they stay, and the command says so.
                assert!(removed.code != Some(0) && tree.exists(), "{}", removed.said());
                assert!(removed.stderr.contains("not a directory"), "{}", removed.said());
                continue;
            }
            removed.succeeded();
            assert!(!tree.exists());
        }
    });
}

#[test]
fn a_local_tree_is_copied_without_what_its_links_lead_to() {
    let Some(site) = available("a_local_tree_is_copied_without_what_its_links_lead_to", site()) else {
        return;
    };
    let (outside, tree) = (precious(&site.lab), site.lab.fresh("tree"));
    fs::create_dir_all(tree.join("dir")).expect("directories");
    fs::write(tree.join("dir/plain"), b"x").expect("a file");
    symlink(&outside, tree.join("dir/link")).expect("a link");
    symlink(".", tree.join("dir/loop")).expect("a link");
    symlink("nowhere", tree.join("dir/dangling")).expect("a link");
    pipe(&tree.join("dir/pipe"));
    let _socket = UnixListener::bind(tree.join("dir/socket")).expect("a socket");
    let wanted = [
        ("dangling", "symbolic_link"),
        ("link", "symbolic_link"),
        ("loop", "symbolic_link"),
        ("pipe", "pipe"),
        ("socket", "socket"),
    ];
    let wanted: Vec<_> = wanted.map(|(name, why)| (name.to_owned(), why.to_owned())).into();
    let local = site.lab.fresh("local");
    let server = site.ours();
    let targets = [text(&local).to_owned(), server.davs("up-http"), server.root("up-root")];
    for target in targets {
        let copied = site
            .lab
            .run_client("copy", &["-r", "--json", &format!("{}/", text(&tree)), &target]);
        let copied = copied.failed_with(1);
        assert_eq!(left_out(&copied), wanted, "{}", copied.said());
        for (name, _) in &wanted {
            assert!(copied.stderr.contains(&format!("dir/{name}")), "{}", copied.said());
        }
        let lines = json_lines(&copied);
        let summary = lines.last().expect("a summary");
        assert_eq!((&summary["files"], &summary["left_out"]), (&1.into(), &5.into()));
    }
    for copy in [&local, &server.data().join("up-http"), &server.data().join("up-root")] {
        assert_eq!(visible(copy), ["dir/plain"]);
    }
}

/// Elsewhere, a directory that lists the same as those above it is a loop.
#[test]
fn directories_that_look_alike_are_removed_all_the_same() {
    let test = "directories_that_look_alike_are_removed_all_the_same";
    let Some(site) = available(test, site()) else { return };
    let server = &site.first;
    for (scheme, url) in [("davs", server.davs("alike")), ("root", server.root("alike"))] {
        let top = server.data().join("alike").join(scheme);
        server.make_directory(&format!("alike/{scheme}/n/n/n/n/n/n"));
        let levels = (1..=6).map(|depth| top.join(vec!["n"; depth].join("/")));
        for directory in levels.collect::<Vec<_>>().into_iter().rev() {
            let opened = fs::File::open(directory).expect("it opens");
            opened.set_modified(std::time::UNIX_EPOCH).expect("its time is set");
        }
        site.lab
            .run_client("rm", &["-r", &format!("{url}/{scheme}")])
            .succeeded();
        assert!(!top.exists(), "{scheme}");
    }
}

/// A local tree with links of all kinds, to what is in it and outside of it.
fn linked_tree(lab: &Lab, outside: &Path) -> std::path::PathBuf {
    let tree = lab.fresh("linked");
    fs::create_dir_all(tree.join("dir/deep")).expect("directories");
    fs::write(tree.join("dir/deep/plain"), b"x").expect("a file");
    for (name, target) in [
        ("to-dir", Path::new("dir")),
        ("dir/to-file", Path::new("deep/plain")),
        ("dir/deep/up", Path::new("..")),
        ("dir/self", Path::new(".")),
        ("out", outside),
        ("dir/out-file", &outside.join("below/file")),
        ("dead", Path::new("nowhere")),
        ("knot", Path::new("knot")),
    ] {
        symlink(target, tree.join(name)).expect("a link");
    }
    tree
}

#[test]
fn links_are_copied_as_links_if_the_user_wants_it() {
    let Some(site) = available("links_are_copied_as_links_if_the_user_wants_it", site()) else {
        return;
    };
    let outside = precious(&site.lab);
    let (tree, copy) = (linked_tree(&site.lab, &outside), site.lab.fresh("copy"));
    let source = format!("{}/", text(&tree));
    let arguments = ["-r", "--links", "copy", "--json", &source, text(&copy)];
    for (files, skipped) in [(9, 0), (0, 9)] {
        let copied = site.lab.run_client("copy", &arguments).succeeded();
        let summary = conformance::last_json(&copied);
        let found = (&summary["files"], &summary["skipped"], &summary["left_out"]);
        assert_eq!(found, (&files.into(), &skipped.into(), &0.into()));
    }
    for name in [
        "to-dir",
        "dir/to-file",
        "dir/deep/up",
        "dir/self",
        "out",
        "dir/out-file",
        "dead",
        "knot",
    ] {
        let leads_to = |tree: &Path| fs::read_link(tree.join(name)).expect("a link");
        assert_eq!(leads_to(&copy), leads_to(&tree), "{name}");
    }
    // Another link in its place is no error of the tree only if it may be replaced.
    fs::remove_file(copy.join("out")).expect("it goes");
    symlink("elsewhere", copy.join("out")).expect("a link");
    site.lab.run_client("copy", &arguments).failed_with(1);
    site.lab
        .run_client("copy", &[&arguments[..], &["--update"]].concat())
        .succeeded();
    assert_eq!(fs::read_link(copy.join("out")).expect("a link"), outside);
    assert_eq!(visible(&outside), ["below/file"]);
    let server = site.ours();
    let up = site.lab.run_client(
        "copy",
        &["-r", "--links", "copy", "--json", &source, &server.davs("links-up")],
    );
    assert_eq!(left_out(&up.failed_with(1)).len(), 8);
}

#[test]
fn links_are_followed_within_the_tree_only() {
    let Some(site) = available("links_are_followed_within_the_tree_only", site()) else {
        return;
    };
    let outside = precious(&site.lab);
    let (tree, copy) = (linked_tree(&site.lab, &outside), site.lab.fresh("copy"));
    let source = format!("{}/", text(&tree));
    let server = site.ours();
    for target in [
        text(&copy).to_owned(),
        server.davs("follow-http"),
        server.root("follow-root"),
    ] {
        let copied = site
            .lab
            .run_client("copy", &["-r", "--links", "follow", "--json", &source, &target]);
        let copied = copied.failed_with(1);
        let mut why = left_out(&copied);
        why.dedup();
        let wanted = [
            ("dead", "dead_link"),
            ("knot", "dead_link"),
            ("out", "link_out"),
            ("out-file", "link_out"),
            ("self", "loop"),
            ("up", "loop"),
        ];
        assert_eq!(
            why,
            wanted.map(|(name, why)| (name.to_owned(), why.to_owned())),
            "{}",
            copied.said()
        );
    }
    let whole = ["dir/deep/plain", "dir/to-file", "to-dir/deep/plain", "to-dir/to-file"];
    for copy in [
        &copy,
        &server.data().join("follow-http"),
        &server.data().join("follow-root"),
    ] {
        assert_eq!(visible(copy), whole);
        assert_eq!(fs::read(copy.join("to-dir/to-file")).expect("it"), b"x");
    }
}

#[test]
fn a_copy_writes_through_no_link_of_its_local_destination() {
    let Some(site) = available("a_copy_writes_through_no_link_of_its_local_destination", site()) else {
        return;
    };
    let server = site.ours();
    server.put("through/dir/file", b"new");
    server.put("through/file", b"new");
    server.put("through/part", b"new");
    let target = server.data().join("through");
    for source in [text(&target).to_owned(), server.davs("through"), server.root("through")] {
        let (outside, back) = (precious(&site.lab), site.lab.fresh("back"));
        let below = back.join("through");
        fs::create_dir_all(&below).expect("a directory");
        symlink(&outside, below.join("dir")).expect("a link");
        symlink(outside.join("below/file"), below.join("file")).expect("a link");
        symlink(outside.join("below/file"), below.join(".part.crossload-part")).expect("a link");
        let copied = site.lab.run_client("copy", &["-r", "-f", &source, text(&back)]);
        assert_ne!(copied.code, Some(0), "{}", copied.said());
        let replaced = fs::read(below.join("file")).expect("a file in place of the link");
        assert_eq!(replaced, b"new", "{}", copied.said());
        assert_eq!(visible(&outside), ["below/file"], "{}", copied.said());
        assert_eq!(fs::read(outside.join("below/file")).expect("it"), b"precious");
    }
}

/// What a server shows as a tree without an end is copied once, and named.
#[test]
fn a_loop_on_a_server_is_not_copied_again_and_again() {
    let Some(site) = available("a_loop_on_a_server_is_not_copied_again_and_again", site()) else {
        return;
    };
    site.compare(|lab, server: &Endpoint| {
        server.put("circle/dir/plain", b"x");
        server.put("circle/other/plain", b"y");
        let tree = server.data().join("circle");
        symlink(".", tree.join("dir/loop")).expect("a link");
        symlink("..", tree.join("other/up")).expect("a link");
        for url in [server.davs("circle/"), server.root("circle/")] {
            let local = lab.fresh("local");
            let copied = lab.run_client("copy", &["-r", "--json", &url, text(&local)]);
            let copied = copied.failed_with(1);
            assert!(
                left_out(&copied).contains(&("loop".to_owned(), "loop".to_owned())),
                "{}",
                copied.said()
            );
            let files = visible(&local);
            assert!(files.contains(&"dir/plain".to_owned()) && files.contains(&"other/plain".to_owned()));
            assert!(files.len() < 10, "{files:?}");
        }
        fs::remove_dir_all(&tree).expect("it goes");
    });
}

#[test]
fn a_name_that_is_not_utf_8_is_named_and_stops_nothing_else() {
    let Some(site) = available("a_name_that_is_not_utf_8_is_named_and_stops_nothing_else", site()) else {
        return;
    };
    let (tree, copy) = (site.lab.fresh("tree"), site.lab.fresh("copy"));
    let odd = tree.join("dir").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir_all(tree.join("dir")).expect("directories");
    fs::write(&odd, b"x").expect("a file");
    fs::write(tree.join("dir/plain"), b"x").expect("a file");
    let copied = site
        .lab
        .run_client("copy", &["-r", "--json", &format!("{}/", text(&tree)), text(&copy)])
        .failed_with(1);
    assert_eq!(left_out(&copied).len(), 1, "{}", copied.said());
    assert_eq!(visible(&copy), ["dir/plain"]);
    let removed = site.lab.run_client("rm", &["-r", text(&tree)]).failed_with(22);
    assert!(removed.stderr.contains("not UTF-8"), "{}", removed.said());
    assert!(odd.exists() && !tree.join("dir/plain").exists(), "{}", removed.said());
}

#[test]
fn a_directory_on_a_server_never_looks_emptier_than_it_is() {
    let Some(site) = available("a_directory_on_a_server_never_looks_emptier_than_it_is", site()) else {
        return;
    };
    let server = &site.first;
    let directory = server.data().join("strange");
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join(OsStr::from_bytes(b"odd\xff")), b"x").expect("a file");
    let says = "1 name that no path can hold";
    for url in [server.davs("strange"), server.root("strange")] {
        let listed = site.lab.run_client("ls", &[&url]).succeeded();
        assert!(listed.stderr.contains(says), "{}", listed.said());
        let copy = site.lab.fresh("copy");
        let copied = site.lab.run_client("copy", &["-r", "--json", &url, text(&copy)]);
        let copied = copied.failed_with(1);
        assert_eq!(left_out(&copied), [("strange".to_owned(), "unlisted".to_owned())]);
        let dry = site.lab.run_client("copy", &["-r", "--dry-run", &url, text(&copy)]);
        assert_eq!(dry.code, Some(1), "{}", dry.said());
        let removed = site.lab.run_client("rm", &["-r", &url]);
        assert!(
            removed.stderr.contains("not empty") && removed.stderr.contains(says) && directory.exists(),
            "{}",
            removed.said()
        );
        let dry = site.lab.run_client("rm", &["-r", "--dry-run", &url]);
        assert!(dry.stderr.contains(says), "{}", dry.said());
        assert_ne!(dry.code, Some(0), "{}", dry.said());
    }
    let davix = site.lab.davix("ls", &[&server.davs("strange")]).succeeded();
    assert_eq!(davix.text(), "");
    let xrdfs = site.lab.xrdfs(server, &["ls", "/data/strange"]);
    assert_eq!(xrdfs.succeeded().text(), "");
    let told = |line: &Value| {
        line["event"] == "names_unlisted" && line["path"].as_str().is_some_and(|path| path.ends_with("strange"))
    };
    let lines: Vec<_> = conformance::log_lines(server_log(server))
        .into_iter()
        .filter(told)
        .collect();
    assert_eq!(lines.len(), 1, "once, however often it is listed: {lines:?}");
    assert_eq!(
        (&lines[0]["names"], &lines[0]["example"]),
        (&1.into(), &r"odd\xff".into())
    );
}

#[test]
fn links_that_lead_nowhere_are_told_and_can_be_removed_by_name() {
    let name = "links_that_lead_nowhere_are_told_and_can_be_removed_by_name";
    let Some(site) = available(name, site()) else { return };
    let server = &site.first;
    let directory = server.data().join("dangling");
    let says = "1 symbolic link that leads nowhere or out of the export";
    for url in [server.davs("dangling"), server.root("dangling")] {
        fs::create_dir(&directory).expect("a directory");
        symlink("gone", directory.join("dead")).expect("a link");
        let listed = site.lab.run_client("ls", &[&url]).succeeded();
        assert!(listed.stderr.contains(says), "{}", listed.said());
        let copy = site.lab.fresh("copy");
        let copied = site.lab.run_client("copy", &["-r", "--json", &url, text(&copy)]);
        assert_eq!(
            left_out(&copied.failed_with(1)),
            [("dangling".to_owned(), "unlisted".to_owned())]
        );
        let removed = site.lab.run_client("rm", &["-r", &url]);
        assert_ne!(removed.code, Some(0), "{}", removed.said());
        assert!(removed.stderr.contains(says), "{}", removed.said());
        site.lab.run_client("rm", &[&format!("{url}/dead")]).succeeded();
        site.lab.run_client("rm", &["-r", &url]).succeeded();
        assert!(!directory.exists());
    }
    let told = |line: &Value| line["event"] == "links_unlisted" && line["example"] == "dead" && line["links"] == 1;
    let lines = conformance::log_lines(server_log(server));
    assert_eq!(lines.into_iter().filter(told).count(), 1, "once for each directory");
}
