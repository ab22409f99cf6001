//! Names that come and go, and what redirectors know of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::director::Client;
use cluster::nats::node::Event as NodeEvent;
use cluster::node::NodeId;
use testkit::{Scratch, available};

use crate::site::{Node, Redirector, access, node_settings, node_user, path, redirector_user, start_server, until};

async fn ready(url: &str, node: &Node) -> Redirector {
    let redirector = Redirector::start(url, 1).await;
    redirector.until_ready(1).await;
    assert!(node.member.view().names.build().is_some());
    redirector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_and_removed_names_are_known_to_two_redirectors() {
    let scratch = Scratch::new("nats-names").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("new_and_removed_names", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", ["/d/old".to_owned()]).await;
    let redirectors = [ready(&url, &node).await, ready(&url, &node).await];
    for redirector in &redirectors {
        assert_eq!(redirector.locate("/d/new").await, None);
    }
    node.create("/d/new");
    until("both know", || {
        let known = |redirector: &Redirector| redirector.view().nodes[0].counts.changes >= 1;
        redirectors.iter().all(known)
    })
    .await;
    let asked = node.member.view().questions;
    for redirector in &redirectors {
        // Told, not asked.
        assert_eq!(redirector.known("/d/new").await.unwrap(), [NodeId(0)]);
    }
    assert_eq!(node.member.view().questions, asked);
    for redirector in &redirectors {
        assert_eq!(redirector.locate("/d/new").await, Some(vec![NodeId(0)]));
    }

    node.remove("/d/new");
    for redirector in &redirectors {
        until("the removal is known", || {
            redirector.view().nodes[0].counts.changes >= 2
        })
        .await;
        assert!(redirector.known("/d/new").await.is_err());
        assert_eq!(redirector.view().nodes[0].counts.gaps, 0);
    }
    let count = node.member.view().names.count;
    for redirector in &redirectors {
        assert_eq!(redirector.locate("/d/old").await, Some(vec![NodeId(0)]));
    }
    node.lose("/d/old");
    for redirector in &redirectors {
        until("a reader has missed it", || {
            redirector.view().nodes[0].counts.changes >= 3
        })
        .await;
        assert!(redirector.known("/d/old").await.is_err());
    }
    // Readers do not wear out the filter.
    assert_eq!(node.member.view().names.count, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_comes_or_goes_is_known_with_all_that_it_contains() {
    let scratch = Scratch::new("nats-trees").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("a_tree_that_comes_or_goes", start_server(&scratch, users)) else {
        return;
    };
    let files = |root: &str| -> Vec<String> { (0..500).map(|number| format!("{root}/sub/{number}")).collect() };
    let node = Node::start(&server.url(), "d0", files("/d/old")).await;
    let redirector = ready(&server.url(), &node).await;
    for file in &files("/d/old")[..3] {
        assert_eq!(redirector.locate(file).await, Some(vec![NodeId(0)]));
    }

    node.remove("/d/old");
    until("the removal is known", || {
        redirector.view().nodes[0].counts.changes >= 1
    })
    .await;
    for file in &files("/d/old")[..3] {
        // It was believed before.
        assert!(redirector.known(file).await.is_err(), "{file}");
    }

    node.bring_tree("/d/new", &files("/d/new"));
    until("the tree is open", || redirector.view().nodes[0].counts.changes >= 3).await;
    for file in files("/d/new") {
        assert_eq!(redirector.locate(&file).await, Some(vec![NodeId(0)]), "{file}");
    }
    until("the tree has been read", || {
        let names = node.member.view().names;
        names.open.is_empty() && redirector.view().nodes[0].counts.changes >= 500
    })
    .await;
    for file in files("/d/new") {
        assert_eq!(redirector.locate(&file).await, Some(vec![NodeId(0)]), "{file}");
    }
    let asked = node.member.view().questions;
    let others = (0..500).map(|number| format!("/d/new/sub/x{number}"));
    for other in others {
        assert_eq!(redirector.locate(&other).await, None);
    }
    let woken = node.member.view().questions - asked;
    assert!(woken < 50, "{woken} of 500 names that are not in the tree any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_changes_at_once_than_can_be_told_make_redirectors_ask() {
    let scratch = Scratch::new("nats-many").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("more_changes_at_once", start_server(&scratch, users)) else {
        return;
    };
    let node = Node::start(&server.url(), "d0", ["/d/old".to_owned()]).await;
    let redirector = ready(&server.url(), &node).await;
    assert_eq!(redirector.locate("/d/1").await, None);
    // Notices wait for slow looks, and some are lost.
    node.disk.delay_ms.store(20, Ordering::Relaxed);
    let files: Vec<String> = (0..3 * endpoint::limits::NAME_CHANGES_MAX)
        .map(|number| format!("/d/{number}"))
        .collect();
    files.iter().for_each(|file| node.disk.add_silently(file));
    files.iter().for_each(|file| node.changes.report(path(file)));
    node.disk.delay_ms.store(0, Ordering::Relaxed);
    until("the redirector knows that it knows too little", || {
        let view = redirector.view();
        view.nodes[0].counts.gaps > 0
    })
    .await;
    for file in files.iter().step_by(997) {
        assert_eq!(redirector.locate(file).await, Some(vec![NodeId(0)]), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_finds_what_it_has_just_written() {
    let scratch = Scratch::new("nats-placed").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("a_client_finds_what_it_has_just_written", start_server(&scratch, users)) else {
        return;
    };
    let node = Node::start(&server.url(), "d0", ["/d/old".to_owned()]).await;
    let redirector = ready(&server.url(), &node).await;
    let new = path("/d/new");
    let directed = redirector
        .director
        .write(&new, Some(1), Client::default())
        .await
        .unwrap();
    assert_eq!(directed.node, NodeId(0));
    // The file is there before the notice of it.
    node.disk.add_silently("/d/new");
    assert_eq!(redirector.locate("/d/new").await, Some(vec![NodeId(0)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_come_without_a_door_are_found_where_the_configuration_says_so() {
    let scratch = Scratch::new("nats-unfiltered").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("names_that_come_without_a_door", start_server(&scratch, users)) else {
        return;
    };
    let mut settings = node_settings(access(&server.url(), "d0"), "d0");
    settings.unfiltered = vec![path("/d/foreign")];
    let disk = Node::disk(["/d/old".to_owned()]);
    let node = Node::with(settings, Arc::clone(&disk)).await;
    let redirector = ready(&server.url(), &node).await;
    for name in ["/d/foreign/new", "/d/own/new"] {
        assert_eq!(redirector.locate(name).await, None);
        disk.add_silently(name);
    }
    assert_eq!(redirector.locate("/d/foreign/new").await, Some(vec![NodeId(0)]));
    assert_eq!(redirector.locate("/d/own/new").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_many_pieces_is_fetched() {
    let scratch = Scratch::new("nats-pieces").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("a_filter_of_many_pieces_is_fetched", start_server(&scratch, users)) else {
        return;
    };
    let names = 300_000;
    // A page of a directory costs time by its names: the walk is paced.
    let files = (0..names).map(|number| format!("/d/{}/{number}", number / 1000));
    let node = Node::start(&server.url(), "d0", files).await;
    let redirector = Redirector::start(&server.url(), 1).await;
    until("the node is there", || {
        redirector.source.works() && redirector.present() == 1
    })
    .await;
    // Until the walk ends, the node is asked.
    assert_eq!(redirector.locate("/d/299/299999").await, Some(vec![NodeId(0)]));
    redirector.until_ready(1).await;
    let events = node.disk.events.borrow().clone();
    assert!(
        events.iter().any(|event| matches!(event, NodeEvent::NamesRead { .. })),
        "{events:?}"
    );
    let view = redirector.view();
    assert!(view.filters_bytes > 3 * cluster::nats::limits::PIECE_BYTES);
    println!("{} bytes for {} names", view.filters_bytes, view.nodes[0].names);
    for number in (0..names).step_by(9973) {
        let file = format!("/d/{}/{number}", number / 1000);
        assert_eq!(redirector.locate(&file).await, Some(vec![NodeId(0)]), "{file}");
    }
    tokio::time::timeout(Duration::from_secs(5), node.member.stop(Duration::from_secs(2)))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_redirector_sends_away_the_others_ask_for() {
    let scratch = Scratch::new("nats-coming").unwrap();
    let users = vec![redirector_user(), node_user("d0"), node_user("d1")];
    let Some(server) = available("what_one_redirector_sends_away", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let nodes = [
        Node::start(&url, "d0", ["/d/old".to_owned()]).await,
        Node::start(&url, "d1", ["/d/old".to_owned()]).await,
    ];
    let (one, other) = (Redirector::start(&url, 2).await, Redirector::start(&url, 2).await);
    one.until_ready(2).await;
    other.until_ready(2).await;
    for number in 0..20 {
        let name = format!("/d/new/{number}");
        // It has said that there is none, a moment ago.
        assert_eq!(other.locate(&name).await, None);
        let new = path(&name);
        let client = Client::default();
        let sent = one.director.write(&new, Some(1), client).await.unwrap();
        until("the other has heard of it", || other.director.expects(&new)).await;
        // A second client with the same name, through the other redirector.
        let second = other.director.write(&new, Some(1), client).await.unwrap();
        assert_eq!(second.node, sent.node);
        // The file is there before its node tells of it.
        nodes[usize::from(sent.node.0)].disk.add_silently(&name);
        assert_eq!(other.locate(&name).await, Some(vec![sent.node]));
    }
    assert_eq!(other.view().strangers, 0);
}
