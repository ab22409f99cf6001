//! What a door gets when it is made: the site, and what only HTTP knows.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::EARLY_OUTCOME_WAIT;
use credentials::{Lifetimes, MacaroonKey};
use http_wire::HeadLimits;
use identity::delegation::Delegations;
use transfer::Site;
use types::limits::{CHECKSUM_WAIT, MARKER_PERIOD};

use crate::hand_over::HandOver;

/// What a door needs.
#[derive(Clone)]
pub struct Settings {
    /// What all data doors share.
    pub site: Site,
    /// How payload is handed over to clear text; `None`: never.
    pub hand_over: Option<Arc<HandOver>>,
    /// What clients have delegated for the other side of their copies; `None`: nothing can be.
    pub delegations: Option<Delegations>,
    /// Hosts that get a client's own token when it has sent none for them.
    pub pass_token_to: Vec<String>,
    /// Macaroons as they are issued; without them none are.
    pub macaroons: Option<MacaroonSettings>,
    /// Limits of this protocol.
    pub limits: Limits,
    /// Every `host:port` under which clients know this server, beside the one that they ask for: a
    /// copy or move between two of them stays within this server.
    pub authorities: Vec<String>,
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

/// Limits of this protocol, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size of a request head.
    pub head: HeadLimits,
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
            marker_period: MARKER_PERIOD,
            checksum_wait: CHECKSUM_WAIT,
            early_outcome: EARLY_OUTCOME_WAIT,
        }
    }
}
