//! The transfer queue, whose storages are redirectors.

use conformance::{Lab, bytes, run};
use testkit::{Queue, available};

use crate::site::{Cluster, Shape};

#[test]
fn the_queue_copies_between_redirectors() {
    let Some(lab) = available("the_queue_copies_between_redirectors", Lab::new("cluster")) else {
        return;
    };
    let two = Shape {
        nodes: 2,
        ..Shape::default()
    };
    let [from, to] = [0, 1].map(|_| Cluster::start(&lab, &two).expect("the cluster starts"));
    let queue = Queue::start(lab.queue_options("anonymous = true")).expect("the queue starts");
    let content = bytes(300_000, 7);
    let mut list = String::new();
    for number in 0..6 {
        from.put(number % 2, &format!("q/{number}"), &content);
        let name = format!("q/{number}");
        list.push_str(&format!("{} {}\n", from.url(&name), to.url(&name)));
    }
    let list = lab.file(list.as_bytes());
    let mut submit = lab
        .client(["queue", "submit", "-s", &queue.url(), "-b", "-K", "-f"])
        .expect("our client");
    submit.arg(list);
    run(&submit).succeeded();
    for number in 0..6 {
        let name = format!("q/{number}");
        let having = to.having(&name);
        assert!(
            having.len() == 1 && to.stored(having[0], &name) == content,
            "{name} on {having:?}"
        );
    }
    for cluster in [&from, &to] {
        let log = cluster.redirector.log().stderr();
        let moved = log
            .lines()
            .filter(|line| line.contains("\"method\":\"GET\"") && !line.contains("\"status\":307"));
        assert_eq!(moved.count(), 0, "no content passes through a redirector: {log}");
    }
}
