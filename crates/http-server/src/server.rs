//! What the connections of one door share.

use std::sync::Arc;

use endpoint::{FairShare, Gate, RequestLog, TimeLimits};
use http_wire::HeadLimits;
use identity::Authenticator;
use net::tls::ServerTls;

/// What the connections of one door share. All fields but the limits are handles: a clone is
/// the same thing.
pub struct Server {
    /// Our name and version, for clients.
    pub server_name: String,
    /// The certificate; without one the door speaks clear text only.
    pub tls: Option<ServerTls>,
    /// Checks what clients show.
    pub authenticator: Authenticator,
    /// Limits what one client may hold.
    pub fair_share: FairShare,
    /// Limits on a request head.
    pub head: HeadLimits,
    /// Time limits on each connection.
    pub limits: TimeLimits,
    /// Counts connections, and closes the door.
    pub gate: Gate,
    /// Gets a record of each request.
    pub log: Arc<dyn RequestLog>,
}
