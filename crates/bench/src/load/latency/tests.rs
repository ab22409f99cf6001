//! Cases, labels and ceilings, without sockets.

use remote::{Access, Resource};
use types::{Location, Side};

use super::*;

fn target(url: &str) -> Target {
    Target {
        name: "se".to_owned(),
        place: Resource {
            location: Location::parse(url).unwrap(),
            access: Access::default(),
            side: Side::Source,
        },
        file: None,
        processes: Vec::new(),
    }
}

fn latency() -> Latency {
    Latency {
        ways: vec![Way::Get, Way::Copy(Direction::Pull)],
        pairs: Vec::new(),
        rtts: vec![Duration::ZERO, Duration::from_millis(100)],
        streams: vec![0, 1, 10],
        size_bytes: 1,
        window: Window::Bytes(1 << 20),
        repetitions: 1,
    }
}

fn missing() -> Failure {
    Failure::new("nothing", "was prepared", "")
}

#[test]
fn only_servers_choose_streams_by_themselves() {
    let shapes = latency().shapes();
    let of = |way: Way| shapes.iter().filter(|shape| shape.way == way).count();
    assert_eq!((of(Way::Get), of(Way::Copy(Direction::Pull))), (4, 6));
}

#[test]
fn a_label_says_how_many_streams_and_leaves_the_distance_to_the_axis() {
    let target = target("https://se.example.org/");
    let pair = Pair {
        source: target.clone(),
        destination: target.clone(),
    };
    let (one, two) = (
        Party::One(&target, Box::new(Err(missing()))),
        Party::Two(&pair, Box::new(Err(missing()))),
    );
    let label = |party: &Party<'_>, way: Way, streams: u32| {
        let rtt = Duration::from_millis(30);
        Shape { way, streams, rtt }.case(party).label
    };
    assert_eq!(label(&one, Way::Get, 1), "GET https, 1 stream");
    assert_eq!(label(&one, Way::Put, 4), "PUT https, 4 files at once");
    let pull = Way::Copy(Direction::Pull);
    assert_eq!(label(&two, pull, 0), "pull https, streams as the server likes");
    assert!(two.has_way(pull) && !one.has_way(pull) && !two.has_way(Way::Get) && one.has_way(Way::Put));
}

#[test]
fn ceilings_grow_with_streams_and_shrink_with_the_distance() {
    let target = target("https://se.example.org/");
    let party = Party::One(&target, Box::new(Err(missing())));
    let mut tally = Tally::new("Throughput", Counted::Bytes).against(AXIS, "ms", false);
    for shape in latency().shapes().into_iter().filter(|shape| shape.way == Way::Get) {
        let case = shape.case(&party);
        let row = tally.rate.row("se", &case.label, &case.parameters);
        row.add(0.25);
    }
    let tables = ceilings(&tally.rate, Some(12_500_000));
    let [ceiling, reached] = tables.as_slice() else {
        panic!("{tables:?}")
    };
    let figures: Vec<f64> = ceiling.rows.iter().map(|row| row.samples[0]).collect();
    assert_eq!(
        figures,
        [1.0, 10.0],
        "12.5 MB in 100 ms, by 1 and by 10 streams; none without a distance"
    );
    let shares: Vec<f64> = reached.rows.iter().map(|row| row.samples[0]).collect();
    assert_eq!(shares, [25.0, 2.5]);
    assert!(ceilings(&tally.rate, None).is_empty());
}

#[test]
fn the_window_is_what_was_asked_for() {
    let mut latency = latency();
    assert_eq!(latency.window_bytes(), Some(1 << 20));
    latency.window = Window::Unlimited;
    assert_eq!(latency.window_bytes(), None);
    latency.window = Window::Buffers;
    assert_eq!(
        latency.window_bytes(),
        Buffers::here().map(|buffers| buffers.window_bytes())
    );
}
