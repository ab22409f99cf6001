//! What a door is told when it is made: exports, certificates, keys, limits.

use std::sync::Arc;
use std::time::Duration;

use credentials::MacaroonKey;
use net::tls::ServerTls;
use transfer::SharedExports;
use types::ChecksumAlgorithm;
use types::limits::{HEAD_TIMEOUT, IDLE_TIMEOUT, STALL_TIMEOUT, TLS_HANDSHAKE_TIMEOUT, XROOT_HANDLES_MAX};
use xroot_wire::TlsPolicy;

use crate::events::Events;

/// How a client says who it is when its session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthenticationMethod {
    /// By a bearer token. Over TLS only.
    Token,
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
    /// Keys that verify macaroons, the newest first. None: no token is accepted.
    pub keys: Vec<MacaroonKey>,
    /// Limits on clients.
    pub limits: Limits,
    /// Checksums that are computed for every file that is stored, the first of them told to clients
    /// that name none. Not empty.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Our name and version, as clients see it.
    pub server_name: String,
    /// The host name that clients are sent to when they ask where a file is. Without one, the
    /// address that they came to.
    pub host: Option<String>,
    /// Who is told what happens.
    pub events: Arc<dyn Events>,
}

impl Settings {
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_timeout: HEAD_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            handshake: TLS_HANDSHAKE_TIMEOUT,
            handles: XROOT_HANDLES_MAX,
        }
    }
}
