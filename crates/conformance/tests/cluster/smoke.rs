//! `crossload smoke` against redirectors: each request that changes something is led to a data
//! server, over both protocols.

use std::collections::BTreeSet;
use std::fs;

use conformance::{COPY_PROBES, HTTP_PROBES, Lab, ROOT_PROBES, Run, json_lines, visible};
use serde_json::Value;
use testkit::{Result, XrootdCluster, XrootdClusterOptions, XrootdVersion, available};

use crate::site::{Cluster, Shape};

/// The probes of one protocol that passed, by their names. None may fail.
#[track_caller]
fn passed(run: &Run, protocol: &str) -> BTreeSet<String> {
    let lines = json_lines(run);
    let failed: Vec<&Value> = lines.iter().filter(|probe| probe["outcome"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", run.stderr);
    let is_passed = |probe: &&Value| probe["protocol"] == protocol && probe["outcome"] == "passed";
    let names = lines
        .iter()
        .filter(is_passed)
        .filter_map(|probe| probe["probe"].as_str());
    names.map(str::to_owned).collect()
}

#[track_caller]
fn has_all(run: &Run, protocol: &str, names: &[&str]) {
    let passed = passed(run, protocol);
    for name in names {
        assert!(
            passed.contains(*name),
            "{protocol} \"{name}\" did not pass: {passed:?}\n{}",
            run.said()
        );
    }
}

/// Nothing here demands a credential.
const COPIES: [&str; 2] = [COPY_PROBES[0], COPY_PROBES[2]];

/// The name may also have an IPv6 address, where no server answers.
fn here(url: &str) -> String {
    url.replace("localhost", "127.0.0.1")
}

fn start(lab: &Lab) -> Result<XrootdCluster> {
    XrootdCluster::start_with(XrootdClusterOptions {
        version: XrootdVersion::V5,
        directory: lab.fresh("c"),
        servers: 2,
        default_delays: false,
        http: true,
    })
}

#[test]
fn a_manager_of_xrootd_passes_over_both_protocols() {
    let test = "a_manager_of_xrootd_passes_over_both_protocols";
    let Some(lab) = available(test, Lab::new("smoke")) else {
        return;
    };
    let Some(mut cluster) = available(test, start(&lab)) else {
        return;
    };
    // The same port answers both protocols.
    let root = here(&cluster.root_url("/data"));
    let http = root.replacen("root:", "http:", 1);
    let run = lab.run_client("smoke", &["--json", "--size", "300KiB", &http, &root]);
    has_all(&run, "http", &HTTP_PROBES);
    has_all(&run, "root", &ROOT_PROBES);
    for server in cluster.servers() {
        assert_eq!(visible(server.data()), Vec::<String>::new());
    }
}

#[test]
fn our_redirector_passes_over_both_protocols() {
    let test = "our_redirector_passes_over_both_protocols";
    let Some(lab) = available(test, Lab::new("smoke")) else {
        return;
    };
    let shape = Shape {
        nodes: 2,
        ..Shape::default()
    };
    let Some(cluster) = available(test, Cluster::start(&lab, &shape)) else {
        return;
    };
    let Some(third) = available(test, lab.crossload(lab.options("third"))) else {
        return;
    };
    fs::create_dir_all(third.data().join("probes")).expect("a directory");
    fs::write(third.data().join("public"), [7; 200_000]).expect("a file");
    let run = lab.run_client(
        "smoke",
        &[
            "--json",
            "--size",
            "300KiB",
            &here(&cluster.redirector.url("/data")),
            &here(&cluster.redirector.root_url("/data")),
            "--pull",
            &third.url("/data/public"),
            "--pull",
            &third.root_url("/data/public"),
            "--push",
            &third.url("/data/probes"),
            "--push",
            &third.root_url("/data/probes"),
        ],
    );
    has_all(&run, "https", &HTTP_PROBES);
    has_all(&run, "https", &COPIES);
    has_all(&run, "root", &ROOT_PROBES);
    has_all(&run, "root", &COPIES);
    for node in &cluster.nodes {
        assert_eq!(visible(node.data()), Vec::<String>::new());
    }
    assert_eq!(visible(&third.data().join("probes")), Vec::<String>::new());
}
