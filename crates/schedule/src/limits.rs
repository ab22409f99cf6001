//! Limits and constants of scheduling, retries and estimates. Times are milliseconds.

/// The lowest priority of a file.
pub const PRIORITY_MIN: u8 = 1;
/// The highest priority of a file.
pub const PRIORITY_MAX: u8 = 5;
/// A queue counts one priority higher for each such time it waits without a turn.
pub const AGING_MS: i64 = 600_000;
/// A flow is overdue once it was overtaken this many times as often as its share implies.
pub const OVERTAKING_FACTOR: f64 = 4.0;
/// What the start of a copy costs, in milliseconds of one slot: copies too short to be seen running
/// count as well.
pub const START_COST_MS: f64 = 10.0;
/// Starts over which the mean time of copies is taken.
pub const COPY_TIMES_STARTS: f64 = 1_000.0;
/// A running copy weighs as much use in the past as copies run in the mean, but at most this time.
pub const ACTIVE_WEIGHT_MS: f64 = 60_000.0;
/// Longest time that one decision charges for, so that a jump of the clock distorts no share.
pub const ELAPSED_MAX_MS: i64 = 60_000;
/// Unused share that can be made up for later: this time of one slot.
pub const CREDIT_MAX_MS: f64 = 600_000.0;
/// Size of a file that is not known, for shares by bytes.
pub const UNKNOWN_SIZE_BYTES: u64 = 1 << 30;
/// Unused share that can be made up for later, for shares by bytes.
pub const CREDIT_MAX_BYTES: f64 = 64.0 * (1_u64 << 30) as f64;
/// Passes in which users are promised what others cannot use. Further slots go by storage and link.
pub const PASSES_MAX: usize = 8;
/// Smallest share: zero would starve.
pub const SHARE_MIN: f64 = 0.001;
/// Largest share.
pub const SHARE_MAX: f64 = 1_000_000.0;
/// Accounts of absent queues that are kept beside those of the present ones.
pub const IDLE_ACCOUNTS_MAX: usize = 10_000;
/// Warn about a credential that expires within this time.
pub const CREDENTIAL_WARNING_MS: i64 = 600_000;
/// Queues that a "why" names as users of the slots that a file waits for.
pub const CONTENDERS_MAX: usize = 5;
