//! New files that are on their way, and clients that store the same name.

use super::*;
use crate::limits::{EXPECTED_MAX, WAITING_TIME_MS};

#[tokio::test(start_paused = true)]
async fn a_name_is_given_once_at_a_time() {
    let site = site(&[not(1), not(1)]);
    let (name, client) = (path("/data/a"), Client::default());
    let claim = site.director.claim(&name).await.unwrap();
    assert!(matches!(site.director.claim(&name).await, Err(Undirected::Claimed)));
    let stored = site.director.write(&name, None, client).await;
    assert!(matches!(stored, Err(Undirected::Claimed)), "{stored:?}");
    drop(claim);
    site.director.write(&name, None, client).await.unwrap();
    // A file of this name may be on its way for long.
    tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS - 1)).await;
    assert!(matches!(site.director.claim(&name).await, Err(Undirected::Claimed)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(site.director.claim(&name).await.is_ok());
    // Another redirector has told of it.
    site.director.expect(&name, NodeId(1));
    assert!(matches!(site.director.claim(&name).await, Err(Undirected::Claimed)));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_goes_elsewhere_only_if_the_node_cannot_have_the_file() {
    let site = site(&[not(1), not(1)]);
    let name = path("/data/a");
    let client = Client {
        address: Some("192.0.2.1".parse().unwrap()),
        ..Client::default()
    };
    let new = Client { is_new: true, ..client };
    let stored = async |client| site.director.write(&name, Some(1 << 30), client).await.unwrap().node;
    let told = |node, free_bytes| site.director.told(node, Some(room(1 << 40, free_bytes)));
    let first = stored(client).await;
    // Several clients may have one address, and the upload of the first may still run.
    tokio::time::advance(Duration::from_millis(RESERVATION_TIME_MS)).await;
    assert_eq!((stored(client).await, stored(new).await), (first, first));
    told(first, 1 << 20);
    let other = NodeId(1 - first.0);
    told(other, 1 << 39);
    let neighbour = Client {
        address: Some("192.0.2.2".parse().unwrap()),
        ..client
    };
    for client in [neighbour, new] {
        let refused = site.director.write(&name, Some(1 << 30), client).await;
        assert_eq!(refused, Err(Undirected::Occupied { node: first }));
        // It would fit on no node.
        let large = site.director.write(&name, Some(1 << 40), client).await;
        assert!(matches!(large, Err(Undirected::NoRoom { .. })), "{large:?}");
    }
    assert_eq!(stored(client).await, other);
    // It has told so itself.
    let tried = Client {
        tried: &[other],
        ..client
    };
    told(first, 1 << 39);
    assert_eq!(stored(tried).await, first);
    site.director.lost(first, "connection refused");
    assert_eq!(stored(client).await, other);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_another_client_is_storing_is_not_stored_elsewhere() {
    let site = site(&[not(1), not(1)]);
    let name = path("/data/a");
    let from = |address: &str| Client {
        address: Some(address.parse().unwrap()),
        ..Client::default()
    };
    let directed = site.director.write(&name, None, from("192.0.2.1")).await.unwrap();
    let tried = [directed.node];
    let elsewhere = |address| Client {
        tried: &tried,
        ..from(address)
    };
    let other = site.director.write(&name, None, elsewhere("192.0.2.2")).await;
    assert!(matches!(other, Err(Undirected::NoHolder { .. })), "{other:?}");
    let own = site.director.write(&name, None, elsewhere("192.0.2.1")).await.unwrap();
    assert_ne!(own.node, directed.node);
}

#[tokio::test(start_paused = true)]
async fn others_tell_of_many_files_and_ours_are_still_expected() {
    let site = site(&[not(1), not(1)]);
    let name = path("/data/a");
    let node = site.director.write(&name, None, Client::default()).await.unwrap().node;
    for number in 0..=EXPECTED_MAX {
        site.director
            .expect(&path(&format!("/data/x/{number}")), NodeId(1 - node.0));
    }
    site.director.expect(&name, NodeId(1 - node.0));
    let second = site.director.write(&name, None, Client::default()).await.unwrap();
    assert_eq!((second.node, second.reason), (node, Reason::Expected));
    assert!(site.director.expects(&path("/data/x/1")) && !site.director.expects(&path("/data/x/0")));
}

#[tokio::test(start_paused = true)]
async fn a_rename_that_was_refused_goes_before_the_next_file() {
    let site = site(&[not(1)]);
    let name = path("/data/a");
    let store = async || site.director.write(&name, None, Client::default()).await;
    store().await.unwrap();
    assert!(matches!(site.director.claim(&name).await, Err(Undirected::Claimed)));
    site.director.wait_for(&name);
    // The file may still come, and its client may try again.
    store().await.unwrap();
    tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS)).await;
    assert_eq!(store().await, Err(Undirected::Claimed));
    drop(site.director.claim(&name).await.unwrap());
    store().await.unwrap();
    // One that is not repeated keeps no name.
    site.director.wait_for(&name);
    tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS + WAITING_TIME_MS)).await;
    store().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_passes_through_is_expected_as_long_as_it_runs() {
    let site = site(&[not(1), not(1)]);
    let (own, other) = (path("/data/a"), path("/data/b"));
    let node = site.director.write(&own, None, Client::default()).await.unwrap().node;
    site.director.expect(&other, node);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS - 100)).await;
        site.director.still_expect(&own, node);
        // Its redirector has told of it again.
        site.director.expect(&other, node);
    }
    // What another node is said to get changes nothing.
    tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS - 100)).await;
    for name in [&own, &other] {
        site.director.still_expect(name, NodeId(1 - node.0));
        site.director.expect(name, NodeId(1 - node.0));
        let second = site.director.write(name, None, Client::default()).await.unwrap();
        assert_eq!((second.node, second.reason), (node, Reason::Expected), "{name}");
    }
    tokio::time::advance(Duration::from_millis(100)).await;
    for name in [&own, &other] {
        assert!(site.director.claim(name).await.is_ok(), "{name}");
    }
}
