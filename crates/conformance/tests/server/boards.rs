//! Each query of the boards and alert rules of `monitoring/`, at a real Prometheus that asked our
//! servers; and the rules, with promtool.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::{Lab, run, until};
use serde_json::Value;
use testkit::{Prometheus, available, require};

use crate::watched::Watched;

const SOON: Duration = Duration::from_secs(60);
/// Metrics of alert rules that this site does not have, and why.
const ABSENT: [(&str, &str); 3] = [
    ("crossload_bus_up", "there is no message bus"),
    ("crossload_redirector_bus_up", "there is no message bus"),
    ("crossload_traces_spans_total", "no traces are exported"),
];

fn monitoring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../monitoring")
}

/// A board's name and its parsed file.
fn boards() -> Vec<(String, Value)> {
    let files = fs::read_dir(monitoring().join("grafana")).expect("the boards");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a board");
        let board = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.file_name().expect("a name").to_string_lossy().into_owned(), board)
    };
    files.iter().map(read).collect()
}

/// The queries of a board: panel and expression, with its variables set to everything.
fn queries(board: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let panels = board["panels"].as_array().expect("panels");
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            let whole = expression.replace("$instance", ".*").replace("$__rate_interval", "1m");
            assert!(
                !whole.contains('$'),
                "{title}: a variable that the test does not know: {whole}"
            );
            found.push((title.to_owned(), whole));
        }
    }
    found
}

/// The series that Prometheus finds.
fn ask(lab: &Lab, prometheus: &Prometheus, query: &str) -> Result<usize, String> {
    let url = prometheus.url("/api/v1/query");
    let answer = lab.curl(&["-G", "--data-urlencode", &format!("query={query}"), &url]);
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    match answer["status"].as_str() {
        Some("success") => Ok(answer["data"]["result"].as_array().map_or(0, Vec::len)),
        _ => Err(answer["error"].to_string()),
    }
}

/// The metrics in an expression: words that begin as ours do.
fn metrics(expression: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(|letter| !is_part(letter));
    let ours = words.filter(|word| word.starts_with("crossload_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

/// Name and expression of each rule, as Prometheus has read them.
fn rules(lab: &Lab, prometheus: &Prometheus) -> Vec<(String, String)> {
    let answer = lab.curl(&[&prometheus.url("/api/v1/rules")]).expect(200);
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let groups = answer["data"]["groups"].as_array().expect("groups");
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    rules.map(|rule| (text(&rule["name"]), text(&rule["query"]))).collect()
}

fn start(test: &str) -> Option<(Watched, Prometheus)> {
    let start = || {
        require("prometheus")?;
        let site = Watched::start("boards")?;
        let targets = site.pages().map(|(name, url)| {
            let rest = url.strip_prefix("http://").unwrap_or(&url);
            (name, rest.split('/').next().unwrap_or_default().to_owned())
        });
        let targets: Vec<(String, String)> = targets
            .into_iter()
            .map(|(name, target)| (format!("crossload-{name}"), target))
            .collect();
        let targets: Vec<(&str, String)> = targets
            .iter()
            .map(|(name, target)| (name.as_str(), target.clone()))
            .collect();
        let rules = monitoring().join("alerts.yaml").canonicalize()?;
        let prometheus = Prometheus::start(&site.lab.fresh("prometheus"), &rules, &targets)?;
        Ok((site, prometheus))
    };
    available(test, start())
}

#[test]
fn every_query_of_boards_and_rules_finds_something() {
    let test = "every_query_of_boards_and_rules_finds_something";
    let Some((site, prometheus)) = start(test) else { return };
    let lab = &site.lab;
    // A rate needs two samples.
    until("each server was asked twice", SOON, || {
        let query = "count_over_time(up{job=~\"crossload-.*\"}[5m]) >= 3";
        ask(lab, &prometheus, query) == Ok(site.pages().len())
    });
    let mut faults = Vec::new();
    for (file, board) in boards() {
        let queries = queries(&board);
        assert!(queries.len() > 5, "{file} has few queries");
        for (panel, query) in queries {
            match ask(lab, &prometheus, &query) {
                Ok(0) => faults.push(format!("{file}: {panel}: nothing found by {query}")),
                Ok(_) => {}
                Err(error) => faults.push(format!("{file}: {panel}: {error}: {query}")),
            }
        }
    }
    let rules = rules(lab, &prometheus);
    assert!(rules.len() > 10, "{rules:?}");
    for (rule, query) in &rules {
        // It finds something only when something is wrong, but must know its metrics.
        if let Err(error) = ask(lab, &prometheus, query) {
            faults.push(format!("{rule}: {error}"));
        }
        for metric in metrics(query) {
            let is_absent = ABSENT.iter().any(|(name, _)| *name == metric);
            if ask(lab, &prometheus, &metric) == Ok(0) && !is_absent {
                faults.push(format!("{rule}: there is no {metric}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn rules_warn_when_they_should_and_only_then() {
    let test = "rules_warn_when_they_should_and_only_then";
    let Some(lab) = available(test, require("promtool").and_then(|_| Lab::new("rules"))) else {
        return;
    };
    let promtool = |words: &[&str]| {
        let mut command = lab.command("promtool").expect("promtool");
        command.current_dir(monitoring()).args(words);
        run(&command).succeeded()
    };
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts.test.yaml"]);
    // Each rule has a case in which it warns, and one in which it does not.
    let read = |name: &str| fs::read_to_string(monitoring().join(name)).expect("a file");
    let (rules, cases) = (read("alerts.yaml"), read("alerts.test.yaml"));
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let lines: Vec<&str> = cases.lines().map(str::trim).collect();
        let asked = lines
            .iter()
            .filter(|line| **line == format!("alertname: {name}"))
            .count();
        let silent = lines
            .windows(2)
            .filter(|pair| pair[0] == format!("alertname: {name}") && pair[1] == "exp_alerts: []")
            .count();
        assert!(
            asked > silent && silent > 0,
            "{name}: {asked} cases, {silent} of them silent"
        );
    }
}

#[test]
fn boards_are_what_grafana_imports() {
    let boards = boards();
    assert_eq!(boards.len(), 3);
    let mut uids = BTreeSet::new();
    for (file, board) in &boards {
        let uid = board["uid"].as_str().expect("a uid");
        assert!(uids.insert(uid.to_owned()) && uid.len() <= 40, "{file}: {uid}");
        assert!(
            board["title"]
                .as_str()
                .is_some_and(|title| title.starts_with("Crossload")),
            "{file}"
        );
        assert_eq!(board["id"], Value::Null, "{file}: an id belongs to one Grafana");
        let mut ids = BTreeSet::new();
        for panel in board["panels"].as_array().expect("panels") {
            assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{file}");
            let place = &panel["gridPos"];
            let of = |name: &str| place[name].as_u64().unwrap_or_else(|| panic!("{file}: {panel}"));
            assert!(of("x") + of("w") <= 24 && of("h") > 0, "{file}: {panel}");
            if panel["type"] != "row" {
                assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {panel}");
            }
        }
    }
}
