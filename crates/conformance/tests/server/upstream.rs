//! A data transfer node: exports whose files are on another server, in front of XRootD, nginx and
//! one of ours, over both protocols and for the clients of the field.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{Lab, Reply, Scripted, Slot, adler32, bytes, last_line, requests, run, shared, tree, until};
use testkit::{
    Access, Crossload, Direction, Fault, Nginx, NginxOptions, Relay, Result, TokenIssuer, Xrootd, XrootdAccess,
    available, require_python,
};

/// More than a window, a pooled buffer and a request of the XRootD protocol.
const SIZE: usize = 9_000_001;
/// More than may come before its turn, and than two streams take at once.
const IN_BLOCKS: usize = 50_000_000;
/// How soon something must have happened.
const SOON: Duration = Duration::from_secs(20);

struct Node {
    lab: Lab,
    node: Crossload,
    behind: Behind,
}

/// The servers behind it.
struct Behind {
    xrootd: Xrootd,
    nginx: Nginx,
    ours: Crossload,
    /// In front of ours.
    relay: Relay,
}

static NODE: Slot<Node> = Slot::new(Weak::new());

fn export(path: &str, url: &str) -> String {
    format!("[[export]]\npath = \"/{path}\"\nremote = \"{url}\"\nanonymous = \"write\"\nrecursive_delete = true\n")
}

/// A node with these exports and no others.
fn node_with(lab: &Lab, name: &str, exports: String) -> Crossload {
    let mut options = lab.options(name);
    options.exports.clear();
    options.more = exports;
    lab.crossload(options).expect("a node")
}

fn node() -> Result<Arc<Node>> {
    shared(&NODE, || {
        let lab = Lab::new("upstream")?;
        let xrootd = lab.xrootd("behind", XrootdAccess::Open)?;
        let own = lab.fresh("nginx");
        let nginx = Nginx::start(&NginxOptions {
            name: "nginx".to_owned(),
            data: own.join("files/data"),
            directory: own,
            certificate: lab.host().clone(),
        })?;
        let ours = lab.crossload(lab.options("ours"))?;
        let relay = Relay::start(([127, 0, 0, 1], ours.port()).into())?;
        let broken = format!("http://localhost:{}/data", relay.address().port());
        let mut options = lab.options("node");
        options.exports.clear();
        for (path, url) in [
            ("xrootd", xrootd.root_url("/data")),
            ("xrootd-http", xrootd.url("/data")),
            ("nginx", nginx.url("/data")),
            ("ours", ours.url("/data")),
            ("ours-root", ours.root_url("/data")),
            ("broken", broken.clone()),
            (
                "broken-root",
                broken.replace("http:", "root:").replace("/data", "//data"),
            ),
        ] {
            options.more.push_str(&export(path, &url));
        }
        let local = lab.fresh("local");
        std::fs::create_dir(&local)?;
        let local = format!("[[export]]\npath = \"/local\"\ndirectory = {local:?}\nanonymous = \"write\"\n");
        options.more.push_str(&local);
        let node = lab.crossload(options)?;
        let behind = Behind {
            xrootd,
            nginx,
            ours,
            relay,
        };
        Ok(Node { lab, node, behind })
    })
}

/// An export of the node, and what the server behind it has.
struct Place<'a> {
    of: &'a Node,
    export: &'static str,
    stored: &'a Path,
    /// Whether the server lists directories.
    lists: bool,
}

impl Node {
    fn places(&self) -> [Place<'_>; 5] {
        let behind = &self.behind;
        let place = |export, stored, lists| Place {
            of: self,
            export,
            stored,
            lists,
        };
        [
            place("xrootd", behind.xrootd.data(), true),
            place("xrootd-http", behind.xrootd.data(), true),
            place("nginx", behind.nginx.data(), false),
            place("ours", behind.ours.data(), true),
            place("ours-root", behind.ours.data(), true),
        ]
    }
}

impl Place<'_> {
    fn path(&self, name: &str) -> String {
        format!("/{}/{}-{name}", self.export, self.export)
    }

    fn url(&self, name: &str) -> String {
        self.of.node.url(&self.path(name))
    }

    fn root(&self, name: &str) -> String {
        self.of.node.root_url(&self.path(name))
    }

    /// The host and port of the server behind.
    fn host(&self) -> String {
        let behind = &self.of.behind;
        let url = match self.export {
            "xrootd" => behind.xrootd.root_url(""),
            "xrootd-http" => behind.xrootd.url(""),
            "nginx" => behind.nginx.url(""),
            _ => behind.ours.url(""),
        };
        let host = url.split('/').nth(2).expect("a host");
        host.to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stored.join(format!("{}-{name}", self.export))
    }

    #[track_caller]
    fn demand(&self, name: &str, content: &[u8]) {
        let stored = std::fs::read(self.file(name)).unwrap_or_default();
        assert!(stored == content, "{}: {name} has {} bytes", self.export, stored.len());
    }
}

#[test]
fn files_go_through_both_doors_to_every_server() {
    let Some(node) = available("files_go_through_both_doors_to_every_server", node()) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(SIZE, 1));
    let sum = format!("adler32={:08x}", adler32(&content));
    let source = lab.file(&content);
    let source = source.to_str().expect("plain");
    for place in node.places() {
        let url = |name: &str| place.url(name);
        // Up, over HTTP and the XRootD protocol, of known and unknown length, and empty.
        lab.upload(&url("deep/put"), &content, &[]).expect(201);
        place.demand("deep/put", &content);
        lab.upload(&url("empty"), b"", &[]).expect(201);
        place.demand("empty", b"");
        lab.xrdcp(&["-f", source, &place.root("xrdcp")]).succeeded();
        place.demand("xrdcp", &content);
        // Down: whole, a range, several.
        assert!(
            lab.curl(&[&url("xrdcp")]).expect(200).body == content,
            "{}",
            place.export
        );
        let part = lab.curl(&["-r", "1000000-2999999", &url("xrdcp")]).expect(206);
        assert!(part.body == content[1_000_000..3_000_000], "{}", place.export);
        let parts = lab
            .curl(&["-r", "5-104,8000000-8000099", &url("xrdcp")])
            .expect(206)
            .body;
        let has = |wanted: &[u8]| parts.windows(wanted.len()).any(|seen| seen == wanted);
        assert!(
            has(&content[5..105]) && has(&content[8_000_000..8_000_100]),
            "{}",
            place.export
        );
        let down = lab.fresh("down");
        lab.xrdcp(&["-f", &place.root("deep/put"), down.to_str().expect("plain")])
            .succeeded();
        assert!(std::fs::read(&down).expect("it came") == content, "{}", place.export);
        let told = lab
            .curl(&["-I", "-H", "Want-Digest: adler32", &url("xrdcp")])
            .expect(200);
        assert_eq!(told.header("digest"), Some(sum.as_str()), "{}", place.export);
        // A file that must not be replaced, and one that is.
        lab.upload(&url("xrdcp"), b"other", &["If-None-Match: *"]).expect(412);
        lab.upload(&url("xrdcp"), b"other", &[]).expect(204);
        place.demand("xrdcp", b"other");
    }
}

#[test]
fn names_are_made_listed_renamed_and_removed_on_every_server() {
    let Some(node) = available("names_are_made_listed_renamed_and_removed_on_every_server", node()) else {
        return;
    };
    let lab = &node.lab;
    for place in node.places() {
        let url = |name: &str| place.url(name);
        lab.request("MKCOL", &url("dir"), &[]).expect(201);
        lab.request("MKCOL", &url("dir"), &[]).expect(405);
        lab.upload(&url("dir/a%20b%25"), b"content", &[]).expect(201);
        place.demand("dir/a b%", b"content");
        if place.lists {
            let listed = lab.request("PROPFIND", &url("dir"), &["Depth: 1"]).expect(207).text();
            assert!(listed.contains("a%20b%25") && listed.contains(">7<"), "{listed}");
            lab.request("DELETE", &url("dir"), &["Depth: 0"]).expect(409);
        }
        let to = format!("Destination: {}", url("dir/moved"));
        lab.request("MOVE", &url("dir/a%20b%25"), &[&to]).expect(201);
        place.demand("dir/moved", b"content");
        let missing = lab.curl(&[&url("dir/a%20b%25")]).expect(404).text();
        let host = place.host();
        assert!(
            missing.starts_with("upstream ") && missing.contains(&host),
            "{host}: {missing}"
        );
        let missing = lab.xrdcp(&[&place.root("dir/none"), "-"]).said();
        assert!(
            missing.contains("[3011]") && missing.contains("upstream ") && missing.contains(&host),
            "{host}: {missing}"
        );
        let path = place.path("dir/none");
        until("the log names the server behind", SOON, || {
            let lines = requests(node.node.log());
            let mut about = lines.iter().filter(|line| line["path"] == path.as_str());
            about.any(|line| line["method"] == "open" && line["error"]["side"] == "upstream")
        });
        lab.request("DELETE", &url("dir/moved"), &[]).expect(204);
        lab.request("DELETE", &url("dir/moved"), &[]).expect(404);
        if place.lists {
            lab.request("DELETE", &url("dir"), &[]).expect(204);
            assert!(!place.file("dir").exists(), "{}", place.export);
            lab.upload(&url("tree/x/y"), b"y", &[]).expect(201);
            lab.request("DELETE", &url("tree"), &[]).expect(204);
            assert!(!place.file("tree").exists(), "{}", place.export);
        }
    }
}

/// COPY within an export of another server, and between it and a directory; for clients of the
/// XRootD protocol a third-party copy whose ends are both here.
#[test]
fn files_are_copied_within_and_between_exports_of_every_server() {
    let Some(node) = available("files_are_copied_within_and_between_exports_of_every_server", node()) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(SIZE, 11));
    let copy = |from: &str, to: &str, more: &[&str]| {
        let to = format!("Destination: {to}");
        lab.request("COPY", from, &[&[to.as_str()], more].concat())
    };
    for place in node.places() {
        let (export, url) = (place.export, |name: &str| place.url(name));
        let local = |name: &str| node.node.url(&format!("/local/{export}-{name}"));
        lab.upload(&url("copy/from"), &content, &[]).expect(201);
        copy(&url("copy/from"), &url("copy/to"), &[]).expect(201);
        place.demand("copy/to", &content);
        copy(&url("copy/from"), &url("copy/to"), &["Overwrite: F"]).expect(412);
        copy(&url("copy/from"), &url("copy/from"), &[]).expect(403);
        copy(&url("copy/none"), &url("copy/to"), &[]).expect(404);
        // No directory is made for it (RFC 4918 §9.8.5).
        copy(&url("copy/from"), &url("copy/none/to"), &[]).expect(409);
        let to = format!("Destination: {}", url("copy/none/to"));
        lab.request("MOVE", &url("copy/to"), &[&to]).expect(409);
        assert!(!place.file("copy/none").exists(), "{export}");
        copy(&url("copy/from"), &local("copied"), &[]).expect(201);
        copy(&local("copied"), &url("copy/to"), &[]).expect(204);
        place.demand("copy/to", &content);
        assert!(lab.curl(&[&local("copied")]).expect(200).body == content, "{export}");
        let root = node.node.root_url(&format!("/local/{export}-xrdcp"));
        lab.xrdcp(&["--tpc", "only", "-f", &place.root("copy/from"), &root])
            .succeeded();
        assert!(lab.curl(&[&local("xrdcp")]).expect(200).body == content, "{export}");
        if place.lists {
            lab.upload(&url("copy/deep/er"), b"deep", &[]).expect(201);
            copy(&url("copy/deep"), &url("copy/none/dir"), &[]).expect(409);
            copy(&url("copy"), &url("copy2"), &[]).expect(201);
            place.demand("copy2/from", &content);
            place.demand("copy2/deep/er", b"deep");
            copy(&url("copy"), &url("copy/in"), &[]).expect(403);
            copy(&url("copy2"), &local("tree"), &[]).expect(201);
            assert_eq!(lab.curl(&[&local("tree/deep/er")]).expect(200).body, b"deep");
        }
    }
}

/// The server behind has a link, so one directory has two names.
#[test]
fn a_copy_onto_its_source_under_another_name_costs_no_file() {
    let test = "a_copy_onto_its_source_under_another_name_costs_no_file";
    let Some(node) = available(test, node()) else { return };
    let lab = &node.lab;
    for place in node.places().iter().filter(|place| place.lists) {
        let (export, url) = (place.export, |name: &str| place.url(name));
        let on = |verb: &str, from: &str, to: &str| {
            let to = format!("Destination: {}", url(to));
            lab.request(verb, &url(from), &[&to])
        };
        for name in ["twin/deep/f", "twin/g", "old/h"] {
            lab.upload(&url(name), name.as_bytes(), &[]).expect(201);
        }
        for (name, above) in [("alias", ""), ("old/link", "../")] {
            let to = format!("{above}{export}-twin");
            std::os::unix::fs::symlink(to, place.file(name)).expect("a link");
        }
        let is_whole = |step: &str| {
            for name in ["twin/deep/f", "twin/g"] {
                let stored = std::fs::read(place.file(name)).unwrap_or_default();
                assert_eq!(stored, name.as_bytes(), "{export}: {step}: {name}");
            }
        };
        for (verb, from, to) in [
            ("COPY", "alias", "twin"),
            ("COPY", "alias/deep", "twin/deep"),
            ("MOVE", "alias", "twin"),
        ] {
            on(verb, from, to).expect(403);
            is_whole(&format!("{verb} {from} {to}"));
        }
        if export == "xrootd" {
            let direct = |name: &str| node.behind.xrootd.root_url(&format!("/data/xrootd-{name}"));
            let copied = lab.run_client("copy", &["-f", &direct("alias/g"), &direct("twin/g")]);
            assert!(
                copied.code != Some(0) && copied.said().contains("the same file"),
                "{}",
                copied.said()
            );
            is_whole("by our client");
        }
        // Our server says that it is one file.
        let copied = on("COPY", "alias/g", "twin/g").status;
        assert!([204, 403].contains(&copied), "{export}: {copied}");
        is_whole("a file");
        // What XRootD makes of a link differs between its protocols.
        on("COPY", "twin", "alias");
        is_whole("onto the link");
        on("COPY", "twin", "old");
        is_whole("over a tree with a link");
        place.demand("old/g", b"twin/g");
        lab.request("DELETE", &url("alias"), &[]);
        lab.request("DELETE", &url("old"), &[]);
        is_whole("a removed link");
    }
}

/// A copy that fails leaves the file that it was to replace, over every protocol.
#[test]
fn a_failed_copy_leaves_the_old_file() {
    let test = "a_failed_copy_leaves_the_old_file";
    let Some(node) = available(test, node()) else { return };
    let (lab, content) = (&node.lab, bytes(SIZE, 12));
    let ours = &node.behind.ours;
    // Stored with its checksum, so the copies are compared at their end.
    lab.upload(&ours.url("/data/breaks"), &content, &[]).expect(201);
    for place in node.places() {
        let relay = Relay::start(([127, 0, 0, 1], ours.port()).into()).expect("a relay");
        let port = relay.address().port();
        let web = format!("Source: http://localhost:{port}/data/breaks");
        let root = format!("root://localhost:{port}//data/breaks");
        lab.upload(&place.url("kept"), b"old", &[]).expect(201);
        relay.set_fault(Fault::FlipBitAfter(Direction::ToClient, 100_000), usize::MAX);
        let copied = lab.copy(&place.url("kept"), &web, &[]);
        assert!(
            !last_line(&copied).starts_with("success"),
            "{}: {}",
            place.export,
            copied.text()
        );
        place.demand("kept", b"old");
        // The key of such a copy opens the source once.
        relay.set_fault(Fault::CutAfter(Direction::ToClient, 500_000), usize::MAX);
        let copied = lab.xrdcp(&["-f", "--tpc", "only", &root, &place.root("kept")]);
        assert_ne!(copied.code, Some(0), "{}: {}", place.export, copied.said());
        place.demand("kept", b"old");
        relay.heal();
        let copied = lab.copy(&place.url("kept"), &web, &[]);
        assert_eq!(
            last_line(&copied),
            "success: Created",
            "{}: {}",
            place.export,
            copied.text()
        );
        place.demand("kept", &content);
        let beside = tree(place.stored).into_iter().map(|(name, _)| name);
        let beside: Vec<String> = beside
            .filter(|name| name.contains(".copied-") && name.contains("kept"))
            .collect();
        // One that its server still takes for open is tried again after some seconds.
        until("the failed copies are removed", 6 * SOON, || {
            lab.curl(&[&place.url("kept")]).expect(200);
            beside.iter().all(|name| !place.stored.join(name).exists())
        });
    }
}

/// The server behind dies between two names of a MOVE, or with its answer, and the node with it.
#[test]
fn a_move_that_a_killed_node_has_begun_loses_no_directory() {
    let test = "a_move_that_a_killed_node_has_begun_loses_no_directory";
    let Some(node) = available(test, node()) else { return };
    let (lab, ours) = (&node.lab, &node.behind.ours);
    let relay = Relay::start(([127, 0, 0, 1], ours.port()).into()).expect("a relay");
    let far = format!("http://localhost:{}/data", relay.address().port());
    let mut killed = node_with(lab, "killed", export("far", &far));
    let url = |name: &str| format!("/far/killed/{name}");
    for (dies_at, left) in [("MOVE /data/killed/old ", b"old"), ("MOVE /data/killed/new ", b"new")] {
        let _ = std::fs::remove_dir_all(ours.data().join("killed"));
        for (name, content) in [("old/f", b"old"), ("new/f", b"new")] {
            lab.upload(&ours.url(&format!("/data/killed/{name}")), content, &[])
                .expect(201);
        }
        let to = format!("Destination: {}", url("old"));
        relay.set_fault(Fault::DieAt(dies_at), 1);
        let moved = lab.request("MOVE", &killed.url(&url("new")), &[&to]);
        assert!(moved.status >= 500, "{dies_at}: {}", moved.status);
        killed.process().kill_hard();
        relay.heal();
        killed.start_again().expect("it starts");
        let found = lab.curl(&[&killed.url(&url("old/f"))]).expect(200).body;
        assert_eq!(found, left, "{dies_at}");
        until("no other name is left", SOON, || {
            let names = tree(&ours.data().join("killed")).into_iter().map(|(name, _)| name);
            !names.into_iter().any(|name| name.contains(".replaced-"))
        });
    }
    // The answer alone is lost.
    lab.upload(&ours.url("/data/killed/f"), b"f", &[]).expect(201);
    let (to, struck) = (format!("Destination: {}", url("g")), relay.struck());
    relay.set_fault(Fault::DieAt("MOVE /data/killed/f "), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("the answer is lost", SOON, || relay.struck() > struck);
            relay.heal();
        });
        lab.request("MOVE", &killed.url(&url("f")), &[&to]).expect(201);
    });
    assert!(ours.data().join("killed/g").exists());
}

#[test]
fn clients_of_the_field_use_a_node_as_any_endpoint() {
    let test = "clients_of_the_field_use_a_node_as_any_endpoint";
    let Some(node) = available(test, node()) else { return };
    let Some(python) = available(test, require_python("uproot")) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(3_000_000, 2));
    let source = format!("file://{}", lab.file(&content).display());
    let made = lab.fresh("made.root");
    let script = |arguments: &[&str]| {
        let mut command = lab.prepared(&python);
        command
            .env("SSL_CERT_FILE", lab.authority().ca_file())
            .env("NO_PROXY", "localhost")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/rootfile.py"))
            .args(arguments);
        run(&command).succeeded()
    };
    script(&["make", made.to_str().expect("plain")]);
    for place in node.places().iter().filter(|place| place.lists) {
        // gfal takes seconds to start, so it sees each door and each protocol behind once.
        let gfal = match place.export {
            "xrootd" => Some(("gfal", place.url("gfal").replace("https:", "davs:"))),
            "ours" => Some(("gfal-root", place.root("gfal-root"))),
            _ => None,
        };
        if let Some((name, url)) = gfal {
            lab.gfal("copy", &["-f", "-K", "adler32", &source, &url]).succeeded();
            place.demand(name, &content);
            lab.gfal("rm", &[&url]).succeeded();
        }
        std::fs::copy(&made, place.file("events.root")).expect("copied");
        script(&["read", &place.root("events.root"), "xrootd"]);
        script(&["read", &place.of.node.clear_url(&place.path("events.root")), "http"]);
    }
}

/// Writes a file from its end to its beginning: more than may come before its turn elsewhere.
const BACKWARDS: &str = "
import sys
from XRootD import client
from XRootD.client.flags import OpenFlags
content = open(sys.argv[2], 'rb').read()
file, step = client.File(), 8 << 20
def demand(answer):
    assert answer[0].ok, answer[0].message
demand(file.open(sys.argv[1], OpenFlags.NEW | OpenFlags.UPDATE))
for start in reversed(range(0, len(content), step)):
    demand(file.write(content[start:start + step], start))
demand(file.close())
# A gap, and bytes that come twice.
for pieces in [[(b'x', 10)], [(b'xy', 0), (b'z', 1)]]:
    file = client.File()
    name = sys.argv[1] + '-odd-' + str(len(pieces))
    demand(file.open(name, OpenFlags.NEW | OpenFlags.UPDATE))
    answers = [file.write(data, offset) for data, offset in pieces] + [file.close()]
    assert not all(answer[0].ok for answer in answers), answers
";

/// XRootD takes bytes at any offset: those of several streams, and of clients that write in another
/// order.
#[test]
fn bytes_go_to_xrootd_in_any_order() {
    let test = "bytes_go_to_xrootd_in_any_order";
    let Some(node) = available(test, node()) else { return };
    let Some(python) = available(test, require_python("XRootD")) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(IN_BLOCKS, 8));
    let source = lab.file(&content);
    let other = lab.crossload(lab.options("blocks")).expect("it starts");
    for place in node
        .places()
        .iter()
        .filter(|place| ["xrootd", "ours-root"].contains(&place.export))
    {
        let pulled = format!("Source: {}", other.url(&format!("/data/{}", place.export)));
        std::fs::write(other.data().join(place.export), &content).expect("written");
        let copied = lab.copy(&place.url("blocks"), &pulled, &["X-Number-Of-Streams: 4"]);
        assert_eq!(last_line(&copied), "success: Created", "{}", copied.text());
        place.demand("blocks", &content);
        let range = format!("\"path\":\"/data/{}\",\"status\":206", place.export);
        until("several streams", SOON, || {
            other.log().stderr().matches(&range).count() > 1
        });
        let told = lab.request("HEAD", &place.url("blocks"), &["Want-Digest: adler32"]);
        let sum = format!("adler32={:08x}", adler32(&content));
        assert_eq!(told.header("digest"), Some(sum.as_str()), "{}", place.export);
        let mut backwards = lab.prepared(&python);
        backwards.args(["-c", BACKWARDS, &place.root("backwards")]).arg(&source);
        run(&backwards).succeeded();
        place.demand("backwards", &content);
        for odd in ["backwards-odd-1", "backwards-odd-2"] {
            until("nothing is left", SOON, || !place.file(odd).exists());
        }
        let source = source.to_str().expect("plain");
        lab.xrdcp(&["-f", "-S", "4", source, &place.root("streams")])
            .succeeded();
        place.demand("streams", &content);
    }
}

#[test]
fn third_party_copies_end_and_begin_at_every_server() {
    let Some(node) = available("third_party_copies_end_and_begin_at_every_server", node()) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(SIZE, 3));
    let other = lab.crossload(lab.options("other")).expect("it starts");
    std::fs::write(other.data().join("source"), &content).expect("written");
    let pulled = format!("Source: {}", other.url("/data/source"));
    for place in node.places() {
        let copied = lab.copy(&place.url("pulled"), &pulled, &["X-Number-Of-Streams: 4"]);
        assert_eq!(
            last_line(&copied),
            "success: Created",
            "{}: {}",
            place.export,
            copied.text()
        );
        place.demand("pulled", &content);
        let pushed = format!("Destination: {}", other.url(&format!("/data/from-{}", place.export)));
        let copied = lab.copy(&place.url("pulled"), &pushed, &[]);
        assert_eq!(
            last_line(&copied),
            "success: Created",
            "{}: {}",
            place.export,
            copied.text()
        );
        let stored = other.data().join(format!("from-{}", place.export));
        assert!(std::fs::read(stored).expect("stored") == content, "{}", place.export);
        let source = other.root_url("/data/source");
        lab.xrdcp(&["-f", "--tpc", "only", &source, &place.root("tpc")])
            .succeeded();
        place.demand("tpc", &content);
        let to = other.root_url("/data/to");
        lab.xrdcp(&["-f", "--tpc", "only", &place.root("tpc"), &to]).succeeded();
        assert!(
            std::fs::read(other.data().join("to")).expect("stored") == content,
            "{}",
            place.export
        );
    }
}

#[test]
fn a_server_that_dies_leaves_no_wrong_file_and_is_named() {
    let Some(node) = available("a_server_that_dies_leaves_no_wrong_file_and_is_named", node()) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(SIZE, 4));
    let (relay, stored) = (&node.behind.relay, node.behind.ours.data());
    std::fs::write(stored.join("whole"), &content).expect("written");
    std::fs::write(stored.join("old"), b"old").expect("written");
    for export in ["broken", "broken-root"] {
        let url = |name: &str| node.node.url(&format!("/{export}/{name}"));
        for bytes in [0, 1000, 3_000_000, SIZE as u64 - 10] {
            relay.set_fault(Fault::CutAfter(Direction::ToClient, bytes), usize::MAX);
            let down = lab.curl(&[&url("whole")]);
            // A download is resumed where it broke, some times.
            let is_whole = down.status == 200 && down.body == content;
            let is_begun = down.status == 200 && content.starts_with(&down.body);
            assert!(
                is_whole || is_begun || down.status == 502,
                "{export}: cut after {bytes}"
            );
            assert_eq!(is_whole, bytes > 1000, "{export}: cut after {bytes}: {}", down.status);
            relay.set_fault(Fault::CutAfter(Direction::ToTarget, bytes), usize::MAX);
            let up = lab.upload(&url("new"), &content, &[]);
            assert!((500..600).contains(&up.status), "{export}: {}", up.status);
            assert!(up.text().starts_with("upstream "), "{export}: {}", up.text());
            relay.heal();
            lab.curl(&[&url("new")]).expect(404);
        }
        relay.set_fault(Fault::CutAfter(Direction::ToClient, 0), usize::MAX);
        let broken = lab.curl(&[&url("whole")]).expect(502).text();
        assert!(
            broken.starts_with("upstream ") && broken.contains("localhost:"),
            "{broken}"
        );
        relay.heal();
        assert!(lab.curl(&[&url("whole")]).expect(200).body == content);
        until("the server behind removes what was not complete", SOON, || {
            let names: Vec<String> = tree(stored).into_iter().map(|(name, _)| name).collect();
            !names.iter().any(|name| name == "new")
        });
    }
}

#[test]
fn the_place_to_which_a_server_redirects_is_named_if_it_fails() {
    let test = "the_place_to_which_a_server_redirects_is_named_if_it_fails";
    let Some(lab) = available(test, Lab::new("upstream-redirects")) else {
        return;
    };
    let server = Scripted::start(|seen| Reply::whole(seen, "302 Found", &["Location: http://127.0.0.1:1/f"], b""));
    let node = node_with(&lab, "node", export("far", &server.url("/data")));
    let told = lab.curl(&[&node.url("/far/f")]).expect(502).text();
    let server = server.url("");
    let host = server.split('/').nth(2).expect("a host");
    assert!(told.contains(&format!("{host} redirected to 127.0.0.1:1")), "{told}");
    let told = lab.xrdcp(&[&node.root_url("/far/f"), "-"]).said();
    assert!(told.contains("redirected to 127.0.0.1:1"), "{told}");
}

/// What `/ready` says: its status, and the checks of exports by name.
fn ready(lab: &Lab, node: &Crossload) -> (u16, Vec<(String, bool, String)>) {
    let answer = lab.curl(&[&node.admin_url("/ready").expect("an admin door")]);
    let told: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let checks = told["checks"].as_array().expect("checks").iter();
    let exports = checks.filter(|check| text(&check["name"]).starts_with("export "));
    let each = exports.map(|check| (text(&check["name"]), check["ok"] == true, text(&check["says"])));
    (answer.status, each.collect())
}

#[test]
fn a_server_that_cannot_be_used_is_named_at_the_start_and_by_ready() {
    let test = "a_server_that_cannot_be_used_is_named_at_the_start_and_by_ready";
    let Some(lab) = available(test, Lab::new("upstream-trial")) else {
        return;
    };
    let behind = lab.crossload(lab.options("behind")).expect("a server");
    let relay = Relay::start(([127, 0, 0, 1], behind.port()).into()).expect("a relay");
    relay.set_fault(Fault::CutAfter(Direction::ToClient, 0), usize::MAX);
    let late = format!("http://localhost:{}/data", relay.port());
    let exports = export("late", &late) + &export("dead", "root://localhost:1//data");
    let node = node_with(&lab, "node", exports);
    let event = |event: &str, export: &str| {
        let log = node.log().stderr();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut lines = lines.filter(|line| line["event"] == event && line["export"] == export);
        lines.next()
    };
    for (path, code, next) in [
        ("/late", "upstream_unexpected", "check the port in remote"),
        ("/dead", "upstream_unreachable", "start it, correct remote"),
    ] {
        until("the log names the export", SOON, || {
            event("upstream_unusable", path).is_some()
        });
        let line = event("upstream_unusable", path).expect("a line");
        assert_eq!((&line["side"], &line["code"]), (&"upstream".into(), &code.into()));
        assert!(
            line["next"].as_str().is_some_and(|words| words.starts_with(next)),
            "{line}"
        );
    }
    // No export works.
    let (status, checks) = ready(&lab, &node);
    assert!(
        status == 503 && checks.iter().all(|(_, ok, _)| !ok),
        "{status} {checks:?}"
    );
    relay.heal();
    until("it works again", SOON, || event("upstream_usable", "/late").is_some());
    // One works: the server is ready, and says which does not.
    let (status, checks) = ready(&lab, &node);
    let told = |name: &str| checks.iter().find(|(of, ..)| of == name).expect("a check");
    let ((_, late_ok, _), (_, dead_ok, says)) = (told("export /late"), told("export /dead"));
    assert!(
        status == 200 && *late_ok && !dead_ok && says.contains("root://localhost:1//data"),
        "{status} {checks:?}"
    );
    let metrics = node.admin_url("/metrics").expect("an admin door");
    let metrics = lab.curl(&[&metrics]).expect(200).text();
    for (path, value) in [("late", 1), ("dead", 0)] {
        let mut lines = metrics.lines();
        let begin = format!("crossload_upstream_usable{{export=\"/{path}\"");
        let line = lines.find(|line| line.starts_with(&begin)).expect(path);
        assert!(line.ends_with(&format!(" {value}")), "{line}");
    }
}

/// Two nodes in front of one server, and a redirector in front of both.
#[test]
fn nodes_in_front_of_one_server_are_a_cluster() {
    let test = "nodes_in_front_of_one_server_are_a_cluster";
    let Some(lab) = available(test, Lab::new("upstream-cluster")) else {
        return;
    };
    let behind = lab.crossload(lab.options("behind")).expect("a server");
    let node = |name: &str| node_with(&lab, name, export("data", &behind.url("/data")));
    let mut nodes = [node("first"), node("second")];
    let urls = nodes.each_ref().map(|node| node.url(""));
    let redirector = lab
        .crossload(lab.options("redirector").redirecting_to(&urls))
        .expect("a redirector");
    let url = |name: &str| redirector.url(&format!("/data/{name}"));
    let content = bytes(SIZE, 8);
    std::fs::write(behind.data().join("old"), &content).expect("written");
    until("the redirector knows the nodes", SOON, || {
        let log = redirector.log().stderr();
        log.matches("\"event\":\"node_came\"").count() == nodes.len()
    });
    let source = lab.file(&content);
    let source = source.to_str().expect("plain");
    let works = |round: &str| {
        assert!(lab.curl(&["-L", &url("old")]).expect(200).body == content, "{round}");
        lab.curl(&["-L", "-T", source, &url(&format!("{round}-web"))])
            .expect(201);
        let root = |name: &str| redirector.root_url(&format!("/data/{round}-{name}"));
        lab.xrdcp(&["-f", source, &root("root")]).succeeded();
        let down = lab.fresh("down");
        lab.xrdcp(&["-f", &root("web"), down.to_str().expect("plain")])
            .succeeded();
        assert!(std::fs::read(&down).expect("it came") == content, "{round}");
        // A copy from the cluster into the cluster.
        lab.xrdcp(&["-f", "--tpc", "only", &root("web"), &root("tpc")])
            .succeeded();
        for name in ["web", "root", "tpc"] {
            let stored = std::fs::read(behind.data().join(format!("{round}-{name}")));
            assert!(stored.expect("stored") == content, "{round}: {name}");
        }
    };
    works("both");
    let listed = lab.request("PROPFIND", &url(""), &["Depth: 1"]).expect(207).text();
    assert_eq!(listed.matches("/data/old<").count(), 1, "{listed}");
    lab.request("DELETE", &url("both-root"), &[]).expect(204);
    assert!(!behind.data().join("both-root").exists());
    nodes[0].process().kill_hard();
    until("its death is noticed", SOON, || {
        let place = lab.request("GET", &url("old"), &[]);
        place
            .header("location")
            .is_some_and(|place| place.starts_with(&urls[1]))
    });
    works("one");
}

/// A decision about a file of the server behind is one verdict, which names who decided: `token` is
/// not for that server, which has refused the request `refused`.
fn is_explained(lab: &Lab, node: &Crossload, url: &str, token: &str, refused: &str) {
    let file = lab.file(token.as_bytes());
    let (file, ca) = (file.to_str().expect("plain"), lab.authority().ca_file());
    let ca = ca.to_str().expect("plain");
    let arguments = ["explain", "--op", "read", "--url", url, "--token", file, "--cacert", ca];
    let explained = run(&lab.client(arguments).expect("the client"));
    let told = explained.failed_with(13).text();
    assert!(
        told.contains("decision  refused, token_audience: the token is not for the upstream server")
            && !told.contains("decision  allowed"),
        "{told}"
    );
    let admin = node.admin_url("").expect("an admin door");
    let explained = run(&lab.client(["explain", refused, "--admin", &admin]).expect("the client"));
    let told = explained.succeeded().text();
    assert!(
        told.contains("decision  refused, forbidden: ") && told.contains("decided by the upstream server"),
        "{told}"
    );
}

/// An audience that means every server.
const ANY: &str = "https://wlcg.cern.ch/jwt/v1/any";

#[test]
fn each_client_gets_what_the_server_behind_gives_to_it_alone() {
    let test = "each_client_gets_what_the_server_behind_gives_to_it_alone";
    let Some((lab, issuer)) = available(
        test,
        Lab::new("upstream-clients").and_then(|lab| {
            let issuer = TokenIssuer::start(lab.authority())?;
            Ok((lab, issuer))
        }),
    ) else {
        return;
    };
    let believes = format!(
        "[[issuer]]\nurl = \"{}\"\nvo = \"wlcg\"\nbase_paths = [\"/\"]\n",
        issuer.url()
    );
    let rule = |who: &str| format!("[[rule]]\nwho = \"group:/wlcg/{who}\"\npath = \"/data/{who}\"\nmay = [\"all\"]\n");
    let mut options = lab.options("behind");
    options.exports[0].anonymous = Access::None;
    options.default_sessions = true;
    options.more = format!("{believes}{}{}", rule("alice"), rule("bob"));
    let behind = lab.crossload(options).expect("a server");
    let mut options = lab.options("node");
    options.exports.clear();
    options.default_sessions = true;
    options.more = believes;
    for (path, url) in [
        ("web", behind.url("/data")),
        ("root", behind.root_url("/data").replace("root:", "roots:")),
    ] {
        options.more.push_str(&export(path, &url));
        options.more.push_str("remote_identity = \"client\"\n");
    }
    let node = lab.crossload(options).expect("a node");
    let token = |who: &str, audience: &str| {
        let draft = issuer.token().audience(audience).scope("openid");
        draft.groups(&[&format!("/wlcg/{who}")]).mint()
    };
    let (alice, bob) = (token("alice", ANY), token("bob", ANY));
    let content = bytes(300_000, 5);
    for export in ["web", "root"] {
        std::fs::create_dir_all(behind.data().join("alice")).expect("made");
        let url = node.url(&format!("/{export}/alice/f"));
        let bearer = |token: &str| format!("Authorization: Bearer {token}");
        lab.upload(&url, &content, &[&bearer(&bob)]).expect(403);
        let stored = lab.upload(&url, &content, &[&bearer(&alice)]);
        assert!(matches!(stored.status, 201 | 204), "{export}: {}", stored.text());
        // One after the other, so that each finds what the other has left: connections, sums.
        for _ in 0..3 {
            assert!(
                lab.curl(&["-H", &bearer(&alice), &url]).expect(200).body == content,
                "{export}"
            );
            let refused = lab.curl(&["-H", &bearer(&bob), &url]).expect(403).text();
            assert!(!refused.contains(&bob), "{refused}");
            lab.curl(&[&url]).expect(403);
            let wish = ["Want-Digest: md5", &bearer(&alice)];
            assert!(lab.request("HEAD", &url, &wish).expect(200).header("digest").is_some());
            lab.request("HEAD", &url, &["Want-Digest: md5", &bearer(&bob)])
                .expect(403);
            lab.request("DELETE", &url, &[&bearer(&bob)]).expect(403);
        }
        let down = lab.fresh("down");
        let target = node.root_url(&format!("/{export}/alice/f")).replace("root:", "roots:");
        let arguments = ["-f", &target, down.to_str().expect("plain")];
        lab.xrdcp_with(&[("BEARER_TOKEN", &alice)], &arguments).succeeded();
        assert!(std::fs::read(&down).expect("it came") == content, "{export}");
        let refused = lab.xrdcp_with(&[("BEARER_TOKEN", &bob)], &arguments);
        assert!(refused.code != Some(0), "{export}: {}", refused.said());
        // A token for the node alone is not shown to the server behind it.
        let own = token("alice", &format!("https://localhost:{}", node.port()));
        let url = |name: &str| node.url(&format!("/{export}/alice/{name}"));
        let kept = lab
            .curl(&["-H", &bearer(&own), &url(&format!("{export}-own"))])
            .expect(401)
            .text();
        assert!(kept.contains("not for the upstream server"), "{export}: {kept}");
        let refused = lab.curl(&["-H", &bearer(&bob), &url("f")]).expect(403).text();
        is_explained(
            &lab,
            &node,
            &url("f"),
            &own,
            refused.split_whitespace().last().expect("an ID"),
        );
        lab.curl(&["-H", &bearer(&alice), &url(&format!("{export}-after"))])
            .expect(404);
        let logged = |name: &str| {
            let path = format!("/data/alice/{export}-{name}");
            requests(behind.log()).iter().any(|line| line["path"] == path.as_str())
        };
        until("logged", SOON, || logged("after"));
        assert!(!logged("own"), "{export}");
    }
}

#[test]
fn an_administrator_sees_what_is_behind_and_what_was_passed_on() {
    let Some(node) = available("an_administrator_sees_what_is_behind_and_what_was_passed_on", node()) else {
        return;
    };
    let (lab, content) = (&node.lab, bytes(100_000, 6));
    let place = &node.places()[3];
    lab.upload(&place.url("counted"), &content, &[]).expect(201);
    let metrics = node.node.admin_url("/metrics").expect("an admin door");
    let metrics = lab.curl(&[&metrics]).expect(200).text();
    let url = node.behind.ours.url("/data");
    let sent = metrics
        .lines()
        .find(|line| line.starts_with("crossload_upstream_bytes_total") && line.contains(&url) && line.contains("out"));
    let sent = sent.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(sent >= Some(100_000), "{metrics}");
    let file = lab.fresh("check.toml");
    let gone = export("gone", &url.replace("/data", "/none"));
    let dead = export("dead", "https://localhost:1/data");
    let hidden = export("hidden", &node.behind.xrootd.root_url("/hidden"));
    let whole = export("whole", &node.behind.xrootd.root_url("/"));
    let text = format!(
        "[trust]\nca_files = [{:?}]\nca_directories = []\nsystem = false\n{}{gone}{dead}{hidden}{whole}",
        lab.authority().ca_file(),
        export("ours", &url)
    );
    std::fs::write(&file, text).expect("written");
    let told = lab
        .run_client("check", &["--config", file.to_str().expect("plain")])
        .text();
    for words in [
        &format!("the upstream server {url} can be used: it has ranges and checksums ("),
        "upstream_no_directory: the upstream server has no",
        "upstream_unreachable: the upstream server https://localhost:1/data does not answer",
        "error    upstream_no_directory: the server does not export /hidden: ",
        "warning  upstream_no_directory: the server does not export /: ",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("upstream_denied"), "{told}");
}

/// The payload that a server has sent.
fn sent_bytes(lab: &Lab, server: &Crossload) -> u64 {
    let page = server.admin_url("/metrics").expect("an admin door");
    let text = lab.curl(&[&page]).expect(200).text();
    let values = text
        .lines()
        .filter(|line| line.starts_with("crossload_sent_bytes_total"));
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// A node with a cache, and one of our servers behind it.
fn cached_node() -> Result<(Lab, Crossload, Crossload)> {
    let lab = Lab::new("cached-upstream")?;
    let origin = lab.crossload(lab.options("origin"))?;
    let mut options = lab.options("node");
    options.exports.clear();
    let cache = lab.fresh("cache");
    for (path, url) in [("web", origin.url("/data")), ("xroot", origin.root_url("/data"))] {
        let cached = format!("cache_directory = {cache:?}\ncache_revalidate_after = \"1h\"\n");
        options.more.push_str(&(export(path, &url) + &cached));
    }
    let node = lab.crossload(options)?;
    Ok((lab, origin, node))
}

#[test]
fn a_cache_takes_each_block_once_from_the_server_behind_it() {
    let test = "a_cache_takes_each_block_once_from_the_server_behind_it";
    let Some((lab, origin, node)) = available(test, cached_node()) else {
        return;
    };
    let content = bytes(SIZE, 7);
    let file = origin.data().join("cached");
    std::fs::write(&file, &content).expect("written");
    let file = std::fs::File::options().write(true).open(file).expect("opened");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(1000);
    file.set_modified(long_ago).expect("dated");
    for path in ["/web/cached", "/xroot/cached"] {
        let read = || {
            let before = sent_bytes(&lab, &origin);
            assert!(lab.curl(&[&node.url(path)]).expect(200).body == content, "{path}");
            sent_bytes(&lab, &origin) - before
        };
        let cold = read();
        // What a download sends before it is given up is in it.
        let most = SIZE as u64 * 11 / 10;
        assert!((SIZE as u64..=most).contains(&cold), "{path}: {cold} of {SIZE}");
        until("all of it is stored", SOON, || read() == 0);
    }
    many_readers_cost_the_origin_one(&lab, &origin, &node);
}

/// What the origin sends for a cold file does not depend on how many clients read it.
fn many_readers_cost_the_origin_one(lab: &Lab, origin: &Crossload, node: &Crossload) {
    let content = bytes(4 * SIZE, 8);
    let file = origin.data().join("popular");
    std::fs::write(&file, &content).expect("written");
    let file = std::fs::File::options().write(true).open(file).expect("opened");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(1000);
    file.set_modified(long_ago).expect("dated");
    let before = sent_bytes(lab, origin);
    let places: Vec<_> = (0..8).map(|_| lab.fresh("read")).collect();
    let url = node.url("/web/popular");
    let mut readers = lab.command("curl").expect("curl");
    readers.args(["-sSf", "--parallel", "--parallel-immediate", "--max-time", "60"]);
    readers.arg("--cacert").arg(lab.authority().ca_file());
    for place in &places {
        readers.arg("-o").arg(place).arg(&url);
    }
    run(&readers).succeeded();
    for place in &places {
        assert!(std::fs::read(place).expect("read") == content);
    }
    let sent = sent_bytes(lab, origin) - before;
    // Each block once, and the answers' heads.
    let most = content.len() as u64 * 102 / 100;
    assert!(sent <= most, "{sent} of {}", content.len());
}
