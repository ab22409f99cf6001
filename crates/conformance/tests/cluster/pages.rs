//! The page *Cluster* of a redirector.

use conformance::{Lab, Look, assert_pages_are_good, look_at, run, until};
use serde_json::Value;
use testkit::available;

use crate::site::{Cluster, PATIENCE, Shape};

#[test]
fn nodes_are_shown_and_where_a_client_is_sent() {
    let test = "nodes_are_shown_and_where_a_client_is_sent";
    let Some(lab) = available(test, Lab::new("cluster")) else {
        return;
    };
    let shape = Shape {
        more: Box::new(|_| "[cluster]\noperators = [\"address:127.0.0.0/8\"]\n".to_owned()),
        redirector: "[web]\nlisten = \"127.0.0.1:0\"\n".to_owned(),
        ..Shape::default()
    };
    let mut cluster = Cluster::start(&lab, &shape).expect("the cluster starts");
    cluster.put(1, "</pre><script>a", b"content");
    let url = cluster.redirector.log().pages_url("http");
    let json = |path: &str| lab.page_json(&format!("{url}{path}"));
    let node_of = |state: &Value, number: usize| -> Value {
        let (nodes, wanted) = (state["nodes"].as_array().expect("nodes"), &cluster.nodes[number]);
        let found = nodes.iter().find(|node| node["name"] == *wanted.url(""));
        found.expect("each node is there").clone()
    };
    until("what the nodes told is there", PATIENCE, || {
        (0..3).all(|number| node_of(&json("/cluster"), number)["load"]["free_bytes"].as_u64() > Some(0))
    });
    assert_eq!(node_of(&json("/cluster"), 1)["is_well"], true);

    let question = "/cluster?path=/data/%3C/pre%3E%3Cscript%3Ea&refresh=1";
    let why = json(question)["why"].take();
    assert_eq!(
        why["found"]["holders"],
        serde_json::json!([cluster.nodes[1].url("")]),
        "{why}"
    );
    let page = lab.curl(&[&format!("{url}{question}")]).expect(200).text();
    assert!(!page.contains("<script>a"), "{page}");
    assert!(
        page.contains(&format!("is on     {}", cluster.nodes[1].url(""))),
        "{page}"
    );
    for wrong in ["/other/f", "/data/../f", "/data/f&op=delete"] {
        let page = lab.curl(&[&format!("{url}/cluster?path={wrong}")]).expect(200).text();
        assert!(page.contains("class=\"warning\" role=\"status\""), "{wrong}: {page}");
    }

    let mut drain = lab.client(["node", "drain"]).expect("our client");
    run(drain
        .arg(cluster.nodes[2].url(""))
        .arg("--cacert")
        .arg(lab.authority().ca_file()))
    .succeeded();
    until("the node is drained", PATIENCE, || {
        node_of(&json("/cluster"), 2)["drain"] != "active"
    });
    cluster.nodes[0].process().kill_hard();
    until("the node is away", PATIENCE, || {
        let page = lab.curl(&[&format!("{url}/cluster")]).expect(200).text();
        page.contains("✕ away") && page.contains("<b>2</b> of 3 nodes answer")
    });
    let once = lab.run_client("top", &[&url, "--once"]).succeeded().text();
    let counts = "cluster: 2 of 3 nodes answer, 1 drained";
    assert!(once.contains(counts) && once.contains("\naway"), "{once}");
    let paths = ["/cluster", question];
    if let Some(seen) = available(test, look_at(&lab, &Look::new(&url, &paths))) {
        assert_pages_are_good(&seen, &paths);
        let plain = look_at(&lab, &Look::new(&url, &["/cluster"]).without_scripts()).expect("Chromium");
        assert!(plain.iter().all(|page| page["status"] == 200), "{plain:?}");
    }
}
