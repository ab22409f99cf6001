//! Accepts connections up to the limit, recognises the protocol by the first byte, and passes each
//! connection to its door.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::REFUSALS_MAX;
use endpoint::{ClientId, FairShare, Gate, Share};
use execution::{Rota, background};
use net::Role;
use net::listen::{Acceptor, Opening, opening};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use types::limits::LAST_WORDS_WAIT;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::events::Observer;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The doors behind the listeners. Clones share them.
#[derive(Clone)]
pub(crate) struct Dispatcher(Arc<Inner>);

/// One door per protocol.
pub(crate) struct Doors {
    pub(crate) http: door_http::Door,
    /// `None`: the protocol is disabled.
    pub(crate) xroot: Option<door_xroot::Door>,
}

struct Inner {
    doors: Doors,
    gate: Gate,
    fair_share: FairShare,
    /// Connections with this descriptor or a higher one are refused.
    descriptors_end: u64,
    refusals: Arc<Semaphore>,
    /// Time limit for the first byte of a connection.
    idle: Duration,
    observer: Arc<Observer>,
    rota: Rota,
}

impl Dispatcher {
    /// Accepts connections within the clients' fair shares, with descriptors below
    /// `descriptors_end`.
    pub(crate) fn new(
        doors: Doors,
        fair_share: FairShare,
        descriptors_end: u64,
        idle: Duration,
        observer: Arc<Observer>,
        rota: Rota,
    ) -> Self {
        Self(Arc::new(Inner {
            doors,
            gate: Gate::default(),
            fair_share,
            descriptors_end,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            idle,
            observer,
            rota,
        }))
    }

    /// Accepts connections until [`Dispatcher::shut_down`]. Several loops may run, one per
    /// listener. The limit on connections is for all of them together.
    pub(crate) async fn accept_loop(&self, listener: Acceptor, worker: usize) {
        loop {
            let accepted = tokio::select! {
                () = self.0.gate.draining() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, peer)) => self.take_in(tcp, peer, worker),
                // Without the pause, a lack of descriptors would make this a busy loop.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn take_in(&self, tcp: std::net::TcpStream, peer: SocketAddr, worker: usize) {
        let inner = self.0.clone();
        let refusal = match inner.admit(&tcp, peer) {
            Ok(share) => {
                let (connection, seat) = (inner.gate.enter(), inner.rota.seat_near(worker));
                let runtime = seat.runtime();
                runtime.spawn(background::movable(async move {
                    inner.observer.connection_opened();
                    let result = inner.serve(tcp, peer).await;
                    inner.observer.connection_closed(peer, result.as_ref().err());
                    drop((connection, share, seat));
                }));
                return;
            }
            Err(refusal) => refusal,
        };
        inner.observer.connection_refused(peer, &refusal);
        // An answer would hold a reserved descriptor until it is sent.
        if inner.is_reserved(&tcp) {
            return;
        }
        if let Ok(permit) = inner.refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                inner.turn_away(tcp, &refusal).await;
                drop(permit);
            });
        }
    }

    /// Closes all doors, see [`door_http::Door::shut_down`]. Returns when every connection is
    /// closed.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        let xroot = async {
            if let Some(xroot) = &self.0.doors.xroot {
                xroot.shut_down(grace).await;
            }
        };
        tokio::join!(self.0.gate.shut_down(grace), self.0.doors.http.shut_down(grace), xroot);
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.0.gate.open_connections()
    }
}

impl Inner {
    /// Whether a connection took a reserved descriptor. The system assigns the lowest free number,
    /// so the number shows how many are in use.
    fn is_reserved(&self, tcp: &std::net::TcpStream) -> bool {
        u64::try_from(tcp.as_raw_fd()).is_ok_and(|number| number >= self.descriptors_end)
    }

    fn admit(&self, tcp: &std::net::TcpStream, peer: SocketAddr) -> Result<Share> {
        if self.is_reserved(tcp) {
            let error = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Connect);
            return Err(error.with_detail("file descriptors"));
        }
        self.fair_share.take_connection(&ClientId::at(peer.ip()))
    }

    async fn serve(&self, tcp: std::net::TcpStream, peer: SocketAddr) -> Result<()> {
        let tcp = TcpStream::from_std(tcp).map_err(|cause| Role::Client.broken(Phase::Connect, &cause))?;
        let idle = self.fair_share.open_connection(&ClientId::at(peer.ip()));
        let opening = tokio::select! {
            () = self.gate.draining() => None,
            opening = idle.wait(opening(&tcp, self.idle)) => opening,
        };
        drop(idle);
        let Some(opening) = opening else { return Ok(()) };
        match (opening?, &self.doors.xroot) {
            (Opening::Zero, Some(xroot)) => xroot.serve_connection(tcp, peer).await,
            // An unknown protocol gets an HTTP error.
            (opening, _) => self.doors.http.serve_connection(tcp, opening, peer).await,
        }
    }

    /// Answers in clear-text HTTP only; other protocols need a handshake first.
    async fn turn_away(&self, tcp: std::net::TcpStream, refusal: &Error) {
        let Ok(tcp) = TcpStream::from_std(tcp) else { return };
        if let Ok(Opening::Text) = opening(&tcp, LAST_WORDS_WAIT).await {
            self.doors.http.turn_away(tcp, refusal).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use endpoint::ShareLimits;

    use super::*;
    use crate::server::assemble::Assembly;
    use crate::server::log::Log;
    use config::Configuration;

    /// Doors for at most two connections, over an empty directory.
    async fn dispatcher(directory: &std::path::Path) -> (Dispatcher, SocketAddr) {
        let text = format!(
            "[[export]]\ndirectory = \"{}\"\nanonymous = \"read\"\n",
            directory.display()
        );
        let configuration = Configuration::parse(&text, directory, "test").unwrap();
        let log = Log::to_file(&directory.join("log"));
        let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &configuration.log));
        let assembly = Assembly::new(&configuration, Vec::new(), &log, observer.clone()).unwrap();
        let doors = assembly.doors(&configuration);
        let rota = Rota::of([tokio::runtime::Handle::current()]);
        let fair_share = assembly.ground.fair_share.clone();
        fair_share.set_limits(&ShareLimits {
            connections: 2,
            ..ShareLimits::default()
        });
        let idle = Duration::from_secs(30);
        let dispatcher = Dispatcher::new(doors, fair_share, u64::MAX, idle, observer, rota);
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Acceptor::new(listener.into_std().unwrap()).unwrap();
        let own = dispatcher.clone();
        tokio::spawn(async move { own.accept_loop(listener, 0).await });
        (dispatcher, address)
    }

    async fn ask(tcp: &mut TcpStream) -> String {
        tcp.write_all(b"OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 4096];
        let count = tcp.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    }

    #[tokio::test]
    async fn protocols_are_recognised_by_their_first_byte() {
        let directory = tempfile::tempdir().unwrap();
        let (dispatcher, address) = dispatcher(directory.path()).await;
        let mut text = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut text).await.starts_with("HTTP/1.1 200"));
        let mut binary = TcpStream::connect(address).await.unwrap();
        binary.write_all(&xroot_wire::HELLO).await.unwrap();
        let mut reply = [0; 16];
        binary.read_exact(&mut reply).await.unwrap();
        let reply = xroot_wire::HelloReply::parse(&reply).unwrap();
        assert_eq!(reply.role, xroot_wire::Role::DataServer);
        dispatcher.shut_down(Duration::from_secs(5)).await;
        assert_eq!(dispatcher.connections(), 0);
    }

    /// A connection in the middle of the handshake of the XRootD protocol: it is not idle.
    async fn busy(address: SocketAddr) -> TcpStream {
        let mut tcp = TcpStream::connect(address).await.unwrap();
        tcp.write_all(&xroot_wire::HELLO[..4]).await.unwrap();
        tcp
    }

    #[tokio::test]
    async fn the_connection_that_was_idle_longest_makes_room() {
        let directory = tempfile::tempdir().unwrap();
        let (dispatcher, address) = dispatcher(directory.path()).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut idle).await.starts_with("HTTP/1.1 200"));
        let mut other = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut other).await.starts_with("HTTP/1.1 200"));
        let mut new = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut new).await.starts_with("HTTP/1.1 200"));
        assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
        assert!(ask(&mut other).await.starts_with("HTTP/1.1 200"));
        dispatcher.shut_down(Duration::from_secs(5)).await;
    }

    #[tokio::test]
    async fn a_connection_over_the_limit_gets_503_and_others_are_still_served() {
        let directory = tempfile::tempdir().unwrap();
        let (dispatcher, address) = dispatcher(directory.path()).await;
        let mut inside = busy(address).await;
        let _other = busy(address).await;
        let xroot = dispatcher.0.doors.xroot.clone().unwrap();
        while xroot.connections() < 2 {
            tokio::task::yield_now().await;
        }
        let mut refused = TcpStream::connect(address).await.unwrap();
        let answer = ask(&mut refused).await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("Retry-After"),
            "{answer}"
        );
        inside.write_all(&xroot_wire::HELLO[4..]).await.unwrap();
        inside.read_exact(&mut [0; 16]).await.unwrap();
        dispatcher.shut_down(Duration::from_secs(5)).await;
        assert_eq!(dispatcher.connections(), 0);
    }
}
