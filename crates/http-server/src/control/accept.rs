//! The port of a control door.

use std::net::SocketAddr;
use std::time::Duration;

use endpoint::ClientId;
use net::listen::{Acceptor, Opening, opening};
use tokio::net::TcpStream;
use types::limits::LAST_WORDS_WAIT;
use types::{Error, Result};

use super::ControlDoor;

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

impl ControlDoor {
    /// Accepts connections until the door closes. When there are too many, or a client has its
    /// share, the one that has been idle longest is closed, or that of this client; if none is
    /// idle, the new one is refused, with the reason where it speaks in clear text.
    pub async fn accept(&self, listener: Acceptor) {
        let gate = &self.0.server.gate;
        loop {
            let accepted = tokio::select! {
                () = gate.draining() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted.and_then(|(tcp, peer)| Ok((TcpStream::from_std(tcp)?, peer))) {
                Ok((tcp, peer)) => self.take_in(tcp, peer),
                // A lack of descriptors passes only when others close.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn take_in(&self, tcp: TcpStream, peer: SocketAddr) {
        let door = self.clone();
        let shares = &self.0.server.fair_share;
        match shares.take_connection(&ClientId::at(peer.ip())) {
            Ok(share) => drop(tokio::spawn(async move {
                if let Err(error) = door.serve(tcp, peer).await {
                    door.0.server.log.connection_failed(peer, &error);
                }
                drop(share);
            })),
            Err(refusal) => {
                self.0.server.log.connection_refused(peer, &refusal);
                if let Ok(permit) = self.0.refusing.clone().try_acquire_owned() {
                    tokio::spawn(async move {
                        door.turn_away(tcp, &refusal).await;
                        drop(permit);
                    });
                }
            }
        }
    }

    /// Its error belongs to no request.
    async fn serve(&self, tcp: TcpStream, peer: SocketAddr) -> Result<()> {
        let server = &self.0.server;
        let connection = server.gate.enter();
        let idle = server.fair_share.open_connection(&ClientId::at(peer.ip()));
        let timeout = server.limits.current_idle(&server.fair_share);
        let opening = tokio::select! {
            () = server.gate.draining() => None,
            opening = idle.wait(opening(&tcp, timeout)) => opening,
        };
        drop(idle);
        let Some(opening) = opening else { return Ok(()) };
        let serving = self.serve_connection(tcp, opening?, peer);
        drop(connection);
        serving.await
    }

    async fn turn_away(&self, tcp: TcpStream, refusal: &Error) {
        if let Ok(Opening::Text) = opening(&tcp, LAST_WORDS_WAIT).await {
            self.0.server.turn_away(tcp, refusal).await;
        }
    }
}
