//! Handshakes without a socket, and what they leave behind.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::tls13::OkmBlock;
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, InvalidMessage, ProtocolVersion, ServerConfig, SupportedCipherSuite};
use rustls_pki_types::{CertificateDer, ServerName};
use types::Error;

use super::secrets::record_keys;
use super::secrets::{self, TrafficSecret};
use crate::failure::Role;
use records::{Opener, RecordFault, Sealer, record_length};

/// The keys' keeper after the handshake: it changes traffic secrets and keeps session tickets.
pub(crate) enum Keeper {
    Client(Box<KernelConnection<ClientConnectionData>>),
    /// Of TLS 1.3: the secret of our direction and of the other end's.
    Server(Box<(TrafficSecret, TrafficSecret)>),
    /// Keys cannot be changed, as in TLS 1.2.
    None,
}

impl Keeper {
    /// Fresh keys for what we send (RFC 8446 §7.2).
    pub(crate) fn next_sealer(&mut self) -> Result<Sealer, rustls::Error> {
        let sealer = match self {
            Self::Client(kernel) => {
                let (sequence, secrets) = kernel.update_tx_secret()?;
                record_keys(ProtocolVersion::TLSv1_3, sequence, &secrets).map(Sealer::new)
            }
            Self::Server(secrets) => secrets.0.next_keys().map(Sealer::new),
            Self::None => None,
        };
        sealer.ok_or(rustls::Error::General("the keys cannot be changed".into()))
    }

    /// Fresh keys for what the other end sends.
    pub(crate) fn next_opener(&mut self) -> Result<Opener, rustls::Error> {
        let opener = match self {
            Self::Client(kernel) => {
                let (sequence, secrets) = kernel.update_rx_secret()?;
                record_keys(ProtocolVersion::TLSv1_3, sequence, &secrets).map(Opener::new)
            }
            Self::Server(secrets) => secrets.1.next_keys().map(Opener::new),
            Self::None => None,
        };
        opener.ok_or(rustls::Error::General("the keys cannot be changed".into()))
    }

    /// Keeps a ticket for the next connection; a server gets none.
    pub(crate) fn keep_ticket(&mut self, payload: &[u8]) -> Result<(), rustls::Error> {
        match self {
            Self::Client(kernel) => kernel.handle_new_session_ticket(payload),
            Self::Server(_) | Self::None => Err(rustls::Error::General("a client sent a session ticket".into())),
        }
    }
}

/// What a finished handshake leaves behind.
pub(crate) struct TlsSession {
    pub(crate) keeper: Keeper,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) version: ProtocolVersion,
    /// Whether it goes on with an earlier session.
    pub(crate) is_resumed: bool,
    /// What the other end showed of itself.
    pub(crate) peer_certificates: Option<Vec<CertificateDer<'static>>>,
}

/// What the handshake wants next.
pub(crate) enum Step {
    /// Send the bytes that were appended to the output.
    Send,
    /// Give it more input.
    Read,
    /// It is done.
    Done,
}

/// A handshake in progress, without a socket.
pub(crate) enum Handshake {
    Client(Box<UnbufferedClientConnection>),
    /// With the secrets of the client's direction and ours, once they are known.
    Server(Box<UnbufferedServerConnection>, Option<(OkmBlock, OkmBlock)>),
}

impl Handshake {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::Server(Box::new(UnbufferedServerConnection::new(config)?), None))
    }

    pub(crate) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        Ok(Self::Client(Box::new(UnbufferedClientConnection::new(config, name)?)))
    }

    /// As [`Handshake::client`] without naming an application protocol.
    pub(crate) fn client_upgrade(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        let connection = UnbufferedClientConnection::new_with_alpn(config, name, Vec::new())?;
        Ok(Self::Client(Box::new(connection)))
    }

    /// Continues the handshake with `input`. `used` bytes at the front of the input are
    /// done with and may be dropped; the first `shown` bytes have been looked at, and those of them
    /// that are not dropped must be there again. Records behind the handshake are not touched.
    pub(crate) fn advance(
        &mut self,
        input: &mut [u8],
        shown: &mut usize,
        output: &mut Vec<u8>,
    ) -> (usize, Result<Step, rustls::Error>) {
        let mut used = 0;
        let step = match self {
            Self::Client(connection) => advance(
                connection,
                input,
                &mut used,
                shown,
                output,
                UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records,
            ),
            Self::Server(connection, secrets) => {
                let step = advance(
                    connection,
                    input,
                    &mut used,
                    shown,
                    output,
                    UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records,
                );
                *secrets = secrets::heard().or(secrets.take());
                step
            }
        };
        *shown -= used;
        (used, step)
    }

    /// Whether the other end does not wait for the next bytes: a server's session tickets in TLS
    /// 1.3, which it may send at any time (RFC 8446 §4.6.1).
    pub(crate) fn can_wait(&self) -> bool {
        match self {
            Self::Client(_) => false,
            Self::Server(connection, _) => {
                !connection.is_handshaking() && connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            }
        }
    }

    /// The alert for the other end after [`Handshake::advance`] has failed.
    pub(crate) fn alert(&mut self) -> Vec<u8> {
        match self {
            Self::Client(connection) => alert(connection.process_tls_records(&mut [])),
            Self::Server(connection, _) => alert(connection.process_tls_records(&mut [])),
        }
    }

    /// Takes the secrets over once the handshake is done.
    pub(crate) fn finish(self, role: Role) -> Result<TlsSession, Error> {
        let fault = |cause| role.tls_failed(&cause);
        let is_resumed = match &self {
            Self::Client(connection) => connection.handshake_kind() == Some(HandshakeKind::Resumed),
            Self::Server(connection, _) => connection.handshake_kind() == Some(HandshakeKind::Resumed),
        };
        let (secrets, version, keeper, peer_certificates) = match self {
            Self::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(fault)?;
                let version = kernel.protocol_version();
                // The server was verified in the handshake; nothing more to check.
                (secrets, version, Keeper::Client(Box::new(kernel)), None)
            }
            Self::Server(connection, heard) => {
                let chain = connection.peer_certificates().map(<[_]>::to_vec);
                let version = connection.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2);
                let keeper = match (connection.negotiated_cipher_suite(), heard) {
                    (Some(SupportedCipherSuite::Tls13(suite)), Some((client, server))) => {
                        let secret = |secret| TrafficSecret::new(suite, secret);
                        Keeper::Server(Box::new((secret(server), secret(client))))
                    }
                    _ => Keeper::None,
                };
                // What is left of rustls is dropped: it would go on holding the certificates.
                let (secrets, _) = connection.dangerous_into_kernel_connection().map_err(fault)?;
                (secrets, version, keeper, chain)
            }
        };
        let sealer = record_keys(version, secrets.tx.0, &secrets.tx.1).map(Sealer::new);
        let opener = record_keys(version, secrets.rx.0, &secrets.rx.1).map(Opener::new);
        match (sealer, opener) {
            (Some(sealer), Some(opener)) => Ok(TlsSession {
                keeper,
                sealer,
                opener,
                version,
                is_resumed,
                peer_certificates,
            }),
            _ => Err(role.tls("the negotiated suite is not offered here")),
        }
    }
}

/// The one record that a failed handshake still has to send. The connection must not be asked
/// again.
fn alert<Data>(status: UnbufferedStatus<'_, '_, Data>) -> Vec<u8> {
    let mut output = Vec::new();
    if let Ok(ConnectionState::EncodeTlsData(mut encoder)) = status.state
        && let Err(EncodeError::InsufficientSize(size)) = encoder.encode(&mut [])
    {
        output.resize(size.required_size, 0);
        let _ = encoder.encode(&mut output);
    }
    output
}

/// One record at a time is shown to rustls, so that it never decrypts application data that
/// arrived in the same segment as the end of the handshake: those records are ours to open.
fn advance<Data>(
    connection: &mut UnbufferedConnectionCommon<Data>,
    input: &mut [u8],
    used: &mut usize,
    shown: &mut usize,
    output: &mut Vec<u8>,
    process: for<'c, 'i> fn(&'c mut UnbufferedConnectionCommon<Data>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Data>,
) -> Result<Step, rustls::Error> {
    loop {
        let UnbufferedStatus { discard, state } = process(connection, &mut input[*used..*shown]);
        match state? {
            ConnectionState::EncodeTlsData(mut encoder) => {
                let start = output.len();
                let needed = match encoder.encode(&mut []) {
                    Err(EncodeError::InsufficientSize(size)) => size.required_size,
                    _ => 0,
                };
                output.resize(start + needed, 0);
                encoder
                    .encode(&mut output[start..])
                    .map_err(|cause| rustls::Error::General(cause.to_string()))?;
            }
            ConnectionState::TransmitTlsData(transmit) => {
                transmit.done();
                *used += discard;
                return Ok(Step::Send);
            }
            ConnectionState::WriteTraffic(_) => {
                *used += discard;
                return Ok(Step::Done);
            }
            ConnectionState::BlockedHandshake => {
                *used += discard;
                let fault = |cause| match cause {
                    RecordFault::Header => InvalidMessage::InvalidContentType.into(),
                    cause => rustls::Error::General(cause.to_string()),
                };
                let next = record_length(&input[*shown..]).map_err(fault)?;
                match next.filter(|length| *shown + length <= input.len()) {
                    Some(length) => *shown += length,
                    None => return Ok(Step::Read),
                }
                continue;
            }
            _ => return Err(rustls::Error::General("data before the end of the handshake".into())),
        }
        *used += discard;
    }
}
