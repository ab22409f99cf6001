//! What a door gets when it is made: the site, and what only the XRootD protocol knows.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{XROOT_OPEN_IDLE_TIMEOUT, XROOT_SHORT_OPEN_IDLE_TIMEOUT};
use endpoint::{HandOver, ShareKind};
use identity::delegation::Delegations;
use transfer::Site;
use types::limits::{SHORT_IDLE_TIMEOUT, TPC_KEY_LIFETIME, TPC_KEY_LIFETIME_MAX, XROOT_HANDLES_MAX};
use xroot_wire::TlsPolicy;

use crate::keys::Keys;

/// How a session is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthenticationMethod {
    /// By a bearer token, over TLS only.
    Token,
    /// By a certificate or proxy, with the protocol `gsi` of grid sites. The server needs a
    /// certificate with an RSA key.
    Gsi,
    /// By an unverified user name, which gives no rights and appears in the log.
    Unix,
    /// By the client's address, which gives no rights either.
    Host,
}

/// What a door needs.
#[derive(Clone)]
pub struct Settings {
    /// What all data doors share.
    pub site: Site,
    /// Capabilities: what a redirector gives its clients, and what a node accepts. `None`: neither.
    pub hand_over: Option<Arc<HandOver>>,
    /// When TLS is offered and required. Without a certificate it is neither.
    pub tls_policy: TlsPolicy,
    /// How sessions are authenticated, in the order in which clients should try. Empty: they are
    /// not. A request may bring a token of its own in any case.
    pub authentication: Vec<AuthenticationMethod>,
    /// Limits of this protocol.
    pub limits: Limits,
    /// Rendezvous keys of third-party copies.
    pub third_party: ThirdPartySettings,
    /// Proxies that clients have delegated; `None`: none is asked for.
    pub delegations: Option<Delegations>,
    /// The host name that clients get when they ask where a file is. Without one, they get the
    /// address that they connected to.
    pub host: Option<String>,
}

/// Rendezvous keys of third-party copies.
#[derive(Clone, Debug)]
pub struct ThirdPartySettings {
    /// The keys that clients have registered.
    pub keys: Keys,
    /// How long a key is valid when its client does not say.
    pub key_lifetime: Duration,
    /// Longest time that a client can ask for.
    pub key_lifetime_max: Duration,
}

impl Default for ThirdPartySettings {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            key_lifetime: TPC_KEY_LIFETIME,
            key_lifetime_max: TPC_KEY_LIFETIME_MAX,
        }
    }
}

impl Settings {
    /// How often an idle connection checks whether connections or files are scarce.
    pub(crate) fn patience_step(&self, has_files: bool) -> Duration {
        match has_files {
            true => self.limits.short_open_idle,
            false => self.site.limits.idle.min(SHORT_IDLE_TIMEOUT),
        }
    }

    /// Whether an idle connection must end because others need what it holds.
    pub(crate) fn is_short(&self, has_files: bool) -> bool {
        let is_short = |kind| self.site.fair_share.is_short(kind);
        (has_files && is_short(ShareKind::OpenFiles)) || is_short(ShareKind::Connections)
    }

    /// The TLS policy in effect: a token is never requested in clear text.
    pub(crate) fn effective_tls(&self) -> TlsPolicy {
        let mut policy = self.tls_policy;
        if self.site.tls.is_none() || !policy.offered {
            return TlsPolicy::default();
        }
        if self.authentication.contains(&AuthenticationMethod::Token) && !policy.login {
            policy.login = true;
            // A client without TLS must authenticate in another way.
            policy.only_capable |= self.authentication.len() > 1;
        }
        policy
    }
}

/// Limits of this protocol, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Files that one session may have open at the same time.
    pub handles: usize,
    /// Time that a connection is kept without a request while files are open on it.
    pub open_idle: Duration,
    /// The same while open files are scarce.
    pub short_open_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handles: XROOT_HANDLES_MAX,
            open_idle: XROOT_OPEN_IDLE_TIMEOUT,
            short_open_idle: XROOT_SHORT_OPEN_IDLE_TIMEOUT,
        }
    }
}
