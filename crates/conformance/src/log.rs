//! Reading our server's log.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Process;

use crate::files::POLL_INTERVAL;

/// How long a line may stay away.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Every line of the log as a JSON object.
///
/// # Panics
/// When a line is something else: the log is for programs.
#[track_caller]
#[must_use]
pub fn log_lines(process: &Process) -> Vec<Value> {
    let text = process.stderr();
    // A line that is being written now has no end yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(value.is_object(), "not an object: {line}");
            value
        })
        .collect()
}

/// The lines about requests.
#[track_caller]
#[must_use]
pub fn requests(process: &Process) -> Vec<Value> {
    let mut lines = log_lines(process);
    lines.retain(|line| line.get("method").is_some() && line.get("request_id").is_some());
    lines
}

/// The lines about requests as soon as `count` of them fit: a line is written behind its answer, so
/// who has the answer may still have to wait for it.
///
/// # Panics
/// With `what` and the whole log when so many do not come.
#[track_caller]
pub fn requests_with(process: &Process, count: usize, what: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let start = Instant::now();
    loop {
        let seen = requests(process);
        if seen.iter().filter(|line| fits(line)).count() >= count {
            return seen;
        }
        assert!(start.elapsed() < LINE_TIMEOUT, "not in the log: {what}: {seen:#?}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// The lines about third-party copies that have ended.
#[track_caller]
#[must_use]
pub fn transfers(process: &Process) -> Vec<Value> {
    let mut lines = log_lines(process);
    lines.retain(|line| line.get("outcome").is_some() && line.get("mode").is_some());
    lines
}
