//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Latest uploads whose makers are remembered, so that who may only create files can rename them.
pub const OWN_UPLOADS_MAX: usize = 16_384;
/// Uploads under way from which on connections that upload go to the background, however small
/// their files are.
pub const FOREGROUND_UPLOADS_MAX: usize = 16;
/// Bytes of a file that are read for its checksum before another file has its turn.
pub const CHECKSUM_SLICE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a checksum is computed on for a client that was told to ask again.
pub const CHECKSUM_LINGER_TIME: Duration = Duration::from_secs(60);
/// Files of one export that are read at the same time because somebody asked for a checksum that
/// is not kept with them.
pub const CHECKSUM_READERS_MAX: usize = 2;
/// Uploads to one export that are read back at the same time for their checksums. Each belongs to
/// an upload or a copy, of which a client has its share, so that there are more than of the
/// former.
pub const REREADS_MAX: usize = 8;
/// Uploads of one client among [`REREADS_MAX`].
pub const REREADS_OF_CLIENT_MAX: usize = 4;
/// Refusals whose explanations a server keeps, for later questions.
pub const EXPLANATIONS_MAX: usize = 1024;
/// Memory of all kept explanations together, in bytes.
pub const EXPLANATIONS_BYTES_MAX: usize = 1024 * 1024;
/// Shortest time that a lock lasts, whatever its client asks for.
pub const LOCK_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// How long a new lock waits for the end of changes that are being made to what it is on.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long a lock lasts whose client does not say, or was not understood.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time that a lock lasts, whatever its client asks for: one that is left behind ends by
/// itself.
pub const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// Local users that are remembered at the same time.
pub const LOCAL_USERS_MAX: usize = 16 * 1024;
/// How long what is known of a local user is used before the database is asked again, in the
/// background.
pub const LOCAL_USER_REFRESH: Duration = Duration::from_secs(600);
/// How long an unknown user is remembered as unknown, and after what time a failed database is
/// asked again about a known one.
pub const LOCAL_USER_RETRY: Duration = Duration::from_secs(30);
/// How long a request waits for the database of local users, which may be behind a network.
pub const LOCAL_USER_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// Local users that are looked up at the same time.
pub const LOCAL_USER_LOOKUPS_MAX: usize = 8;
