//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Bytes of one direction of one connection that the delaying relay holds at most: 10 Gbit/s over
/// 200 ms.
pub const RELAY_QUEUE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Buffers of 256 KiB that a relay keeps for reuse, for all its connections together.
pub const RELAY_BUFFERS_KEPT_MAX: usize = 512;
/// Most pieces of a pattern of reads that a benchmark repeats.
pub const BENCH_PATTERN_PIECES_MAX: usize = 1024 * 1024;
