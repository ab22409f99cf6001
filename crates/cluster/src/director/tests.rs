//! Tests of the director with nodes that follow a plan.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream;
use tokio::time::sleep;

use super::*;
use crate::explanation::Reason;
use crate::limits::{AWAY_TIME_MS, EXPECTED_TIME_MS, RESERVATION_TIME_MS, STATUS_TIME_MS, UNTOLD_TIME_MS};
use crate::locator::{Answer, Answers, Says};
use crate::testing::{config, path, room};

/// What a node of these tests does when it is asked.
#[derive(Debug, Clone)]
struct Plan {
    after_ms: u64,
    says: Option<Says>,
}

fn has(after_ms: u64) -> Plan {
    Plan {
        after_ms,
        says: Some(Says::File { size_bytes: Some(1) }),
    }
}

fn not(after_ms: u64) -> Plan {
    Plan {
        after_ms,
        says: Some(Says::Nothing),
    }
}

const NEVER: Plan = Plan {
    after_ms: 0,
    says: None,
};

#[derive(Default)]
struct Planned {
    plans: Mutex<HashMap<u16, Plan>>,
    /// What the first node says of these names instead.
    first_has: Mutex<HashMap<String, Says>>,
    questions: AtomicUsize,
}

impl Planned {
    fn set(&self, plans: &[Plan]) {
        let plans = (0..).zip(plans.iter().cloned());
        *self.plans.lock().unwrap() = plans.collect();
    }
}

impl Locator for Planned {
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        let mut plans = self.plans.lock().unwrap().clone();
        if let Some(says) = self.first_has.lock().unwrap().get(path.as_str()).cloned() {
            let plan = Plan {
                after_ms: 1,
                says: Some(says),
            };
            plans.insert(0, plan);
        }
        let answers = nodes.iter().map(move |node| {
            let (node, plan) = (*node, plans[&node.0].clone());
            async move {
                sleep(Duration::from_millis(plan.after_ms)).await;
                match plan.says {
                    Some(says) => Answer { node, says },
                    None => std::future::pending().await,
                }
            }
        });
        let all: stream::FuturesUnordered<_> = answers.collect();
        Box::pin(all)
    }
}

struct Site {
    director: Arc<Director>,
    nodes: Arc<Planned>,
}

/// Nodes that are present, have room, and do this when they are asked.
fn site(plans: &[Plan]) -> Site {
    let nodes = Arc::new(Planned::default());
    nodes.set(plans);
    let configs = (0..plans.len()).map(|number| config(number, "/data"));
    let director = Director::new(configs, nodes.clone() as Arc<dyn Locator>, 1 << 16);
    for number in 0..plans.len() {
        director.told(NodeId(number as u16), Some(room(1 << 40, 1 << 39)));
    }
    Site {
        director: Arc::new(director),
        nodes,
    }
}

impl Site {
    async fn settle(&self) {
        sleep(Duration::from_millis(50)).await;
    }

    fn asked(&self) -> usize {
        self.nodes.questions.load(Ordering::SeqCst)
    }

    async fn read(&self, name: &str) -> Result<NodeId, Undirected> {
        let directed = self.director.read(&path(name), Client::default()).await;
        directed.map(|directed| directed.node)
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_found_once_and_then_known() {
    let site = site(&[not(1), has(2), not(3)]);
    site.settle().await;
    let began = Instant::now();
    assert_eq!(site.read("/data/a").await, Ok(NodeId(1)));
    // The others had their grace, and answered within it.
    assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
    site.settle().await;
    let directed = site.director.read(&path("/data/a"), Client::default()).await.unwrap();
    assert!(matches!(directed.basis, Basis::Known { .. }), "{directed:?}");
    assert_eq!((directed.node, site.asked()), (NodeId(1), 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_is_not_waited_for_when_another_has_the_file() {
    let site = site(&[NEVER, has(2), NEVER]);
    let began = Instant::now();
    assert_eq!(site.read("/data/a").await, Ok(NodeId(1)));
    assert!(began.elapsed() < Duration::from_millis(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_is_certain_when_all_have_said_so() {
    let site = site(&[not(1), not(2), not(3)]);
    site.settle().await;
    let began = Instant::now();
    let error = site.read("/data/a").await.unwrap_err();
    assert!(
        matches!(error, Undirected::NotFound(Basis::Asked(ref asked)) if asked.len() == 3),
        "{error:?}"
    );
    assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
    sleep(Duration::from_millis(100)).await;
    let error = site.read("/data/a").await.unwrap_err();
    assert!(matches!(error, Undirected::NotFound(Basis::Known { .. })), "{error:?}");
    // Not for long.
    sleep(Duration::from_millis(1_000)).await;
    site.nodes.set(&[not(1), has(1), not(1)]);
    assert_eq!(site.read("/data/a").await, Ok(NodeId(1)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_makes_it_unsure_and_is_named() {
    let failed = Plan {
        after_ms: 1,
        says: Some(Says::Failed("connection reset".to_owned())),
    };
    let site = site(&[not(1), NEVER, failed]);
    let Err(Undirected::Unsure { silent }) = site.read("/data/a").await else {
        panic!("it cannot be sure");
    };
    let nodes: Vec<NodeId> = silent.iter().map(|asked| asked.node).collect();
    assert_eq!(nodes, [NodeId(2), NodeId(1)]);
    // When they are known to be away, the answer is clear.
    site.director.lost(NodeId(1), "no answer");
    site.director.lost(NodeId(2), "connection reset");
    let error = site.read("/data/a").await.unwrap_err();
    assert!(matches!(error, Undirected::NotFound(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn many_clients_ask_once() {
    let site = site(&[not(10), has(10)]);
    let reads = (0..100).map(|_| site.read("/data/a"));
    let found = futures_util::future::join_all(reads).await;
    assert!(found.iter().all(|node| *node == Ok(NodeId(1))), "{found:?}");
    assert_eq!(site.asked(), 1);
    assert!(site.director.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_does_not_end_the_question_of_others() {
    let site = site(&[not(10), has(10)]);
    let (name, director) = (path("/data/a"), &site.director);
    let leaving = async {
        let read = director.read(&name, Client::default());
        assert!(tokio::time::timeout(Duration::from_millis(5), read).await.is_err());
    };
    let (_, node) = tokio::join!(leaving, site.read("/data/a"));
    assert_eq!((node, site.asked()), (Ok(NodeId(1)), 1));
    assert!(director.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_change_is_not_remembered() {
    let site = site(&[has(10), not(10)]);
    site.settle().await;
    let (name, director) = (path("/data/a"), &site.director);
    let change = async {
        sleep(Duration::from_millis(5)).await;
        director.removed(&name, NodeId(0));
    };
    let (_, node) = tokio::join!(change, site.read("/data/a"));
    assert_eq!(node, Ok(NodeId(0)));
    site.nodes.set(&[not(1), not(1)]);
    site.settle().await;
    assert!(matches!(site.read("/data/a").await, Err(Undirected::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_tried_in_vain_is_sent_elsewhere() {
    let site = site(&[has(1), NEVER]);
    site.settle().await;
    assert_eq!(site.read("/data/a").await, Ok(NodeId(0)));
    // Another copy has appeared.
    site.nodes.set(&[has(1), has(1)]);
    site.settle().await;
    let again = Client {
        tried: &[NodeId(0)],
        ..Client::default()
    };
    let directed = site.director.read(&path("/data/a"), again).await.unwrap();
    assert_eq!(directed.node, NodeId(1));
    let nowhere = Client {
        tried: &[NodeId(0), NodeId(1)],
        ..Client::default()
    };
    let error = site.director.read(&path("/data/a"), nowhere).await.unwrap_err();
    assert!(matches!(error, Undirected::NoHolder { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_file_is_placed_and_an_old_one_goes_to_its_holder() {
    let site = site(&[not(1), not(1), not(1)]);
    site.settle().await;
    let name = path("/data/a");
    let write = |size| site.director.write(&name, size, Client::default());
    let reservations = || site.director.counts().reservations;
    let directed = write(Some(1 << 38)).await.unwrap();
    assert_eq!(reservations(), 1);
    assert!(matches!(directed.reason, Reason::Placed { .. }), "{directed:?}");
    // The room is gone until the upload has ended.
    let large = Some((1 << 39) - (1 << 36));
    let large = site
        .director
        .write(&path("/data/large"), large, Client::default())
        .await;
    assert!(large.is_ok_and(|other| other.node != directed.node));
    // A second client that stores the same name goes where the first one went.
    let second = write(Some(1)).await.unwrap();
    assert_eq!((second.node, second.reason), (directed.node, Reason::Expected));
    assert_eq!(reservations(), 2);
    // If one of the two fails, the other may still come.
    site.director.given_up(&name, directed.node);
    assert!(site.director.expects(&name) && reservations() == 2);
    site.director.given_up(&name, directed.node);
    assert!(!site.director.expects(&name) && reservations() == 1);
    site.director.created(&path("/data/a"), NodeId(2));
    site.settle().await;
    let directed = write(Some(1)).await.unwrap();
    assert_eq!((directed.node, directed.reason), (NodeId(2), Reason::Holder));
    assert_eq!(reservations(), 1);
    let full = site
        .director
        .write(&path("/data/b"), Some(1 << 40), Client::default())
        .await;
    assert!(matches!(full, Err(Undirected::NoRoom { .. })), "{full:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_node_claims_outside_of_its_exports_is_not_believed() {
    let site = site(&[not(1), not(1)]);
    site.settle().await;
    site.director.created(&path("/other/a"), NodeId(1));
    assert_eq!(site.read("/other/a").await, Err(Undirected::NotExported));
    assert_eq!(site.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_no_file_and_not_nothing() {
    let directory = Plan {
        after_ms: 1,
        says: Some(Says::Directory),
    };
    let site = site(&[not(1), directory]);
    let error = site.read("/data/a").await.unwrap_err();
    assert!(matches!(error, Undirected::Directory(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn old_news_of_room_are_not_believed() {
    let site = site(&[not(1)]);
    sleep(Duration::from_millis(STATUS_TIME_MS + 100)).await;
    // Its room is not known any more, so it may well have enough.
    let write = site
        .director
        .write(&path("/data/a"), Some(1 << 50), Client::default())
        .await;
    assert!(write.is_ok(), "{write:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_may_come_any_moment_is_asked_for_again() {
    let site = site(&[not(1), not(1)]);
    site.settle().await;
    let name = path("/data/a");
    assert!(matches!(site.read("/data/a").await, Err(Undirected::NotFound(_))));
    let directed = site.director.write(&name, Some(1), Client::default()).await.unwrap();
    site.nodes.set(&[has(1), has(1)]);
    // Within the second in which "no node has it" is believed otherwise.
    assert!(site.read("/data/a").await.is_ok(), "{directed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_comes_with_the_file_in_it() {
    let site = site(&[not(1)]);
    site.settle().await;
    assert!(matches!(site.read("/data/d").await, Err(Undirected::NotFound(_))));
    let directory = Plan {
        after_ms: 1,
        says: Some(Says::Directory),
    };
    site.nodes.set(&[directory]);
    assert!(
        matches!(site.read("/data/d").await, Err(Undirected::NotFound(_))),
        "known for a second"
    );
    site.director.created(&path("/data/d/f"), NodeId(0));
    assert!(matches!(site.read("/data/d").await, Err(Undirected::Directory(_))));
}

#[tokio::test(start_paused = true)]
async fn all_that_have_a_file_are_heard() {
    let site = site(&[has(1), has(900), not(1)]);
    site.settle().await;
    let file = path("/data/f");
    let first = site.director.locate(&file, true).await.unwrap();
    assert_eq!((first.holders, first.is_complete), (vec![NodeId(0)], false));
    let all = site.director.locate_all(&file, true).await.unwrap();
    assert_eq!((all.holders, all.is_complete), (vec![NodeId(0), NodeId(1)], true));
}

#[tokio::test(start_paused = true)]
async fn a_new_directory_is_seen_at_once() {
    let site = site(&[not(1)]);
    site.settle().await;
    assert!(matches!(site.read("/data/d/e").await, Err(Undirected::NotFound(_))));
    let directory = Plan {
        after_ms: 1,
        says: Some(Says::Directory),
    };
    site.nodes.set(&[directory]);
    site.director.made(&path("/data/d/e"));
    assert!(matches!(site.read("/data/d/e").await, Err(Undirected::Directory(_))));
}

#[tokio::test(start_paused = true)]
async fn a_question_keeps_no_room_and_counts_no_load() {
    let site = site(&[not(1)]);
    site.settle().await;
    let asks = Client {
        only_asks: true,
        ..Client::default()
    };
    let wanted = path("/data/a");
    site.director.write(&wanted, Some(1 << 38), asks).await.unwrap();
    assert_eq!(site.director.counts().reservations, 0);
    assert_eq!(
        site.director
            .with_nodes(|nodes, now_ms| nodes.get(NodeId(0)).unwrap().busy(now_ms)),
        0.0
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_certain_before_each_node_was_looked_at() {
    let nodes = Arc::new(Planned::default());
    nodes.set(&[not(1), not(1)]);
    let configs = (0..2).map(|number| config(number, "/data"));
    let director = Director::new(configs, nodes as Arc<dyn Locator>, 1 << 16);
    director.told(NodeId(0), Some(room(1 << 40, 1 << 39)));
    let name = path("/data/a");
    let error = director.read(&name, Client::default()).await.unwrap_err();
    assert!(matches!(error, Undirected::Unsure { .. }), "{error:?}");
    let error = director.write(&name, Some(1), Client::default()).await.unwrap_err();
    assert!(
        matches!(error, Undirected::Unsure { .. }),
        "it may be on the other: {error:?}"
    );
    director.lost(NodeId(1), "refused");
    let error = director.read(&name, Client::default()).await.unwrap_err();
    assert!(matches!(error, Undirected::NotFound(_)), "{error:?}");
    assert_eq!(director.away(&name).len(), 1, "and it has been away for a moment only");
    assert!(director.write(&name, Some(1), Client::default()).await.is_ok());
    sleep(Duration::from_millis(crate::limits::AWAY_TIME_MS)).await;
    assert!(director.away(&name).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_file_on_several_nodes_is_not_changed_on_one() {
    let site = site(&[has(1), not(1), has(900)]);
    let (name, client) = (path("/data/a"), Client::default());
    for _ in 0..2 {
        // The late one counts, too.
        let Err(Undirected::Several { mut holders }) = site.director.write(&name, Some(1), client).await else {
            panic!("it would be two files under one name");
        };
        holders.sort();
        assert_eq!(holders, [NodeId(0), NodeId(2)]);
    }
    let updated = site.director.update(&name, client).await;
    assert!(matches!(updated, Err(Undirected::Several { .. })), "{updated:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_on_a_node_that_is_away_is_not_stored_elsewhere() {
    let site = site(&[has(1), not(1)]);
    let (name, client) = (path("/data/a"), Client::default());
    assert_eq!(site.read("/data/a").await, Ok(NodeId(0)));
    site.settle().await;
    site.director.lost(NodeId(0), "connection refused");
    for _ in 0..2 {
        let stored = site.director.write(&name, Some(1), client).await;
        let Err(Undirected::Unsure { silent }) = stored else {
            panic!("{stored:?}");
        };
        assert_eq!(silent[0].node, NodeId(0));
    }
    // What is not known to be there may be stored, unless it must be new.
    let other = path("/data/b");
    let new = Client { is_new: true, ..client };
    let stored = site.director.write(&other, Some(1), new).await;
    assert!(matches!(stored, Err(Undirected::Unsure { .. })), "{stored:?}");
    let directed = site.director.write(&other, Some(1), client).await.unwrap();
    assert_eq!(directed.node, NodeId(1));
    // It does not come back.
    tokio::time::advance(Duration::from_millis(AWAY_TIME_MS)).await;
    let directed = site.director.write(&name, Some(1), new).await.unwrap();
    assert_eq!(directed.node, NodeId(1));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_came_while_the_nodes_were_asked_is_where_it_came() {
    let site = site(&[not(10), not(10)]);
    site.settle().await;
    let (name, director) = (path("/data/a"), &site.director);
    let storing = director.write(&name, Some(1), Client::default());
    let coming = async {
        sleep(Duration::from_millis(5)).await;
        director.created(&name, NodeId(1));
    };
    let (stored, ()) = tokio::join!(storing, coming);
    let directed = stored.unwrap();
    assert_eq!((directed.node, directed.reason), (NodeId(1), Reason::Holder));
}

#[tokio::test(start_paused = true)]
async fn two_redirectors_send_the_same_new_name_to_the_same_node() {
    let four = || site(&[not(1), not(1), not(1), not(1)]);
    let sites = [four(), four()];
    let mut nodes = std::collections::BTreeSet::new();
    for number in 0..50 {
        let name = path(&format!("/data/{number}"));
        let mut chosen = Vec::new();
        for site in &sites {
            let directed = site.director.write(&name, Some(1), Client::default()).await.unwrap();
            chosen.push(directed.node);
        }
        assert_eq!(chosen[0], chosen[1], "{name}");
        nodes.insert(chosen[0]);
    }
    assert_eq!(nodes.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_tell_no_changes_are_asked_again_soon() {
    let site = site(&[has(1)]);
    site.settle().await;
    site.director.tells(NodeId(0), true);
    site.read("/data/a").await.unwrap();
    tokio::time::advance(Duration::from_millis(2 * UNTOLD_TIME_MS)).await;
    site.read("/data/a").await.unwrap();
    assert_eq!(site.asked(), 1);
    site.director.tells(NodeId(0), false);
    site.read("/data/a").await.unwrap();
    assert_eq!(site.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_older_than_the_news_are_not_remembered_by_anyone_who_waited() {
    let site = site(&[has(10), not(10)]);
    let (name, director) = (path("/data/a"), &site.director);
    let going = async {
        sleep(Duration::from_millis(5)).await;
        director.removed(&name, NodeId(0));
    };
    let _ = tokio::join!(site.read("/data/a"), site.read("/data/a"), going);
    site.nodes.set(&[not(1), not(1)]);
    let error = site.read("/data/a").await.unwrap_err();
    assert!(matches!(error, Undirected::NotFound(Basis::Asked(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_no_question_away_from_others() {
    let site = site(&[has(10)]);
    let (name, director) = (path("/data/a"), &site.director);
    let impatient = tokio::time::timeout(Duration::from_millis(5), director.locate(&name, false));
    let (left, stayed, _) = tokio::join!(impatient, director.locate(&name, false), async {
        sleep(Duration::from_millis(7)).await;
        director.locate(&name, false).await
    });
    assert!(left.is_err() && stayed.is_ok());
    assert_eq!(site.asked(), 1);
    let other = path("/data/b");
    let alone = tokio::time::timeout(Duration::from_millis(5), director.locate(&other, false));
    assert!(alone.await.is_err() && director.questions().is_empty());
}

mod expecting;
mod surroundings;
mod troubles;
