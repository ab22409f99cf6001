//! What nodes tell by themselves: changed names, and that they are drained.

use conformance::{JsonLines, Lab, Run, bytes, json_lines, last_json, run, until};
use serde_json::Value;
use testkit::{Crossload, available, require_queue_python};

use crate::site::{Cluster, PATIENCE, Shape};

/// Clients of this machine may drain the nodes.
fn operated() -> Shape {
    Shape {
        more: Box::new(|_| {
            "[cluster]\noperators = [\"address:127.0.0.0/8\", \"address:::1\"]\ndrain_grace = \"0s\"\n".to_owned()
        }),
        ..Shape::default()
    }
}

/// Checks what a node and the redirector say of themselves against the schema.
fn check_printed(lab: &Lab, cluster: &Cluster, status: Value) {
    let Some(python) = available("the schema of node and why", require_queue_python("python3")) else {
        return;
    };
    let mut printed = JsonLines::default();
    printed.add("node", &[status]);
    let redirector = cluster.redirector.url("");
    for words in [
        &["/data/both"][..],
        &["/data/both", "--refresh"],
        &["/data/none", "--write"],
    ] {
        let why = lab.client(["why", "--json", "--redirector", &redirector]);
        printed.add("why", &json_lines(&run(why.expect("our client").args(words))));
    }
    printed.check(&python).succeeded();
}

fn node(lab: &Lab, server: &Crossload, words: &[&str]) -> Run {
    let mut command = lab.client(["node"]).expect("the binary");
    let ca = lab.authority().ca_file();
    command.args(words).arg(server.url("")).arg("--cacert").arg(ca);
    run(&command)
}

/// The question where a new content of a file would go.
fn why_write(cluster: &Cluster, name: &str) -> String {
    let url = cluster.redirector.url("/.well-known/crossload-why");
    format!("{url}?path=/data/{name}&op=write")
}

#[test]
fn a_file_that_moves_to_another_node_is_found_there_at_once() {
    let test = "a_file_that_moves_to_another_node_is_found_there_at_once";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    let leads_to = |name: &str| {
        let answer = lab.request("GET", &cluster.url(name), &[]);
        let location = answer.header("Location").unwrap_or_default().to_owned();
        let port = |node: &Crossload| location.contains(&format!(":{}/", node.port()));
        cluster.nodes.iter().position(port)
    };
    let place = |node: usize, name: &str| cluster.nodes[node].url(&format!("/data/{name}"));
    lab.upload(&place(0, "f"), &bytes(1000, 1), &[]).expect(201);
    until("it is found", PATIENCE, || leads_to("f") == Some(0));
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        lab.request("DELETE", &place(from, "f"), &[]).expect(204);
        lab.upload(&place(to, "f"), &bytes(1000, 1), &[]).expect(201);
        // Without notice it would be looked for at the old node for ten minutes.
        until("it is found at the other node", PATIENCE, || leads_to("f") == Some(to));
    }
    // A tree that is renamed takes its files along.
    lab.upload(&place(1, "d/f"), &bytes(1000, 1), &[]).expect(201);
    until("it is found", PATIENCE, || leads_to("d/f") == Some(1));
    lab.request("MOVE", &place(1, "d"), &[&format!("Destination: {}", place(1, "e"))])
        .expect(201);
    lab.upload(&place(2, "d/f"), &bytes(1000, 1), &[]).expect(201);
    until("its new place is known", PATIENCE, || leads_to("e/f") == Some(1));
    until("its old name is another file", PATIENCE, || leads_to("d/f") == Some(2));
}

#[test]
fn a_copy_that_goes_behind_the_door_is_missed_by_one_reader() {
    let test = "a_copy_that_goes_behind_the_door_is_missed_by_one_reader";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = Cluster::start(&lab, &Shape::default()).expect("the cluster starts");
    for node in [0, 1] {
        let place = cluster.nodes[node].url("/data/f");
        lab.upload(&place, &bytes(1000, 1), &[]).expect(201);
    }
    let question = cluster.redirector.url("/.well-known/crossload-why?path=/data/f");
    let is_known_at = |node: &Crossload| {
        let why: Value = serde_json::from_str(&lab.request("GET", &question, &[]).text()).expect("JSON");
        let holders = why["found"]["holders"].as_array().expect("it is somewhere");
        holders.contains(&node.url("").into())
    };
    until("both copies are known", PATIENCE, || {
        [0, 1].iter().all(|node| is_known_at(&cluster.nodes[*node]))
    });
    // Readers of the next seconds follow this one.
    let sent = lab.request("GET", &cluster.url("f"), &[]).expect(307);
    let place = sent.header("Location").expect("a place").to_owned();
    let is_there = |node: &&Crossload| place.contains(&format!(":{}/", node.port()));
    let loser = cluster.nodes.iter().find(is_there).expect("a node");
    std::fs::remove_file(loser.data().join("f")).expect("the file is there");
    let mut seen = Vec::new();
    until("the other copy is read", PATIENCE, || {
        seen.push(lab.curl(&["-L", &cluster.url("f")]).status);
        seen.ends_with(&[200; 10]) && !is_known_at(loser)
    });
    // "Not found" would be final for a client.
    assert!(seen.iter().all(|status| [200, 503].contains(status)), "{seen:?}");
}

#[test]
fn a_drained_node_gets_no_new_clients_and_its_files_are_read_elsewhere() {
    let test = "a_drained_node_gets_no_new_clients_and_its_files_are_read_elsewhere";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = Cluster::start(&lab, &operated()).expect("the cluster starts");
    let content = bytes(1000, 1);
    for both in [0, 1] {
        cluster.put(both, "both", &content);
    }
    cluster.put(0, "only", &content);
    node(&lab, &cluster.nodes[0], &["drain"]).succeeded();
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    for number in 0..20 {
        // Whenever the redirector still sends a client there, that one learns it from the node.
        let name = cluster.url(&format!("new{number}"));
        until("it is stored", PATIENCE, || {
            lab.curl(&["-L", "-T", file, &name]).status == 201
        });
        assert_ne!(cluster.having(&format!("new{number}")), [0]);
    }
    // The only copy of a file stays where it is, and gets its new content there.
    for (content, more) in [
        (&b"by a redirect"[..], "Expect: 100-continue"),
        (b"passed through", "Expect:"),
    ] {
        let file = lab.file(content);
        let file = file.to_str().expect("plain path");
        lab.curl(&["-L", "-H", more, "-T", file, &cluster.url("only")])
            .expect(204);
        assert_eq!(
            (cluster.having("only"), cluster.stored(0, "only")),
            (vec![0], content.to_vec())
        );
    }
    let why = lab.request("GET", &why_write(&cluster, "only"), &[]).expect(200);
    assert!(why.text().contains("drained of new files"), "{}", why.text());
    node(&lab, &cluster.nodes[0], &["drain", "--reads", "--wait"]).succeeded();
    lab.curl(&["-L", "-T", file, &cluster.url("only")]).expect(503);
    until("its readers are sent elsewhere", PATIENCE, || {
        (0..10).all(|_| {
            let answer = lab.request("GET", &cluster.url("both"), &[]);
            answer
                .header("Location")
                .is_some_and(|to| to.contains(&format!(":{}/", cluster.nodes[1].port())))
        })
    });
    let told = last_json(&node(&lab, &cluster.nodes[0], &["status", "--json"]).succeeded());
    assert_eq!((&told["drain"], &told["transfers"]), (&"no_reads".into(), &0.into()));
    check_printed(&lab, &cluster, told);
    node(&lab, &cluster.nodes[0], &["undrain"]).succeeded();
    let mut number = 0;
    until("it is used again", PATIENCE, || {
        number += 1;
        let name = format!("again{number}");
        lab.curl(&["-L", "-T", file, &cluster.url(&name)]);
        cluster.having(&name) == [0]
    });
}
