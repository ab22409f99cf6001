//! Sockets that say exactly what a test wants, for what no proper client would say.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use testkit::User;

/// How long a socket may be silent before a test gives up.
const SILENCE: Duration = Duration::from_secs(30);

/// What came back on a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Everything until the end of the connection.
    pub text: String,
    /// Whether the other side closed it (in any way) before the silence was too long.
    pub closed: bool,
}

impl Received {
    /// The status of the last answer; 0 when there was none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.statuses().last().copied().unwrap_or(0)
    }

    /// The statuses of all answers.
    #[must_use]
    pub fn statuses(&self) -> Vec<u16> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
            .collect()
    }
}

/// Connects to a port of loopback.
///
/// # Panics
/// Without a listener there.
#[must_use]
pub fn open(port: u16) -> TcpStream {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpStream::connect_timeout(&address, SILENCE).expect("connection");
    socket.set_read_timeout(Some(SILENCE)).expect("timeout");
    socket.set_write_timeout(Some(SILENCE)).expect("timeout");
    socket
}

/// Sends `request` and reads until the server closes; the server must do so by itself.
///
/// # Panics
/// Without a listener there.
#[must_use]
pub fn exchange(port: u16, request: &[u8]) -> Received {
    let mut socket = open(port);
    // A server may refuse and close before all of it is sent.
    let _ = socket.write_all(request);
    read_answer(&mut socket)
}

/// Reads until the end of the connection.
pub fn read_answer(socket: &mut impl Read) -> Received {
    let mut data = Vec::new();
    let mut buffer = [0; 4096];
    let closed = loop {
        match socket.read(&mut buffer) {
            Ok(0) => break true,
            Ok(length) => data.extend_from_slice(&buffer[..length]),
            Err(error) => break !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    };
    let text = String::from_utf8_lossy(&data).into_owned();
    Received { text, closed }
}

/// A TLS connection to a port of loopback that trusts the authority in `ca_file`.
///
/// # Panics
/// When the authority's file is no certificate, or without a listener there.
#[must_use]
pub fn tls(port: u16, ca_file: &Path) -> StreamOwned<ClientConnection, TcpStream> {
    StreamOwned::new(tls_session(ca_file), open(port))
}

/// The client's side of a TLS connection to this machine, not begun yet, that trusts the authority
/// in `ca_file`.
///
/// # Panics
/// When the authority's file is no certificate.
#[must_use]
pub fn tls_session(ca_file: &Path) -> ClientConnection {
    session(trusting(ca_file).with_no_client_auth())
}

/// The same with a certificate or proxy that is shown.
///
/// # Panics
/// As [`tls_session`], and when the key cannot be used.
#[must_use]
pub fn tls_session_as(ca_file: &Path, user: &User) -> ClientConnection {
    let chain = user.chain().into_iter().map(|der| CertificateDer::from(der.to_vec()));
    let key = PrivateKeyDer::from_pem_slice(user.key().private_pem().as_bytes()).expect("a key");
    let key = aws_lc_rs::sign::any_supported_type(&key).expect("a key that can sign");
    // The usual way refuses proxies, whose critical extension the library does not know.
    let shown = CertifiedKey::new(chain.collect(), key);
    session(trusting(ca_file).with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown))))
}

fn trusting(ca_file: &Path) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    testkit::tls_client(ca_file).expect("the authority's certificate")
}

fn session(config: ClientConfig) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a session")
}
