//! The door as the binary holds it: serves the connections that it is given, and closes in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use endpoint::{ActiveUploads, Gate, Moved};
use tokio::net::TcpStream;
use types::Result;

use crate::connection::converse;
use crate::gsi::Gsi;
use crate::interrupted::InterruptedUploads;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::turns::Turns;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    pub(crate) turns: Turns,
    pub(crate) interrupted: InterruptedUploads,
    pub(crate) uploads: ActiveUploads,
    pub(crate) gsi: Gsi,
}

impl Shared {
    /// Tells of data that was moved for a request, and counts it in the budget that copies share.
    pub(crate) fn tell_moved(&self, moved: &Moved) {
        let budget = self.settings.site.transfers.budget();
        budget.add_moved(moved.bytes_in + moved.bytes_out);
        self.settings.site.events.moved(moved);
    }
}

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
    pub fn new(mut settings: Settings) -> Self {
        settings.site.keep_a_checksum();
        Self(Arc::new(Shared {
            settings,
            gate: Gate::default(),
            sessions: Sessions::default(),
            turns: Turns::default(),
            interrupted: InterruptedUploads::new(Instant::now()),
            uploads: ActiveUploads::default(),
            gsi: Gsi::default(),
        }))
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
