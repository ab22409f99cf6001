//! Limits of this crate.

use std::time::Duration;

/// Smallest read-ahead of a sequential reader, in bytes.
pub const WINDOW_BYTES_MIN: u64 = 1024 * 1024;
/// Largest read-ahead of a sequential reader, in bytes. It is what a server is asked for, not what
/// is held here: data waits in the buffers of the connection.
pub const WINDOW_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Downloads that one open file keeps for its readers. Each is a connection. A cache reads nine
/// blocks at the same time.
pub const DOWNLOADS_KEPT_MAX: usize = 16;
/// Ends of reads that are remembered to recognise sequential readers.
pub const READ_ENDS_KEPT_MAX: usize = 8;
/// Open files for single ranges that one open file keeps. Each is a connection.
pub const RANGE_READERS_KEPT_MAX: usize = 4;
/// How often the downloads of one open file are resumed where they broke.
pub const RESUMPTIONS_MAX: u32 = 8;
/// Gap to the position of a download, in bytes, that is read and dropped to reach the offset: less
/// than what a new request costs.
pub const SKIPPED_BYTES_MAX: u64 = 256 * 1024;
/// Bytes of an upload that may wait because they came before their turn. Those of all uploads of a
/// client are limited by [`storage::HoldMemory`].
pub const EARLY_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Separate ranges of an upload that is sent in any order. Checksums are put together from more
/// ranges than that.
pub const SENT_RANGES_MAX: usize = 4000;
/// Steps, in bytes, in which their memory is counted.
pub const EARLY_STEP_BYTES: u64 = 256 * 1024;
/// Batches of an upload that may wait because they came before their turn.
pub const EARLY_BATCHES_MAX: usize = 256;
/// How much older than the answer to an upload its file may seem, in seconds: servers tell times in
/// whole seconds.
pub const AGE_SLACK_S: u64 = 1;
/// How much older than the beginning of an upload its file may seem, in seconds.
pub const BEGIN_SLACK_S: u64 = 2;
/// Locks under which new objects are completed. Names share them by their hash.
pub const CREATING_LOCKS: usize = 256;
/// Pauses before a stored file is read back again whose reading broke off.
pub const READ_BACK_PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
];
/// Files whose reported checksum is known to be wrong that are remembered for each server.
pub const STALE_CHECKSUMS_MAX: usize = 1024;
/// How many of the servers that clients name are remembered by a forwarding proxy.
pub const FORWARDED_HOSTS_MAX: usize = 256;
/// Readers of files who are remembered for each server, because it let them read.
pub const READABLE_FILES_MAX: usize = 32 * 1024;
/// How long they are remembered at most, also for a cache that asks less often for the version.
pub const READABLE_AGE_MAX: Duration = Duration::from_secs(60);
/// Time for closing an open file at the server after its last use.
pub const CLOSE_TIME: Duration = Duration::from_secs(5);
/// How long the server may take to tell a checksum that a request would like to have beside its
/// answer. A server that has to compute it takes longer.
pub const STORED_CHECKSUM_WAIT: Duration = Duration::from_secs(2);
/// How long a token is valid that is minted for a request: that of a download may be used again to
/// resume it, or a new one is minted.
pub const MINTED_TOKEN_LIFETIME_S: i64 = 300;
/// How often a store looks for changes of names that killed processes, or failures, left half done.
pub const SETTLE_INTERVAL: Duration = Duration::from_secs(10);
/// Deepest tree that is removed.
pub const TREE_DEPTH_MAX: usize = 256;
