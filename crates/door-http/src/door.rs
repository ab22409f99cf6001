//! The door as the binary holds it: serves connections, and closes in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use endpoint::Gate;
use http_server::Server;
use net::listen::Opening;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use types::{Error, Result};

use crate::frame;
use crate::limits::NODE_LISTENERS_MAX;
use crate::settings::Settings;
use crate::shared::Shared;

/// An HTTP door. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Door({})", self.0.settings.site.server_name)
    }
}

impl Door {
    /// A door with these settings. It serves the connections given to [`Door::serve_connection`].
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        settings.site.keep_a_checksum();
        let site = &settings.site;
        let server = Server {
            server_name: site.server_name.clone(),
            tls: site.tls.clone(),
            authenticator: site.authenticator.clone(),
            fair_share: site.fair_share.clone(),
            head: settings.limits.head,
            limits: site.limits,
            gate: Gate::default(),
            log: site.events.clone(),
        };
        Self(Arc::new(Shared {
            settings,
            server,
            content_policy: frame::content_policy(),
            node_listeners: Arc::new(Semaphore::new(NODE_LISTENERS_MAX)),
        }))
    }

    /// Serves one connection, whose first byte was `opening`, until it ends. The door counts it
    /// from the call on.
    ///
    /// # Errors
    /// Why the connection broke outside of any request.
    pub fn serve_connection(
        &self,
        tcp: TcpStream,
        opening: Opening,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        http_server::serve_connection(&self.0, tcp, opening, peer)
    }

    /// Answers a client in clear text, whose connection is not accepted, with the reason.
    pub async fn turn_away(&self, tcp: TcpStream, error: &Error) {
        self.0.server.turn_away(tcp, error).await;
    }

    /// Closes the door: no new connections and requests from now on; after `grace`, third-party
    /// copies that still run are aborted, and a moment later every connection is closed. Returns
    /// when all connections are closed.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.server.gate.shut_down(grace).await;
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.server.gate.open_connections()
    }

    /// Third-party copies that run now, including those of other doors.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.0.settings.site.transfers.running()
    }
}
