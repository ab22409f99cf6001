//! Cases, tables and curves, without sockets.

use remote::{Access, Resource};
use types::{ErrorCode, Location, PeerStatus, Phase, Side};

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
        processes: vec![std::process::id()],
    }
}

fn pair(url: &str) -> Pair {
    Pair {
        source: target(url),
        destination: target(url),
    }
}

fn tpc(pairs: Vec<Pair>) -> Tpc {
    Tpc {
        pairs,
        ways: vec![Direction::Pull, Direction::Push],
        concurrency: vec![1, 100],
        streams: vec![0, 1, 4],
        size_bytes: 1000,
        files: 1,
        duration: Duration::ZERO,
        repetitions: 1,
    }
}

fn level(copies: usize, failures: usize, is_whole: bool) -> Level {
    let error = Error::new(ErrorCode::PeerFailed, Side::Source, Phase::Transfer)
        .with_peer(Some(PeerStatus::Http(500)), "out of luck");
    Level {
        seconds: 2.0,
        moved_bytes: copies as u64 * 1_000_000_000,
        times: vec![1.0; copies],
        failures: vec![Failure::of("copy", &error); failures],
        cpu_s: Some(1.0),
        peaks: Peaks::of(&pair("https://a/")),
        rates: vec![(0.5, 125e6)],
        is_whole,
    }
}

const SHAPE: Shape = Shape {
    way: Direction::Pull,
    streams: 4,
    concurrency: 2,
};

#[test]
fn every_way_stream_and_concurrency_is_a_case() {
    let tpc = tpc(vec![pair("https://a/"), pair("root://a//b")]);
    let shapes = tpc.shapes();
    assert_eq!(shapes.len(), 12);
    let able: usize = shapes.iter().map(|shape| able(&tpc, *shape).count()).sum();
    assert_eq!(able, 18, "there is no push from root");
    let labels: Vec<String> = shapes[..6]
        .iter()
        .map(|shape| shape.case(&tpc.pairs[0]).label)
        .collect();
    assert_eq!(labels[0], "pull https, streams as the server likes");
    assert_eq!(
        (labels[2].as_str(), labels[5].as_str()),
        ("pull https", "pull https, 4 streams")
    );
}

#[test]
fn a_sample_fills_all_tables_and_failures_do_not_spoil_it() {
    let (mut tables, pair) = (Tables::new(), pair("https://a/"));
    let case = SHAPE.case(&pair);
    let words = tables.take(&pair, &case, SHAPE, level(4, 2, true));
    assert!(
        words.starts_with("16.0 Gbit/s, 4 copies, 2 failures") && words.contains("out of luck"),
        "{words}"
    );
    assert!(!tables.is_hopeless(&pair, &case));
    let measured = tables.finish();
    let titles: Vec<&str> = measured.tables.iter().map(|table| table.title.as_str()).collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    let row = &measured.tables[0].rows[0];
    assert_eq!((row.samples.as_slice(), row.failures[0].count), ([16.0].as_slice(), 2));
    assert_eq!(
        measured.tables[1].rows[0].samples,
        [0.25],
        "processor seconds for each GB"
    );
    assert_eq!(measured.curves[0].points, [(0.5, 1.0)]);
    assert_eq!(measured.curves[0].title, "Rate over time, 2 at once");
}

#[test]
fn nothing_but_failures_is_not_tried_again() {
    let (mut tables, pair) = (Tables::new(), pair("https://a/"));
    let case = SHAPE.case(&pair);
    let words = tables.take(&pair, &case, SHAPE, level(0, 6, true));
    assert!(words.starts_with("no copy went well, 6 failures"), "{words}");
    assert!(tables.is_hopeless(&pair, &case));
    assert!(tables.finish().has_failures());
}

#[test]
fn an_interrupted_level_counts_when_each_place_had_made_a_copy() {
    let (mut tables, pair) = (Tables::new(), pair("https://a/"));
    let case = SHAPE.case(&pair);
    let words = tables.take(&pair, &case, SHAPE, level(1, 0, false));
    assert_eq!(words, "interrupted at 4.00 Gbit/s, 1 copies");
    let words = tables.take(&pair, &case, SHAPE, level(2, 0, false));
    assert!(words.starts_with("8.00 Gbit/s"), "{words}");
    let measured = tables.finish();
    assert_eq!(measured.tables[0].rows[0].samples.len(), 1);
    assert_eq!(measured.curves.len(), 1, "the first sample is drawn");
}

#[test]
fn pairs_stand_one_behind_the_other() {
    let targets = ["https://a/", "https://b/", "https://c/", "https://d/"].map(target);
    let found = pairs(&targets).unwrap();
    let hosts: Vec<_> = found
        .iter()
        .map(|pair| {
            format!(
                "{}{}",
                pair.source.place.location.host(),
                pair.destination.place.location.host()
            )
        })
        .collect();
    assert_eq!(hosts, ["ab", "cd"]);
    assert!(pairs(&targets[..3]).is_none() && pairs(&[]).is_none());
}
