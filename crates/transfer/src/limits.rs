//! Limits of this crate. The configuration can override some of them; the others are fixed.

use std::time::Duration;

/// Time over which the pace of a transfer is measured.
pub const PACE_WINDOW: Duration = Duration::from_secs(120);
/// Least bytes that a transfer must move per [`PACE_WINDOW`], so that a dripping peer cannot hold a
/// slot forever.
pub const PACE_BYTES_MIN: u64 = 1024 * 1024;
/// Longest pause of a copy that waits for a rate limit, before it looks whether the limit still
/// holds.
pub const RATE_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Time to wait for the checksum of an XRootD source before requesting data. A source that knows it
/// answers at once, which saves the checksums of pages; one that must read the file takes longer.
pub const EARLY_CHECKSUM_WAIT: Duration = Duration::from_millis(100);
/// Least bytes of a file per stream, and shortest range that a stream requests at first.
pub const STREAM_BLOCK_BYTES: u64 = 16 * 1024 * 1024;
/// Shortest range that a stream requests at the end, on a short or slow line, in bytes. It lets all
/// streams end at about the same time.
pub const STREAM_BLOCK_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// Longest range that a stream requests, in bytes. Each range costs an idle round trip.
pub const STREAM_BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Least size of a file, in bytes, for several streams if the order leaves their number open.
pub const CHOSEN_STREAMS_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Response time of a source from which the line counts as long, and streams fill the window.
/// Below, more streams use more processors.
pub const CHOSEN_STREAMS_RTT_MIN: Duration = Duration::from_millis(8);
/// Least rate of a stream from a near source, in bytes per second, before others are added. It is
/// more than a disk delivers, because two readers would make the disk's head seek.
pub const CHOSEN_STREAMS_NEAR_RATE_MIN: u64 = 256 * 1024 * 1024;
/// Most streams that all transfers of a process together may add by choice.
pub const CHOSEN_STREAMS_ADDED_MAX: u32 = 256;
/// Files that an order copies at the same time at first, if it leaves the number open.
pub const PARALLEL_FILES_FIRST: usize = 4;
/// Most files that it copies at the same time by choice.
pub const PARALLEL_FILES_MAX: usize = 64;
/// Time for which the best number of streams for a server is remembered. Lines change within the
/// hour.
pub const CHOSEN_STREAMS_KEPT: Duration = Duration::from_secs(600);
/// Time for which files of a far server get one stream each, after a second one did not pay.
pub const ONE_STREAM_KEPT: Duration = Duration::from_secs(30);
/// Most entries of a tree that is copied within this server, all listed before the first is copied;
/// some 100 bytes each.
pub const LOCAL_TREE_ENTRIES_MAX: usize = 200_000;
/// Most levels of such a tree.
pub const LOCAL_TREE_DEPTH_MAX: usize = 100;
/// Most servers whose number of streams is remembered.
pub const CHOSEN_STREAMS_SERVERS_MAX: usize = 1024;
/// Most places of an upload at which data may arrive alternately and be hashed at once. With more,
/// the file is read again if its checksum cannot be combined.
pub const HASHED_RUNS_MAX: usize = 32;
/// Most separate ranges of an upload whose checksums are kept until the gaps are filled. With more,
/// the file is read again.
pub const HASHED_RANGES_MAX: usize = 4096;
/// Bytes that a thread sends to a server before it checks for a refusal of the upload.
pub const STEADY_TURN_BYTES: u64 = 32 * 1024 * 1024;
/// Last bytes of a local file, which are sent only if it did not change while the others were. One
/// TLS record.
pub const LAST_PIECE_BYTES: u64 = 16 * 1024;
/// Bytes that a thread encrypts and sends before it serves another connection.
pub const SEALED_TURN_BYTES: u64 = 64 * 1024 * 1024;
/// Time without changes at the destination, after the active server was lost, before the outcome
/// counts as unknown: three periods of markers, by which a server notices that its client has left.
pub const SETTLE_WAIT: Duration = Duration::from_secs(15);
/// First bytes of a file that are compared where the server names the file that it created for the
/// failed copy, or said that it stored it. Formats of data files keep an identifier there.
pub const REMAINS_PROOF_BYTES: u64 = 4096;
/// Pause between two looks at what a failed copy left: a file that another client is writing grows.
pub const REMAINS_PAUSE: Duration = Duration::from_secs(1);
/// The same for a whole file: a change behind it is not of the same second.
pub const REMAINS_TICK: Duration = Duration::from_secs(2);
/// The same where servers name no files.
pub const REMAINS_QUIET: Duration = Duration::from_secs(10);
/// For how long a server may write what was under way when the connection broke.
pub const REMAINS_DRAIN: Duration = Duration::from_secs(1);
/// How long to wait for a server that says that what a failed copy left is in use. XRootD keeps a
/// broken upload open for ten minutes, and says so to those who want to read it.
pub const REMAINS_IN_USE_TIME: Duration = Duration::from_secs(4);
/// How long the removal of what a failed copy left may take.
pub const REMAINS_TIME: Duration = Duration::from_secs(60);
/// The same after a push that was stopped, whose slot is held meanwhile.
pub const STOPPED_REMOVAL_TIME: Duration = Duration::from_secs(20);
/// Servers whose abilities one command, or queue, remembers; of further ones nothing is known.
pub const LEARNED_SERVERS_MAX: usize = 4096;
/// How often a way may fail between two servers in one command before it is no longer tried.
pub const PAIR_FAILURES_MAX: u32 = 3;
/// How long a destination may take to say from which servers it fetches. After that, only the
/// attempt shows it.
pub const ABILITY_WAIT: Duration = Duration::from_secs(5);
