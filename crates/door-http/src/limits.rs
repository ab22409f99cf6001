//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// How long a delegated credential must hold for a copy to begin with it.
pub const DELEGATION_LEFT_MIN: Duration = Duration::from_secs(20 * 60);
/// The same when the client has just been asked for the credential.
pub const DELEGATION_LEFT_ASKED_MIN: Duration = Duration::from_secs(2 * 60);
/// Default: how long a third-party copy may fail with a status of its own before it is accepted.
pub const EARLY_OUTCOME_WAIT: Duration = Duration::from_millis(300);
/// Bytes of a multistatus that are sent at once: its entries are long, and a reader that keeps up
/// wakes for each piece.
pub const MULTISTATUS_PIECE_BYTES: usize = 256 * 1024;
/// Entries of a directory that are put in order for a browser. A larger one is shown as the file
/// system lists it, because its names would have to be kept, for each reader, until the last one
/// is known.
pub const LISTING_SORTED_ENTRIES: usize = 4096;
