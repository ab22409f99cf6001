//! Tests of the choice for new files.

use super::*;
use crate::node::Drain;
use crate::testing::{config, nodes, path, room};

const GIB: u64 = 1 << 30;

fn room_for(node: NodeId, bytes: u64) -> RoomFor {
    RoomFor {
        node,
        bytes,
        room_bytes: u64::MAX,
        client: None,
    }
}

fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(38)
}

fn file(path: &LogicalPath, size_bytes: Option<u64>) -> NewFile<'_> {
    NewFile {
        path,
        size_bytes,
        tried: &[],
        near: Near::default(),
    }
}

/// Writes this many files of mixed sizes onto nodes of these sizes; the fill levels at the end.
/// Nodes tell their room after every hundredth file; reservations fill the time between.
fn fill_up(sizes: &[u64], files: usize, mean: u64) -> Vec<f64> {
    let mut used = vec![0_u64; sizes.len()];
    let mut nodes = nodes(sizes.len(), |number| Some(room(sizes[number], sizes[number])));
    let (mut reservations, mut random) = (Reservations::default(), random());
    let path = path("/new");
    let mut open = Vec::new();
    for number in 0..files {
        let now_ms = 200 + number as u64;
        // From a tenth of the mean to ten times as much.
        let size = (mean as f64 * 10_f64.powf(2.0 * random.f64() - 1.0) / 2.15) as u64;
        let placed = writer(&nodes, &reservations, file(&path, Some(size)), now_ms, &mut random).unwrap();
        used[usize::from(placed.node.0)] += size;
        open.push(reservations.reserve(room_for(placed.node, size), now_ms));
        if number % 100 == 99 {
            open.drain(..).for_each(|id| reservations.release(id));
            for (place, (total, used)) in sizes.iter().zip(&used).enumerate() {
                nodes.told(NodeId(place as u16), Some(room(*total, total - used)), now_ms);
            }
        }
    }
    used.iter()
        .zip(sizes)
        .map(|(used, total)| *used as f64 / *total as f64)
        .collect()
}

fn width(levels: &[f64]) -> f64 {
    let largest = levels.iter().copied().fold(0.0, f64::max);
    largest - levels.iter().copied().fold(1.0, f64::min)
}

#[test]
fn ten_thousand_files_fill_unequal_nodes_equally() {
    let sizes = [10, 10, 20, 20, 40, 40, 60, 80, 100, 120].map(|tib: u64| tib * 1024 * GIB);
    let mean = sizes.iter().sum::<u64>() / 10_000 * 8 / 10;
    let levels = fill_up(&sizes, 10_000, mean);
    assert!(levels.iter().sum::<f64>() / 10.0 > 0.6, "{levels:?}");
    assert!(width(&levels) < 0.03, "{} {levels:?}", width(&levels));
}

#[test]
fn an_empty_node_that_joins_gets_more_and_is_not_overrun() {
    let free = |number| if number == 0 { 100 * GIB } else { 20 * GIB };
    let nodes = nodes(10, |number| Some(room(100 * GIB, free(number))));
    let (path, mut random, reservations) = (path("/new"), random(), Reservations::default());
    let mut here = 0;
    for _ in 0..1_000 {
        let placed = writer(&nodes, &reservations, file(&path, Some(1)), 200, &mut random).unwrap();
        here += usize::from(placed.node == NodeId(0));
    }
    // Two are drawn of ten: it is among them in 19 of 100 cases.
    assert!((150..250).contains(&here), "{here}");
}

#[test]
fn a_busy_node_gets_fewer_files() {
    let status = |number| Status {
        disk_pressure: if number == 0 { 1.0 } else { 0.0 },
        ..room(100 * GIB, 50 * GIB)
    };
    let nodes = nodes(2, |number| Some(status(number)));
    let (path, mut random, reservations) = (path("/new"), random(), Reservations::default());
    let mut here = 0;
    for _ in 0..1_000 {
        let placed = writer(&nodes, &reservations, file(&path, Some(1)), 200, &mut random).unwrap();
        here += usize::from(placed.node == NodeId(0));
    }
    assert!((200..300).contains(&here), "{here}");
}

#[test]
fn reserved_room_is_not_given_twice_and_comes_back() {
    let nodes = nodes(1, |_| Some(room(100 * GIB, 11 * GIB)));
    let (path, mut random, mut reservations) = (path("/new"), random(), Reservations::default());
    let mut ask =
        |reservations: &Reservations| writer(&nodes, reservations, file(&path, Some(6 * GIB)), 200, &mut random);
    assert_eq!(ask(&reservations).unwrap().node, NodeId(0));
    let first = reservations.reserve(room_for(NodeId(0), 6 * GIB), 200);
    let full = Unplaced::NoRoom {
        sum_bytes: 4 * GIB,
        largest_bytes: 4 * GIB,
    };
    assert_eq!(ask(&reservations), Err(full));
    reservations.release(first);
    reservations.release(first);
    assert!(ask(&reservations).is_ok());
    reservations.reserve(room_for(NodeId(0), 6 * GIB), 300);
    reservations.expire(300 + RESERVATION_TIME_MS - 1);
    assert_eq!((reservations.len(), reservations.on(NodeId(0))), (1, 6 * GIB));
    reservations.expire(300 + RESERVATION_TIME_MS);
    assert_eq!((reservations.len(), reservations.on(NodeId(0))), (0, 0));
}

#[test]
fn the_oldest_reservations_give_way() {
    let mut reservations = Reservations::default();
    for number in 0..RESERVATIONS_MAX + 5 {
        reservations.reserve(room_for(NodeId((number % 2) as u16), 1), 0);
    }
    assert_eq!(reservations.len(), RESERVATIONS_MAX);
    let sum = reservations.on(NodeId(0)) + reservations.on(NodeId(1));
    assert_eq!(sum, RESERVATIONS_MAX as u64);
}

#[test]
fn no_room_is_said_with_the_sum_and_the_largest() {
    let nodes = nodes(3, |number| Some(room(100 * GIB, (number as u64 + 2) * GIB)));
    let (path, reservations) = (path("/new"), Reservations::default());
    let ask = |size| writer(&nodes, &reservations, file(&path, size), 200, &mut random());
    let full = Unplaced::NoRoom {
        sum_bytes: 6 * GIB,
        largest_bytes: 3 * GIB,
    };
    assert_eq!(ask(Some(4 * GIB)), Err(full));
    assert_eq!(ask(Some(3 * GIB)).unwrap().node, NodeId(2));
}

#[test]
fn a_file_of_unknown_size_is_tried_where_most_room_is() {
    let nodes = nodes(2, |number| Some(room(GIB, GIB / [4, 2][number])));
    let (path, reservations) = (path("/new"), Reservations::default());
    let placed = writer(&nodes, &reservations, file(&path, None), 200, &mut random()).unwrap();
    assert_eq!(placed.node, NodeId(1));
}

#[test]
fn foreign_drained_and_absent_nodes_get_no_files() {
    let mut nodes = Nodes::new([config(0, "/a"), config(1, "/b"), config(2, "/b")]);
    (0..3).for_each(|number| {
        nodes.told(NodeId(number), Some(room(GIB, GIB)), 100);
    });
    let reservations = Reservations::default();
    let ask = |nodes: &Nodes, name: &str| {
        writer(nodes, &reservations, file(&path(name), Some(1)), 200, &mut random()).map(|placed| placed.node)
    };
    assert_eq!(ask(&nodes, "/c/new"), Err(Unplaced::NotExported));
    assert_eq!(ask(&nodes, "/a/new"), Ok(NodeId(0)));
    nodes.order(NodeId(1), Drain::NoWrites);
    assert_eq!(ask(&nodes, "/b/new"), Ok(NodeId(2)));
    nodes.lost(NodeId(2), "connection refused", 150);
    assert_eq!(ask(&nodes, "/b/new"), Err(Unplaced::Unavailable));
}

#[test]
fn one_client_gets_a_share_of_the_room() {
    let mut reservations = Reservations::default();
    let of = |client: &str| RoomFor {
        room_bytes: 100 * GIB,
        client: Some(ClientId::at(client.parse().unwrap())),
        ..room_for(NodeId(0), 10 * GIB)
    };
    let all: Vec<ReservationId> = (0..10).map(|_| reservations.reserve(of("192.0.2.1"), 0)).collect();
    assert_eq!(reservations.on(NodeId(0)), 25 * GIB);
    reservations.reserve(of("192.0.2.2"), 0);
    assert_eq!(reservations.on(NodeId(0)), 35 * GIB);
    all.into_iter().for_each(|id| reservations.release(id));
    assert_eq!(reservations.on(NodeId(0)), 10 * GIB);
    reservations.reserve(of("192.0.2.1"), 0);
    assert_eq!(reservations.on(NodeId(0)), 20 * GIB);
    reservations.expire(RESERVATION_TIME_MS);
    assert!(reservations.client_sums.is_empty());
}

#[test]
fn announced_files_of_many_addresses_leave_half_of_the_room() {
    let mut reservations = Reservations::default();
    let mut reserve = |client: String| {
        let kept = reservations.on(NodeId(0));
        reservations.reserve(
            RoomFor {
                room_bytes: 100 * GIB - kept,
                client: Some(ClientId::at(client.parse().unwrap())),
                ..room_for(NodeId(0), 20 * GIB)
            },
            0,
        );
        reservations.on(NodeId(0))
    };
    assert_eq!(reserve("2001:db8::1".to_owned()), 20 * GIB);
    // Another address of the same host: 25 % of what is free now.
    assert_eq!(reserve("2001:db8::2".to_owned()), 20 * GIB);
    let kept = (1..20).map(|host| reserve(format!("192.0.2.{host}"))).max();
    assert_eq!(kept, Some(50 * GIB));
}

#[test]
fn a_node_that_does_not_export_the_name_gets_no_new_files() {
    let mut nodes = nodes(2, |_| Some(room(1 << 40, 1 << 39)));
    nodes.exports(NodeId(0), Some(vec![path("/store")]));
    let mut random = fastrand::Rng::with_seed(1);
    let reservations = Reservations::default();
    let mut place = |nodes: &Nodes, name: &str| {
        let name = path(name);
        let file = NewFile {
            path: &name,
            size_bytes: Some(1),
            tried: &[],
            near: Near::default(),
        };
        writer(nodes, &reservations, file, 100, &mut random).map(|placed| placed.node)
    };
    assert!((0..20).all(|_| place(&nodes, "/data/f") == Ok(NodeId(1))));
    nodes.exports(NodeId(1), Some(vec![path("/other")]));
    assert_eq!(place(&nodes, "/data/f"), Err(Unplaced::NotExported));
    // The configuration gives the nodes `/`, and they export a part of it: no trouble.
    assert!(nodes.iter().all(|(_, node)| node.trouble(100).is_none()));
    let mut given = Nodes::new([crate::testing::config(0, "/data")]);
    given.told(NodeId(0), None, 100);
    given.exports(NodeId(0), Some(vec![path("/store")]));
    let words = given
        .get(NodeId(0))
        .unwrap()
        .trouble(100)
        .map(|trouble| trouble.to_string());
    assert!(words.is_some_and(|words| words.starts_with("It does not export /data,")));
    given.exports(NodeId(0), None);
    assert_eq!(given.get(NodeId(0)).unwrap().trouble(100), None);
}
