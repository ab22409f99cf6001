//! Limits and time constants of the optimizer. Times are milliseconds, numbers are copies.

/// Rates and sizes are said in MiB/s and MiB, as in all else of the queue.
pub(super) const BYTES_PER_MIB: f64 = 1_048_576.0;
/// Copies of a link at its start.
pub const INITIAL_COPIES: u32 = 2;
/// Copies of a link at most, unless its settings say otherwise.
pub const LINK_MAX_COPIES: u32 = 200;
/// Links that are remembered at once. Further ones get [`INITIAL_COPIES`] until others are
/// forgotten; one with running copies takes the place of one without.
pub const LINKS_MAX: usize = 5_000;
/// A link is forgotten this time after its last file.
pub const LINK_IDLE_MS: i64 = 3_600_000;
/// Samples closer together are added up: over a shorter time goodput is mostly noise.
pub const SAMPLE_MIN_MS: i64 = 1_000;
/// Time between two trials of the number in use, at first.
pub const TRIAL_INTERVAL_MS: i64 = 20_000;
/// Time between two trials at most: fruitless trials become rarer.
pub const TRIAL_INTERVAL_MAX_MS: i64 = 40_000;
/// A trial that has not reached its number of copies by then is called off. Removing copies waits
/// for files to end, so this is minutes.
pub const TRIAL_MAX_MS: i64 = 180_000;
/// Measurements older than this are no basis for judging growth.
pub const BASE_MAX_AGE_MS: i64 = 180_000;
/// Overload and stalls reduce a limit at most once in this time.
pub const CUT_INTERVAL_MS: i64 = 10_000;
/// After overload, the number that caused it is avoided for this time; it doubles with each
/// repetition.
pub const AVOID_MS: i64 = 60_000;
/// Longest time that a number is avoided.
pub const AVOID_MAX_MS: i64 = 600_000;
/// Longest delay that a server's request to come back later has.
pub const RETRY_AFTER_MAX_MS: i64 = 600_000;
/// Failures to reach an endpoint in succession until it counts as down.
pub const DOWN_FAILURES: u32 = 3;
/// Time until the first probe of an endpoint that is down.
pub const PROBE_INTERVAL_MS: i64 = 10_000;
/// Time between probes at most.
pub const PROBE_INTERVAL_MAX_MS: i64 = 30_000;
