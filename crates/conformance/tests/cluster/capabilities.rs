//! A redirector that judges for its nodes: it sends clients there with a capability.

use std::os::unix::fs::PermissionsExt as _;

use conformance::{Lab, bytes, until};
use testkit::Access;
use testkit::available;

use crate::site::{Cluster, PATIENCE, Shape};

/// A cluster whose redirector judges for its nodes.
fn cluster_of(lab: &Lab, nodes: usize) -> Cluster {
    let key = lab.file(b"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("mode");
    let section = format!("[hand_over]\nkey_file = {key:?}\n");
    let shape = Shape {
        nodes,
        // The redirector may look at everything; a client without a capability may not.
        on_nodes: Access::None,
        more: Box::new({
            let section = section.clone();
            move |url| {
                let looks = "[[rule]]\nwho = \"anyone\"\npath = \"/data\"\nmay = [\"stat\"]\n";
                format!("{section}accept_as = {url:?}\n{looks}")
            }
        }),
        redirector: format!("capabilities = true\n{section}"),
        ..Shape::default()
    };
    Cluster::start(lab, &shape).expect("the cluster starts")
}

#[test]
fn nodes_believe_a_capability_and_nothing_else() {
    let test = "nodes_believe_a_capability_and_nothing_else";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = cluster_of(&lab, 2);
    let content = bytes(5000, 1);
    let file = lab.file(&content);
    let file = file.to_str().expect("plain path");
    // For some seconds after its start a node accepts no capability for writing: its clients
    // shall come again, and are not sent there in vain.
    let told = lab.request("PUT", &cluster.url("f"), &["Content-Length: 1", "Expect: 100-continue"]);
    assert!(
        told.status == 307 || told.header("retry-after").is_some(),
        "{}",
        told.text()
    );
    until("a file is stored", PATIENCE, || {
        let stored = lab.curl(&["-L", "-T", file, &cluster.url("f")]);
        assert!([201, 503].contains(&stored.status), "{}", stored.text());
        stored.status == 201
    });
    let holder = cluster.having("f")[0];
    assert!(lab.curl(&["-L", &cluster.url("f")]).expect(200).body == content);
    lab.curl(&[&cluster.nodes[holder].url("/data/f")]).expect(401);
    let sent = lab.request("GET", &cluster.url("f"), &[]).expect(307);
    let place = sent.header("location").expect("a place").to_owned();
    assert!(place.contains("capability="), "{place}");
    let other = place.replace("/data/f?", "/data/g?");
    lab.curl(&[&other]).expect(403);
    for node in &cluster.nodes {
        assert!(
            !node.log().stderr().contains("capability="),
            "a capability is in the log"
        );
    }
}

#[test]
fn a_capability_leads_over_no_link_to_another_path() {
    let test = "a_capability_leads_over_no_link_to_another_path";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let cluster = cluster_of(&lab, 1);
    let new = lab.file(b"new");
    let new = new.to_str().expect("plain path");
    until("the node takes capabilities for writing", PATIENCE, || {
        lab.curl(&["-L", "-T", new, &cluster.url("public/f")]).status == 201
    });
    cluster.put(0, "private/secret", b"secret");
    let public = cluster.nodes[0].data().join("public");
    std::os::unix::fs::symlink("../private/secret", public.join("link")).expect("a link");
    std::os::unix::fs::symlink("../private", public.join("dir")).expect("a link");
    for name in ["public/link", "public/dir/secret"] {
        let refused = lab.curl(&["-L", &cluster.url(name)]).expect(403);
        assert!(refused.text().contains("symbolic link"), "{}", refused.text());
    }
    for name in ["public/dir/secret", "public/dir/new"] {
        // The second way passes through the redirector.
        for expectation in ["Expect: 100-continue", "Expect:"] {
            let refused = lab.curl(&["-L", "-H", expectation, "-T", new, &cluster.url(name)]);
            assert_eq!(refused.status, 403, "{name} {expectation} {}", refused.text());
        }
    }
    assert_eq!(cluster.stored(0, "private/secret"), b"secret");
    assert_eq!(cluster.having("private/new"), [0; 0]);
    lab.curl(&["-L", &cluster.url("public/f")]).expect(200);
}
