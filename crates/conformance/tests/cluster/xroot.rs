//! A redirector of ours, used by XRootD's own clients of both releases and by ours, in front of
//! servers of ours and of XRootD.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use conformance::{Lab, Run, adler32, bytes, is_whole, requests, run, until};
use serde_json::Value;
use testkit::{Crossload, Result, Xrootd, XrootdAccess, XrootdCluster, XrootdVersion, available};

/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENTS: [XrootdVersion; 2] = [XrootdVersion::V5, XrootdVersion::V6];

/// Three servers of ours behind a redirector.
struct Site {
    lab: Lab,
    nodes: Vec<Crossload>,
    redirector: Crossload,
}

impl Site {
    fn start(scheme: &str) -> Result<Self> {
        for version in CLIENTS {
            version.require("xrdcp")?;
        }
        let lab = Lab::new("redirector")?;
        let nodes = ["n1", "n2", "n3"].map(|name| lab.crossload(lab.options(name)));
        let nodes = nodes.into_iter().collect::<Result<Vec<_>>>()?;
        let urls: Vec<String> = nodes
            .iter()
            .map(|node| format!("{scheme}://localhost:{}", node.port()))
            .collect();
        let redirector = lab.crossload(lab.options("redirector").redirecting_to(&urls))?;
        let mut site = Self { lab, nodes, redirector };
        site.sees(3)?;
        Ok(site)
    }

    /// Waits until the redirector has seen so many servers come since its start.
    fn sees(&mut self, count: usize) -> Result<()> {
        self.redirector.process().wait_for("the servers", PATIENCE, |process| {
            let came = process.stderr().matches("\"node_came\"").count();
            (came >= count).then_some(())
        })
    }

    fn url(&self, name: &str) -> String {
        self.redirector.root_url(&format!("/data/{name}"))
    }

    #[track_caller]
    fn xrdfs_of(&self, version: XrootdVersion, arguments: &[&str]) -> Run {
        let mut command = self.lab.xrootd_client(version, "xrdfs").expect("it is installed");
        command.arg(format!("root://localhost:{}", self.redirector.port()));
        run(command.args(arguments))
    }

    #[track_caller]
    fn xrdfs(&self, arguments: &[&str]) -> Run {
        self.xrdfs_of(XrootdVersion::V5, arguments)
    }

    fn stored(&self, name: &str) -> Vec<PathBuf> {
        let places = self.nodes.iter().map(|node| node.data().join(name));
        places.filter(|place| place.exists()).collect()
    }

    /// Where the redirector has sent clients, the earliest first.
    fn sent(&self) -> Vec<String> {
        let sent = requests(self.redirector.log()).into_iter();
        let node = |request: Value| Some(request.get("sent_to")?.as_str()?.to_owned());
        sent.filter_map(node).collect()
    }
}

/// Runs a check with both clients.
#[track_caller]
fn with_both(test: &str, check: impl Fn(&Site, XrootdVersion)) {
    if let Some(site) = available(test, Site::start("root")) {
        for version in CLIENTS {
            check(&site, version);
        }
    }
}

#[test]
fn files_go_up_and_down_through_a_redirector() {
    with_both("files_go_up_and_down_through_a_redirector", |site, version| {
        let content = bytes(300_000, 381);
        let local = site.lab.file(&content);
        let local = local.to_str().expect("plain");
        for number in 0..10 {
            let name = format!("{version:?}-{number}");
            let there = site.url(&name);
            site.lab
                .xrdcp_of(version, &["-C", "adler32:source", local, &there])
                .succeeded();
            assert_eq!(site.stored(&name).len(), 1, "{name}");
            let refused = site.lab.xrdcp_of(version, &[local, &there]);
            assert_ne!(refused.code, Some(0), "{}", refused.said());
            site.lab.xrdcp_of(version, &["-f", local, &there]).succeeded();
            assert_eq!(site.stored(&name).len(), 1, "{name} is replaced where it is");
            let down = site.lab.fresh("down");
            site.lab
                .xrdcp_of(
                    version,
                    &["-C", "adler32:source", &there, down.to_str().expect("plain")],
                )
                .succeeded();
            assert!(is_whole(&down, &content), "{name}");
        }
        // No server was asked in vain, and none has all.
        let used = site.nodes.iter().filter(|node| {
            let name = |number| format!("{version:?}-{number}");
            (0..10).any(|number| node.data().join(name(number)).exists())
        });
        assert!(used.count() > 1, "new files are spread");
    });
}

#[test]
fn names_are_those_of_all_servers() {
    with_both("names_are_those_of_all_servers", |site, version| {
        let own = format!("{version:?}");
        let xrdfs = |arguments: &[&str]| site.xrdfs_of(version, arguments);
        let at = |name: &str| format!("/data/{own}{name}");
        xrdfs(&["mkdir", &at("")]).succeeded();
        for (index, node) in site.nodes.iter().enumerate() {
            let directory = node.data().join(&own);
            assert!(directory.is_dir(), "it is on every server");
            fs::write(directory.join(format!("f{index}")), b"one").expect("a file");
            fs::write(directory.join("all"), b"all").expect("a file");
        }
        let listed = xrdfs(&["ls", &at("")]).succeeded().text();
        let names: Vec<&str> = listed.split_whitespace().collect();
        assert_eq!(names, [at("/all"), at("/f0"), at("/f1"), at("/f2")], "{listed}");
        let long = xrdfs(&["ls", "-l", &at("")]).succeeded().text();
        assert_eq!(long.matches(" 3 ").count(), 4, "{long}");

        let ports = |name: &str| {
            let text = xrdfs(&["locate", &at(name)]).succeeded().text();
            let port = |line: &str| line.split_whitespace().next()?.rsplit_once(':')?.1.parse().ok();
            let mut ports: Vec<u16> = text.lines().filter_map(port).collect();
            ports.sort_unstable();
            ports
        };
        let mut all: Vec<u16> = site.nodes.iter().map(Crossload::port).collect();
        all.sort_unstable();
        assert_eq!(ports("/all"), all);
        assert_eq!(ports("/f1"), [site.nodes[1].port()]);
        assert_eq!(ports(""), all);

        let stat = xrdfs(&["stat", &at("/f1")]).succeeded().text();
        assert!(stat.contains("Size:   3"), "{stat}");
        xrdfs(&["mv", &at("/f1"), &at("/g1")]).succeeded();
        assert!(site.nodes[1].data().join(&own).join("g1").exists());
        assert_eq!(ports("/g1"), [site.nodes[1].port()]);
        xrdfs(&["rm", &at("/all")]).succeeded();
        assert!(site.stored(&format!("{own}/all")).is_empty(), "every copy is removed");
        let full = xrdfs(&["rmdir", &at("")]);
        assert_ne!(full.code, Some(0), "{}", full.said());
        for name in ["/f0", "/g1", "/f2"] {
            xrdfs(&["rm", &at(name)]).succeeded();
        }
        xrdfs(&["rmdir", &at("")]).succeeded();
        assert!(site.stored(&own).is_empty());
    });
}

#[test]
fn the_holder_answers_what_only_it_knows() {
    with_both("the_holder_answers_what_only_it_knows", |site, version| {
        let name = format!("known-{version:?}");
        let (content, path) = (bytes(1000, 382), format!("/data/{name}"));
        fs::write(site.nodes[2].data().join(&name), &content).expect("a file");
        let xrdfs = |arguments: &[&str]| site.xrdfs_of(version, arguments).succeeded().text();
        let sum = xrdfs(&["query", "checksum", &path]);
        assert!(sum.contains(&format!("{:08x}", adler32(&content))), "{sum}");
        assert!(xrdfs(&["query", "xattr", &path]).contains("oss.used=1000"));
        xrdfs(&["xattr", &path, "set", "color=blue"]);
        assert!(xrdfs(&["xattr", &path, "get", "color"]).contains("blue"));
        xrdfs(&["truncate", &path, "10"]);
        assert_eq!(
            fs::read(site.nodes[2].data().join(&name)).expect("it is there").len(),
            10
        );
        xrdfs(&["chmod", &path, "rw-------"]);
        xrdfs(&["prepare", "-s", &path]);
        assert!(site.lab.xrdcp_of(version, &[&site.url(&name), "-"]).succeeded().stdout == content[..10]);
        assert!(xrdfs(&["query", "config", "role"]).contains("manager"));
        let space = xrdfs(&["query", "space", "/data"]);
        let value = |key: &str| {
            let words = space.split(['&', '\n', '?']);
            let number = words.filter_map(|pair| pair.strip_prefix(key)?.trim_end_matches('\0').parse::<f64>().ok());
            number.max_by(f64::total_cmp).expect("a number")
        };
        let (free, largest) = (value("oss.free="), value("oss.maxf="));
        assert!(
            (2.9..3.1).contains(&(free / largest)),
            "three of the same size: {space}"
        );
    });
}

#[test]
fn what_a_redirector_cannot_do_is_refused_in_words() {
    with_both("what_a_redirector_cannot_do_is_refused_in_words", |site, version| {
        let xrdfs = |arguments: &[&str]| site.xrdfs_of(version, arguments);
        let refused = |arguments: &[&str], words: &str| {
            let told = xrdfs(arguments);
            assert_ne!(told.code, Some(0), "{}", told.said());
            assert!(told.said().contains(words), "{}", told.said());
        };
        let (one, twice) = (format!("one-{version:?}"), format!("twice-{version:?}"));
        fs::write(site.nodes[2].data().join(&one), b"content").expect("a file");
        for node in &site.nodes[..2] {
            fs::write(node.data().join(&twice), b"content").expect("a file");
        }
        let path = format!("/data/{twice}");
        refused(&["truncate", &path, "3"], "several nodes");
        refused(&["chmod", &path, "rw-------"], "several nodes");
        refused(&["xattr", &path, "set", "color=blue"], "several nodes");
        for node in &site.nodes[..2] {
            assert_eq!(fs::read(node.data().join(&twice)).expect("it is there"), b"content");
        }
        refused(&["ls", "-C", "/data"], "lists no checksums");
        // Ours have all files online, wherever they are.
        xrdfs(&["prepare", "-s", &path, &format!("/data/{one}")]).succeeded();
    });
}

#[test]
fn a_missing_name_is_uncertain_at_once_while_a_server_is_away() {
    let test = "a_missing_name_is_uncertain_at_once_while_a_server_is_away";
    let Some(mut site) = available(test, Site::start("root")) else {
        return;
    };
    let away = site.nodes[1].port();
    site.nodes[1].process().kill_hard();
    until("the redirector notices", PATIENCE, || {
        site.redirector.log().stderr().contains("\"node_lost\"")
    });
    for version in CLIENTS {
        let began = Instant::now();
        let told = site.xrdfs_of(version, &["stat", "/data/none"]);
        assert_ne!(told.code, Some(0), "{}", told.said());
        assert!(told.said().contains("[3014]"), "{}", told.said());
        assert!(told.said().contains(&format!("localhost:{away}")), "{}", told.said());
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    }
}

#[test]
fn third_party_copies_run_between_the_servers_that_have_the_files() {
    let test = "third_party_copies_run_between_the_servers_that_have_the_files";
    let Some(site) = available(test, Site::start("root")) else {
        return;
    };
    let other = site.lab.crossload(site.lab.options("other")).expect("it starts");
    let content = bytes(3_000_000, 383);
    fs::write(site.nodes[0].data().join("source"), &content).expect("a file");
    fs::write(other.data().join("source"), &content).expect("a file");
    for version in CLIENTS {
        let there = |name: &str| other.root_url(&format!("/data/{name}"));
        let copy = |from: &str, to: &str| {
            site.lab.xrdcp_of(version, &["--tpc", "only", from, to]).succeeded();
        };
        let (out, into, both) = (
            format!("out-{version:?}"),
            format!("into-{version:?}"),
            format!("both-{version:?}"),
        );
        copy(&site.url("source"), &there(&out));
        assert!(is_whole(&other.data().join(&out), &content));
        copy(&there("source"), &site.url(&into));
        copy(&site.url("source"), &site.url(&both));
        for name in [into, both] {
            let [stored] = &site.stored(&name)[..] else {
                panic!("{name} is on one server");
            };
            assert!(is_whole(stored, &content), "{name}");
        }
    }
}

#[test]
fn a_client_is_sent_elsewhere_when_a_server_dies() {
    let test = "a_client_is_sent_elsewhere_when_a_server_dies";
    let Some(mut site) = available(test, Site::start("root")) else {
        return;
    };
    let content = bytes(200_000, 384);
    for node in &site.nodes[..2] {
        fs::write(node.data().join("copy"), &content).expect("a file");
    }
    for version in CLIENTS {
        let fetch = |site: &Site| {
            let down = site.lab.fresh("down");
            let told = site
                .lab
                .xrdcp_of(version, &[&site.url("copy"), down.to_str().expect("plain")]);
            told.succeeded();
            assert!(is_whole(&down, &content), "{version:?}");
        };
        // The next readers go where the first one went.
        fetch(&site);
        let before = site.sent();
        let chosen = before.last().expect("it was sent to a server").clone();
        let index = site
            .nodes
            .iter()
            .position(|node| chosen.ends_with(&format!(":{}", node.port())));
        let index = index.expect("one of ours");
        let noticed = |site: &Site, event: &str| site.redirector.log().stderr().matches(event).count();
        let (came, lost) = (noticed(&site, "\"node_came\""), noticed(&site, "\"node_lost\""));
        // The redirector does not know yet, and both servers are on one host.
        site.nodes[index].process().kill_hard();
        fetch(&site);
        let after = site.sent();
        assert_ne!(after.last(), Some(&chosen), "{version:?}");
        assert!(after.len() > before.len());
        until("the redirector notices", PATIENCE, || {
            noticed(&site, "\"node_lost\"") > lost
        });
        site.nodes[index].start_again().expect("it starts again");
        site.sees(came + 1).expect("it is seen again");
    }
}

#[test]
fn clients_are_sent_to_servers_that_want_tls() {
    let test = "clients_are_sent_to_servers_that_want_tls";
    let Some(site) = available(test, Site::start("roots")) else {
        return;
    };
    let content = bytes(100_000, 385);
    fs::write(site.nodes[1].data().join("f"), &content).expect("a file");
    for version in CLIENTS {
        for scheme in ["root", "roots"] {
            let down = site.lab.fresh("down");
            let url = site.url("f").replace("root://", &format!("{scheme}://"));
            site.lab
                .xrdcp_of(version, &[&url, down.to_str().expect("plain")])
                .succeeded();
            assert!(is_whole(&down, &content), "{version:?} {scheme}");
            let served = requests(site.nodes[1].log());
            let opens = served.iter().filter(|request| request["method"] == "open");
            let security = opens.map(|request| request["security"].clone()).next_back();
            assert_ne!(security, Some(Value::from("clear")), "{version:?} {scheme}");
            assert!(security.is_some(), "{version:?} {scheme}");
        }
    }
}

#[test]
fn our_client_follows() {
    let Some(site) = available("our_client_follows", Site::start("root")) else {
        return;
    };
    let content = bytes(100_000, 386);
    let local = site.lab.file(&content);
    let run_ours = |arguments: &[&str]| {
        let (command, arguments) = arguments.split_first().expect("a command");
        let arguments = site.lab.client_arguments(command, arguments);
        run(&site.lab.client(arguments).expect("it is built"))
            .succeeded()
            .text()
    };
    let there = site.url("ours");
    run_ours(&["copy", local.to_str().expect("plain"), &there]);
    assert_eq!(site.stored("ours").len(), 1);
    assert!(run_ours(&["ls", &site.url("")]).contains("ours"));
    let down = site.lab.fresh("down");
    run_ours(&["copy", &there, down.to_str().expect("plain")]);
    assert!(is_whole(&down, &content));
    run_ours(&["copy", &there, &site.url("again")]);
    assert_eq!(site.stored("again").len(), 1);
}

/// Two servers of XRootD behind a redirector of ours.
struct Foreign {
    site: Site,
    servers: Vec<Xrootd>,
}

impl Foreign {
    fn start(version: XrootdVersion) -> Result<Self> {
        let lab = Lab::new("foreign")?;
        let servers = ["x1", "x2"].map(|name| lab.xrootd_of(version, name, XrootdAccess::Open));
        let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
        let urls: Vec<String> = servers
            .iter()
            .map(|server| format!("root://localhost:{}", server.root_port()))
            .collect();
        let redirector = lab.crossload(lab.options("redirector").redirecting_to(&urls))?;
        let mut site = Site {
            lab,
            nodes: Vec::new(),
            redirector,
        };
        site.sees(2)?;
        Ok(Self { site, servers })
    }
}

fn check_foreign(test: &str, version: XrootdVersion) {
    let Some(foreign) = available(test, Foreign::start(version)) else {
        return;
    };
    let (site, servers) = (&foreign.site, &foreign.servers);
    let content = bytes(100_000, 387);
    let local = site.lab.file(&content);
    let local = local.to_str().expect("plain");
    for number in 0..4 {
        let there = site.url(&format!("f{number}"));
        site.lab.xrdcp(&[local, &there]).succeeded();
        let down = site.lab.fresh("down");
        site.lab.xrdcp(&[&there, down.to_str().expect("plain")]).succeeded();
        assert!(is_whole(&down, &content), "{number}");
    }
    let stored = |index: usize| fs::read_dir(servers[index].data()).expect("it is there").count();
    assert_eq!(stored(0) + stored(1), 4);
    let listed = site.xrdfs(&["ls", "/data"]).succeeded().text();
    assert_eq!(listed.split_whitespace().count(), 4, "{listed}");
    let sum = site.xrdfs(&["query", "checksum", "/data/f0"]).succeeded().text();
    assert!(sum.contains(&format!("{:08x}", adler32(&content))), "{sum}");
    site.xrdfs(&["mv", "/data/f0", "/data/g0"]).succeeded();
    site.xrdfs(&["rm", "/data/f1"]).succeeded();
    site.lab
        .xrdcp(&["--tpc", "only", &site.url("f2"), &site.url("t2")])
        .succeeded();
    let listed = site.xrdfs(&["ls", "/data"]).succeeded().text();
    let names: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(names, ["/data/f2", "/data/f3", "/data/g0", "/data/t2"]);
}

#[test]
fn servers_of_xrootd_are_nodes_too() {
    check_foreign("servers_of_xrootd_are_nodes_too", XrootdVersion::V5);
}

#[test]
fn servers_of_the_newest_xrootd_are_nodes_too() {
    check_foreign("servers_of_the_newest_xrootd_are_nodes_too", XrootdVersion::V6);
}

#[test]
fn a_missing_file_is_missing_at_once() {
    let test = "a_missing_file_is_missing_at_once";
    let theirs = |lab: &Lab| XrootdCluster::start(XrootdVersion::V5, &lab.fresh("c"), 1);
    let started = Site::start("root").and_then(|site| Ok((theirs(&site.lab)?, site)));
    let Some((cluster, site)) = available(test, started) else {
        return;
    };
    let time = |address: &str| {
        let mut command = site.lab.command("xrdfs").expect("it is installed");
        let began = Instant::now();
        let told = run(command.args([address, "stat", "/data/none"])).failed_with(54);
        assert!(told.stderr.contains("[3011]"), "{}", told.said());
        began.elapsed()
    };
    let theirs = time(&cluster.root_address());
    let ours = time(&format!("root://localhost:{}", site.redirector.port()));
    // A manager of XRootD waits for the time of a lookup, here one second and by default five.
    assert!(theirs >= Duration::from_secs(1), "{theirs:?}");
    assert!(ours < theirs / 2, "{ours:?} and {theirs:?}");
}
