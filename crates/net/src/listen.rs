//! Listening sockets, and telling TLS from clear text by the first byte.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use types::{Error, ErrorCode, Phase, Side};

use crate::failure::Role;
use crate::stream::{Stream, Waits};
use crate::tls::ServerTls;

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: i32 = 1024;
/// First byte of a TLS connection: a handshake record (RFC 8446 §5.1). No HTTP method begins so.
const TLS_HANDSHAKE: u8 = 22;

/// Opens a listening socket. Port 0 takes any free one.
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
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Makes a stream of a freshly accepted connection: TLS when its first byte says so.
///
/// # Errors
/// No first byte within `idle`, a failed handshake, or TLS where no certificate is configured.
pub async fn welcome(tcp: TcpStream, tls: Option<&ServerTls>, idle: Duration, waits: Waits) -> Result<Stream, Error> {
    let broken = |cause: io::Error| Role::Client.broken(Phase::Connect, &cause);
    tcp.set_nodelay(true).map_err(broken)?;
    let mut first = [0u8; 1];
    let peeked = tokio::time::timeout(idle, tcp.peek(&mut first)).await;
    let count = peeked
        .map_err(|_| Role::Client.stalled(Phase::Connect))?
        .map_err(broken)?;
    match (count, first[0], tls) {
        (0, ..) => Err(Role::Client.closed(Phase::Connect)),
        (_, TLS_HANDSHAKE, Some(tls)) => Stream::accept_tls(tcp, tls, waits).await,
        (_, TLS_HANDSHAKE, None) => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Tls);
            Err(error.with_detail("TLS was tried, but this server has no certificate"))
        }
        _ => Ok(Stream::clear(tcp, Role::Client, waits)),
    }
}
