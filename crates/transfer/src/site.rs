//! Everything that the data doors of a server share: [`Site`].
//!
//! A server builds one `Site` from its configuration and gives a clone to each data door. Clones
//! are cheap and share state that changes while doors are open: exports, the certificate, slots and
//! fair shares.
//!
//! | field | what doors do with it |
//! |---|---|
//! | `exports` | find the store of a path, and ask policy |
//! | `tls` | make TLS handshakes |
//! | `authenticator` | verify credentials |
//! | `client`, `transfers`, `copies`, `forward_to` | run third-party copies, or send their clients to another server |
//! | `activity` | count transfers that run |
//! | `keep` | choose the checksums of stored files |
//! | `limits` | end what takes too long |
//! | `fair_share` | limit what one client holds |
//! | `refusals`, `events` | report what happened |
//! | `telemetry` | tell which files are used |
//!
//! Settings of a single protocol are in its door: macaroons and delegations for HTTP,
//! authentication methods and rendezvous keys for XRootD.

use std::sync::Arc;

use endpoint::{Activity, FairShare, Moved, Refusals, SharedExports, TimeLimits};
use identity::Authenticator;
use net::tls::ServerTls;
use remote::Client;
use types::limits::{ATTEMPTS_MAX, CHOSEN_STREAMS_MAX, STREAMS_MAX, TRANSFERS_MAX};
use types::{ChecksumAlgorithm, Location};

use crate::budget::Flow;
use crate::events::Events;
use crate::options::{Streams, Verification};
use crate::running::Slots;

/// Everything that the data doors of a server share.
#[derive(Clone)]
pub struct Site {
    /// The files, with their rules; can be replaced while doors are open.
    pub exports: SharedExports,
    /// The certificate; without one doors speak clear text only.
    pub tls: Option<ServerTls>,
    /// Verifies clients' credentials.
    pub authenticator: Authenticator,
    /// Connects to the peers of third-party copies.
    pub client: Client,
    /// The slots for third-party copies.
    pub transfers: Slots,
    /// Counts the uploads and downloads of clients.
    pub activity: Activity,
    /// Defaults of third-party copies.
    pub copies: CopySettings,
    /// The servers that make third-party copies in place of this one.
    pub forward_to: ForwardTo,
    /// Checksums to compute for every stored file; clients that name none get the first. Doors add
    /// Adler-32, the grid's usual one, to an empty list.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Time limits for clients.
    pub limits: TimeLimits,
    /// Product name and version, for clients.
    pub server_name: String,
    /// The fair share of each client.
    pub fair_share: FairShare,
    /// The reasons of recent refusals.
    pub refusals: Refusals,
    /// Receives the events of requests and copies.
    pub events: Arc<dyn Events>,
    /// Hears which files are used.
    pub telemetry: telemetry::Hub,
}

/// Defaults and limits of third-party copies.
#[derive(Clone, Copy, Debug)]
pub struct CopySettings {
    /// Whether the checksums of both sides are compared.
    pub verification: Verification,
    /// Most connections of a copy, whatever its client requests.
    pub streams: u32,
    /// Most connections of a copy whose client requests no number.
    pub chosen_streams: u32,
    /// Most attempts in a row without progress, including the first.
    pub attempts: u32,
}

impl Default for CopySettings {
    fn default() -> Self {
        Self {
            verification: Verification::WhenAvailable,
            streams: STREAMS_MAX as u32,
            chosen_streams: CHOSEN_STREAMS_MAX,
            attempts: ATTEMPTS_MAX,
        }
    }
}

impl CopySettings {
    /// The connections of a copy whose client requests this number.
    #[must_use]
    pub fn streams(&self, asked: Option<u32>) -> Streams {
        Streams::asked(asked, self.streams, self.chosen_streams)
    }
}

/// The servers that make third-party copies in place of this one; `None`: this one makes them.
#[derive(Clone, Debug, Default)]
pub struct ForwardTo {
    /// For HTTP clients.
    pub http: Option<Location>,
    /// For XRootD clients.
    pub root: Option<Location>,
}

impl Site {
    /// A clear-text site with the default limits and only anonymous clients.
    #[must_use]
    pub fn new(exports: SharedExports, client: Client, events: Arc<dyn Events>) -> Self {
        Self {
            exports,
            tls: None,
            authenticator: Authenticator::default(),
            client,
            transfers: Slots::new(TRANSFERS_MAX),
            activity: Activity::default(),
            copies: CopySettings::default(),
            forward_to: ForwardTo::default(),
            keep: vec![ChecksumAlgorithm::Adler32],
            limits: TimeLimits::default(),
            server_name: "crossload".to_owned(),
            fair_share: FairShare::default(),
            refusals: Refusals::default(),
            events,
            telemetry: telemetry::Hub::default(),
        }
    }

    /// Ensures that every stored file gets a checksum.
    pub fn keep_a_checksum(&mut self) {
        if self.keep.is_empty() {
            self.keep.push(ChecksumAlgorithm::Adler32);
        }
    }

    /// The default checksum.
    #[must_use]
    pub fn usual_checksum(&self) -> ChecksumAlgorithm {
        self.keep.first().copied().unwrap_or(ChecksumAlgorithm::Adler32)
    }

    /// The checksums to compute for a stored file: the configured ones, and `others`.
    #[must_use]
    pub fn checksums_with(&self, others: impl IntoIterator<Item = ChecksumAlgorithm>) -> Vec<ChecksumAlgorithm> {
        let mut list = self.keep.clone();
        for algorithm in others {
            if !list.contains(&algorithm) {
                list.push(algorithm);
            }
        }
        list
    }

    /// Reports data that a request moved, and counts it in the budget of copies.
    pub fn report_moved(&self, moved: &Moved) {
        let budget = self.transfers.budget();
        budget.add_moved(Flow::In, moved.bytes_in);
        budget.add_moved(Flow::Out, moved.bytes_out);
        self.events.moved(moved);
    }
}
