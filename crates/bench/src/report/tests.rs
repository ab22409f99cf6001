//! A report as the tests of all writers use it.

use super::*;

/// Two targets, a table of bars with a failure, one of lines, and a curve.
pub(crate) fn sample() -> Report {
    let mut bars = Table::new("Throughput", "Gbit/s", Better::More);
    let parameters = Parameters::from([("connections".to_owned(), Value::from(16_u32))]);
    for (target, samples) in [("ours", [11.0, 12.0, 13.0]), ("theirs", [8.0, 9.0, 14.0])] {
        let row = bars.row(target, "GET https <&\"'>", &parameters);
        samples.into_iter().for_each(|sample| row.add(sample));
    }
    let row = bars.row("theirs", "PUT https", &parameters);
    row.fail(Failure::new("PUT", "the server, \"se\", said no", "ask its owner"));
    let mut lines = Table::new("Requests", "1/s", Better::More).against("connections", "", true);
    for (target, factor) in [("ours", 1000.0), ("theirs", 700.0)] {
        for connections in [1_u32, 4, 16] {
            let parameters = Parameters::from([("connections".to_owned(), Value::from(connections))]);
            let row = lines.row(target, "HEAD https", &parameters);
            row.add(factor * f64::from(connections));
            row.add(factor * f64::from(connections) * 1.1);
        }
    }
    let curve = Curve {
        title: "Rate over time".to_owned(),
        target: "ours".to_owned(),
        label: "pull, 10 concurrent".to_owned(),
        unit: "Gbit/s".to_owned(),
        points: vec![(0.0, 0.0), (1.0, 8.5), (2.0, 9.0)],
    };
    let target = |name: &str| Target {
        name: name.to_owned(),
        url: format!("https://{name}.example.org/bench"),
    };
    Report {
        format: FORMAT,
        program: "crossload 0.1.0".to_owned(),
        kind: "bulk".to_owned(),
        started: "2026-11-22T08:00:00Z".to_owned(),
        duration_s: 12.5,
        interrupted: false,
        parameters: Parameters::from([("repetitions".to_owned(), Value::from(3_u32))]),
        machine: Machine::here(),
        targets: vec![target("ours"), target("theirs")],
        tables: vec![bars, lines],
        curves: vec![curve],
        noise: Noise::default(),
        notes: vec!["Files of 1 MiB & more".to_owned()],
    }
}

#[test]
fn json_is_read_back_as_it_was() {
    let report = sample();
    assert_eq!(Report::from_json(&report.to_json()), Ok(report));
}

#[test]
fn other_files_and_other_versions_are_refused_in_words() {
    let words = Report::from_json("{\"a\": 1}").unwrap_err();
    assert!(words.contains("no report"), "{words}");
    let newer = Report {
        format: FORMAT + 1,
        ..sample()
    };
    let words = Report::from_json(&newer.to_json()).unwrap_err();
    assert!(words.contains("form 1"), "{words}");
}

#[test]
fn what_is_no_number_is_no_sample() {
    let mut row = Row::new("se", "GET", Parameters::new());
    [f64::NAN, f64::INFINITY, 1.0]
        .into_iter()
        .for_each(|sample| row.add(sample));
    assert_eq!(row.samples, [1.0]);
    assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
}

#[test]
fn the_median_is_the_middle_or_between_the_two() {
    let odd = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
    assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
    assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    assert_eq!(Summary::of(&[]), None);
}

#[test]
fn the_same_failure_is_counted() {
    let mut row = Row::new("se", "GET", Parameters::new());
    for _ in 0..3 {
        row.fail(Failure::new("GET", "it is gone", "look for it"));
    }
    row.fail(Failure::new("GET", "it is locked", ""));
    assert_eq!(row.failures.len(), 2);
    assert_eq!(row.failures[0].to_string(), "GET: it is gone - look for it (3 times)");
}

#[test]
fn what_fails_for_many_files_is_one_failure() {
    let mut row = Row::new("se", "pull https", Parameters::new());
    for number in 0..16 {
        let words = format!(
            "no space, https://se:8443/crossload-bench-6b02cead-17-x/copy-{number} (request cace578ae94b{number:x})"
        );
        row.fail(Failure::new("copy", words, ""));
    }
    assert_eq!(row.failures.len(), 1);
    assert_eq!(row.failures[0].count, 16);
    // What the server answered, and which server it was, is no name of a file.
    for words in [
        "the peer answered 502",
        "the peer answered 503",
        "no connection, https://se:8443",
        "no connection, https://se:9443",
    ] {
        row.fail(Failure::new("copy", words, ""));
    }
    assert_eq!(row.failures.len(), 5);
}

#[test]
fn whoever_lacks_a_credential_is_told_so_before_other_ways() {
    use types::{Error, ErrorCode, Phase, Side};
    let of =
        |code| Failure::of("upload", &Error::new(code, Side::Source, Phase::Open)).advised("give another directory");
    let denied = of(ErrorCode::PeerDenied);
    assert!(denied.advice.starts_with("show a credential") && denied.advice.ends_with(", or give another directory"));
    let forbidden = of(ErrorCode::PeerForbidden);
    assert_eq!(forbidden.advice, "give another directory");
    for (failure, is_denial) in [(denied, true), (forbidden, true), (of(ErrorCode::PeerNotFound), false)] {
        let mut report = sample();
        report.tables[0].rows[0].fail(failure);
        assert_eq!(report.has_denials(), is_denial);
        assert_eq!(Report::from_json(&report.to_json()), Ok(report));
    }
}
