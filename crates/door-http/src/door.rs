//! The door as the binary holds it: accepts connections up to the limit, and closes in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_wire::{ContentType, ResponseBuilder};
use net::listen::welcome;
use net::{Role, Stream, Waits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use types::limits::{LAST_WORDS_WAIT, REFUSALS_MAX, REFUSED_BODY_BYTES_MAX};
use types::{Error, ErrorCode, Phase, Side};

use crate::connection::converse;
use crate::exchange::error_text;
use crate::settings::Settings;
use crate::{chance, digest};

/// Seconds after which a client that was turned away may try again.
pub(crate) const RETRY_AFTER_S: u64 = 10;
/// First byte of a TLS connection (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// How far the door is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    Open,
    /// No new connections and requests; what is under way goes on.
    Draining,
    /// Transfers are aborted, then everything ends.
    Aborting,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// One permit for each third-party copy.
    pub(crate) transfers: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    closing: watch::Sender<Closing>,
}

impl Shared {
    async fn reached(&self, stage: Closing) {
        let mut seen = self.closing.subscribe();
        // The sender lives as long as we do.
        let _ = seen.wait_for(|now| *now >= stage).await;
    }

    /// Waits until no new request may begin.
    pub(crate) async fn draining(&self) {
        self.reached(Closing::Draining).await;
    }

    /// Waits until what is under way must end.
    pub(crate) async fn aborting(&self) {
        self.reached(Closing::Aborting).await;
    }

    /// Whether no new request may begin.
    pub(crate) fn is_draining(&self) -> bool {
        *self.closing.borrow() >= Closing::Draining
    }

    fn waits(&self) -> Waits {
        let limits = &self.settings.limits;
        Waits {
            handshake: limits.handshake,
            stall: limits.stall,
        }
    }
}

/// An HTTP door. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Door({})", self.0.settings.server_name)
    }
}

impl Door {
    /// A door with these settings. It serves what [`Door::accept_loop`] and
    /// [`Door::serve_connection`] bring.
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        digest::at_least_one(&mut settings.keep);
        Self(Arc::new(Shared {
            transfers: Arc::new(Semaphore::new(settings.limits.transfers)),
            connections: Arc::new(Semaphore::new(settings.limits.connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            closing: watch::Sender::new(Closing::Open),
            settings,
        }))
    }

    /// Accepts connections until [`Door::shut_down`]. Several loops may run for several addresses;
    /// the limit on connections holds for all of them together.
    pub async fn accept_loop(&self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                () = self.0.draining() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, peer)) => self.take_in(tcp, peer),
                // A connection that was gone before it was accepted costs nothing; a lack of
                // descriptors passes only when others close.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn take_in(&self, tcp: TcpStream, peer: SocketAddr) {
        let door = self.clone();
        if let Ok(permit) = self.0.connections.clone().try_acquire_owned() {
            tokio::spawn(async move {
                door.serve_connection(tcp, peer).await;
                drop(permit);
            });
            return;
        }
        self.0.settings.events.connection_refused(peer);
        if let Ok(permit) = self.0.refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                door.turn_away(tcp).await;
                drop(permit);
            });
        }
    }

    /// Serves one connection until it ends.
    pub fn serve_connection(&self, tcp: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send {
        let shared = self.0.clone();
        async move {
            let events = shared.settings.events.clone();
            events.connection_opened(peer);
            let served = async {
                let limits = &shared.settings.limits;
                let hello = welcome(tcp, shared.settings.tls.as_ref(), limits.idle, shared.waits());
                let stream = tokio::select! {
                    () = shared.draining() => return Ok(()),
                    stream = hello => stream?,
                };
                converse(&shared, stream, peer).await
            };
            let too_late = async {
                shared.aborting().await;
                tokio::time::sleep(LAST_WORDS_WAIT).await;
            };
            let result = tokio::select! {
                result = served => result,
                () = too_late => Ok(()),
            };
            events.connection_closed(peer, result.as_ref().err());
        }
    }

    /// Tells a client in clear text that there are too many; a TLS handshake would cost more than
    /// its answer is worth.
    async fn turn_away(&self, tcp: TcpStream) {
        let mut first = [0];
        let first_byte = tokio::time::timeout(LAST_WORDS_WAIT, tcp.peek(&mut first)).await;
        if !matches!(first_byte, Ok(Ok(1))) || first[0] == TLS_HANDSHAKE {
            return;
        }
        let error = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Connect)
            .with_detail(format!("connections: {}", self.0.settings.limits.connections));
        let id = chance::fresh_id();
        let body = error_text(&error, &id);
        let head = ResponseBuilder::new(error.code().http_status())
            .server(&self.0.settings.server_name)
            .request_id(&id)
            .retry_after(RETRY_AFTER_S)
            .content_type(ContentType::Text)
            .content_length(body.len() as u64)
            .keep_alive(false);
        let mut stream = Stream::clear(tcp, Role::Client, self.0.waits());
        stream.queue(&head.finish());
        stream.queue(body.as_bytes());
        stream.close_lingering(REFUSED_BODY_BYTES_MAX as usize).await;
    }

    /// Closes the door: no new connections and requests at once; after `grace` the third-party
    /// copies that still run are aborted, and a moment later every connection is closed. Returns
    /// when all are.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.closing.send_replace(Closing::Draining);
        let all = u32::try_from(self.0.settings.limits.connections).unwrap_or(u32::MAX);
        let gone = async { drop(self.0.connections.acquire_many(all).await) };
        if tokio::time::timeout(grace, gone).await.is_err() {
            self.0.closing.send_replace(Closing::Aborting);
            drop(self.0.connections.acquire_many(all).await);
        }
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.settings.limits.connections - self.0.connections.available_permits()
    }

    /// Third-party copies that run now.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.0.settings.limits.transfers - self.0.transfers.available_permits()
    }
}
