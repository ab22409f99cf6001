//! How long doors wait for clients.

use std::time::Duration;

use net::Waits;
use types::limits::{HEAD_TIMEOUT, IDLE_TIMEOUT, SHORT_IDLE_TIMEOUT, STALL_TIMEOUT, TLS_HANDSHAKE_TIMEOUT};

use crate::fair_share::{FairShare, ShareKind};

/// Time limits for clients of all protocols, with the defaults of [`types::limits`].
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// Time for a request's head, from its first byte.
    pub head_timeout: Duration,
    /// Time that a connection is kept without a request.
    pub idle: Duration,
    /// Time in which data must move a byte, in either direction.
    pub stall: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            head_timeout: HEAD_TIMEOUT,
            idle: IDLE_TIMEOUT,
            stall: STALL_TIMEOUT,
            handshake: TLS_HANDSHAKE_TIMEOUT,
        }
    }
}

impl TimeLimits {
    /// The time limits of sockets.
    #[must_use]
    pub fn waits(&self) -> Waits {
        Waits {
            handshake: self.handshake,
            stall: self.stall,
        }
    }

    /// The current idle timeout: shorter when connections run short.
    #[must_use]
    pub fn current_idle(&self, fair_share: &FairShare) -> Duration {
        match fair_share.is_short(ShareKind::Connections) {
            true => self.idle.min(SHORT_IDLE_TIMEOUT),
            false => self.idle,
        }
    }
}
