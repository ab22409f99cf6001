//! Nodes that come, go and drain; what each question costs.

use std::time::{Duration, Instant};

use cluster::nats::redirector::Event;
use cluster::node::{Drain, NodeId};
use testkit::{Scratch, available};

use crate::site::{Node, Redirector, client, name_of, node_user, redirector_user, start_server, until};

/// What a busy machine may take in addition.
const SPARE_TIME: Duration = Duration::from_secs(7);

fn file(number: usize) -> String {
    format!("/d/{number}/file")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joins_is_used_within_a_second_and_one_that_dies_is_left_within_three() {
    let scratch = Scratch::new("nats-join").unwrap();
    let users = vec![redirector_user(), node_user("d0"), node_user("d1")];
    let Some(server) = available("a_node_that_joins", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let mut redirector = Redirector::start(&url, 2).await;
    redirector.until_event(|event| *event == Event::Works).await;
    let began = Instant::now();
    let node = Node::start(&url, "d0", [file(0)]).await;
    redirector.until_event(|event| *event == Event::Came(NodeId(0))).await;
    let took = began.elapsed();
    println!("a node that joined was used after {took:?}");
    assert!(took < Duration::from_secs(1) + SPARE_TIME, "{took:?}");
    assert_eq!(redirector.locate(&file(0)).await, Some(vec![NodeId(0)]));

    // It dies without a word, and no question is asked.
    let began = Instant::now();
    drop(node);
    redirector
        .until_event(|event| matches!(event, Event::Went { node: NodeId(0), reason } if reason.starts_with("it is silent on the message bus")))
        .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3) + SPARE_TIME, "{took:?}");
    println!("a dead node was lost after {took:?}");

    // One that stops says so.
    let leaves = Node::start(&url, "d0", [file(0)]).await;
    until("it is there", || redirector.present() == 1).await;
    leaves.member.stop(Duration::from_secs(1)).await;
    redirector
        .until_event(|event| matches!(event, Event::Went { reason, .. } if reason == "it has stopped"))
        .await;

    // One that announced itself and is not connected any more is noticed by the first question,
    // unless the bus has just come back.
    let dead = client(&url, "d1").await;
    let noticed = || {
        let is_noticed =
            |event: &Event| matches!(event, Event::Went { reason, .. } if reason.contains("not connected"));
        redirector.events.borrow().iter().any(is_noticed)
    };
    while !noticed() {
        dead.publish("crossload.from.d1.state", "{\"format\":1}".into())
            .await
            .unwrap();
        dead.flush().await.unwrap();
        until("it is there", || redirector.present() == 1).await;
        assert!(redirector.known(&file(1)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_does_not_exist_is_denied_at_once_and_wakes_hardly_a_node() {
    let scratch = Scratch::new("nats-absent").unwrap();
    let count = 20;
    let mut users: Vec<_> = (0..count).map(|number| node_user(&name_of(number))).collect();
    users.push(redirector_user());
    let Some(server) = available("a_name_that_does_not_exist", start_server(&scratch, users)) else {
        return;
    };
    let mut nodes = Vec::new();
    for number in 0..count {
        nodes.push(Node::start(&server.url(), &name_of(number), [file(number)]).await);
    }
    let redirector = Redirector::start(&server.url(), count).await;
    redirector.source.settle().await;
    assert_eq!(redirector.present(), count, "the greeting brings all of them");
    redirector.until_ready(count).await;

    let woken = || nodes.iter().map(|node| node.member.view().questions).sum::<u64>();
    let before = woken();
    let asked = 200;
    let began = Instant::now();
    for number in 0..asked {
        assert_eq!(redirector.locate(&format!("/d/none/{number}")).await, None);
    }
    println!("{:?} for a name that does not exist", began.elapsed() / asked);
    // A filter with one name claims no other.
    assert_eq!(woken(), before);
    for number in 0..count {
        assert_eq!(
            redirector.locate(&file(number)).await,
            Some(vec![NodeId(number as u16)])
        );
    }
    assert_eq!(woken(), before + count as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_known_at_once() {
    let scratch = Scratch::new("nats-drain").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("a_drain_is_known_at_once", start_server(&scratch, users)) else {
        return;
    };
    let node = Node::start(&server.url(), "d0", [file(0)]).await;
    let redirector = Redirector::start(&server.url(), 1).await;
    redirector.until_ready(1).await;
    let drain = || {
        redirector
            .director
            .with_nodes(|nodes, _| nodes.get(NodeId(0)).unwrap().drain())
    };
    assert_eq!(drain(), Drain::Active);
    node.drain(Drain::NoWrites);
    until("the redirector knows", || drain() == Drain::NoWrites).await;
    assert_eq!(redirector.view().nodes[0].doors, ["https://d0:1094"]);
}
