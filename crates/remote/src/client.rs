//! The client itself: what all requests have in common.

use std::sync::Arc;
use std::time::Duration;

use net::address::AddressPolicy;
use net::tls::ClientTls;

use crate::pool::Pool;

/// How peers are reached.
#[derive(Clone)]
pub struct ClientOptions {
    /// Whose certificates are believed.
    pub tls: ClientTls,
    /// Which addresses may be connected to; checked at every redirect too.
    pub addresses: AddressPolicy,
    /// Time to connect, and again for the TLS handshake.
    pub connect: Duration,
    /// Time to the head of an answer, from the end of the request.
    pub first_byte: Duration,
    /// Longest time in which a body moves no byte.
    pub stall: Duration,
    /// Our name and version, as peers see it.
    pub user_agent: String,
}

/// A client for any number of peers. Cheap to clone; clones share their idle connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) pool: Arc<Pool>,
}

impl Client {
    /// A client without connections.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        Self {
            options: Arc::new(options),
            pool: Arc::new(Pool::default()),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({})", self.options.user_agent)
    }
}
