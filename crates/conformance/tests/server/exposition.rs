//! The metrics as Prometheus' own tool judges them.

use conformance::run_with_input;
use testkit::{available, require};

use crate::watched::Watched;

/// What every process reports under the names that all client libraries use.
const COMMON: [&str; 8] = [
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
    "crossload_build_info",
    "crossload_log_lines_dropped_total",
];

#[test]
fn promtool_has_nothing_to_say_against_the_metrics() {
    let test = "promtool_has_nothing_to_say_against_the_metrics";
    let found = require("promtool").and_then(|promtool| Ok((promtool, Watched::start("exposition")?)));
    let Some((promtool, site)) = available(test, found) else {
        return;
    };
    for (name, url) in site.pages() {
        let page = site.lab.curl(&[&url]).expect(200);
        let kind = page.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        let mut check = site.lab.prepared(&promtool);
        check.args(["check", "metrics"]);
        let said = run_with_input(&check, &page.body);
        assert!(
            said.code == Some(0) && said.text().is_empty(),
            "{name}: {}",
            said.said()
        );
        assert!(said.stderr.is_empty(), "{name}: {}", said.said());
        let text = page.text();
        for metric in COMMON {
            let has = |line: &str| {
                line.strip_prefix(metric)
                    .is_some_and(|rest| rest.starts_with([' ', '{']))
            };
            assert!(text.lines().any(has), "{name} lacks {metric}\n{text}");
        }
        demand_each_family_once(name, &text);
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(samples > 30, "{name} has only {samples} series");
    }
    // It must find what is wrong.
    let mut check = site.lab.prepared(&promtool);
    check.args(["check", "metrics"]);
    let wrong = "# HELP x_total A gauge.\n# TYPE x_total gauge\nx_total 1\n";
    assert_ne!(run_with_input(&check, wrong.as_bytes()).code, Some(0));
}

fn demand_each_family_once(name: &str, text: &str) {
    let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    types.sort_unstable();
    let twice = types.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{name}");
}
