//! Symbolic links on a node between trees of different rights. The node judges the redirector,
//! which may do more than its clients.

use conformance::Lab;
use testkit::{Access, available};

use crate::site::{Cluster, Shape};

const RULES: &str = "[[rule]]\nwho = \"anyone\"\npath = \"/data/public\"\nmay = [\"stat\", \"list\", \"read\", \"write\", \"delete\"]\n";

#[test]
fn the_redirector_reaches_nothing_over_links_that_its_client_may_not() {
    let test = "the_redirector_reaches_nothing_over_links_that_its_client_may_not";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let shape = Shape {
        nodes: 1,
        on_nodes: Access::Write,
        anonymous: "none",
        redirector: RULES.to_owned(),
        ..Shape::default()
    };
    let cluster = Cluster::start(&lab, &shape).expect("the cluster starts");
    for name in ["private/f", "public/f", "public/sub/f"] {
        cluster.put(0, name, b"old");
    }
    let public = cluster.nodes[0].data().join("public");
    for (target, name) in [("../private", "away"), ("sub", "near")] {
        std::os::unix::fs::symlink(target, public.join(name)).expect("a link");
    }
    lab.request("PROPFIND", &cluster.url("private"), &["Depth: 1"])
        .expect(401);
    let file = lab.file(b"new");
    let file = file.to_str().expect("plain path");
    let statuses = |link: &str| {
        let url = |name: &str| cluster.url(&format!("public/{link}{name}"));
        let to = |name: &str| format!("Destination: {}", cluster.url(name));
        [
            lab.request("PROPFIND", &url(""), &["Depth: 1"]).status,
            lab.request("PROPFIND", &url("/f"), &["Depth: 0"]).status,
            lab.request("MKCOL", &url("/new"), &[]).status,
            lab.curl(&["-H", "Expect:", "-T", file, &url("/f")]).status,
            lab.curl(&["-H", "Expect:", "-T", file, &url("/put")]).status,
            lab.request("MOVE", &url("/f"), &[&to("public/moved")]).status,
            lab.request("MOVE", &cluster.url("public/f"), &[&to(&format!("public/{link}/g"))])
                .status,
            lab.request("DELETE", &url("/f"), &[]).status,
        ]
    };
    assert_eq!(statuses("away"), [403; 8]);
    let left = std::fs::read_dir(cluster.nodes[0].data().join("private")).expect("a directory");
    assert_eq!((left.count(), cluster.stored(0, "private/f")), (1, b"old".to_vec()));
    let listed = lab
        .request("PROPFIND", &cluster.url("public"), &["Depth: 1"])
        .expect(207);
    assert!(
        !listed.text().contains("away") && listed.text().contains("near"),
        "{}",
        listed.text()
    );
    // In a tree of the same rights links work as ever.
    assert_eq!(statuses("near"), [207, 207, 201, 204, 201, 201, 201, 404]);
}
