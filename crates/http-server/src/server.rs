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

impl Server {
    /// A server with the usual limits, in clear text, for which every client is anonymous. `log`
    /// gets a record of each request.
    #[must_use]
    pub fn new(server_name: impl Into<String>, log: Arc<dyn RequestLog>) -> Self {
        Self {
            server_name: server_name.into(),
            tls: None,
            authenticator: Authenticator::default(),
            fair_share: FairShare::default(),
            head: HeadLimits::default(),
            limits: TimeLimits::default(),
            gate: Gate::default(),
            log,
        }
    }
}
