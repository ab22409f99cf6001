//! The door as the binary uses it: it serves the connections that it gets, and shuts down.

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
    /// A door with these settings. It serves the connections given to [`Door::serve_connection`].
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared::new(settings)))
    }

    /// Serves one connection, which begins with the first bytes of this protocol, until it ends.
    /// The connection counts as open from the call on.
    ///
    /// # Errors
    /// A failure outside of any request.
    pub fn serve_connection(
        &self,
        tcp: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let shared = self.0.clone();
        let gate = shared.gate.clone();
        // On the heap, so that an idle connection stays small.
        gate.serve(async move { Box::pin(converse(&shared, tcp, peer)).await })
    }

    /// Closes the door: connections without open files end at once, others when their files are
    /// closed, or after `grace`. Returns when all have ended.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.gate.shut_down(grace).await;
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.gate.open_connections()
    }
}
