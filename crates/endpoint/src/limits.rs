//! Limits of this crate. Those marked "Default" can be changed in the configuration; the rest are
//! fixed.

use std::time::Duration;

/// Recent uploads whose owner is remembered, so that a client that may only create files can rename
/// them.
pub const OWN_UPLOADS_MAX: usize = 16_384;
/// Running uploads above which uploading connections move to the background, however small their
/// files are.
pub const FOREGROUND_UPLOADS_MAX: usize = 16;
/// Bytes of a file that are read for its checksum before the next file gets its turn.
pub const CHECKSUM_SLICE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a checksum computation continues for a client that was asked to try again.
pub const CHECKSUM_LINGER_TIME: Duration = Duration::from_secs(60);
/// Files of one export that are read at the same time to compute checksums that are not stored.
pub const CHECKSUM_READERS_MAX: usize = 2;
/// Uploads to one export that are read back at the same time for their checksums. More than
/// [`CHECKSUM_READERS_MAX`], because each belongs to an upload or copy, which counts in the
/// client's share.
pub const REREADS_MAX: usize = 8;
/// Uploads of one client among [`REREADS_MAX`].
pub const REREADS_OF_CLIENT_MAX: usize = 4;
/// Refusals whose explanations a server keeps, for later questions.
pub const EXPLANATIONS_MAX: usize = 1024;
/// Memory of all kept explanations together, in bytes.
pub const EXPLANATIONS_BYTES_MAX: usize = 1024 * 1024;
/// Shortest lock timeout, whatever the client asks for.
pub const LOCK_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Changed names that a receiver may have before it; with more it misses the oldest.
pub const NAME_CHANGES_MAX: usize = 4096;
/// Files that readers miss and redirectors hear of, in a second.
pub const MISSING_FILES_A_SECOND: usize = 100;
/// How long a new lock waits for running changes of its resource.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Lock timeout if the client asks for none, or for one that we do not understand.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest lock timeout, whatever the client asks for, so that abandoned locks end.
pub const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// Local users that are cached.
pub const LOCAL_USERS_MAX: usize = 16 * 1024;
/// How long a cached local user is used before the database is asked again, in the background.
pub const LOCAL_USER_REFRESH: Duration = Duration::from_secs(600);
/// How long an unknown user is cached as unknown, and how long after a failure the database is
/// asked again about a known one.
pub const LOCAL_USER_RETRY: Duration = Duration::from_secs(30);
/// How long a request waits for the user database, which may be on the network.
pub const LOCAL_USER_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// Local users that are looked up at the same time.
pub const LOCAL_USER_LOOKUPS_MAX: usize = 8;
/// Connections over the limit while idle ones end to make room for them.
pub const LEAVING_CONNECTIONS_MAX: usize = 16;
/// Memory for the body of a request is counted in pieces of this size, in bytes.
pub const BODY_PIECE_BYTES: usize = 256 * 1024;
/// Longest identifier of another server's request that goes into the log.
pub const FOREIGN_ID_BYTES_MAX: usize = 64;
/// Length of an identifier that a log can be asked about. Fewer digits could be guessed.
pub const TRACED_ID_BYTES: std::ops::RangeInclusive<usize> = 8..=64;
