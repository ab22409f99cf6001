//! What a door gets when it is made: the site, and what only HTTP knows.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::EARLY_OUTCOME_WAIT;
use credentials::{Lifetimes, MacaroonKey};
use endpoint::HandOver;
use http_wire::HeadLimits;
use identity::delegation::Delegations;
use transfer::Site;
use types::limits::{CHECKSUM_WAIT, MARKER_PERIOD};

use crate::node::Node;
use crate::space_report::SpaceReport;

/// What a door needs.
#[derive(Clone)]
pub struct Settings {
    /// What all data doors share.
    pub site: Site,
    /// How payload is handed over to clear text; `None`: never.
    pub hand_over: Option<Arc<HandOver>>,
    /// Credentials that clients delegated for the other side of their copies; `None`: delegation is
    /// off.
    pub delegations: Option<Delegations>,
    /// Hosts that get a client's own token when it has sent none for them.
    pub pass_token_to: Vec<String>,
    /// How macaroons are issued; `None`: none are.
    pub macaroons: Option<MacaroonSettings>,
    /// The node of a cluster that this server is; `None`: it says nothing about one.
    pub node: Option<Arc<dyn Node>>,
    /// The report about space; `None`: there is none.
    pub space_report: Option<Arc<dyn SpaceReport>>,
    /// Limits of this protocol.
    pub limits: Limits,
    /// Every `host:port` by which clients know this server, in addition to the one they ask: a copy
    /// or move between two of them stays here.
    pub authorities: Vec<String>,
}

/// How this server issues macaroons.
#[derive(Clone, Debug)]
pub struct MacaroonSettings {
    /// The key that signs.
    pub key: MacaroonKey,
    /// The server's name in a macaroon.
    pub location: String,
    /// Lifetimes of macaroons.
    pub lifetimes: Lifetimes,
}

/// Limits of this protocol, with the defaults of [`types::limits`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size of a request head.
    pub head: HeadLimits,
    /// Time between two progress markers.
    pub marker_period: Duration,
    /// How long a request waits for a checksum to be computed.
    pub checksum_wait: Duration,
    /// How long to wait for a failure of a third-party copy before it is accepted with 202.
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
