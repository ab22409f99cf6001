//! What a redirector needs for the names that it knows. Alone in its process, which is measured.

#![allow(clippy::print_stdout, reason = "the figure is the result")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::director::Director;
use cluster::locator::{Answer, Answers, Locator, Says};
use cluster::node::{NodeConfig, NodeId};
use types::LogicalPath;

/// Names in a usual run; `CLUSTER_LOCATIONS` asks for another number.
const NAMES: u64 = 500_000;
const NODES: u16 = 1_000;
/// The goal: ten million names in 1 GiB.
const BYTES_A_NAME: u64 = (1 << 30) / 10_000_000;

#[derive(Default)]
struct Silent {
    questions: AtomicU64,
}

impl Locator for Silent {
    fn ask<'a>(&'a self, _: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let says = |node: &NodeId| Answer {
            node: *node,
            says: Says::Nothing,
        };
        Box::pin(futures_util::stream::iter(nodes.iter().map(says)))
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn name(number: u64) -> LogicalPath {
    let text = format!("/data/run{:05}/reconstructed/file{number:08}.root", number / 1000);
    LogicalPath::parse(&text).unwrap()
}

fn holder(number: u64) -> NodeId {
    NodeId((number % u64::from(NODES)) as u16)
}

#[tokio::test]
async fn ten_million_names_of_a_thousand_nodes_take_a_gibibyte() {
    let wanted = std::env::var("CLUSTER_LOCATIONS").ok();
    let names = wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(NAMES);
    let before = resident_bytes();
    let nodes = (0..NODES).map(|number| NodeConfig {
        name: format!("https://d{number}.example.org:1094"),
        exports: vec![LogicalPath::parse("/data").unwrap()],
        site: None,
        weight: 1.0,
    });
    let source = Arc::new(Silent::default());
    let director = Director::new(nodes, source.clone(), (names * BYTES_A_NAME) as usize);
    for node in 0..NODES {
        let _ = director.told(NodeId(node), None);
        // Otherwise it is asked again after seconds, which a slow machine needs to learn all names.
        director.tells(NodeId(node), true);
    }
    // What is learned in the same unit of time as its node's announcement (16 ms) is asked for
    // again.
    std::thread::sleep(Duration::from_millis(40));
    (0..names).for_each(|number| director.created(&name(number), holder(number)));
    for number in (0..names).step_by(9973) {
        let located = director.locate(&name(number), false).await.unwrap();
        assert_eq!(located.holders, [holder(number)], "{number}");
    }
    assert_eq!(source.questions.load(Ordering::Relaxed), 0, "a name was forgotten");
    let taken = resident_bytes() - before;
    println!("{names} names of {NODES} nodes: {taken} bytes, {} each", taken / names);
    assert!(taken <= names * BYTES_A_NAME, "{taken} bytes");
}
