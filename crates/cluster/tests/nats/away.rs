//! The bus is away, hangs, or comes back.

use std::sync::Arc;
use std::time::Duration;

use cluster::explanation::Undirected;
use cluster::locator::{Answer, Answers, Locator, Says};
use cluster::nats::limits::SILENCE_MS;
use cluster::nats::redirector::Event;
use cluster::node::NodeId;
use testkit::{Scratch, available};
use types::LogicalPath;

use crate::site::{Node, Redirector, access, node_user, redirector_user, start_server, until};

/// Asks every node over its own protocol, as it were.
struct Direct;

impl Locator for Direct {
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        let has = path.as_str() == "/d/unknown";
        Box::pin(futures_util::stream::iter(nodes.iter().map(move |node| Answer {
            node: *node,
            says: match has {
                true => Says::File { size_bytes: None },
                false => Says::Nothing,
            },
        })))
    }
}

async fn longer_than_silence() {
    tokio::time::sleep(Duration::from_millis(SILENCE_MS + 1_000)).await;
}

fn went(redirector: &Redirector) -> Vec<Event> {
    let events = redirector.events.borrow().clone();
    events
        .into_iter()
        .filter(|event| matches!(event, Event::Went { .. }))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_bus_what_is_known_is_answered_and_all_comes_back_by_itself() {
    let scratch = Scratch::new("nats-away").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(mut server) = available("without_the_bus", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", ["/d/known".to_owned(), "/d/unknown".to_owned()]).await;
    let mut redirector = Redirector::start(&url, 1).await;
    let other = Redirector::with(access(&url, "redirector"), 1, Some(Arc::new(Direct))).await;
    for redirector in [&redirector, &other] {
        redirector.until_ready(1).await;
        assert_eq!(redirector.locate("/d/known").await, Some(vec![NodeId(0)]));
    }

    server.process().kill_hard();
    redirector.until_event(|event| *event == Event::Away).await;
    until("the other notices too", || !other.source.works()).await;
    longer_than_silence().await;
    for redirector in [&redirector, &other] {
        assert_eq!(redirector.known("/d/known").await.unwrap(), [NodeId(0)]);
        assert_eq!(redirector.present(), 1);
    }
    // Unknown names are asked for over the nodes' own protocol, or stay uncertain.
    let unsure = redirector.known("/d/unknown").await;
    assert!(matches!(unsure, Err(Undirected::Unsure { .. })), "{unsure:?}");
    assert_eq!(other.known("/d/unknown").await.unwrap(), [NodeId(0)]);
    assert!(matches!(other.known("/d/absent").await, Err(Undirected::NotFound(_))));
    assert!(redirector.view().bus.fault.is_some() && !redirector.view().works);

    // A name comes while no one can hear of it.
    node.create("/d/meanwhile");
    server.start_again().unwrap();
    until("the bus works again", || {
        redirector.source.works() && other.source.works()
    })
    .await;
    until("the node is back with its names", || {
        let has_filter = |redirector: &Redirector| redirector.view().nodes[0].has_filter;
        node.member.view().bus.is_connected && has_filter(&redirector) && has_filter(&other)
    })
    .await;
    for redirector in [&redirector, &other] {
        assert_eq!(redirector.locate("/d/meanwhile").await, Some(vec![NodeId(0)]));
        assert_eq!(redirector.locate("/d/absent").await, None);
        assert_eq!(went(redirector), []);
        assert!(redirector.view().bus.connections >= 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_hangs_is_away_and_takes_no_node_along() {
    let scratch = Scratch::new("nats-hangs").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(mut server) = available("a_bus_that_hangs", start_server(&scratch, users)) else {
        return;
    };
    let _node = Node::start(&server.url(), "d0", ["/d/known".to_owned()]).await;
    let mut redirector = Redirector::start(&server.url(), 1).await;
    redirector.until_ready(1).await;
    assert_eq!(redirector.locate("/d/known").await, Some(vec![NodeId(0)]));
    server.process().pause().unwrap();
    redirector.until_event(|event| *event == Event::Away).await;
    longer_than_silence().await;
    assert_eq!(redirector.known("/d/known").await.unwrap(), [NodeId(0)]);
    let unsure = redirector.known("/d/unknown").await;
    assert!(matches!(unsure, Err(Undirected::Unsure { .. })), "{unsure:?}");
    server.process().resume().unwrap();
    until("the bus works again", || redirector.source.works()).await;
    until("names are certain again", || redirector.view().nodes[0].has_filter).await;
    assert_eq!(redirector.locate("/d/unknown").await, None);
    assert_eq!(went(&redirector), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_redirectors_may_start_before_the_bus() {
    let scratch = Scratch::new("nats-late").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(mut server) = available(
        "nodes_and_redirectors_may_start_before_the_bus",
        start_server(&scratch, users),
    ) else {
        return;
    };
    server.process().kill_hard();
    let _node = Node::start(&server.url(), "d0", ["/d/known".to_owned()]).await;
    let redirector = Redirector::start(&server.url(), 1).await;
    until("the redirector says why", || redirector.view().bus.fault.is_some()).await;
    server.start_again().unwrap();
    redirector.until_ready(1).await;
    assert_eq!(redirector.locate("/d/known").await, Some(vec![NodeId(0)]));
}
