//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// How often a file is opened that is replaced before its answer has begun.
pub const OPENS_MAX: usize = 4;
/// How long a delegated credential must still be valid for a copy to begin with it.
pub const DELEGATION_LEFT_MIN: Duration = Duration::from_secs(20 * 60);
/// The same, when the client was just asked for the credential.
pub const DELEGATION_LEFT_ASKED_MIN: Duration = Duration::from_secs(2 * 60);
/// Default: how long a third-party copy may fail with a status of its own before it is accepted.
pub const EARLY_OUTCOME_WAIT: Duration = Duration::from_millis(300);
/// Redirectors that may listen to the status of this node and its changed names at the same time.
pub const NODE_LISTENERS_MAX: usize = 64;
/// Time between two statuses that they get.
pub const NODE_STATUS_PERIOD: Duration = Duration::from_secs(1);
/// Changed names in one line to them.
pub const NODE_LINE_NAMES_MAX: usize = 256;
/// Longest order to this node.
pub const NODE_ORDER_BYTES_MAX: usize = 4096;
/// Bytes of a multistatus that are sent at once. Its entries are long, and a fast reader wakes up
/// for each piece.
pub const MULTISTATUS_PIECE_BYTES: usize = 256 * 1024;
/// Entries of a directory that are sorted for a browser. A larger one is shown in the order of the
/// file system, since sorting would keep all its names in memory for each reader.
pub const LISTING_SORTED_ENTRIES: usize = 4096;
/// Directories that a page names on the way from the root, the last ones of a deep path. The link
/// to each is as long as it is far.
pub const WAY_NAMES_MAX: usize = 32;
/// Most nodes that a question names as tried in vain.
pub const TRIED_MAX: usize = 64;
