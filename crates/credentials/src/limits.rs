//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Difference of clocks that is put up with in the times of VOMS attributes.
pub const VOMS_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Most lines of a grid map or of a map of VOMS attributes.
pub const MAP_LINES_MAX: usize = 256 * 1024;
/// Longest capability in a URL, in bytes.
pub const CAPABILITY_BYTES_MAX: usize = 4096;
/// By how much the clocks of servers that honour each other's capabilities may differ, in seconds.
pub const CAPABILITY_CLOCK_SKEW_S: i64 = 10;
/// Most used capabilities for writing that are remembered until they expire.
pub const CAPABILITIES_USED_MAX: usize = 1024 * 1024;
/// Most of them that one client may have used.
pub const CAPABILITIES_USED_SHARE_MAX: usize = 64 * 1024;
/// Most caveats in one macaroon.
pub const MACAROON_CAVEATS_MAX: usize = 64;
/// Largest JSON Web Token, in bytes. Tokens of real issuers stay below 8 KiB.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of objects and lists in a token or a key set.
pub const TOKEN_JSON_DEPTH_MAX: usize = 8;
/// Most values (members and entries, all levels together) in one part of a token.
pub const TOKEN_VALUES_MAX: usize = 1024;
/// Most scopes that a token may have.
pub const TOKEN_SCOPES_MAX: usize = 256;
/// Most scopes that a sentence about a token names.
pub const SHORTFALL_SCOPES_MAX: usize = 4;
/// Most groups that a token may have.
pub const TOKEN_GROUPS_MAX: usize = 256;
/// Most audiences that a token may have.
pub const TOKEN_AUDIENCES_MAX: usize = 64;
/// Longest name of a key, in bytes.
pub const TOKEN_KEY_NAME_BYTES_MAX: usize = 256;
/// Most pairs of activities and place that a token's scopes make with its issuer's base paths.
pub const GRANT_SCOPES_MAX: usize = 1024;
/// Passes of percent-decoding that a scope's path is given before what is left is refused.
pub const SCOPE_DECODE_PASSES_MAX: usize = 4;
/// Most keys of one issuer that are looked at.
pub const ISSUER_KEYS_MAX: usize = 64;
/// Most rules in one file that maps names to users.
pub const NAME_MAP_RULES_MAX: usize = 100_000;
/// Longest subject of an ID token, in bytes (OpenID Connect Core 1.0 §2).
pub const SUBJECT_BYTES_MAX: usize = 255;
