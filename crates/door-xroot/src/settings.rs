//! What a door is told when it is made: exports, certificates, keys, limits.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{XROOT_OPEN_IDLE_TIMEOUT, XROOT_SHORT_OPEN_IDLE_TIMEOUT};
use endpoint::{FairShare, Refusals, ShareKind, SharedExports};
use identity::Authenticator;
use net::tls::ServerTls;
use remote::Client;
use transfer::{Slots, Verification};
use types::limits::{
    ATTEMPTS_MAX, CHOSEN_STREAMS_MAX, HEAD_TIMEOUT, IDLE_TIMEOUT, SHORT_IDLE_TIMEOUT, STALL_TIMEOUT, STREAMS_MAX,
    TLS_HANDSHAKE_TIMEOUT, TPC_KEY_LIFETIME, TPC_KEY_LIFETIME_MAX, TRANSFERS_MAX, XROOT_HANDLES_MAX,
};
use types::{ChecksumAlgorithm, Location};
use xroot_wire::TlsPolicy;

use crate::events::Events;
use crate::keys::Keys;

/// How a client says who it is when its session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthenticationMethod {
    /// By a bearer token. Over TLS only.
    Token,
    /// By a certificate or proxy, in the way of grid sites (`gsi`). Needs a certificate of the server with a key
    /// of RSA.
    Gsi,
    /// By the name of its user, which nobody verifies: it gives no rights, and appears in the log.
    Unix,
    /// By the address that it comes from, which gives no rights either.
    Host,
}

/// What a door needs.
#[derive(Clone)]
pub struct Settings {
    /// The files, with their rules; can be replaced while the door is open.
    pub exports: SharedExports,
    /// The certificate; without one only clear text is spoken.
    pub tls: Option<ServerTls>,
    /// When TLS is offered and demanded. Without a certificate it is neither.
    pub tls_policy: TlsPolicy,
    /// How sessions are authenticated, in the order in which clients are to try. Empty: they are not,
    /// and each request may bring a token of its own, as it may in any case.
    pub authentication: Vec<AuthenticationMethod>,
    /// Who checks what clients show.
    pub authenticator: Authenticator,
    /// Limits on clients.
    pub limits: Limits,
    /// Checksums that are computed for every file that is stored, the first of them told to clients
    /// that name none. Not empty.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Our name and version, as clients see it.
    pub server_name: String,
    /// Third-party copies.
    pub third_party: ThirdPartySettings,
    /// The host name that clients are sent to when they ask where a file is. Without one, the
    /// address that they came to.
    pub host: Option<String>,
    /// What each client may hold; doors share it.
    pub fair_share: FairShare,
    /// Where refusals are explained afterwards; doors share it.
    pub refusals: Refusals,
    /// Who is told what happens.
    pub events: Arc<dyn Events>,
}

/// Third-party copies, in both roles.
#[derive(Clone, Debug)]
pub struct ThirdPartySettings {
    /// How sources are reached.
    pub client: Client,
    /// The places for copies that this server makes, which doors share.
    pub transfers: Slots,
    /// The server that takes part in our stead; `None`: we take part.
    pub forward_to: Option<Location>,
    /// The keys that clients have registered.
    pub keys: Keys,
    /// How long a key holds when its client does not say.
    pub key_lifetime: Duration,
    /// Longest time that a client can have for a key.
    pub key_lifetime_max: Duration,
    /// Comparison of checksums where the client does not say.
    pub verification: Verification,
    /// Connections of one copy; more asked for is cut to this.
    pub streams: u32,
    /// Connections of one copy at the most when its client asks for no number.
    pub chosen_streams: u32,
    /// Attempts of a copy that breaks without moving a byte, the first one included.
    pub attempts: u32,
}

impl ThirdPartySettings {
    /// Copies by this client, with the usual limits.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            transfers: Slots::new(TRANSFERS_MAX),
            forward_to: None,
            keys: Keys::default(),
            key_lifetime: TPC_KEY_LIFETIME,
            key_lifetime_max: TPC_KEY_LIFETIME_MAX,
            verification: Verification::WhenAvailable,
            streams: STREAMS_MAX as u32,
            chosen_streams: CHOSEN_STREAMS_MAX,
            attempts: ATTEMPTS_MAX,
        }
    }
}

impl Settings {
    /// After how much silence to look whether things run short.
    pub(crate) fn patience_step(&self, has_files: bool) -> Duration {
        let limits = &self.limits;
        if has_files {
            limits.short_open_idle
        } else {
            limits.idle.min(SHORT_IDLE_TIMEOUT)
        }
    }

    /// Whether a connection that is silent has to go because others need what it holds.
    pub(crate) fn is_short(&self, has_files: bool) -> bool {
        let is_short = |kind| self.fair_share.is_short(kind);
        (has_files && is_short(ShareKind::OpenFiles)) || is_short(ShareKind::Connections)
    }

    /// What holds about TLS on this door: a token is never asked for in clear text.
    pub(crate) fn effective_tls(&self) -> TlsPolicy {
        let mut policy = self.tls_policy;
        if self.tls.is_none() || !policy.offered {
            return TlsPolicy::default();
        }
        if self.authentication.contains(&AuthenticationMethod::Token) && !policy.login {
            policy.login = true;
            // Who cannot do TLS has to say who it is in another of the ways.
            policy.only_capable |= self.authentication.len() > 1;
        }
        policy
    }
}

/// Limits, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time in which the first words of a connection must have come, and a request from its first byte on.
    pub head_timeout: Duration,
    /// Time that a connection is kept without a request.
    pub idle: Duration,
    /// Time in which data must move a byte, in either direction.
    pub stall: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Files that one session may have open at the same time.
    pub handles: usize,
    /// Time that a connection is kept without a request while files are open on it.
    pub open_idle: Duration,
    /// The same while open files run short.
    pub short_open_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_timeout: HEAD_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            handshake: TLS_HANDSHAKE_TIMEOUT,
            handles: XROOT_HANDLES_MAX,
            open_idle: XROOT_OPEN_IDLE_TIMEOUT,
            short_open_idle: XROOT_SHORT_OPEN_IDLE_TIMEOUT,
        }
    }
}
