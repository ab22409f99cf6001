//! Which requests may use an idle session.

use monitoring_wire::FlowLabel;
use net::tls::ClientIdentity;
use types::{Scheme, Secret, Side};

use super::session::ServerSession;
use crate::resource::Resource;

/// The idle sessions of one client: connecting, TLS, login and authentication cost four round
/// trips.
pub(super) type Pool = crate::pool::Pool<Origin, ServerSession>;

/// Everything that was shown when a session was opened, and the side, since a connection blames it
/// for its own failures.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
    side: Side,
    /// The mark of its packets.
    label: Option<FlowLabel>,
    user: Option<String>,
    /// The client or its token.
    bearer: Option<Secret>,
    identity: Option<ClientIdentity>,
    /// Whether a proxy was offered. A session without the offer never got it.
    delegates: bool,
    /// The login token of a redirection.
    ticket: Option<Secret>,
}

impl Origin {
    /// The origin of a file that is reached with this login token.
    pub(super) fn of(file: &Resource, ticket: Option<&Secret>) -> Self {
        Self {
            scheme: file.location.scheme(),
            host: file.location.host().to_ascii_lowercase(),
            port: file.location.port(),
            side: file.side,
            label: file.access.connection_label(),
            user: file.access.user_name.clone(),
            bearer: file.access.connection_owner(),
            identity: file.access.identity.clone(),
            delegates: file.access.delegates(),
            ticket: ticket.cloned(),
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        let same = |ours: &Option<Secret>, theirs: &Option<Secret>| {
            ours.as_ref().map(Secret::expose) == theirs.as_ref().map(Secret::expose)
        };
        (self.scheme, self.port, self.side) == (other.scheme, other.port, other.side)
            && (self.label, &self.host) == (other.label, &other.host)
            && self.user == other.user
            && (self.delegates, &self.identity) == (other.delegates, &other.identity)
            && same(&self.bearer, &other.bearer)
            && same(&self.ticket, &other.ticket)
    }
}
