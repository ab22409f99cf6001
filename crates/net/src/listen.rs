//! Listening sockets, and telling protocols apart by the first byte.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use types::{Error, ErrorCode, Phase, Side};

use crate::failure::Role;
use crate::stream::{Stream, Waits};
use crate::tls::ServerTls;

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: i32 = 1024;
/// First byte of a TLS connection: a handshake record (RFC 8446 §5.1). No other protocol here
/// begins so.
const TLS_HANDSHAKE: u8 = 22;

/// Opens a listening socket, whose connections send at once what they are given (`TCP_NODELAY`).
/// Port 0 takes any free one.
///
/// # Errors
/// The system's reason, such as an address in use.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` serves both families, as administrators expect of one line of configuration.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_nonblocking(true)?;
    // Of every connection that is accepted: no answer is to wait for another one to share a segment
    // with.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Prepares a listening socket that another program has opened, as [`listen`] prepares its own.
///
/// # Errors
/// The system's reason.
pub fn take_over(listener: &std::net::TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    SockRef::from(listener).set_tcp_nodelay(true)
}

/// Accepts connections that no runtime watches yet, so that any may.
#[derive(Debug)]
pub struct Acceptor(AsyncFd<std::net::TcpListener>);

impl Acceptor {
    /// For a listening socket that does not block.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    #[allow(
        unsafe_code,
        reason = "tokio's listener has each connection watched by the runtime that accepts it"
    )]
    pub fn new(listener: std::net::TcpListener) -> io::Result<Self> {
        // SAFETY: a listener owns its descriptor and has the same one as long as it lives, and it
        // is dropped with the `AsyncFd`.
        let watched = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
        Ok(Self(watched?))
    }

    /// The next connection, which does not block, and who it is from: a client of IPv4 has the same
    /// address on a socket for both families (`[::]`) as on any other. May be dropped.
    ///
    /// # Errors
    /// The connection was gone before it was accepted, or the system lacks descriptors or memory.
    pub async fn accept(&self) -> io::Result<(std::net::TcpStream, SocketAddr)> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(accepted) = ready.try_io(|listener| accept_one(listener.get_ref())) {
                return accepted;
            }
        }
    }
}

fn accept_one(listener: &std::net::TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
    Ok((socket.into(), SocketAddr::new(peer.ip().to_canonical(), peer.port())))
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A TLS handshake.
    Tls,
    /// A zero byte. So begins the XRootD protocol, whose first field is 0 in four bytes; neither
    /// TLS nor any text does.
    Zero,
    /// Anything else: a line of text.
    Text,
}

/// Looks at how a freshly accepted connection begins, and takes nothing of it.
///
/// # Errors
/// No first byte within `idle`, or the client left.
pub async fn opening(tcp: &TcpStream, idle: Duration) -> Result<Opening, Error> {
    let mut first = [0u8; 1];
    let peeked = tokio::time::timeout(idle, tcp.peek(&mut first)).await;
    let count = peeked
        .map_err(|_| Role::Client.stalled(Phase::Connect))?
        .map_err(|cause| Role::Client.broken(Phase::Connect, &cause))?;
    match (count, first[0]) {
        (0, _) => Err(Role::Client.closed(Phase::Connect)),
        (_, TLS_HANDSHAKE) => Ok(Opening::Tls),
        (_, 0) => Ok(Opening::Zero),
        _ => Ok(Opening::Text),
    }
}

/// Makes a stream of a connection that begins so: TLS where it says so, clear text otherwise.
///
/// # Errors
/// A failed handshake, or TLS where no certificate is configured.
pub async fn accept(tcp: TcpStream, opening: Opening, tls: Option<&ServerTls>, waits: Waits) -> Result<Stream, Error> {
    match (opening, tls) {
        (Opening::Tls, Some(tls)) => Stream::accept_tls(tcp, tls, waits).await,
        (Opening::Tls, None) => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Tls);
            Err(error.with_detail("TLS was tried, but this server has no certificate"))
        }
        (Opening::Zero | Opening::Text, _) => Ok(Stream::clear(tcp, Role::Client, waits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_accepted_sends_at_once() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(listener.into_std().unwrap()).unwrap();
        let _far = TcpStream::connect(address).await.unwrap();
        let (near, _) = acceptor.accept().await.unwrap();
        assert!(near.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_socket_of_another_program_is_used_like_an_own_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Its program decides how a connection that came before sends.
        let _early = TcpStream::connect(address).await.unwrap();
        take_over(&listener).unwrap();
        let _far = TcpStream::connect(address).await.unwrap();
        let acceptor = Acceptor::new(listener).unwrap();
        acceptor.accept().await.unwrap();
        let (near, _) = acceptor.accept().await.unwrap();
        assert!(near.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_client_of_ipv4_has_one_address_on_every_socket() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = Acceptor::new(listener.into_std().unwrap()).unwrap();
        let far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (_, peer) = acceptor.accept().await.unwrap();
        assert_eq!(peer, far.local_addr().unwrap());
    }
}
