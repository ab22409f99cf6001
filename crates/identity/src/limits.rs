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
/// Most credentials that one user may have delegated at the same time, over all VOMS attributes and
/// orders of them.
pub const DELEGATIONS_PER_USER_MAX: usize = 16;
/// Most keys that are made for one user at once, at both doors together.
pub const DELEGATION_KEYS_AT_ONCE_MAX: u32 = 20;
/// A user who has had all of them gets one more after this time each.
pub const DELEGATION_KEY_INTERVAL: Duration = Duration::from_secs(15);
/// Most users whose keys are counted at the same time.
pub const DELEGATION_KEY_USERS_MAX: usize = 4096;
/// How long writing a delegated credential takes at most; what is unfinished and older is removed
/// at the next start.
pub const DELEGATION_WRITE_MAX: Duration = Duration::from_secs(60);
/// How long a delegated credential is kept at most, even if its proxy is valid longer.
pub const DELEGATION_LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most delegated credentials of all users together.
pub const DELEGATIONS_MAX: usize = 4096;
/// How long a key waits for the proxy that is to be signed for it.
pub const DELEGATION_REQUEST_LIFETIME: Duration = Duration::from_secs(600);
/// Keys that wait at the same time for the proxies that one user was asked for in logins. One that
/// the user leaves unanswered counts until its session ends or it is too old.
pub const LOGIN_DELEGATIONS_PER_USER_MAX: usize = 8;
/// The same for all users together.
pub const LOGIN_DELEGATIONS_MAX: usize = 1024;
/// How long a user is not asked again who signed no proxy in a login, or one that was not accepted.
pub const LOGIN_REFUSAL_MEMORY: Duration = Duration::from_secs(300);
/// Most users of whom that is remembered. The oldest is forgotten first.
pub const LOGIN_REFUSALS_MAX: usize = 1024;
/// How long such a key waits. The client signs at once, without a person.
pub const LOGIN_DELEGATION_LIFETIME: Duration = Duration::from_secs(60);
/// A client is asked for a proxy in its login if the stored one ends sooner than this.
pub const LOGIN_DELEGATION_LEFT: Duration = Duration::from_secs(4 * 3600);
/// And only if the new one would be valid for this much longer: a proxy never outlives the one that
/// signs it.
pub const LOGIN_DELEGATION_GAIN: Duration = Duration::from_secs(600);
/// How much later than its signer a proxy may end: XRootD's clients count from two looks at the
/// clock.
pub const PROXY_END_SLIP: Duration = Duration::from_secs(10);
/// How long it is remembered that an issuer could not be reached, and at what distance a key that
/// is not known makes its keys be fetched again.
pub const ISSUER_RETRY: Duration = Duration::from_secs(60);
/// Longest header field with a credential that a connection keeps, to know it again, in bytes.
pub const LAST_SHOWN_BYTES_MAX: usize = 4096;
