//! The door as the binary holds it: serves the connections that it is given, and closes in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::REFUSED_BODY_BYTES_MAX;
use endpoint::{ActiveUploads, Gate, ids};
use http_wire::{ContentType, ResponseBuilder};
use net::listen::{self, Opening};
use net::{Role, Stream};
use tokio::net::TcpStream;
use types::{Error, Result};

use crate::connection::converse;
use crate::exchange::error_text;
use crate::settings::Settings;

/// Seconds after which a client that was turned away may try again.
pub(crate) const RETRY_AFTER_S: u64 = 10;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Gate,
    pub(crate) uploads: ActiveUploads,
}

/// An HTTP door. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Door({})", self.0.settings.site.server_name)
    }
}

impl Door {
    /// A door with these settings. It serves what [`Door::serve_connection`] brings.
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        settings.site.keep_a_checksum();
        Self(Arc::new(Shared {
            gate: Gate::default(),
            uploads: ActiveUploads::default(),
            settings,
        }))
    }

    /// Serves one connection, which begins so, until it ends; it counts as inside from the call on.
    ///
    /// # Errors
    /// Why it broke outside of any request.
    pub fn serve_connection(
        &self,
        tcp: TcpStream,
        opening: Opening,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let shared = self.0.clone();
        let gate = shared.gate.clone();
        // On the heap, since the gate would keep twice the room of it.
        gate.host(Box::pin(async move {
            // On the heap, where it is gone when it is done: a handshake takes more than a waiting connection.
            let site = &shared.settings.site;
            let hello = Box::pin(listen::accept(tcp, opening, site.tls.as_ref(), site.waits()));
            let stream = tokio::select! {
                () = shared.gate.draining() => return Ok(()),
                stream = hello => stream?,
            };
            converse(&shared, stream, peer).await
        }))
    }

    /// Tells a client, which speaks in clear text, why its connection is not taken.
    pub async fn turn_away(&self, tcp: TcpStream, error: &Error) {
        let id = ids::fresh_id();
        let body = error_text(error, &id);
        let head = ResponseBuilder::new(error.code().http_status())
            .server(&self.0.settings.site.server_name)
            .request_id(&id)
            .retry_after(RETRY_AFTER_S)
            .content_type(ContentType::Text)
            .content_length(body.len() as u64)
            .keep_alive(false);
        let mut stream = Stream::clear(tcp, Role::Client, self.0.settings.site.waits());
        stream.queue(&head.finish());
        stream.queue(body.as_bytes());
        stream.close_lingering(REFUSED_BODY_BYTES_MAX as usize).await;
    }

    /// Closes the door: no new connections and requests at once; after `grace` the third-party
    /// copies that still run are aborted, and a moment later every connection is closed. Returns
    /// when all are.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.gate.shut_down(grace).await;
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.gate.visitors()
    }

    /// Third-party copies that run now, those of other doors included.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.0.settings.site.transfers.running()
    }
}
