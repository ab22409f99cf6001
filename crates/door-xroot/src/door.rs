//! The door as the binary holds it: serves the connections that it is given, and closes in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use types::Result;

use crate::conversation::converse;
use crate::settings::Settings;
use crate::shared::Shared;

/// An XRootD door. Clones are the same door.
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
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared::new(settings)))
    }

    /// Serves one connection, which begins with this protocol's first words, until it ends; it counts as
    /// inside from the call on.
    ///
    /// # Errors
    /// Why it broke outside of any request.
    pub fn serve_connection(
        &self,
        tcp: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let shared = self.0.clone();
        let gate = shared.gate.clone();
        // On the heap, so that a connection that is still silent stays small.
        gate.host(async move { Box::pin(converse(&shared, tcp, peer)).await })
    }

    /// Closes the door: connections without open files end at once, the others when their files are
    /// closed, or after `grace`. Returns when all have ended.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.gate.shut_down(grace).await;
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.gate.visitors()
    }
}
