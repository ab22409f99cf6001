//! `crossload history`: runs that are kept, what they say together, and what has changed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use conformance::{JsonLines, Lab, Run, json_lines, run};
use serde_json::{Value, json};
use testkit::{Tmpfs, available};

/// 2024-11-01: in the past on any machine.
const BEGIN_MS: u64 = 1_730_419_200_000;
const HOUR_MS: u64 = 3_600_000;
/// Room for a small history, and for nothing beside it once a ballast is there.
const DISK_BYTES: u64 = 1 << 20;

/// A run of a mesh of four endpoints, in which all copies from `b` fail from the tenth hour on.
fn mesh(hour: u64) -> Value {
    let names = ["a", "b", "c", "d"];
    let pairs = names
        .iter()
        .flat_map(|source| names.map(|destination| (*source, destination)));
    let cell = |(source, destination): (&str, &str)| {
        let has_failed = source == "b" && hour >= 10;
        let outcome = match has_failed {
            true => json!({
                "is": "failed", "side": "source", "phase": "transfer", "code": "peer_truncated",
                "says": "the server sent less than it announced", "reproduce": ["crossload copy …"],
            }),
            false => json!({"is": "passed"}),
        };
        json!({
            "link": {
                "source": source, "destination": destination, "source_protocol": "https",
                "destination_protocol": "https", "mode": "pull", "credential": "token",
            },
            "outcome": outcome, "started_ms": BEGIN_MS + hour * HOUR_MS + 1, "copy_ms": 40, "bytes": 1024,
            "copies": 1, "copies_failed": u8::from(has_failed),
        })
    };
    json!({
        "instrument": "mesh", "title": "testbed", "started_ms": BEGIN_MS + hour * HOUR_MS,
        "ended_ms": BEGIN_MS + hour * HOUR_MS + 60_000, "program": "crossload 0.1.0", "is_complete": true,
        "endpoints": names.map(|name| json!({"name": name})),
        "cells": pairs.filter(|(source, destination)| source != destination).map(cell).collect::<Vec<_>>(),
    })
}

/// The same report of `bench` on 30 days; on the last six its figures are half as large.
fn reports(report: &Value) -> Vec<Value> {
    let of_day = |day: u64| {
        let mut report = report.clone();
        report["started"] = format!("2024-11-{:02}T00:00:00Z", day + 1).into();
        let tables = report["tables"].as_array_mut().expect("tables");
        for row in tables
            .iter_mut()
            .flat_map(|table| table["rows"].as_array_mut().expect("rows"))
        {
            for sample in row["samples"].as_array_mut().expect("samples") {
                let steady = if day < 24 { 2.0 } else { 1.0 };
                // No two days are equal.
                *sample = json!(steady * (100.0 + (day * 7 % 5) as f64));
            }
        }
        report
    };
    (0..30).map(of_day).collect()
}

fn files(lab: &Lab, documents: &[Value]) -> Vec<String> {
    let files = documents
        .iter()
        .map(|document| lab.file(document.to_string().as_bytes()));
    files.map(|file| file.to_str().expect("plain").to_owned()).collect()
}

fn history(lab: &Lab, command: &str, arguments: &[&str], file: &Path) -> Run {
    let file = file.to_str().expect("plain");
    let arguments = [&["history", command, "--history", file], arguments].concat();
    run(&lab.client(arguments).expect("the client is built"))
}

/// Lines of the commands with the names of their schemas; `report`: one of `bench`.
pub(crate) fn lines(lab: &Lab, report: &Value, all: &mut JsonLines) {
    let file = lab.fresh("history");
    let files = files(lab, &[reports(report), (0..13).map(mesh).collect()].concat());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let imported = history(lab, "import", &[&["--json"], &files[..]].concat(), &file).succeeded();
    all.add("history_import", &json_lines(&imported));
    let listed = history(lab, "list", &["--json"], &file).succeeded();
    assert_eq!(json_lines(&listed).len(), 43, "{}", listed.said());
    all.add("history_run", &json_lines(&listed));
    let mut add = |schema: &str, command: &str, arguments: &[&str], code: i32| {
        let said = history(lab, command, &[&["--json"], arguments].concat(), &file);
        assert_eq!(said.code, Some(code), "{}", said.said());
        all.add(schema, &json_lines(&said));
        json_lines(&said)
    };
    add("history_show", "show", &["--instrument", "mesh"], 0);
    add("history_show", "show", &["--instrument", "bench"], 0);
    add("history_compare", "compare", &["--instrument", "bench"], 0);
    add("history_compare", "compare", &["31", "43"], 1);
    add("history_remove", "remove", &["2"], 0);
    let changed = add("history_check", "check", &["--instrument", "bench"], 1);
    let rate = changed
        .iter()
        .find(|line| line["is_worse"] == true)
        .expect("a rate that is worse");
    assert_eq!(
        (&rate["runs"], &rate["since_ms"]),
        (&json!(6), &json!(BEGIN_MS + 24 * 24 * HOUR_MS))
    );
}

#[test]
fn a_history_says_who_fails_since_when() {
    let Some(lab) = available("a_history_says_who_fails_since_when", Lab::new("history")) else {
        return;
    };
    let file = lab.fresh("state").join("history.sqlite");
    let of = |command: &str, arguments: &[&str]| history(&lab, command, arguments, &file);
    let none = of("list", &[]).failed_with(2);
    assert!(none.said().contains("no runs are kept yet"), "{}", none.said());
    let documents: Vec<Value> = (0..40).map(mesh).collect();
    let files = files(&lab, &documents);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    of("import", &files[..10]).succeeded();
    of("check", &["--quiet"]).succeeded();
    assert_eq!(of("compare", &[]).succeeded().said().matches("broken").count(), 1);
    let mode = file.metadata().expect("the history").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Some are kept already.
    let again = of("import", &files[5..]).succeeded().text();
    assert!(again.contains("run 6, mesh of 2024-11-01 05:00 UTC"), "{again}");
    let listed = of("list", &["--count", "50"]).succeeded().text();
    assert_eq!(listed.lines().count(), 41, "{listed}");
    let shown = of("show", &[]).succeeded().text();
    let sentence = "b fails as a source for everyone (3 of 3 copies): peer_truncated in transfer, \
                    since 2024-11-01 10:00 UTC in 30 runs; last good 2024-11-01 09:00 UTC";
    assert!(shown.contains(sentence), "{shown}");
    assert!(shown.contains("problematic  2024-11-01 11:00 UTC"), "{shown}");
    let checked = of("check", &[]).failed_with(1).text();
    let worse = "mesh, testbed: worse since 2024-11-01 10:00 UTC: failures of b as a source: 0.000 → 100 %\n";
    assert_eq!(checked, worse);
    let compared = of("compare", &["10", "11"]).failed_with(1).text();
    assert!(
        compared.contains("3 broken, 0 mended") && compared.contains("peer_truncated"),
        "{compared}"
    );
    let exported: Value = serde_json::from_str(&of("export", &["12"]).succeeded().text()).expect("JSON");
    assert_eq!(exported, documents[11]);
    of("show", &["99"]).failed_with(2);
    let mut early = mesh(50);
    (early["is_complete"], early["ended_by"]) = (json!(false), json!("the limit of bytes is reached"));
    let early_file = lab.file(early.to_string().as_bytes());
    let ended = lab.fresh("early.sqlite");
    history(&lab, "import", &[early_file.to_str().expect("plain")], &ended).succeeded();
    for command in ["show", "list"] {
        let said = history(&lab, command, &[], &ended).succeeded().text();
        assert!(said.contains("ended early: the limit of bytes is reached"), "{said}");
    }
    let exported = history(&lab, "export", &[], &ended).succeeded();
    assert_eq!(json_lines(&exported), [early]);
    several_at_once(&lab, &file, &documents);
    let broken = lab.file(b"{\"instrument\": \"moon\"}");
    let refused = of("import", &[broken.to_str().expect("plain")]).failed_with(22);
    assert!(
        refused.said().contains("neither a run nor a report of bench"),
        "{}",
        refused.said()
    );
    let damaged = lab.file(&[b'x'; 4096]);
    history(&lab, "list", &[], &damaged).failed_with(22);
}

#[test]
fn a_history_is_read_on_a_full_disk() {
    let test = "a_history_is_read_on_a_full_disk";
    let Some(lab) = available(test, Lab::new("history-full")) else {
        return;
    };
    let Some(disk) = available(test, Tmpfs::mount(&lab.fresh("disk"), DISK_BYTES)) else {
        return;
    };
    let file = disk.path().join("history.sqlite");
    let names = files(&lab, &[mesh(1)]);
    history(&lab, "import", &[names[0].as_str()], &file).succeeded();
    let ballast = disk.path().join("ballast");
    let full = std::fs::write(&ballast, vec![1; 2 * DISK_BYTES as usize]).expect_err("more than there is room for");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // What the first of them leaves is met by the others.
    for command in ["list", "show", "export", "check", "list"] {
        history(&lab, command, &[], &file).succeeded();
    }
    let refused = history(&lab, "import", &[names[0].as_str()], &file);
    assert_ne!(refused.code, Some(0), "the disk is full: {}", refused.said());
    std::fs::remove_file(&ballast).expect("the ballast");
    let listed = history(&lab, "list", &["--json"], &file).succeeded();
    assert_eq!(json_lines(&listed).len(), 1, "{}", listed.said());
}

/// Runs leave and enter a history several at a time, and can be removed.
fn several_at_once(lab: &Lab, file: &Path, documents: &[Value]) {
    let exported = history(lab, "export", &["3", "1"], file).succeeded();
    assert_eq!(json_lines(&exported), [documents[2].clone(), documents[0].clone()]);
    let newest = history(lab, "export", &["--count", "2"], file).succeeded();
    assert_eq!(json_lines(&newest), documents[38..]);
    let both = lab.file(&newest.stdout);
    let other = lab.fresh("other.sqlite");
    history(lab, "import", &[both.to_str().expect("plain")], &other).succeeded();
    let removed = history(lab, "remove", &["1"], &other).succeeded();
    assert_eq!(removed.text(), "run 1 removed\n");
    let rest = history(lab, "export", &["--count", "9"], &other).succeeded();
    assert_eq!(json_lines(&rest), documents[39..]);
    history(lab, "remove", &["2", "1"], &other).failed_with(2);
    assert_eq!(
        json_lines(&history(lab, "list", &["--json"], &other).succeeded()).len(),
        1
    );
}

#[test]
fn a_run_of_a_wrong_clock_and_a_database_of_another_program_are_refused() {
    let test = "a_run_of_a_wrong_clock_and_a_database_of_another_program_are_refused";
    let Some(lab) = available(test, Lab::new("history-refused")) else {
        return;
    };
    let file = lab.fresh("history.sqlite");
    let mut wrong = mesh(0);
    // In the year 2100.
    wrong["started_ms"] = json!(4_102_444_800_000_u64);
    let names = files(&lab, &[mesh(1), wrong]);
    let refused = history(&lab, "import", &[names[1].as_str()], &file).failed_with(22);
    assert!(
        refused.stderr.contains("the run begins in the future, at 2100-01-01"),
        "{}",
        refused.said()
    );
    history(&lab, "import", &[names[0].as_str()], &file).succeeded();
    assert_eq!(history(&lab, "remove", &["--future"], &file).succeeded().text(), "");
    // A clock that is behind sees all runs in the future.
    let later = "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); \
                 d.execute('update run set started_ms = 4102444800000'); d.commit()";
    let mut python = lab.command("python3").expect("python3");
    python.args(["-c", later]).arg(&file);
    run(&python).succeeded();
    let refused = history(&lab, "remove", &["--future"], &file).failed_with(22);
    assert!(refused.stderr.contains("correct the clock"), "{}", refused.said());
    assert_eq!(
        history(&lab, "remove", &["1"], &file).succeeded().text(),
        "run 1 removed\n"
    );
    // SQLite's own program writes another one.
    let foreign = lab.fresh("foreign.sqlite");
    let script =
        "import sqlite3,sys; sqlite3.connect(sys.argv[1]).executescript('create table t (a); pragma user_version=1')";
    let mut python = lab.command("python3").expect("python3");
    python.args(["-c", script]).arg(&foreign);
    run(&python).succeeded();
    let before = std::fs::read(&foreign).expect("a database");
    for command in ["list", "show", "check"] {
        let refused = history(&lab, command, &[], &foreign).failed_with(22);
        assert!(
            refused.stderr.contains("a database of another program"),
            "{}",
            refused.said()
        );
    }
    history(&lab, "import", &[names[0].as_str()], &foreign).failed_with(22);
    assert_eq!(std::fs::read(&foreign).expect("a database"), before);
}
