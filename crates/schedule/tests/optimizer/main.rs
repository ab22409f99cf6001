//! The optimizer on a simulated network, beside the rule of FTS. The rows that it prints
//! (`--nocapture`) are the table of `docs/experiments/2026-11-28-optimizer.md`.
#![allow(clippy::print_stdout, reason = "the table is copied into docs/experiments")]

mod fts;
mod network;
mod run;
mod scenarios;

use fts::Fts;
use network::Network;
use run::{Report, Rule, run};
use scenarios::Scenario;

/// Both rules on one scenario.
struct Pair {
    ours: Report,
    /// From two connections per link.
    fts: Report,
    /// From the middle of its range, where FTS begins on a link without history or settings.
    fts_middle: Report,
}

fn compare(scenario: &Scenario) -> Pair {
    let network = Network::new(scenario.storages.clone(), scenario.paths.clone());
    let links = network.paths.len();
    let fts = |initial| Rule::Fts(Fts::new(links, initial, scenario.max));
    let ours = Rule::ours(&network, scenario.max);
    Pair {
        ours: run(network.clone(), ours, scenario.length_ms),
        fts: run(network.clone(), fts(2), scenario.length_ms),
        fts_middle: run(network, fts(2 + (scenario.max - 2) / 2), scenario.length_ms),
    }
}

fn seconds(time_s: Option<i64>) -> String {
    time_s.map_or("never".to_owned(), |time_s| time_s.to_string())
}

fn print(scenario: &Scenario, pair: &Pair) {
    let rows = [
        ("ours", &pair.ours),
        ("FTS from 2", &pair.fts),
        ("FTS from the middle", &pair.fts_middle),
    ];
    for (rule, report) in rows {
        let jain = if scenario.fair.is_empty() {
            "–".to_owned()
        } else {
            format!("{:.3}", report.jain(&scenario.fair, 60_000, scenario.length_ms))
        };
        println!(
            "| {} | {rule} | {} | {:.0} | {jain} | {:.2} |",
            scenario.name,
            seconds(report.reached_s(0, 0.9 * scenario.capacity)),
            report.mean(0, scenario.length_ms) / 1e6,
            100.0 * report.waste(),
        );
    }
}

/// Prints the rows of the table, and checks what they must show.
fn check(scenario: &Scenario) {
    let pair = compare(scenario);
    print(scenario, &pair);
    let ours = &pair.ours;
    let reached_s = ours.reached_s(0, 0.9 * scenario.capacity);
    assert!(reached_s.is_some_and(|time| time <= 60), "{reached_s:?}");
    let total = |report: &Report| report.mean(0, scenario.length_ms);
    for (start, fts) in [("2", &pair.fts), ("the middle", &pair.fts_middle)] {
        assert!(total(ours) >= total(fts), "throughput below FTS from {start}");
    }
    assert!(total(ours) >= 0.9 * scenario.capacity, "throughput");
    assert!(ours.waste() <= 0.01, "{} wasted", ours.waste());
    if !scenario.fair.is_empty() {
        let jain = ours.jain(&scenario.fair, 60_000, scenario.length_ms);
        assert!(jain >= 0.9, "Jain index {jain}");
    }
    for decision in &ours.decisions {
        assert!(decision.rationale.len() > 10, "{decision:?}");
        assert!(!decision.rationale.contains("MB"), "units are MiB: {decision:?}");
        assert_ne!(decision.from, decision.to);
    }
}

#[test]
fn shared_storage() {
    let scenario = scenarios::shared_storage();
    check(&scenario);
}

#[test]
fn round_trips() {
    check(&scenarios::round_trips());
}

#[test]
fn small_and_large_files() {
    check(&scenarios::small_and_large());
}

#[test]
fn an_endpoint_fails() {
    check(&scenarios::endpoint_fails());
}

#[test]
fn a_slow_endpoint() {
    check(&scenarios::slow_endpoint());
}

fn ours(scenario: &Scenario) -> Report {
    let network = Network::new(scenario.storages.clone(), scenario.paths.clone());
    let rule = Rule::ours(&network, scenario.max);
    run(network, rule, scenario.length_ms)
}

#[test]
fn it_settles() {
    let mut scenario = scenarios::shared_storage();
    scenario.length_ms = 1_200_000;
    let report = ours(&scenario);
    let sums: Vec<u32> = report.targets[60..].iter().map(|all| all.iter().sum()).collect();
    let mut sorted = sums.clone();
    sorted.sort_unstable();
    let median = f64::from(sorted[sorted.len() / 2]);
    for sum in sums {
        let ratio = f64::from(sum) / median;
        assert!((0.8..=1.2).contains(&ratio), "{sum} copies, {median} in the median");
    }
}

#[test]
fn it_follows_capacity_down_and_up() {
    let mut scenario = scenarios::shared_storage();
    scenario.length_ms = 1_500_000;
    scenario.storages[0].halved_ms = 600_000..1_000_000;
    let report = ours(&scenario);
    let halved_s = report.reached_s(605_000, 0.9 * 0.625e9);
    let during = report.mean(660_000, 1_000_000);
    let back_s = report.reached_s(1_000_000, 0.9 * 1.25e9);
    println!("halved: {halved_s:?} s, {during:.0} bytes/s; back: {back_s:?} s");
    assert!(halved_s.is_some_and(|time| time <= 55), "{halved_s:?}");
    assert!(during >= 0.9 * 0.625e9, "{during}");
    assert!(back_s.is_some_and(|time| time <= 150), "{back_s:?}");
}

#[test]
fn overload_is_avoided() {
    let mut scenario = scenarios::shared_storage();
    scenario.storages[0].refuses_above = Some(30);
    let report = ours(&scenario);
    let mean = report.mean(60_000, scenario.length_ms);
    println!("refused: {} of {}, {mean:.0} bytes/s", report.wasted, report.attempts);
    assert!(report.waste() <= 0.01, "{} of {}", report.wasted, report.attempts);
    assert!(mean >= 0.75 * 1.25e9, "{mean}");
}

#[test]
fn settings_of_an_idle_link_are_kept() {
    let link = schedule::optimizer::Link {
        source: "davs://a.example:443".to_owned(),
        destination: "davs://b.example:443".to_owned(),
    };
    let mut optimizer = schedule::optimizer::Optimizer::default();
    let bounds = schedule::optimizer::LinkBounds {
        max: 1,
        ..Default::default()
    };
    optimizer.set_link_bounds(&link, bounds);
    let now_ms = 1_795_000_000_000;
    optimizer.sample(now_ms, &[]);
    let sample = schedule::optimizer::LinkSample {
        link: link.clone(),
        bytes_moved: 0,
        active: 0,
        waiting: 9,
    };
    optimizer.sample(now_ms + 5_000, &[sample]);
    assert_eq!(optimizer.target(&link), 1);
}

/// A client that names many storages must not keep the optimizer from a link that works.
#[test]
fn a_link_with_copies_takes_the_place_of_one_that_only_waits() {
    use schedule::optimizer::limits::{INITIAL_COPIES, LINKS_MAX};
    let link = |number: usize| schedule::optimizer::Link {
        source: "davs://a.example:443".to_owned(),
        destination: format!("davs://b{number}.example:443"),
    };
    let sample = |number, active| schedule::optimizer::LinkSample {
        link: link(number),
        bytes_moved: u64::from(active) * 100_000_000,
        active,
        waiting: 1_000,
    };
    let (mut optimizer, mut now_ms) = (schedule::optimizer::Optimizer::default(), 1_795_000_000_000);
    let mut samples: Vec<_> = (0..LINKS_MAX + 10).map(|number| sample(number, 0)).collect();
    optimizer.sample(now_ms, &samples);
    let works = LINKS_MAX + 10;
    assert_eq!(optimizer.target(&link(works)), INITIAL_COPIES);
    for _ in 0..10 {
        now_ms += 3_000;
        let active = optimizer.target(&link(works));
        samples.truncate(works);
        samples.push(sample(works, active));
        optimizer.sample(now_ms, &samples);
    }
    let target = optimizer.target(&link(works));
    assert!(target > 4 * INITIAL_COPIES, "{target}");
}
