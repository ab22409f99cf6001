//! Which requests may use an idle HTTP connection, and whether it is still alive.

use http_wire::HeadLimits;
use monitoring_wire::FlowLabel;
use net::http::Connection;
use net::tls::ClientIdentity;
use types::{Scheme, Secret, Side};

use crate::resource::Resource;

/// The idle connections of one client.
pub(super) type Pool = crate::pool::Pool<Origin, Connection>;

/// Which requests may use a connection again. The side is a part of it, since a connection blames
/// it for its own failures.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
    side: Side,
    /// The mark of its packets.
    label: Option<FlowLabel>,
    /// The certificate that we showed in the handshake.
    identity: Option<ClientIdentity>,
    /// The client or its token, for an upstream server: it serves many clients of ours, and none of
    /// them shares a connection with another.
    token: Option<Secret>,
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        let same = |ours: &Option<Secret>, theirs: &Option<Secret>| {
            ours.as_ref().map(Secret::expose) == theirs.as_ref().map(Secret::expose)
        };
        (self.scheme, self.port, self.side) == (other.scheme, other.port, other.side)
            && (self.label, &self.host) == (other.label, &other.host)
            && self.identity == other.identity
            && same(&self.token, &other.token)
    }
}

impl Origin {
    /// The origin of a file.
    pub(crate) fn of(file: &Resource) -> Self {
        let scheme = file.location.scheme();
        Self {
            scheme,
            host: file.location.host().to_ascii_lowercase(),
            port: file.location.port(),
            side: file.side,
            label: file.access.connection_label(),
            identity: file.access.identity.clone().filter(|_| scheme == Scheme::Https),
            token: file.access.connection_owner().filter(|_| file.side == Side::Upstream),
        }
    }
}

/// Whether the connection is open, without unexpected bytes on it.
pub(super) fn is_good(connection: &mut Connection) -> bool {
    let silent = matches!(connection.response_available(&HeadLimits::default()), Ok(None));
    silent && !connection.has_leftover()
}
