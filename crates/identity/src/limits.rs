//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Verified chains of certificates that are remembered.
pub const VERIFIED_CHAINS_MAX: usize = 8192;
/// How long a verified chain is remembered, and so how long a new revocation list may go
/// unnoticed.
pub const VERIFIED_CHAIN_LIFETIME: Duration = Duration::from_secs(600);
/// Longest name that a client gives to a delegated credential, in bytes.
pub const DELEGATION_ID_BYTES_MAX: usize = 128;
/// Most credentials that one user may have delegated at the same time.
pub const DELEGATIONS_PER_USER_MAX: usize = 8;
/// Most delegated credentials of all users together.
pub const DELEGATIONS_MAX: usize = 4096;
/// How long a key waits for the proxy that is to be signed for it.
pub const DELEGATION_REQUEST_LIFETIME: Duration = Duration::from_secs(600);
/// How long it is remembered that an issuer could not be reached, and at what distance a key that
/// is not known makes its keys be fetched again.
pub const ISSUER_RETRY: Duration = Duration::from_secs(60);
/// Longest header field with a credential that a connection keeps, to know it again, in bytes.
pub const LAST_SHOWN_BYTES_MAX: usize = 4096;
