//! Tests of the choice among holders.

use super::*;
use crate::node::{Drain, Status};
use crate::testing::{config, nodes};

fn holders(count: u16) -> Vec<NodeId> {
    (0..count).map(NodeId).collect()
}

fn of(holders: &[NodeId]) -> Readers<'_> {
    Readers {
        holders,
        sticky: None,
        near: Near::default(),
        tried: &[],
    }
}

fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(38)
}

/// Readers come and go; nodes tell of them once a second, as in reality. `strength` is what the
/// nodes are configured with.
fn spread(strength: &[f64]) -> Vec<f64> {
    let configs = strength.iter().enumerate().map(|(number, weight)| {
        let mut config = config(number, "/");
        config.weight = *weight;
        config
    });
    let (mut nodes, mut random) = (Nodes::new(configs), random());
    let all = holders(strength.len() as u16);
    let mut running: Vec<Vec<u64>> = vec![Vec::new(); strength.len()];
    let mut sums = vec![0.0; strength.len()];
    for now_ms in (0..60_000).step_by(5) {
        if now_ms % 1_000 == 0 {
            for (id, ends) in all.iter().zip(&mut running) {
                ends.retain(|end| *end > now_ms);
                let transfers = ends.len() as u32;
                nodes.told(
                    *id,
                    Some(Status {
                        transfers,
                        ..Status::default()
                    }),
                    now_ms,
                );
            }
        }
        let node = reader(&nodes, of(&all), now_ms, &mut random).unwrap().node;
        nodes.sent(node, now_ms);
        // Half a second to four seconds.
        running[usize::from(node.0)].push(now_ms + random.u64(500..4_000));
        sums[usize::from(node.0)] += 1.0;
    }
    sums.iter().zip(strength).map(|(sum, weight)| sum / weight).collect()
}

#[test]
fn readers_are_spread_within_a_tenth() {
    for strength in [&[1.0; 10][..], &[1.0, 1.0, 1.0, 2.0, 2.0, 4.0]] {
        let loads = spread(strength);
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        for load in &loads {
            assert!((load / mean - 1.0).abs() < 0.1, "{loads:?}");
        }
    }
}

#[test]
fn the_less_busy_node_is_chosen_and_the_reason_names_both() {
    let busy = |number| Status {
        disk_pressure: [0.8, 0.1][number],
        ..Status::default()
    };
    let nodes = nodes(2, |number| Some(busy(number)));
    let choice = reader(&nodes, of(&holders(2)), 200, &mut random()).unwrap();
    let why = Why::LessBusy {
        busy: 0.1,
        other: NodeId(0),
        other_busy: 0.8,
    };
    assert_eq!((choice.node, choice.why), (NodeId(1), why));
}

#[test]
fn drained_absent_and_tried_nodes_get_no_readers() {
    let mut nodes = nodes(4, |_| None);
    nodes.order(NodeId(0), Drain::NoReads);
    nodes.order(NodeId(3), Drain::NoWrites);
    nodes.lost(NodeId(1), "connection refused", 200);
    let (held, tried) = (holders(4), [NodeId(2)]);
    let choice = reader(
        &nodes,
        Readers {
            tried: &tried,
            ..of(&held)
        },
        300,
        &mut random(),
    )
    .unwrap();
    assert_eq!((choice.node, choice.why), (NodeId(3), Why::Only));
    let tried = [NodeId(2), NodeId(3)];
    let none = reader(
        &nodes,
        Readers {
            tried: &tried,
            ..of(&held)
        },
        300,
        &mut random(),
    );
    assert_eq!(none, None);
}

#[test]
fn readers_stick_unless_the_node_is_too_busy() {
    let full = Status {
        processors: 0.95,
        ..Status::default()
    };
    let nodes = nodes(3, |number| (number == 2).then_some(full));
    let held = holders(3);
    let sticky = |node| Readers {
        sticky: Some(NodeId(node)),
        ..of(&held)
    };
    let choice = reader(&nodes, sticky(1), 300, &mut random()).unwrap();
    assert_eq!((choice.node, choice.why), (NodeId(1), Why::Sticky));
    let choice = reader(&nodes, sticky(2), 300, &mut random()).unwrap();
    assert_ne!(choice.node, NodeId(2));
}

#[test]
fn the_own_site_is_preferred_and_does_not_exclude_others() {
    let configs = (0..3).map(|number| {
        let mut config = config(number, "/");
        config.site = Some(["here", "there", "there"][number].to_owned());
        config
    });
    let mut nodes = Nodes::new(configs);
    holders(3).into_iter().for_each(|id| {
        nodes.told(id, None, 100);
    });
    let held = holders(3);
    let near = Readers {
        near: Near {
            site: Some("here"),
            ..Near::default()
        },
        ..of(&held)
    };
    let choice = reader(&nodes, near, 300, &mut random()).unwrap();
    assert_eq!(
        (choice.node, choice.why, choice.nearness),
        (NodeId(0), Why::Only, Nearness::Site)
    );
    let machine = [NodeId(2)];
    let nearer = Readers {
        near: Near {
            machine: &machine,
            ..near.near
        },
        ..near
    };
    let choice = reader(&nodes, nearer, 300, &mut random()).unwrap();
    assert_eq!((choice.node, choice.nearness), (NodeId(2), Nearness::Machine));
    nodes.lost(NodeId(0), "connection refused", 200);
    let choice = reader(&nodes, near, 300, &mut random()).unwrap();
    assert_eq!(choice.nearness, Nearness::Far);
    // What the node tells counts where the configuration says nothing.
    let mut nodes = Nodes::new((0..3).map(|number| config(number, "/")));
    holders(3).into_iter().for_each(|id| {
        nodes.told(id, None, 300);
    });
    nodes.at_site(NodeId(1), Some("here"));
    assert_eq!(reader(&nodes, near, 300, &mut random()).unwrap().node, NodeId(1));
}
