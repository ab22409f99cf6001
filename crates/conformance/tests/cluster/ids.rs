//! One request at the redirector and at the node has one name in both logs.

use conformance::{Lab, Run, bytes, requests, requests_with, run, until};
use serde_json::Value;
use testkit::{Crossload, Result, XrootdVersion, available};

use crate::site::{Cluster, PATIENCE, Shape};

struct Site {
    lab: Lab,
    cluster: Cluster,
}

impl Site {
    fn start() -> Result<Self> {
        for version in [XrootdVersion::V5, XrootdVersion::V6] {
            version.require("xrdcp")?;
        }
        let lab = Lab::new("ids")?;
        let cluster = Cluster::start(&lab, &Shape::default())?;
        Ok(Self { lab, cluster })
    }

    /// The name of the last request for this file at the redirector, which a node's line repeats.
    #[track_caller]
    fn shared(&self, name: &str, at_redirector: &str, at_node: &str) {
        let path = format!("/data/{name}");
        let is = |line: &Value, method: &str| line["path"] == path.as_str() && line["method"] == method;
        let sent = |line: &Value| is(line, at_redirector) && line["sent_to"].is_string();
        let sent = requests_with(self.cluster.redirector.log(), 1, name, sent);
        let sent = sent
            .into_iter()
            .rfind(|line| line["sent_to"].is_string() && is(line, at_redirector));
        let sent = sent.expect("it is in the log");
        let node = sent["sent_to"].as_str().expect("a node");
        let node = self
            .cluster
            .nodes
            .iter()
            .find(|ours| node.ends_with(&format!(":{}", ours.port())));
        let node: &Crossload = node.expect("one of ours");
        let repeats = |line: &Value| is(line, at_node) && line["redirect_id"] == sent["request_id"];
        requests_with(node.log(), 1, &format!("{sent}"), repeats);
    }
}

#[test]
fn both_logs_have_the_same_name_for_a_request() {
    let Some(site) = available("both_logs_have_the_same_name_for_a_request", Site::start()) else {
        return;
    };
    let local = site.lab.file(&bytes(300_000, 411));
    let local = local.to_str().expect("plain");
    let put = |name: &str, waits: &str| {
        let url = site.cluster.url(name);
        site.lab.curl(&["-L", "-H", waits, "-T", local, &url]).expect(201);
    };
    put("waits", "Expect: 100-continue");
    site.shared("waits", "PUT", "PUT");
    // Its content passes through the redirector.
    put("passes", "Expect:");
    site.shared("passes", "PUT", "PUT");
    site.lab.curl(&["-L", &site.cluster.url("waits")]).expect(200);
    site.shared("waits", "GET", "GET");
    for version in [XrootdVersion::V5, XrootdVersion::V6] {
        let name = format!("root-{version:?}");
        let there = site.cluster.redirector.root_url(&format!("/data/{name}"));
        let stored: Run = site.lab.xrdcp_of(version, &[local, &there]);
        stored.succeeded();
        site.shared(&name, "open", "open");
        site.shared(&name, "open", "close");
    }

    let server = site.cluster.redirector.url("");
    let arguments = ["/data/waits", "--redirector", server.as_str()];
    let arguments = site.lab.client_arguments("why", &arguments);
    let told = run(&site.lab.client(arguments).expect("it is built"))
        .succeeded()
        .text();
    until("the log has the request of `why`", PATIENCE, || {
        let asked = requests(site.cluster.redirector.log());
        asked
            .iter()
            .filter_map(|line| line["request_id"].as_str())
            .any(|id| told.contains(id))
    });
}

#[test]
fn what_a_client_calls_a_request_is_logged_only_if_it_can_be_a_name() {
    let test = "what_a_client_calls_a_request_is_logged_only_if_it_can_be_a_name";
    let started = Lab::new("names").and_then(|lab| Ok((lab.crossload(lab.options("node"))?, lab)));
    let Some((server, lab)) = available(test, started) else {
        return;
    };
    std::fs::write(server.data().join("f"), b"content").expect("a file");
    let long = "a".repeat(65);
    let names = [
        ("abc-123", true),
        (long.as_str(), false),
        ("%22x%22", false),
        ("", false),
    ];
    for ((name, is_logged), count) in names.into_iter().zip(1..) {
        let url = format!("{}?crossload.redirect={name}", server.url("/data/f"));
        lab.curl(&[&url]).expect(200);
        let lines = requests_with(server.log(), count, name, |line| line["path"] == "/data/f");
        let known = lines.last().expect("a line")["redirect_id"].as_str();
        assert_eq!(known, is_logged.then_some(name));
    }
}
