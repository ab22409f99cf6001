//! What questions cost with many nodes. Times are printed; what is demanded is how many nodes woke.

use std::time::{Duration, Instant};

use cluster::node::NodeId;
use testkit::{NatsServer, Scratch, available};

use crate::site::{Node, Redirector, name_of, node_user, redirector_user, start_server};

/// Names of each node; `CLUSTER_NAMES` asks for another number.
const NAMES: usize = 1_000;
const QUESTIONS: usize = 500;

fn names() -> usize {
    let wanted = std::env::var("CLUSTER_NAMES").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(NAMES)
}

fn file(node: usize, number: usize) -> String {
    format!("/d/run{}/node{node}/file{number}.root", number / 1000)
}

struct Times(Vec<Duration>);

impl Times {
    fn share(&self, share: f64) -> Duration {
        let mut times = self.0.clone();
        times.sort();
        times[((times.len() - 1) as f64 * share) as usize]
    }

    fn print(&self, what: &str) {
        let (median, most) = (self.share(0.5), self.share(0.99));
        println!("{what}: median {median:?}, 99 of 100 {most:?}");
    }
}

async fn cluster(server: &NatsServer, count: usize) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(count);
    for number in 0..count {
        let files = (0..names()).map(|name| file(number, name));
        nodes.push(Node::start(&server.url(), &name_of(number), files).await);
    }
    nodes
}

fn woken(nodes: &[Node]) -> u64 {
    nodes.iter().map(|node| node.member.view().questions).sum()
}

async fn measure(test: &str, count: usize) {
    let scratch = Scratch::new("nats-figures").unwrap();
    let mut users: Vec<_> = (0..count).map(|number| node_user(&name_of(number))).collect();
    users.push(redirector_user());
    let Some(server) = available(test, start_server(&scratch, users)) else {
        return;
    };
    let nodes = cluster(&server, count).await;
    for node in &nodes {
        let mut events = node.disk.events.subscribe();
        let is_read =
            |event: &cluster::nats::node::Event| matches!(event, cluster::nats::node::Event::NamesRead { .. });
        drop(events.wait_for(|events| events.iter().any(is_read)).await.unwrap());
    }
    let began = Instant::now();
    let redirector = Redirector::start(&server.url(), count).await;
    redirector.source.settle().await;
    let settled = began.elapsed();
    redirector.until_ready(count).await;
    println!(
        "{count} nodes: all present after {settled:?}, all filters after {:?}",
        began.elapsed()
    );
    println!(
        "{} bytes of filters for {} names",
        redirector.view().filters_bytes,
        count * names()
    );

    let before = woken(&nodes);
    let mut times = Times(Vec::new());
    for number in 0..QUESTIONS {
        let holder = number * 7 % count;
        let began = Instant::now();
        let located = redirector.locate(&file(holder, number * 13 % names())).await;
        times.0.push(began.elapsed());
        assert_eq!(located, Some(vec![NodeId(holder as u16)]));
    }
    times.print(&format!("{count} nodes, cold"));
    let found = woken(&nodes) - before;
    let mut times = Times(Vec::new());
    for number in 0..QUESTIONS {
        let began = Instant::now();
        assert_eq!(redirector.locate(&format!("/d/run1/none/{number}")).await, None);
        times.0.push(began.elapsed());
    }
    times.print(&format!("{count} nodes, absent"));
    let absent = woken(&nodes) - before - found;
    let questions = QUESTIONS as f64;
    println!(
        "{count} nodes: {} woke for each name that exists, {} for each that does not",
        found as f64 / questions,
        absent as f64 / questions
    );
    // The holder, and one of a hundred others.
    let most = (QUESTIONS * (1 + count.div_ceil(100))) as u64;
    assert!(
        found <= most && absent <= most,
        "{found} and {absent} of at most {most}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_of_twenty_nodes_wake() {
    measure("few_of_twenty_nodes_wake", 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_of_a_hundred_nodes_wake() {
    measure("few_of_a_hundred_nodes_wake", 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_of_a_thousand_nodes_wake() {
    measure("few_of_a_thousand_nodes_wake", 1000).await;
}
