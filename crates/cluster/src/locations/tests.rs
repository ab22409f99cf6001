//! Tests of the memory of locations.

use proptest::prelude::*;

use super::*;
use crate::testing::{nodes, path};

const NOW: u64 = 10_000;

fn held(known: Known) -> Vec<u16> {
    match known {
        Known::Held { mut holders, .. } => {
            holders.sort();
            holders.into_iter().map(|id| id.0).collect()
        }
        Known::Nothing | Known::Absent { .. } => Vec::new(),
    }
}

#[test]
fn a_location_is_believed_until_it_is_old() {
    let (nodes, mut memory) = (nodes(3, |_| None), Locations::new(1 << 16));
    memory.learned(&path("/a"), &[NodeId(2)], true, &nodes, NOW);
    let Known::Held {
        is_complete, sticky, ..
    } = memory.find(&path("/a"), &nodes, NOW + 1_000)
    else {
        panic!("it is known");
    };
    assert!(is_complete && sticky.is_none());
    assert_eq!(memory.find(&path("/b"), &nodes, NOW), Known::Nothing);
    assert_eq!(
        memory.find(&path("/a"), &nodes, NOW + LOCATION_TIME_MS + 100),
        Known::Nothing
    );
}

#[test]
fn absence_is_believed_for_a_moment_and_not_after_a_node_came() {
    let (mut nodes, mut memory) = (nodes(3, |_| None), Locations::new(1 << 16));
    nodes.lost(NodeId(1), "connection refused", 200);
    memory.learned(&path("/a"), &[], true, &nodes, NOW);
    let known = memory.find(&path("/a"), &nodes, NOW + 500);
    assert!(matches!(known, Known::Absent { .. }), "{known:?}");
    assert_eq!(memory.find(&path("/a"), &nodes, NOW + 1_100), Known::Nothing);
    memory.learned(&path("/a"), &[], true, &nodes, NOW + 2_000);
    nodes.told(NodeId(1), None, NOW + 2_100);
    assert_eq!(memory.find(&path("/a"), &nodes, NOW + 2_200), Known::Nothing);
    // Where not all have answered, nothing is known.
    memory.learned(&path("/a"), &[], false, &nodes, NOW + 3_000);
    assert_eq!(memory.find(&path("/a"), &nodes, NOW + 3_000), Known::Nothing);
}

#[test]
fn a_node_that_was_away_is_asked_again_and_others_are_not() {
    let (mut nodes, mut memory) = (nodes(3, |_| None), Locations::new(1 << 16));
    memory.learned(&path("/a"), &[NodeId(0), NodeId(1)], true, &nodes, NOW);
    memory.learned(&path("/b"), &[NodeId(0)], true, &nodes, NOW);
    nodes.lost(NodeId(0), "connection refused", NOW + 100);
    assert_eq!(held(memory.find(&path("/a"), &nodes, NOW + 200)), [1]);
    assert_eq!(memory.find(&path("/b"), &nodes, NOW + 200), Known::Nothing);
    nodes.told(NodeId(0), None, NOW + 300);
    let known = memory.find(&path("/a"), &nodes, NOW + 400);
    assert!(matches!(known, Known::Held { is_complete: false, .. }), "{known:?}");
    assert_eq!(held(known), [1]);
    assert_eq!(memory.find(&path("/b"), &nodes, NOW + 400), Known::Nothing);
}

#[test]
fn nodes_tell_of_changes() {
    let (mut nodes, mut memory) = (nodes(9, |_| None), Locations::new(1 << 16));
    memory.learned(&path("/a"), &[], true, &nodes, NOW);
    memory.gained(&path("/a"), NodeId(4), NOW + 10);
    assert_eq!(held(memory.find(&path("/a"), &nodes, NOW + 20)), [4]);
    memory.gained(&path("/a"), NodeId(5), NOW + 10);
    memory.lost(&path("/a"), NodeId(4));
    assert_eq!(held(memory.find(&path("/a"), &nodes, NOW + 20)), [5]);
    memory.lost(&path("/a"), NodeId(5));
    assert_eq!(memory.find(&path("/a"), &nodes, NOW + 20), Known::Nothing);
    // A renamed tree: all that this node had is asked for again.
    memory.learned(&path("/c"), &[NodeId(1)], true, &nodes, NOW);
    nodes.forget(NodeId(1), NOW + 50);
    assert_eq!(memory.find(&path("/c"), &nodes, NOW + 60), Known::Nothing);
}

#[test]
fn of_many_holders_some_are_known_and_it_is_said_that_there_are_more() {
    let (nodes, mut memory) = (nodes(9, |_| None), Locations::new(1 << 16));
    let all: Vec<NodeId> = (0..9).map(NodeId).collect();
    memory.learned(&path("/a"), &all, true, &nodes, NOW);
    let known = memory.find(&path("/a"), &nodes, NOW + 20);
    assert!(matches!(known, Known::Held { is_complete: false, .. }), "{known:?}");
    assert_eq!(held(known).len(), HOLDERS_MAX);
}

#[test]
fn readers_stick_to_a_node_for_a_while() {
    let (nodes, mut memory) = (nodes(3, |_| None), Locations::new(1 << 16));
    memory.learned(&path("/a"), &[NodeId(0), NodeId(2)], true, &nodes, NOW);
    memory.stick(&path("/a"), NodeId(2), NOW);
    let sticky = |memory: &mut Locations, now_ms| match memory.find(&path("/a"), &nodes, now_ms) {
        Known::Held { sticky, .. } => sticky,
        _ => None,
    };
    assert_eq!(sticky(&mut memory, NOW + 1_000), Some(NodeId(2)));
    assert_eq!(sticky(&mut memory, NOW + STICKY_TIME_MS + 100), None);
    memory.stick(&path("/a"), NodeId(2), NOW + 100);
    memory.lost(&path("/a"), NodeId(2));
    assert_eq!(sticky(&mut memory, NOW + 1_000), None);
}

#[test]
fn a_location_takes_37_bytes_and_old_names_give_way() {
    assert_eq!(ENTRY_BYTES, 37);
    let (nodes, mut memory) = (nodes(1, |_| None), Locations::new(1 << 20));
    let capacity = memory.capacity();
    assert!(capacity * ENTRY_BYTES <= 1 << 20 && capacity > 10_000, "{capacity}");
    for number in 0..3 * capacity {
        memory.learned(&path(&format!("/{number}")), &[NodeId(0)], true, &nodes, NOW);
        // One that is used stays.
        memory.stick(&path("/0"), NodeId(0), NOW);
    }
    assert!(memory.len() <= capacity, "{}", memory.len());
    let known = |memory: &mut Locations, name: String| held(memory.find(&path(&name), &nodes, NOW + 20));
    assert_eq!(known(&mut memory, "/0".to_owned()), [0]);
    assert_eq!(known(&mut memory, format!("/{}", 3 * capacity - 1)), [0]);
    assert!(known(&mut memory, "/1".to_owned()).is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Learned(u8, Vec<u16>),
    Gained(u8, u16),
    Lost(u8, u16),
    Forget(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0_u16..4;
    let step = prop_oneof![
        (0_u8..6, proptest::collection::vec(node.clone(), 0..4)).prop_map(|(name, nodes)| Step::Learned(name, nodes)),
        (0_u8..6, node.clone()).prop_map(|(name, node)| Step::Gained(name, node)),
        (0_u8..6, node).prop_map(|(name, node)| Step::Lost(name, node)),
        (0_u8..6).prop_map(Step::Forget),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// It never says that a node has a name after that node has said that it does not.
    #[test]
    fn it_knows_what_was_told_last(steps in steps()) {
        let (nodes, mut memory) = (nodes(4, |_| None), Locations::new(1 << 16));
        let mut model: Vec<std::collections::BTreeSet<u16>> = vec![Default::default(); 6];
        for step in steps {
            match step {
                Step::Learned(name, holders) => {
                    let ids: Vec<NodeId> = holders.iter().copied().map(NodeId).collect();
                    memory.learned(&path(&format!("/{name}")), &ids, true, &nodes, NOW);
                    model[usize::from(name)] = holders.into_iter().collect();
                }
                Step::Gained(name, node) => {
                    memory.gained(&path(&format!("/{name}")), NodeId(node), NOW);
                    model[usize::from(name)].insert(node);
                }
                Step::Lost(name, node) => {
                    memory.lost(&path(&format!("/{name}")), NodeId(node));
                    model[usize::from(name)].remove(&node);
                }
                Step::Forget(name) => {
                    memory.forget(&path(&format!("/{name}")));
                    model[usize::from(name)].clear();
                }
            }
            for (name, holders) in model.iter().enumerate() {
                let known = held(memory.find(&path(&format!("/{name}")), &nodes, NOW + 20));
                prop_assert_eq!(known, holders.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_node_that_is_away_is_remembered_to_have_had_a_name() {
    let (mut nodes, mut memory) = (nodes(2, |_| None), Locations::new(1 << 16));
    memory.learned(&path("/a"), &[NodeId(0)], true, &nodes, NOW);
    assert_eq!(memory.with_absent(&path("/a"), &nodes), []);
    nodes.lost(NodeId(0), "connection refused", NOW + 100);
    assert_eq!(memory.with_absent(&path("/a"), &nodes), [NodeId(0)]);
    // The others say that they have nothing; that does not make it forgotten.
    memory.learned(&path("/a"), &[], true, &nodes, NOW + 200);
    assert_eq!(memory.find(&path("/a"), &nodes, NOW + 200), Known::Nothing);
    assert_eq!(memory.with_absent(&path("/a"), &nodes), [NodeId(0)]);
    nodes.told(NodeId(0), None, NOW + 300);
    assert_eq!(memory.with_absent(&path("/a"), &nodes), []);
}

#[test]
fn a_location_is_not_believed_after_its_node_was_forgotten_however_short_the_time() {
    let (mut nodes, mut memory) = (nodes(2, |_| None), Locations::new(1 << 16));
    for learned_ms in NOW..NOW + 40 {
        memory.learned(&path("/a"), &[NodeId(0)], true, &nodes, learned_ms);
        nodes.forget(NodeId(0), learned_ms);
        for later_ms in 0..40 {
            let known = memory.find(&path("/a"), &nodes, learned_ms + later_ms);
            assert_eq!(
                known,
                Known::Nothing,
                "learned at {learned_ms}, asked {later_ms} ms later"
            );
        }
    }
}
