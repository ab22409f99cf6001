//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Time over which the pace of a transfer is looked at.
pub const PACE_WINDOW: Duration = Duration::from_secs(120);
/// Bytes that a transfer must move in each [`PACE_WINDOW`]; below this a peer that drips holds a
/// place for ever.
pub const PACE_BYTES_MIN: u64 = 1024 * 1024;
/// How long a source of the XRootD protocol is waited for to tell its checksum before any data is
/// asked for. One that knows it tells at once, and then no page needs a checksum of its own; one
/// that has to read the file for it takes longer.
pub const EARLY_CHECKSUM_WAIT: Duration = Duration::from_millis(100);
/// Bytes of a file for each of its streams at the least, and of the shortest range that a stream
/// asks for first.
pub const STREAM_BLOCK_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of the shortest range that a stream asks for at the end, where the line is short or
/// brings little at a time: all are to end at about the same time.
pub const STREAM_BLOCK_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// Bytes of the longest range that a stream asks for: each costs a round trip in which its
/// connection is idle.
pub const STREAM_BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Size of a file from which more streams than one are thought of when nobody says how many, in
/// bytes.
pub const CHOSEN_STREAMS_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Time in which a source answers, from which on a stream is slow because the line is long.
/// Nearer, a stream more is for a processor more.
pub const CHOSEN_STREAMS_RTT_MIN: Duration = Duration::from_millis(8);
/// What a stream from a near source has to bring before others join it that nobody asked for, in
/// bytes per second: more than a disk does, whose head would go to and fro between two readers.
pub const CHOSEN_STREAMS_NEAR_RATE_MIN: u64 = 256 * 1024 * 1024;
/// Streams that all transfers of one process together may have added because it made them faster.
pub const CHOSEN_STREAMS_ADDED_MAX: u32 = 256;
/// How long the number of streams that proved best for a server is kept: lines change within the
/// hour.
pub const CHOSEN_STREAMS_KEPT: Duration = Duration::from_secs(600);
/// Servers whose number of streams is kept at the same time.
pub const CHOSEN_STREAMS_SERVERS_MAX: usize = 1024;
/// Places of one upload at which data may come by turns and be hashed as they come; at more, the
/// file is read again where its checksum cannot be combined.
pub const HASHED_RUNS_MAX: usize = 32;
/// Ranges of one upload, with gaps between them, whose checksums are kept until the gaps are
/// filled; with more the file is read again.
pub const HASHED_RANGES_MAX: usize = 4096;
/// Bytes that a sending thread sends to a server before it checks whether the server has refused
/// the upload.
pub const STEADY_TURN_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes that a thread seals and sends before it serves another connection.
pub const SEALED_TURN_BYTES: u64 = 64 * 1024 * 1024;
/// How long a destination is looked at, while nothing changes there, after the server that made the
/// copy was lost: three times the usual period of markers, by which a server notices that its client
/// has left.
pub const SETTLE_WAIT: Duration = Duration::from_secs(15);
