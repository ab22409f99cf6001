//! Nodes that are away, refuse, or do not answer.

use super::*;
use crate::explanation::Asked;
use crate::limits::{CLOCK_AFTER_MS, MUTE_AFTER_MS};
use crate::node::{Presence, Trouble};

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_no_questions_does_not_stop_the_others() {
    let failing = Plan {
        after_ms: 1,
        says: Some(Says::Failed("permission denied".to_owned())),
    };
    let site = site(&[not(1), failing]);
    let client = Client::default();
    for number in 0..3 {
        let stored = site
            .director
            .write(&path(&format!("/data/{number}")), None, client)
            .await;
        assert!(matches!(stored, Err(Undirected::Unsure { .. })), "{stored:?}");
        tokio::time::advance(Duration::from_millis(MUTE_AFTER_MS / 2)).await;
        for node in 0..2 {
            site.director.told(NodeId(node), None);
        }
    }
    let new = path("/data/new");
    let directed = site.director.write(&new, None, client).await.unwrap();
    assert_eq!((directed.node, site.director.mute()), (NodeId(0), vec![NodeId(1)]));
    // Readers still are not told that a file does not exist.
    let [away] = &site.director.away(&new)[..] else {
        panic!("one is silent");
    };
    let Some(Says::Failed(words)) = &away.says else {
        panic!("{away:?}");
    };
    assert!(words.contains("answers no questions: permission denied"), "{words}");
    site.director.answered(NodeId(1));
    assert!(site.director.mute().is_empty() && site.director.away(&new).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_our_questions_is_not_called_silent() {
    let refused = Plan {
        after_ms: 1,
        says: Some(Says::Refused("401".to_owned())),
    };
    let site = site(&[refused, not(1)]);
    site.settle().await;
    let began = Instant::now();
    let Err(Undirected::Unsure { silent }) = site.read("/data/a").await else {
        panic!("the node may have it");
    };
    // It will not answer in a moment: there is nothing to wait for.
    assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
    assert!(
        matches!(
            silent[..],
            [Asked {
                says: Some(Says::Refused(_)),
                ..
            }]
        ),
        "{silent:?}"
    );
    // As soon as it is known, nodes are not asked in vain, and new files go to the others.
    site.director.refused(NodeId(0), "401");
    let trouble = |site: &Site| {
        site.director
            .with_nodes(|nodes, now_ms| nodes.get(NodeId(0)).and_then(|node| node.trouble(now_ms)))
    };
    assert_eq!(trouble(&site), Some(Trouble::Refuses("401".to_owned())));
    assert_eq!(site.director.candidates(&path("/data/a")), [NodeId(1)]);
    assert_eq!(site.director.mute(), [NodeId(0)]);
    let written = site
        .director
        .write(&path("/data/new"), Some(1), Client::default())
        .await;
    assert!(written.is_ok_and(|directed| directed.node == NodeId(1)));
    site.director.answered(NodeId(0));
    assert_eq!(trouble(&site), None);
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_an_absence_is_the_latest() {
    let site = site(&[NEVER]);
    let reason = || {
        site.director
            .with_nodes(|nodes, _| match nodes.get(NodeId(0))?.presence() {
                Presence::Absent { since_ms, reason } => Some((*since_ms, reason.clone())),
                _ => None,
            })
    };
    assert_eq!(site.director.lost(NodeId(0), "wrong certificate"), Some(Change::Went));
    let (since_ms, _) = reason().unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(site.director.lost(NodeId(0), "connection refused"), None);
    assert_eq!(reason(), Some((since_ms, "connection refused".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_just_started_serves_readers_only() {
    let site = site(&[has(1)]);
    let (known, new) = (path("/data/a"), path("/data/new"));
    let starting = |is_starting| crate::node::Status {
        is_starting,
        ..room(1 << 40, 1 << 39)
    };
    site.director.told(NodeId(0), Some(starting(true)));
    let client = Client::default();
    let overwritten = site.director.write(&known, None, client).await;
    assert!(
        matches!(overwritten, Err(Undirected::NoHolder { .. })),
        "{overwritten:?}"
    );
    let changed = site.director.update(&known, client).await;
    assert!(matches!(changed, Err(Undirected::NoHolder { .. })), "{changed:?}");
    assert_eq!(site.read("/data/a").await, Ok(NodeId(0)));
    site.nodes.set(&[not(1)]);
    let stored = site.director.write(&new, None, client).await;
    assert!(matches!(stored, Err(Undirected::NoWriter)), "{stored:?}");
    // Clients of XRootD ask again; those of HTTP learn when to do so.
    assert!(site.director.may_return(&new) && site.director.has_starting(&new));
    site.director.told(NodeId(0), Some(starting(false)));
    assert!(!site.director.may_return(&new) && !site.director.has_starting(&new));
    assert!(site.director.write(&known, None, client).await.is_ok());
    assert!(site.director.write(&new, None, client).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_differs_is_told_and_keeps_no_clients_away() {
    let site = site(&[has(1)]);
    let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ours_ms = i64::try_from(ours.unwrap().as_millis()).unwrap();
    let told = |ahead_ms: i64| crate::node::Status {
        time_ms: u64::try_from(ours_ms + ahead_ms).unwrap(),
        ..room(1 << 40, 1 << 39)
    };
    let trouble = || {
        let of_first = |nodes: &Nodes, now_ms| nodes.get(NodeId(0)).and_then(|node| node.trouble(now_ms));
        site.director.with_nodes(of_first)
    };
    for (ahead_ms, words) in [(3_600_000, "s ahead of the"), (-3_600_000, "s behind the")] {
        site.director.told(NodeId(0), Some(told(ahead_ms)));
        // One message may be late.
        assert_eq!(trouble(), None);
        tokio::time::advance(Duration::from_millis(CLOCK_AFTER_MS)).await;
        site.director.told(NodeId(0), Some(told(ahead_ms)));
        let found = trouble().unwrap();
        assert!(found.to_string().contains(words), "{found}");
        assert!(!found.keeps_from(true));
        assert_eq!(site.read("/data/a").await, Ok(NodeId(0)));
        // A node of an earlier version tells no time; one that agrees ends it.
        site.director.told(NodeId(0), Some(room(1 << 40, 1 << 39)));
        assert!(trouble().is_some());
        site.director.told(NodeId(0), Some(told(0)));
        assert_eq!(trouble(), None);
    }
}
