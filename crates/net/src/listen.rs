//! Listening sockets, and telling protocols apart by the first byte.

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
/// First byte of a TLS connection: a handshake record (RFC 8446 §5.1). No other protocol here begins so.
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

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A TLS handshake.
    Tls,
    /// A zero byte. So begins the XRootD protocol, whose first field is 0 in four bytes; neither TLS
    /// nor any text does.
    Zero,
    /// Anything else: a line of text.
    Text,
}

/// Looks at how a freshly accepted connection begins, and takes nothing of it.
///
/// # Errors
/// No first byte within `idle`, or the client left.
pub async fn opening(tcp: &TcpStream, idle: Duration) -> Result<Opening, Error> {
    let broken = |cause: io::Error| Role::Client.broken(Phase::Connect, &cause);
    tcp.set_nodelay(true).map_err(broken)?;
    let mut first = [0u8; 1];
    let peeked = tokio::time::timeout(idle, tcp.peek(&mut first)).await;
    let count = peeked
        .map_err(|_| Role::Client.stalled(Phase::Connect))?
        .map_err(broken)?;
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

/// [`opening`] and [`accept`] for those who speak one protocol, whatever the first byte.
///
/// # Errors
/// As both.
pub async fn welcome(tcp: TcpStream, tls: Option<&ServerTls>, idle: Duration, waits: Waits) -> Result<Stream, Error> {
    let opening = opening(&tcp, idle).await?;
    accept(tcp, opening, tls, waits).await
}
