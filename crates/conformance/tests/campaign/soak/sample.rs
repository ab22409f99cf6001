//! What the server takes of the machine between two rounds.

use std::thread;
use std::time::{Duration, Instant};

use conformance::open;
use testkit::Result;

use super::http::Client;
use super::site::Site;
use super::trend::{Limit, Point, Trend};

/// How long the server may take to end what a round has left, before it is sampled anyway.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Looks that must agree.
const EQUAL_LOOKS: usize = 3;

/// A leak of 16 bytes in each operation, or of a kilobyte in one of sixty, in KiB. What the
/// allocator takes from the system at a time is smaller than the growth.
pub(crate) const MEMORY: Limit = Limit {
    per_thousand: 16.0,
    growth: 512.0,
};
/// Descriptors, threads and tasks: one that stays in two thousand operations.
pub(crate) const COUNT: Limit = Limit {
    per_thousand: 0.5,
    growth: 6.0,
};

/// What is sampled, with its limit.
pub(crate) const QUANTITIES: [(&str, &str, Limit); 4] = [
    ("memory", " KiB", MEMORY),
    ("descriptors", "", COUNT),
    ("threads", "", COUNT),
    ("tasks", "", COUNT),
];

/// One look, in the order of [`QUANTITIES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    operations: u64,
    values: [f64; QUANTITIES.len()],
}

/// Waits until the server has come to rest, and looks at it.
pub(crate) fn take(site: &mut Site, operations: u64) -> Result<Sample> {
    let end = Instant::now() + SETTLE_MAX;
    let mut counts = counts(site);
    let mut equal = 1;
    while equal < EQUAL_LOOKS && Instant::now() < end {
        thread::sleep(LOOK_INTERVAL);
        let again = self::counts(site);
        equal = if again == counts { equal + 1 } else { 1 };
        counts = again;
    }
    let memory = site.server.process().memory()?.anonymous_bytes as f64 / 1024.0;
    let [descriptors, threads, tasks] = counts;
    Ok(Sample {
        operations,
        values: [memory, descriptors, threads, tasks],
    })
}

/// Descriptors, threads and tasks, as the server counts them.
fn counts(site: &Site) -> [f64; 3] {
    let url = site.server.admin_url("/metrics").expect("an admin port");
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next());
    let port = port.and_then(|port| port.parse().ok()).expect("its port");
    let page = Client::new(open(port)).ask("GET", "/metrics", &["Connection: close"], None);
    let text = page.expect(200).text();
    ["process_open_fds", "process_threads", "crossload_tasks"].map(|name| {
        let start = format!("{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.and_then(|value| value.trim().parse().ok()).expect("a metric")
    })
}

/// How each quantity developed over these samples; `None` where they are too few.
pub(crate) fn trends(samples: &[Sample]) -> Vec<Option<Trend>> {
    (0..QUANTITIES.len())
        .map(|which| {
            let point = |sample: &Sample| Point {
                operations: sample.operations as f64,
                value: sample.values[which],
            };
            Trend::of(&samples.iter().map(point).collect::<Vec<_>>())
        })
        .collect()
}

/// A sentence about a quantity, and whether it keeps growing.
pub(crate) fn sentence((name, unit, limit): (&str, &str, Limit), trend: &Trend) -> (String, bool) {
    let exceeds = trend.exceeds(limit);
    let verdict = if exceeds { "IT KEEPS GROWING" } else { "no trend" };
    let words = format!(
        "{name}: {:.0}{unit} after the warm-up, {:.0}{unit} at the end; {:.2}{unit} per thousand operations, between \
         {:.2} and {:.2}; limit {}: {verdict}",
        trend.first, trend.last, trend.slope, trend.low, trend.high, limit.per_thousand,
    );
    (words, exceeds)
}

impl Sample {
    /// A line for a plot.
    pub(crate) fn line(&self) -> String {
        let [memory, descriptors, threads, tasks] = self.values;
        format!(
            "{:>9} operations {memory:>8.0} KiB {descriptors:>5} descriptors {threads:>4} threads {tasks:>4} tasks",
            self.operations
        )
    }
}
