//! Limits of this crate. All are fixed.

use std::time::Duration;

/// Bytes that are fetched and stored together.
pub const BLOCK_BYTES: u64 = 1024 * 1024;
/// Bytes that share a checksum. A read of cached data is rounded out to these pages.
pub const PAGE_BYTES: usize = 64 * 1024;
/// Pages of a block.
pub const PAGES: usize = BLOCK_BYTES as usize / PAGE_BYTES;
/// Bytes of a block that readers get before the rest of it has arrived.
pub const PART_BYTES: usize = 256 * 1024;
/// Largest file that is cached; reads of larger ones go to the origin.
pub const FILE_BYTES_MAX: u64 = 1 << 43;
/// Blocks that are being fetched, of all files together; each takes its size in memory.
pub const FETCHES_MAX: usize = 64;
/// Longest wait for one of them to end. A reader that waits longer reads from the origin.
pub const FETCH_WAIT: Duration = Duration::from_secs(1);
/// Fetches that prefetching leaves to readers.
pub const FETCHES_FOR_READERS: usize = 16;
/// Files whose last look at the origin is remembered.
pub const CHECKED_FILES_MAX: usize = 32 * 1024;
/// How long nothing is stored after the disk has failed.
pub const FAILURE_PAUSE: Duration = Duration::from_secs(30);
/// How long nothing is stored after the disk was full.
pub const FULL_PAUSE: Duration = Duration::from_secs(2);
/// Share of the size, in hundredths, from which files are evicted.
pub const HIGH_WATER_PERCENT: u64 = 95;
/// Share of the size, in hundredths, down to which they are evicted.
pub const LOW_WATER_PERCENT: u64 = 90;
/// Files that are compared to find the one to evict.
pub const EVICTION_SAMPLE: usize = 32;
/// Orders that wait for the keeper's thread; further ones are left out.
pub const ORDERS_MAX: usize = 256;
