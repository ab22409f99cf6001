//! Nodes and redirectors that die, come back, or never were.

use std::time::{Duration, Instant};

use conformance::{Lab, bytes, json_lines, run, until};
use testkit::{Access, Crossload, Fault, Relay, available};

use crate::site::{Cluster, PATIENCE, Shape};

#[test]
fn a_node_that_dies_is_left_out_and_used_again() {
    let test = "a_node_that_dies_is_left_out_and_used_again";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let mut cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    let content = bytes(1000, 1);
    cluster.put(0, "both", &content);
    cluster.put(1, "both", &content);
    cluster.put(0, "only", &content);
    let status = |cluster: &Cluster, name: &str| lab.curl(&["-L", &cluster.url(name)]).status;
    assert_eq!((status(&cluster, "both"), status(&cluster, "only")), (200, 200));
    cluster.nodes[0].process().kill_hard();
    until("clients are sent to the other copy", PATIENCE, || {
        status(&cluster, "both") == 200
    });
    until("its death is noticed", PATIENCE, || {
        lab.request("GET", &cluster.url("only"), &[]).status != 307
    });
    // "Not found" would be a lie: the node may come back.
    let gone = lab.request("GET", &cluster.url("only"), &[]).expect(503);
    assert!(
        gone.text().contains("nodes_silent") && gone.text().contains(&cluster.nodes[0].url("")),
        "{}",
        gone.text()
    );
    let listed = lab.request("GET", &cluster.url(""), &[]).expect(200).text();
    assert!(listed.contains(">both<") && !listed.contains(">only<"), "{listed}");
    // A name that is removed from the others only would come back.
    let kept = lab.request("DELETE", &cluster.url("both"), &[]).expect(503).text();
    assert!(
        kept.contains("come back") && kept.contains(&cluster.nodes[0].url("")),
        "{kept}"
    );
    // New files go to the others.
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    for number in 0..5 {
        lab.curl(&["-L", "-T", file, &cluster.url(&format!("new{number}"))])
            .expect(201);
    }
    // Those of clients that do not wait for the node pass through.
    lab.curl(&["-H", "Expect:", "-T", file, &cluster.url("passed")])
        .expect(201);
    lab.curl(&[
        "-H",
        "Expect:",
        "-H",
        "If-None-Match: *",
        "-T",
        file,
        &cluster.url("must-be-new"),
    ])
    .expect(503);
    let came = cluster.came();
    cluster.nodes[0].start_again().expect("the node starts");
    until("the node is back", PATIENCE, || cluster.came() > came);
    assert_eq!(status(&cluster, "only"), 200);
    // A node that does not speak the client's protocol: it does not help to wait.
    let file = cluster.redirector.configuration();
    let url = format!("url = {:?}\n", cluster.nodes[0].url(""));
    let before = std::fs::read_to_string(&file).expect("a configuration");
    assert!(before.contains(&url), "{before}");
    let text = before.replace(&url, &format!("{url}http_url = \"none\"\n"));
    std::fs::write(&file, text).expect("a file");
    cluster.redirector.process().hang_up().expect("a signal");
    until("the other protocol is named", PATIENCE, || {
        let told = lab.request("GET", &cluster.url("only"), &[]);
        told.status == 503 && told.text().contains("which speaks only XRootD; use root://")
    });
    std::fs::write(&file, &before).expect("a file");
    cluster.redirector.process().hang_up().expect("a signal");
    until("it speaks HTTP again", PATIENCE, || status(&cluster, "only") == 200);
    // The operator gives it up.
    cluster.nodes[0].process().kill_hard();
    until("its death is noticed", PATIENCE, || {
        lab.request("GET", &cluster.url("only"), &[]).status == 503
    });
    let section = format!("[[node]]\nurl = {:?}\n", cluster.nodes[0].url(""));
    assert!(before.contains(&section), "{before}");
    std::fs::write(&file, before.replace(&section, "")).expect("a file");
    cluster.redirector.process().hang_up().expect("SIGHUP");
    until("it is forgotten", PATIENCE, || {
        lab.request("DELETE", &cluster.url("both"), &[]).status == 204
    });
    assert_eq!(cluster.having("both"), [0], "what it has comes back with it");
    lab.request("GET", &cluster.url("only"), &[]).expect(404);
}

#[test]
fn nodes_that_refuse_the_redirector_are_not_called_silent() {
    let test = "nodes_that_refuse_the_redirector_are_not_called_silent";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    // Anonymous clients may do nothing on the nodes, and the redirector has no token for them.
    let shape = Shape {
        on_nodes: Access::None,
        ..Shape::default()
    };
    let cluster = Cluster::start(&lab, &shape).expect("the cluster starts");
    let logged = || {
        let log = cluster.redirector.log().stderr();
        let unusable = log.lines().filter(|line| line.contains("\"node_unusable\""));
        unusable.filter(|line| line.contains("token_file")).count()
    };
    until("each refusal is in the log", PATIENCE, || {
        logged() == cluster.nodes.len()
    });
    // A file and a listing.
    for name in ["f", ""] {
        let refused = lab.request("GET", &cluster.url(name), &[]).expect(503).text();
        assert!(
            refused.contains("nodes_refuse") && refused.contains(&cluster.nodes[0].url("")),
            "{refused}"
        );
    }
    let why = lab.client(["why", "/data/f", "--redirector", &cluster.redirector.url("")]);
    let why = run(&why.expect("our client")).text();
    let left_out = why.lines().filter(|line| line.starts_with("left out"));
    let named = left_out.filter(|line| line.contains("It refuses the redirector's questions"));
    assert_eq!(named.count(), cluster.nodes.len(), "{why}");
    let mut check = lab.client(["check", "--json", "--config"]).expect("our client");
    let findings = json_lines(&run(check.arg(cluster.redirector.configuration())));
    let denied = findings.iter().filter(|one| one["code"] == "node_export_denied");
    let says = denied.filter(|one| one["severity"] == "error" && one["says"].to_string().contains("503 nodes_refuse"));
    assert_eq!(says.count(), cluster.nodes.len(), "{findings:#?}");
}

#[test]
fn a_redirector_keeps_nothing() {
    let test = "a_redirector_keeps_nothing";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let mut cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    cluster.put(2, "f", &bytes(1000, 1));
    lab.curl(&["-L", &cluster.url("f")]).expect(200);
    cluster.redirector.process().kill_hard();
    cluster.redirector.start_again().expect("it starts again");
    // From its first answer on: what it does not know yet, it does not deny.
    let began = Instant::now();
    let mut seen = Vec::new();
    until("it answers rightly", PATIENCE, || {
        let status = lab.curl(&["-L", &cluster.url("f")]).status;
        seen.push(status);
        status == 200
    });
    assert!(!seen.contains(&404), "{seen:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn nodes_without_room_are_told_with_their_sum() {
    let test = "nodes_without_room_are_told_with_their_sum";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    let refused = lab.request(
        "PUT",
        &cluster.url("huge"),
        &["Content-Length: 9000000000000000000", "Expect: 100-continue"],
    );
    // Ours tell their room; a server that does not is tried.
    assert!([307, 507].contains(&refused.status), "{}", refused.text());
    if refused.status == 507 {
        assert!(
            refused.text().contains("all nodes together have room for"),
            "{}",
            refused.text()
        );
    }
}

#[test]
fn a_node_that_dies_within_a_rename_loses_no_name() {
    let test = "a_node_that_dies_within_a_rename_loses_no_name";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let nodes = ["n1", "n2"].map(|name| {
        let mut options = lab.options(name);
        options.exports[0].anonymous = Access::Write;
        lab.crossload(options).expect("a node")
    });
    // The node with the old file, which dies when the answer to such a request should come.
    let relay = Relay::start(([127, 0, 0, 1], nodes[1].port()).into()).expect("a relay");
    let urls = [nodes[0].port(), relay.port()].map(|port| format!("http://localhost:{port}"));
    let redirector = lab.crossload(lab.options("redirector").redirecting_to(&urls));
    let redirector = redirector.expect("a redirector");
    let url = |name: &str| redirector.url(&format!("/data/{name}"));
    for (name, dies_at) in [("a", "MOVE /data/a.to "), ("b", "DELETE ")] {
        let (from, to) = (format!("{name}.from"), format!("{name}.to"));
        std::fs::write(nodes[0].data().join(&from), "new").expect("a file");
        std::fs::write(nodes[1].data().join(&to), "old").expect("a file");
        until("both are found", PATIENCE, || {
            [&from, &to]
                .iter()
                .all(|name| lab.request("GET", &url(name), &[]).status == 307)
        });
        let before = relay.struck();
        relay.set_fault(Fault::DieAt(dies_at), 1);
        let there = format!("Destination: {}", url(&to));
        let told = std::thread::scope(|scope| {
            let told = scope.spawn(|| lab.request("MOVE", &url(&from), &[&there]));
            until("it has died", PATIENCE, || {
                relay.struck() > before || told.is_finished()
            });
            relay.heal();
            told.join().expect("an answer")
        });
        assert_eq!((told.status, relay.struck()), (204, before + 1), "{}", told.text());
        assert_eq!(
            std::fs::read_to_string(nodes[0].data().join(&to)).expect("a file"),
            "new"
        );
        let others = nodes
            .iter()
            .flat_map(|node| std::fs::read_dir(node.data()).expect("a directory"));
        let others = others.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain"));
        let left: Vec<String> = others
            .filter(|other| other.contains(&format!("{name}.")) && *other != to)
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn renames_through_two_redirectors_lose_no_name() {
    let test = "renames_through_two_redirectors_lose_no_name";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let nodes = ["n1", "n2", "n3"].map(|name| {
        let mut options = lab.options(name);
        options.exports[0].anonymous = Access::Write;
        lab.crossload(options).expect("a node")
    });
    let urls = nodes.each_ref().map(|node| format!("http://localhost:{}", node.port()));
    let redirectors = ["r1", "r2"].map(|name| lab.crossload(lab.options(name).redirecting_to(&urls)));
    let redirectors = redirectors.map(|redirector| redirector.expect("a redirector"));
    let stored = |node: usize, name: &str| std::fs::read_to_string(nodes[node].data().join(name)).ok();
    for number in 0..8 {
        for (node, name) in ["a", "b", "old"].iter().enumerate() {
            let file = if node == 2 { "to" } else { name };
            std::fs::write(nodes[node].data().join(format!("{file}{number}")), name).expect("a file");
        }
    }
    for redirector in &redirectors {
        until("all are found", PATIENCE, || {
            let found = |name: &&str| {
                lab.request("GET", &redirector.url(&format!("/data/{name}")), &[])
                    .status
                    == 307
            };
            ["a0", "b0", "to0"].iter().all(found)
        });
    }
    let lab = &lab;
    let rename = |redirector: &Crossload, from: String, to: String| {
        let there = format!("Destination: {}", redirector.url(&format!("/data/{to}")));
        lab.request("MOVE", &redirector.url(&format!("/data/{from}")), &[&there])
    };
    std::thread::scope(|scope| {
        let renames = (0..8).map(|number| {
            [(0, "a"), (1, "b")].map(|(redirector, from)| {
                let (redirector, from) = (&redirectors[redirector], format!("{from}{number}"));
                scope.spawn(move || rename(redirector, from, format!("to{number}")))
            })
        });
        let renames: Vec<_> = renames.collect();
        for (number, renames) in renames.into_iter().enumerate() {
            let told = renames.map(|rename| rename.join().expect("an answer"));
            let told = told.map(|told| (told.status, told.text()));
            let there: Vec<String> = (0..3).filter_map(|node| stored(node, &format!("to{number}"))).collect();
            assert_eq!(there.len(), 1, "{there:?} {told:?}");
            for (node, name) in ["a", "b"].into_iter().enumerate() {
                let is_done = told[node].0 < 300;
                assert!(is_done || there[0] != name, "{there:?} {told:?}");
                let left = stored(node, &format!("{name}{number}"));
                assert_eq!(left.is_none(), is_done, "{name} {there:?} {told:?}");
            }
        }
    });
}
