//! What the connections of one door share.

use std::sync::Arc;
use std::time::Duration;

use endpoint::{FairShare, Gate, RequestLog, ShareKind};
use http_wire::HeadLimits;
use identity::Authenticator;
use net::Waits;
use net::tls::ServerTls;
use types::limits::{HEAD_TIMEOUT, IDLE_TIMEOUT, SHORT_IDLE_TIMEOUT, STALL_TIMEOUT, TLS_HANDSHAKE_TIMEOUT};

/// What the connections of one door share. All fields but `limits` are handles: a clone is the same
/// thing.
pub struct Server {
    /// Our name and version, for clients.
    pub server_name: String,
    /// The certificate; without one the door speaks clear text only.
    pub tls: Option<ServerTls>,
    /// Checks what clients show.
    pub authenticator: Authenticator,
    /// Limits what one client may hold.
    pub fair_share: FairShare,
    /// Limits on each connection.
    pub limits: ConnectionLimits,
    /// Counts connections, and closes the door.
    pub gate: Gate,
    /// Gets a record of each request.
    pub log: Arc<dyn RequestLog>,
}

impl Server {
    pub(crate) fn waits(&self) -> Waits {
        Waits {
            handshake: self.limits.handshake,
            stall: self.limits.stall,
        }
    }

    /// How long a connection without a request is kept now.
    pub(crate) fn idle(&self) -> Duration {
        let idle = self.limits.idle;
        if self.fair_share.is_short(ShareKind::Connections) {
            return idle.min(SHORT_IDLE_TIMEOUT);
        }
        idle
    }
}

/// Limits on a connection, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Size of a request head.
    pub head: HeadLimits,
    /// Time for a request head, from its first byte.
    pub head_timeout: Duration,
    /// Time that a connection is kept without a request.
    pub idle: Duration,
    /// Time in which a body must move a byte, in either direction.
    pub stall: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            head_timeout: HEAD_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            handshake: TLS_HANDSHAKE_TIMEOUT,
        }
    }
}
