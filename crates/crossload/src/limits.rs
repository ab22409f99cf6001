//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Faults of one reading of the trust directory that the log names; the rest is counted.
pub(crate) const LOGGED_FAULTS_MAX: usize = 32;
/// Largest file that maps names to users, and largest `scitokens.cfg`, in bytes.
pub(crate) const TOKEN_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Directories with names that no path can hold that the log names; further ones are only counted.
pub(crate) const UNLISTED_DIRECTORIES_MAX: usize = 256;
/// Time after which the log names a directory with such names again.
pub(crate) const UNLISTED_AGAIN_TIME: Duration = Duration::from_secs(3600);
/// Entries of all exports together that `crossload check` examines for names that no path can
/// hold.
pub(crate) const CHECK_ENTRIES_MAX: usize = 200_000;
/// Longest time that `crossload check` looks for such names.
pub(crate) const CHECK_WALK_TIME: Duration = Duration::from_secs(5);
/// File descriptors that clients do not get: a sixteenth of all, within these bounds. They serve
/// to accept connections, for the admin address, the log, and idle connections to peers.
pub(crate) const DESCRIPTORS_RESERVED_MIN: u64 = 64;
/// See [`DESCRIPTORS_RESERVED_MIN`].
pub(crate) const DESCRIPTORS_RESERVED_MAX: u64 = 1024;
/// File descriptors that a client's connection takes with one request under way: the socket, and
/// for an upload the new file and its directory.
pub(crate) const DESCRIPTORS_PER_CONNECTION: u64 = 3;
/// File descriptors of an open file beside the first of its session: the file, and for an upload
/// its directory.
pub(crate) const DESCRIPTORS_PER_FILE: u64 = 2;
/// File descriptors of a third-party copy: the file, its directory, and a connection to the peer.
pub(crate) const DESCRIPTORS_PER_TRANSFER: u64 = 3;
/// Most trees that are removed or copied at the same time. Each takes a thread meanwhile.
pub(crate) const TREES_MAX: usize = 16;
/// Connections over the limit that are told so at the same time; more are closed without a word.
pub(crate) const REFUSALS_MAX: usize = 64;
/// Log lines that wait to be written; more are dropped and counted.
pub(crate) const LOG_LINES_QUEUED_MAX: usize = 16 * 1024;
/// Checksums that are being computed, or wait for it, at the same time.
pub(crate) const CHECKSUMS_COMPUTED_MAX: usize = 1024;
/// How long log lines are gathered before they are written together.
pub(crate) const LOG_GATHER_TIME: Duration = Duration::from_millis(2);
/// How often a server looks whether its configuration, certificates and authorities have changed.
pub(crate) const FILE_WATCH_PERIOD: Duration = Duration::from_secs(2);
/// How long connections of before a change of the configuration may go on under the old one.
pub(crate) const OLD_DOOR_GRACE: Duration = Duration::from_secs(24 * 3600);
/// WebDAV locks of all clients together.
pub(crate) const LOCKS_MAX: usize = 16 * 1024;
/// Deepest directory that a recursive copy enters; a server that shows more shows a loop, or means
/// harm.
pub(crate) const TREE_DEPTH_MAX: usize = 512;
