//! Limits of this crate. They are fixed: no configuration key overrides them.

use std::time::Duration;

/// Connections to the pages; each open page holds one for its events.
pub const WEB_CONNECTIONS_MAX: usize = 256;
/// Body of a request, in bytes: a form with a token.
pub const WEB_BODY_BYTES_MAX: usize = 64 * 1024;
/// What a browser may keep of style sheet and script. A new version shows itself after this time.
pub const ASSET_AGE_MAX: Duration = Duration::from_secs(60);
/// For how long a browser comes back by TLS only (RFC 6797).
pub const TRANSPORT_SECURITY_AGE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Certificates and revocation lists on the page; those that end first come first.
pub const CERTIFICATES_SHOWN_MAX: usize = 200;
