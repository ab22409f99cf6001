//! The message about a decision of the optimizer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::without_port;

/// A decision about a link, with the figures that it follows from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkFacts {
    /// The source's storage.
    pub source_storage: String,
    /// The destination's storage.
    pub destination_storage: String,
    /// Bytes per second now.
    pub bytes_per_s: f64,
    /// Its moving average.
    pub average_bytes_per_s: f64,
    /// Mean duration of the copies that ended, in seconds.
    pub duration_s: u64,
    /// Mean size of the files, in bytes.
    pub size_bytes: f64,
    /// Standard deviation of the sizes, in bytes.
    pub size_deviation_bytes: f64,
    /// Share of the copies that ended well, from 0 to 1.
    pub success: f64,
    /// Attempts that were repeated.
    pub retries: u32,
    /// Copies that run.
    pub active: u32,
    /// Files that wait.
    pub waiting: u64,
    /// Copies that may run from now on.
    pub limit: u32,
    /// Copies that may run from now on, less those that could before.
    pub change: i32,
    /// Why.
    pub rationale: String,
}

/// A decision of the optimizer at `at_ms`.
#[must_use]
pub fn link(facts: &LinkFacts, at_ms: i64) -> Value {
    json!({
        "source_se": without_port(&facts.source_storage),
        "dest_se": without_port(&facts.destination_storage),
        "throughput": facts.bytes_per_s,
        "throughput_ema": facts.average_bytes_per_s,
        "duration_avg": facts.duration_s,
        "filesize_avg": facts.size_bytes,
        "filesize_stddev": facts.size_deviation_bytes,
        // FTS gives percent.
        "success_rate": facts.success * 100.0,
        "retry_count": facts.retries,
        "active_count": facts.active,
        "submitted_count": facts.waiting,
        "connections": facts.limit,
        "diff": facts.change,
        "rationale": facts.rationale,
        "timestamp": at_ms,
    })
}
