//! Clients at a redirector that finds its nodes over NATS.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use conformance::{Lab, Run, adler32, bytes, is_whole, put_tree, run, until};
use testkit::{Crossload, XrootdVersion, available};

use crate::bus::{BusShape, BusSite, JOIN_TIME, SPARE_TIME};
use crate::site::PATIENCE;

const CLIENTS: [XrootdVersion; 2] = [XrootdVersion::V5, XrootdVersion::V6];

fn site(test: &str, tls: bool) -> Option<BusSite> {
    let shape = BusShape {
        tls,
        ..BusShape::default()
    };
    available(test, BusSite::start(&shape))
}

fn plain(lab: &Lab, name: &str) -> String {
    lab.fresh(name).to_str().expect("plain path").to_owned()
}

#[test]
fn curl_works_over_a_bus_with_tls() {
    let Some(site) = site("curl_works_over_a_bus_with_tls", true) else {
        return;
    };
    let lab = &site.lab;
    let content = bytes(100_000, 391);
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    let names: Vec<String> = (0..9).map(|number| format!("dir/f{number}")).collect();
    for name in &names {
        lab.curl(&["-L", "-T", file, &site.url(name)]).expect(201);
        // Its node has hardly announced it, and it is found nevertheless.
        let read = lab.curl(&["-L", &site.url(name)]).expect(200);
        assert!(read.body == content, "{name}");
        assert_eq!(site.having(name).len(), 1, "{name}");
    }
    let used: BTreeSet<usize> = names.iter().flat_map(|name| site.having(name)).collect();
    assert!(used.len() > 1, "all went to one node");
    let listed = lab.request("PROPFIND", &site.url("dir/"), &["Depth: 1"]).expect(207);
    assert_eq!(listed.text().matches("<D:response>").count(), 10, "{}", listed.text());
    let holder = site.having("dir/f0");
    let to = format!("Destination: {}", site.url("dir/g0"));
    lab.request("MOVE", &site.url("dir/f0"), &[&to]).expect(201);
    assert_eq!(
        (site.reader_of("dir/f0"), site.reader_of("dir/g0")),
        (Err(404), Ok(holder[0]))
    );
    lab.request("DELETE", &site.url("dir/g0"), &[]).expect(204);
    assert_eq!(site.reader_of("dir/g0"), Err(404));
    lab.request("DELETE", &site.url("dir"), &[]).expect(409);
    // A copy by the node that has the file, to the one that takes the new one.
    let source = format!("Source: {}", site.url("dir/f1"));
    let copied = lab.curl(&["-L", "-X", "COPY", "-H", &source, &site.url("copied")]);
    assert!(copied.text().contains("success"), "{}", copied.text());
    assert!(lab.curl(&["-L", &site.url("copied")]).expect(200).body == content);
}

#[test]
fn gfal_davix_and_rclone_work_over_a_bus() {
    let Some(site) = site("gfal_davix_and_rclone_work_over_a_bus", false) else {
        return;
    };
    let lab = &site.lab;
    let content = bytes(100_000, 392);
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    let davs = |name: &str| site.url(name).replacen("https", "davs", 1);
    lab.gfal("copy", &[file, &davs("g/a")]).succeeded();
    lab.gfal("copy", &[&davs("g/a"), &davs("g/b")]).succeeded();
    let listed = lab.gfal("ls", &[&davs("g")]).succeeded().text();
    assert_eq!(listed.lines().collect::<BTreeSet<_>>(), ["a", "b"].into());
    let copy = plain(lab, "gfal");
    lab.gfal("copy", &[&davs("g/b"), &format!("file://{copy}")]).succeeded();
    assert!(is_whole(copy.as_ref(), &content));
    lab.gfal("rm", &[&davs("g/b")]).succeeded();
    assert_eq!(site.having("g/b"), [0_usize; 0]);
    let gone = lab.gfal("stat", &[&davs("g/b")]);
    assert_ne!(gone.code, Some(0), "{}", gone.said());

    lab.davix("put", &[file, &site.url("d/a")]).succeeded();
    let copy = plain(lab, "davix");
    lab.davix("get", &[&site.url("d/a"), &copy]).succeeded();
    assert!(is_whole(copy.as_ref(), &content));
    lab.davix("rm", &[&site.url("d/a")]).succeeded();
    assert_eq!(site.having("d/a"), [0_usize; 0]);

    let tree = lab.fresh("tree");
    put_tree(&tree, &["one", "two", "sub/three"]);
    let remote = format!(":webdav,url='{}':", site.url("r"));
    let rclone = |arguments: &[&str]| {
        let mut rclone = lab.command("rclone").expect("rclone is installed");
        rclone.arg("--ca-cert").arg(lab.authority().ca_file());
        rclone.args(["--config", "/dev/null"]).args(arguments);
        run(&rclone).succeeded()
    };
    let tree = tree.to_str().expect("plain path");
    rclone(&["copy", tree, &remote]);
    rclone(&["check", "--download", tree, &remote]);
    rclone(&["deletefile", &format!("{remote}one")]);
    assert_eq!((site.reader_of("r/one"), site.having("r/one").len()), (Err(404), 0));
}

#[test]
fn xrootd_clients_work_over_a_bus() {
    let Some(site) = site("xrootd_clients_work_over_a_bus", false) else {
        return;
    };
    let lab = &site.lab;
    let content = bytes(300_000, 393);
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    for version in CLIENTS {
        let own = format!("{version:?}");
        let url = |name: &str| site.redirector.root_url(&format!("/data/{own}/{name}"));
        let xrdfs = |arguments: &[&str]| -> Run {
            let mut command = lab.xrootd_client(version, "xrdfs").expect("it is installed");
            command.arg(format!("root://localhost:{}", site.redirector.port()));
            run(command.args(arguments))
        };
        let path = |name: &str| format!("/data/{own}/{name}");
        for number in 0..5 {
            let name = format!("f{number}");
            lab.xrdcp_of(version, &[file, &url(&name)]).succeeded();
            let down = plain(lab, "down");
            lab.xrdcp_of(version, &["-C", "adler32:source", &url(&name), &down])
                .succeeded();
            assert!(is_whole(down.as_ref(), &content), "{name}");
        }
        let listed = xrdfs(&["ls", &path("")]).succeeded().text();
        assert_eq!(listed.split_whitespace().count(), 5, "{listed}");
        let holder = site.having(&format!("{own}/f0"))[0];
        let located = xrdfs(&["locate", &path("f0")]).succeeded().text();
        assert!(located.contains(&format!(":{}", site.ports[holder])), "{located}");
        assert_eq!(located.lines().count(), 1, "{located}");
        let sum = xrdfs(&["query", "checksum", &path("f0")]).succeeded().text();
        assert!(sum.contains(&format!("{:08x}", adler32(&content))), "{sum}");
        lab.xrdcp_of(version, &["--tpc", "only", &url("f0"), &url("third")])
            .succeeded();
        xrdfs(&["mv", &path("f0"), &path("g0")]).succeeded();
        xrdfs(&["rm", &path("g0")]).succeeded();
        assert_eq!(site.having(&format!("{own}/g0")), [0_usize; 0]);
        let gone = xrdfs(&["stat", &path("g0")]).failed_with(54);
        assert!(gone.stderr.contains("[3011]"), "{}", gone.said());
    }
}

#[test]
fn a_name_that_does_not_exist_is_denied_at_once_and_wakes_no_node() {
    let test = "a_name_that_does_not_exist_is_denied_at_once_and_wakes_no_node";
    let Some(site) = site(test, false) else { return };
    site.put(1, "there", b"one");
    until("the names of all nodes are known", PATIENCE, || {
        site.metric(&site.redirector, "crossload_redirector_bus_filter_bytes")
            .is_some_and(|bytes| bytes > 0.0)
            && site.reader_of("there") == Ok(1)
            && woken_by(&site, || assert_eq!(site.reader_of("probe"), Err(404))) == 0.0
    });
    let count: u32 = 20;
    let began = Instant::now();
    let woken = woken_by(&site, || {
        for number in 0..count {
            assert_eq!(site.reader_of(&format!("none/{number}")), Err(404));
        }
    });
    let each = began.elapsed() / count;
    println!("{each:?} for a name that does not exist, with curl");
    assert_eq!(woken, 0.0, "the filters know that no node has it");
    // XRootD's manager needs five seconds for each.
    assert!(each < Duration::from_secs(3), "{each:?}");
    let mut xrdfs = site.lab.command("xrdfs").expect("it is installed");
    xrdfs.arg(format!("root://localhost:{}", site.redirector.port()));
    let began = Instant::now();
    let told = run(xrdfs.args(["stat", "/data/none/of/these"])).failed_with(54);
    assert!(told.stderr.contains("[3011]"), "{}", told.said());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// How many questions the nodes were asked meanwhile.
fn woken_by(site: &BusSite, act: impl FnOnce()) -> f64 {
    let questions = |node: &Crossload| site.metric(node, "crossload_bus_questions_total").expect("a metric");
    let all = || site.nodes.iter().map(questions).sum::<f64>();
    let before = all();
    act();
    all() - before
}

#[test]
fn what_clients_change_directly_at_a_node_is_known_at_once() {
    let test = "what_clients_change_directly_at_a_node_is_known_at_once";
    let Some(site) = site(test, false) else { return };
    let mut slowest = Duration::ZERO;
    let mut noticed = |what: &str, is_so: &dyn Fn() -> bool| {
        slowest = slowest.max(until(what, PATIENCE, is_so));
    };
    for node in 0..3 {
        let name = format!("f{node}");
        assert_eq!(site.reader_of(&name), Err(404));
        site.put(node, &name, b"one");
        noticed("the new file is found", &|| site.reader_of(&name) == Ok(node));
        let moved = format!("moved{node}");
        let to = format!("Destination: {}", site.at(node, &moved));
        site.lab.request("MOVE", &site.at(node, &name), &[&to]).expect(201);
        noticed("its old name is gone", &|| site.reader_of(&name) == Err(404));
        noticed("its new name is known", &|| site.reader_of(&moved) == Ok(node));
        site.lab.request("DELETE", &site.at(node, &moved), &[]).expect(204);
        noticed("it is gone", &|| site.reader_of(&moved) == Err(404));
    }
    println!("{slowest:?} until a change was known, at most");
    assert!(slowest < JOIN_TIME + SPARE_TIME, "{slowest:?}");
}

#[test]
fn two_redirectors_share_nothing_and_both_learn_of_new_files() {
    let test = "two_redirectors_share_nothing_and_both_learn_of_new_files";
    let Some(mut site) = site(test, false) else { return };
    let mut options = site.lab.options("other");
    options.exports.clear();
    options.macaroons = false;
    options.more = site.options.more.clone();
    let other = Crossload::start(options).expect("another redirector");
    let content = bytes(1000, 394);
    let file = site.lab.file(&content);
    let file = file.to_str().expect("plain path");
    for number in 0..6 {
        let name = format!("f{number}");
        let (here, there) = match number % 2 {
            0 => (&site.redirector, &other),
            _ => (&other, &site.redirector),
        };
        // Both have denied it just before.
        until("it is known that the name is free", PATIENCE, || {
            site.reader_at(here, &name) == Err(404) && site.reader_at(there, &name) == Err(404)
        });
        let url = here.url(&format!("/data/{name}"));
        site.lab.curl(&["-L", "-T", file, &url]).expect(201);
        let holder = site.having(&name)[0];
        let took = until("the other one knows", PATIENCE, || {
            site.reader_at(there, &name) == Ok(holder)
        });
        assert!(took < JOIN_TIME + SPARE_TIME, "{took:?}");
    }
    // Either works without the other one.
    site.redirector.process().kill_hard();
    for number in 0..6 {
        let name = format!("f{number}");
        assert_eq!(site.reader_at(&other, &name), Ok(site.having(&name)[0]));
    }
}
