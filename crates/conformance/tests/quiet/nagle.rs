//! Clients that leave Nagle's algorithm on, as plain sockets of many languages do: they send a
//! small piece only when the one before it has been acknowledged, which Linux delays by 40 ms
//! unless the server asks for quick acknowledgements.

use std::path::Path;
use std::time::Instant;

use conformance::{alone, run};
use testkit::{available, require};

/// What a client may lose by it: less than the 40 ms of one acknowledgement, and more than what
/// other work on the machine adds to the median of runs that take turns.
const LOST_MAX_MS: f64 = 25.0;
/// Connections of each sort and kind of request.
const ROUNDS: &str = "7";
/// Connections of curl in one run.
const VISITS: usize = 100;

#[test]
fn no_request_waits_for_an_acknowledgement() {
    let test = "no_request_waits_for_an_acknowledgement";
    let Some((lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let Some(python) = available(test, require("python3")) else {
        return;
    };
    std::fs::write(server.data().join("file"), b"content").expect("a file");
    std::fs::create_dir(server.data().join("written")).expect("a directory");
    let mut command = lab.prepared(&python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/nagle.py");
    command.arg(script).args([&server.port().to_string(), ROUNDS]);
    let told = run(&command).succeeded().text();
    let waited: Vec<&str> = told.lines().filter(|line| waits(line)).collect();
    assert!(waited.is_empty(), "with, without: {waited:#?}");
    assert_eq!(told.lines().count(), 43, "{told}");
}

/// Whether the median with the algorithm is so much above that without.
fn waits(line: &str) -> bool {
    let mut fields = line.splitn(3, ' ');
    let mut median = || {
        fields
            .next()
            .and_then(|field| field.parse::<f64>().ok())
            .expect("a median")
    };
    let (with, without) = (median(), median());
    with - without > LOST_MAX_MS
}

#[test]
fn curl_makes_connections_as_fast_with_the_algorithm_as_without() {
    let test = "curl_makes_connections_as_fast_with_the_algorithm_as_without";
    let Some((lab, server)) = alone(test, |_| {}) else {
        return;
    };
    if available(test, require("curl")).is_none() {
        return;
    }
    let url = server.url("/data/alive");
    let visit = |how: &str| {
        let mut command = lab.command("curl").expect("curl is installed");
        command.args(["-sSf", "-k", how, "-H", "Connection: close"]);
        for _ in 0..VISITS {
            command.args(["-o", "/dev/null", &url]);
        }
        let began = Instant::now();
        run(&command).succeeded();
        began.elapsed().as_secs_f64() * 1000.0 / VISITS as f64
    };
    // The faster of two runs each, alternating, so that other work on the machine does not decide.
    let runs = [(), ()].map(|()| (visit("--no-tcp-nodelay"), visit("--tcp-nodelay")));
    let (with, without) = (runs[0].0.min(runs[1].0), runs[0].1.min(runs[1].1));
    assert!(with - without < LOST_MAX_MS, "{with} ms, without {without}");
}
