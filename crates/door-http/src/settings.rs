//! What a door is told when it is made: exports, certificates, keys, limits.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::EARLY_OUTCOME_WAIT;
use credentials::{Lifetimes, MacaroonKey};
use endpoint::{FairShare, Refusals, ShareKind, SharedExports};
use http_wire::HeadLimits;
use identity::Authenticator;
use identity::delegation::Delegations;
use net::tls::ServerTls;
use remote::Client;
use transfer::{Slots, Verification};
use types::limits::{
    ATTEMPTS_MAX, CHECKSUM_WAIT, CHOSEN_STREAMS_MAX, HEAD_TIMEOUT, IDLE_TIMEOUT, MARKER_PERIOD, SHORT_IDLE_TIMEOUT,
    STALL_TIMEOUT, STREAMS_MAX, TLS_HANDSHAKE_TIMEOUT,
};

use types::{ChecksumAlgorithm, Location};

use crate::events::Events;
use crate::hand_over::HandOver;

/// What a door needs.
#[derive(Clone)]
pub struct Settings {
    /// The files, with their rules; can be replaced while the door is open.
    pub exports: SharedExports,
    /// The certificate; without one only clear text is spoken.
    pub tls: Option<ServerTls>,
    /// How peers of third-party copies are reached.
    pub client: Client,
    /// The places for third-party copies, which doors share.
    pub transfers: Slots,
    /// The server that makes third-party copies in our stead; `None`: we make them.
    pub forward_to: Option<Location>,
    /// Who checks what clients show.
    pub authenticator: Authenticator,
    /// How payload is handed over to clear text; `None`: never.
    pub hand_over: Option<Arc<HandOver>>,
    /// What clients have delegated for the other side of their copies; `None`: nothing can be.
    pub delegations: Option<Delegations>,
    /// Hosts to which a client's own token is shown when it has sent none for them.
    pub pass_token_to: Vec<String>,
    /// Macaroons as they are issued; without them none are.
    pub macaroons: Option<MacaroonSettings>,
    /// Limits on clients and transfers.
    pub limits: Limits,
    /// Comparison of checksums in third-party copies that do not say.
    pub verification: Verification,
    /// Checksums that are computed for every file that is stored, the first of them told to clients.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Our name and version, as clients see it.
    pub server_name: String,
    /// Every `host:port` under which clients know this server, beside the one that they ask for: a
    /// copy or move between two of them stays within this server.
    pub authorities: Vec<String>,
    /// What each client may hold; doors share it.
    pub fair_share: FairShare,
    /// Where refusals are explained afterwards; doors share it.
    pub refusals: Refusals,
    /// Who is told what happens.
    pub events: Arc<dyn Events>,
}

impl Settings {
    /// How long a connection without a request is kept now.
    pub(crate) fn idle(&self) -> Duration {
        let idle = self.limits.idle;
        if self.fair_share.is_short(ShareKind::Connections) {
            return idle.min(SHORT_IDLE_TIMEOUT);
        }
        idle
    }
}

/// Macaroons as this server makes them.
#[derive(Clone, Debug)]
pub struct MacaroonSettings {
    /// The key that signs.
    pub key: MacaroonKey,
    /// The server's name in a macaroon.
    pub location: String,
    /// How long macaroons live.
    pub lifetimes: Lifetimes,
}

/// Limits, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size of a request head.
    pub head: HeadLimits,
    /// Time in which a request head must have come, from its first byte.
    pub head_timeout: Duration,
    /// Time that a connection is kept without a request.
    pub idle: Duration,
    /// Time in which a body must move a byte, in either direction.
    pub stall: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Connections of one pull; more asked for is cut to this.
    pub streams: u32,
    /// Connections of one pull at the most when its client asks for no number.
    pub chosen_streams: u32,
    /// Attempts of a third-party copy that breaks without moving a byte, the first one included.
    pub attempts: u32,
    /// Time between two performance markers.
    pub marker_period: Duration,
    /// How long a request waits for a checksum that is being computed.
    pub checksum_wait: Duration,
    /// How long a third-party copy may fail with a status of its own before it is accepted.
    pub early_outcome: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            head_timeout: HEAD_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            handshake: TLS_HANDSHAKE_TIMEOUT,
            streams: STREAMS_MAX as u32,
            chosen_streams: CHOSEN_STREAMS_MAX,
            attempts: ATTEMPTS_MAX,
            marker_period: MARKER_PERIOD,
            checksum_wait: CHECKSUM_WAIT,
            early_outcome: EARLY_OUTCOME_WAIT,
        }
    }
}
