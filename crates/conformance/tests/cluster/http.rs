//! HTTP clients at a redirector: each is sent to a node that has the file, or takes it.

use conformance::{Lab, bytes, run};
use testkit::available;

use crate::site::{Cluster, Shape};

const MIB: usize = 1 << 20;

fn cluster(test: &str) -> Option<(Lab, Cluster)> {
    let lab = available(test, Lab::new("cluster"))?;
    let cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    Some((lab, cluster))
}

#[test]
fn curl_stores_reads_and_removes_files_on_the_nodes() {
    let Some((lab, cluster)) = cluster("curl_stores_reads_and_removes_files_on_the_nodes") else {
        return;
    };
    let content = bytes(3 * MIB, 1);
    for number in 0..9 {
        let name = format!("new/dir/f{number}");
        lab.upload(&cluster.url(&name), &content, &[]).expect(307);
        let file = lab.file(&content);
        let file = file.to_str().expect("plain path");
        lab.curl(&["-L", "-T", file, &cluster.url(&name)]).expect(201);
        assert_eq!(cluster.having(&name).len(), 1, "{name} is on one node");
    }
    let used: std::collections::BTreeSet<usize> = (0..9)
        .flat_map(|number| cluster.having(&format!("new/dir/f{number}")))
        .collect();
    assert!(used.len() > 1, "all went to one node");

    let url = cluster.url("new/dir/f0");
    let sent = lab.request("GET", &url, &[]).expect(307);
    let place = sent.header("location").expect("a place").to_owned();
    let holder = cluster.having("new/dir/f0")[0];
    let there = cluster.nodes[holder].url("/data/new/dir/f0");
    let id = place.strip_prefix(&format!("{there}?crossload.redirect="));
    assert!(id.is_some_and(|id| !id.contains('&')), "{place}");
    assert!(lab.curl(&["-L", &url]).expect(200).body == content);
    let head = lab.curl(&["-L", "-I", "-H", "Want-Digest: adler32", &url]).expect(200);
    assert!(
        head.header("digest")
            .is_some_and(|digest| digest.starts_with("adler32="))
    );
    assert_eq!(lab.curl(&["-L", "-r", "5-9", &url]).expect(206).body, content[5..10]);
    lab.request("GET", &cluster.url("new/dir/none"), &[]).expect(404);

    let listed = lab
        .request("PROPFIND", &cluster.url("new/dir/"), &["Depth: 1"])
        .expect(207);
    let hrefs = listed.text().matches("<D:response>").count();
    assert_eq!(hrefs, 10, "the directory and nine files: {}", listed.text());
    let page = lab.request("GET", &cluster.url("new/dir/"), &[]).expect(200).text();
    assert!((0..9).all(|number| page.contains(&format!(">f{number}<"))), "{page}");

    lab.request("MKCOL", &cluster.url("made"), &[]).expect(201);
    assert_eq!(cluster.having("made"), [0, 1, 2]);
    lab.request("MKCOL", &cluster.url("made"), &[]).expect(405);
    let to = format!("Destination: {}", cluster.url("made/f0"));
    lab.request("MOVE", &url, &[&to]).expect(201);
    assert_eq!(cluster.having("made/f0"), [holder]);
    lab.request("GET", &url, &[]).expect(404);
    lab.request("DELETE", &cluster.url("made"), &[]).expect(409);
    assert_eq!(
        cluster.having("made"),
        [0, 1, 2],
        "nothing is removed from a directory that is in use"
    );
    lab.request("DELETE", &cluster.url("made/f0"), &[]).expect(204);
    lab.request("DELETE", &cluster.url("made"), &[]).expect(204);
    assert_eq!(cluster.having("made"), [0_usize; 0]);
}

#[test]
fn a_file_on_several_nodes_is_one_file() {
    let Some((lab, cluster)) = cluster("a_file_on_several_nodes_is_one_file") else {
        return;
    };
    let content = bytes(1000, 2);
    cluster.put(0, "twice", &content);
    cluster.put(2, "twice", &content);
    let listed = lab
        .request("PROPFIND", &cluster.url(""), &["Depth: 1"])
        .expect(207)
        .text();
    assert_eq!(listed.matches("/data/twice<").count(), 1, "{listed}");
    // A change of one copy would make two files of one.
    let other = bytes(2000, 3);
    let file = lab.file(&other);
    let file = file.to_str().expect("plain path");
    for waits in ["Expect: 100-continue", "Expect:"] {
        let refused = lab
            .curl(&["-L", "-H", waits, "-T", file, &cluster.url("twice")])
            .expect(409);
        assert!(refused.text().contains(&cluster.nodes[2].url("")), "{}", refused.text());
    }
    assert!([0, 2].iter().all(|node| cluster.stored(*node, "twice") == content));
    // A rename is made of all copies, or of none.
    let lock = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope>\
                <D:locktype><D:write/></D:locktype></D:lockinfo>";
    let locked = cluster.nodes[2].url("/data/twice");
    let ask = ["-X", "LOCK", "-H", "Content-Type: text/xml", "-d", lock, &locked];
    let granted = lab.curl(&ask).expect(200);
    let token = granted.header("lock-token").expect("a lock").to_owned();
    let to = format!("Destination: {}", cluster.url("moved"));
    let refused = lab.request("MOVE", &cluster.url("twice"), &[&to]);
    assert!(refused.status >= 400, "{}", refused.text());
    assert_eq!((cluster.having("twice"), cluster.having("moved")), (vec![0, 2], vec![]));
    lab.request("UNLOCK", &locked, &[&format!("Lock-Token: {token}")])
        .expect(204);
    // A directory replaces no file: it would on the node of the file only.
    lab.request("MKCOL", &cluster.url("made"), &[]).expect(201);
    let to = format!("Destination: {}", cluster.url("twice"));
    let refused = lab.request("MOVE", &cluster.url("made"), &[&to]);
    assert!(refused.status >= 400, "{}", refused.text());
    assert_eq!(
        (cluster.having("made"), cluster.having("twice")),
        (vec![0, 1, 2], vec![0, 2])
    );
    // An overwrite goes to the holder, not to the node with most room.
    cluster.put(1, "once", &content);
    lab.curl(&["-L", "-T", file, &cluster.url("once")]).expect(204);
    assert_eq!((cluster.having("once"), cluster.stored(1, "once")), (vec![1], other));
    let why = lab.client([
        "why",
        "/data/twice",
        "--refresh",
        "--redirector",
        &cluster.redirector.url(""),
    ]);
    let said = run(&why.expect("our client")).succeeded().text();
    assert!(
        said.contains(&cluster.nodes[0].url("")) && said.contains(&cluster.nodes[2].url("")),
        "{said}"
    );
    assert!(said.contains("does not have it"), "{said}");
    lab.request("DELETE", &cluster.url("twice"), &[]).expect(204);
    assert_eq!(cluster.having("twice"), [0_usize; 0]);
}

#[test]
fn third_party_copies_run_on_the_nodes() {
    let Some((lab, cluster)) = cluster("third_party_copies_run_on_the_nodes") else {
        return;
    };
    let other = lab.crossload(lab.options("other")).expect("another server");
    let content = bytes(2 * MIB, 4);
    cluster.put(1, "source", &content);
    std::fs::write(other.data().join("outside"), &content).expect("a file");
    let pulled = |from: &str, to: &str| {
        let source = format!("Source: {from}");
        let answer = lab.curl(&["-L", "-X", "COPY", "-H", &source, to]);
        assert!(answer.text().contains("success"), "{from} to {to}: {}", answer.text());
    };
    let pushed = |from: &str, to: &str| {
        let destination = format!("Destination: {to}");
        let answer = lab.curl(&["-L", "-X", "COPY", "-H", &destination, from]);
        assert!(answer.text().contains("success"), "{from} to {to}: {}", answer.text());
    };
    pulled(&other.url("/data/outside"), &cluster.url("pulled"));
    pulled(&cluster.url("source"), &other.url("/data/pulled"));
    pulled(&cluster.url("source"), &cluster.url("both-pulled"));
    pushed(&cluster.url("source"), &other.url("/data/pushed"));
    pushed(&other.url("/data/outside"), &cluster.url("pushed"));
    pushed(&cluster.url("source"), &cluster.url("both-pushed"));
    for name in ["pulled", "both-pulled", "pushed", "both-pushed"] {
        let having = cluster.having(name);
        assert!(
            having.len() == 1 && cluster.stored(having[0], name) == content,
            "{name} on {having:?}"
        );
    }
    for name in ["pulled", "pushed"] {
        assert!(std::fs::read(other.data().join(name)).expect("a file") == content);
    }
    let moved = |log: &str| log.matches("\"bytes_in\":").count();
    assert!(moved(&cluster.redirector.log().stderr()) > 0);
    let by_us = lab.client(["copy", &cluster.url("source"), &cluster.url("by-us")]);
    run(&by_us.expect("our client")).succeeded();
    assert_eq!(cluster.having("by-us").len(), 1);
}

#[test]
fn the_demo_shows_a_cluster() {
    let Some(lab) = available("the_demo_shows_a_cluster", Lab::new("cluster")) else {
        return;
    };
    let demo = lab.client(["demo", "--cluster"]).expect("our client");
    let said = run(&demo).succeeded().text();
    let having = said
        .lines()
        .filter(|line| line.starts_with("node ") && line.contains(" has "))
        .count();
    assert_eq!(having, 3, "{said}");
    assert!(said.contains("chosen    none:"), "{said}");
}

#[test]
fn gfal_davix_and_rclone_work_through_a_redirector() {
    let Some((lab, cluster)) = cluster("gfal_davix_and_rclone_work_through_a_redirector") else {
        return;
    };
    let content = bytes(MIB, 5);
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    let davs = |name: &str| cluster.url(name).replacen("https", "davs", 1);
    let back = |name: &str| lab.fresh(name).to_str().expect("plain path").to_owned();

    lab.gfal("copy", &["-f", file, &davs("g/a")]).succeeded();
    lab.gfal("copy", &["-f", &davs("g/a"), &davs("g/b")]).succeeded();
    let listed = lab.gfal("ls", &[&davs("g")]).succeeded().text();
    assert_eq!(
        listed.lines().collect::<std::collections::BTreeSet<_>>(),
        ["a", "b"].into()
    );
    let summed = lab.gfal("sum", &[&davs("g/b"), "adler32"]).succeeded().text();
    assert!(
        summed.contains(&format!("{:08x}", conformance::adler32(&content))),
        "{summed}"
    );
    let copy = back("gfal");
    lab.gfal("copy", &[&davs("g/b"), &format!("file://{copy}")]).succeeded();
    assert!(std::fs::read(&copy).expect("a file") == content);
    lab.gfal("rm", &[&davs("g/b")]).succeeded();
    assert_eq!(cluster.having("g/b"), [0_usize; 0]);

    lab.davix("put", &[file, &cluster.url("d/a")]).succeeded();
    let copy = back("davix");
    lab.davix("get", &[&cluster.url("d/a"), &copy]).succeeded();
    assert!(std::fs::read(&copy).expect("a file") == content);
    let listed = lab.davix("ls", &[&cluster.url("d/")]).succeeded().text();
    assert!(listed.contains('a'), "{listed}");

    let mut rclone = lab.command("rclone").expect("rclone is installed");
    let remote = format!(":webdav,url='{}':", cluster.url("r"));
    let ca = lab.authority().ca_file();
    let base = ["--ca-cert", ca.to_str().expect("plain path"), "--config", "/dev/null"];
    let from = lab.fresh("tree");
    conformance::put_tree(&from, &["one", "two", "sub/three"]);
    rclone
        .args(base)
        .args(["copy", from.to_str().expect("plain path"), &remote]);
    run(&rclone).succeeded();
    let mut rclone = lab.command("rclone").expect("rclone is installed");
    rclone
        .args(base)
        .args(["check", "--download", from.to_str().expect("plain path"), &remote]);
    run(&rclone).succeeded();
}
