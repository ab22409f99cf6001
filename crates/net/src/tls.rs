//! TLS configurations and handshakes. rustls decides everything here; when a handshake is done the
//! traffic secrets go to `record`.

use std::path::Path;
use std::sync::{Arc, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs as provider;
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use types::{Error, ErrorCode, Phase, Side};

use crate::failure::Role;
use crate::record::{Opener, RecordFault, Sealer, record_length};

/// The key exchange, suites and versions on offer. AES-128-GCM comes first: it is as safe as
/// AES-256 against everything known and costs a tenth less per byte.
fn crypto() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    provider.cipher_suites = vec![
        provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS13_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(provider)
}

/// The only application protocol of the data door (RFC 7301): storage clients need no other.
const ALPN: &[u8] = b"http/1.1";

/// The server's certificate and key, replaceable while it runs; connections in progress keep theirs.
#[derive(Clone)]
pub struct ServerTls(Arc<RwLock<Arc<ServerConfig>>>);

impl ServerTls {
    /// Reads certificate chain and key from PEM files.
    ///
    /// # Errors
    /// `storage_failed` when a file cannot be read, `bad_request` when it holds no usable
    /// certificate or key, or the two do not belong together; the detail names the file.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        Ok(Self(Arc::new(RwLock::new(Arc::new(server_config(certificate, key)?)))))
    }

    /// Reads the files again. When that fails the old certificate stays in use.
    ///
    /// # Errors
    /// As [`ServerTls::load`].
    pub fn reload(&self, certificate: &Path, key: &Path) -> Result<(), Error> {
        let fresh = Arc::new(server_config(certificate, key)?);
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, Error> {
    let chain = read_certificates(certificate)?;
    if chain.is_empty() {
        return Err(config_error(certificate, "no certificate in the file"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|cause| config_error(key, &format!("no usable private key: {cause}")))?;
    let mut config = ServerConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(|cause| config_error(certificate, &cause.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|cause| config_error(certificate, &cause.to_string()))?;
    config.enable_secret_extraction = true;
    config.ignore_client_order = true;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|cause| config_error(file, &format!("the certificates cannot be read: {cause}")))
}

fn config_error(file: &Path, why: &str) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Active, Phase::Tls).with_detail(format!("{}: {why}", file.display()))
}

/// Whose certificates are believed when connecting to others.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// PEM files of authorities.
    pub files: Vec<std::path::PathBuf>,
    /// Directories with hashed authority files, as grid sites keep them (`*.0` … `*.9`, `*.pem`).
    pub directories: Vec<std::path::PathBuf>,
    /// The operating system's authorities too.
    pub system: bool,
    /// Believe everybody. For a person's client only, on demand.
    pub insecure: bool,
}

/// The client side of TLS, replaceable while running.
#[derive(Clone)]
pub struct ClientTls(Arc<RwLock<Arc<ClientConfig>>>);

impl ClientTls {
    /// Loads the trusted authorities.
    ///
    /// A broken file in a directory is left out, as one bad authority must not cut off all others;
    /// how many certificates were loaded is for the caller to say ([`ClientTls::load`] returns it).
    ///
    /// # Errors
    /// When a file that was named itself cannot be read.
    pub fn load(trust: &Trust) -> Result<(Self, usize), Error> {
        let (config, count) = client_config(trust)?;
        Ok((Self(Arc::new(RwLock::new(Arc::new(config)))), count))
    }

    /// Loads them again; on failure the old ones stay in use.
    ///
    /// # Errors
    /// As [`ClientTls::load`].
    pub fn reload(&self, trust: &Trust) -> Result<usize, Error> {
        let (config, count) = client_config(trust)?;
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(config);
        Ok(count)
    }

    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn client_config(trust: &Trust) -> Result<(ClientConfig, usize), Error> {
    let mut roots = RootCertStore::empty();
    for file in &trust.files {
        roots.add_parsable_certificates(read_certificates(file)?);
    }
    for directory in &trust.directories {
        roots.add_parsable_certificates(read_directory(directory));
    }
    if trust.system {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let count = roots.len();
    let builder = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Tls).with_private(cause))?;
    let mut config = if trust.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(BelieveAll(crypto())))
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.enable_secret_extraction = true;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok((config, count))
}

fn read_directory(directory: &Path) -> Vec<CertificateDer<'static>> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let is_authority = |path: &Path| {
        path.extension().is_some_and(|end| {
            end == "pem" || (end.len() == 1 && end.to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let files = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| is_authority(path));
    files
        .flat_map(|file| read_certificates(&file).unwrap_or_default())
        .collect()
}

/// Checks signatures but no names and no chains: what `--insecure` asks for.
#[derive(Debug)]
struct BelieveAll(Arc<CryptoProvider>);

impl ServerCertVerifier for BelieveAll {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: rustls_pki_types::UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The keys' keeper after the handshake: it changes traffic secrets and keeps session tickets.
pub(crate) enum Keeper {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

impl Keeper {
    /// Fresh keys for what we send (RFC 8446 §7.2).
    pub(crate) fn next_sealer(&mut self) -> Result<Sealer, rustls::Error> {
        let (sequence, secrets) = match self {
            Self::Client(kernel) => kernel.update_tx_secret()?,
            Self::Server(kernel) => kernel.update_tx_secret()?,
        };
        Sealer::new(ProtocolVersion::TLSv1_3, sequence, &secrets).ok_or(rustls::Error::General("unknown suite".into()))
    }

    /// Fresh keys for what the other end sends.
    pub(crate) fn next_opener(&mut self) -> Result<Opener, rustls::Error> {
        let (sequence, secrets) = match self {
            Self::Client(kernel) => kernel.update_rx_secret()?,
            Self::Server(kernel) => kernel.update_rx_secret()?,
        };
        Opener::new(ProtocolVersion::TLSv1_3, sequence, &secrets).ok_or(rustls::Error::General("unknown suite".into()))
    }

    /// Keeps a ticket for the next connection; a server gets none.
    pub(crate) fn keep_ticket(&mut self, payload: &[u8]) -> Result<(), rustls::Error> {
        match self {
            Self::Client(kernel) => kernel.handle_new_session_ticket(payload),
            Self::Server(_) => Err(rustls::Error::General("a client sent a session ticket".into())),
        }
    }
}

/// What a finished handshake leaves behind.
pub(crate) struct Session {
    pub(crate) keeper: Keeper,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) version: ProtocolVersion,
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
    Server(Box<UnbufferedServerConnection>),
}

impl Handshake {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::Server(Box::new(UnbufferedServerConnection::new(config)?)))
    }

    pub(crate) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        Ok(Self::Client(Box::new(UnbufferedClientConnection::new(config, name)?)))
    }

    /// As [`Handshake::client`] without naming an application protocol.
    pub(crate) fn client_upgrade(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        let connection = UnbufferedClientConnection::new_with_alpn(config, name, Vec::new())?;
        Ok(Self::Client(Box::new(connection)))
    }

    /// Takes the handshake as far as `input` reaches. `used` bytes at the front of the input are
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
                (&mut used, shown),
                output,
                UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records,
            ),
            Self::Server(connection) => advance(
                connection,
                input,
                (&mut used, shown),
                output,
                UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records,
            ),
        };
        *shown -= used;
        (used, step)
    }

    /// What is to be told to the other end after [`Handshake::advance`] has failed.
    pub(crate) fn alert(&mut self) -> Vec<u8> {
        match self {
            Self::Client(connection) => alert(connection.process_tls_records(&mut [])),
            Self::Server(connection) => alert(connection.process_tls_records(&mut [])),
        }
    }

    /// Takes the secrets over once the handshake is done.
    pub(crate) fn finish(self, role: Role) -> Result<Session, Error> {
        let peer_certificates = match &self {
            // Whoever we connect to was checked in the handshake, and is asked nothing more.
            Self::Client(_) => None,
            Self::Server(connection) => connection.peer_certificates().map(<[_]>::to_vec),
        };
        let (secrets, version, keeper) = match self {
            Self::Client(connection) => {
                let (secrets, kernel) = connection
                    .dangerous_into_kernel_connection()
                    .map_err(|cause| role.tls(cause))?;
                (secrets, kernel.protocol_version(), Keeper::Client(Box::new(kernel)))
            }
            Self::Server(connection) => {
                let (secrets, kernel) = connection
                    .dangerous_into_kernel_connection()
                    .map_err(|cause| role.tls(cause))?;
                (secrets, kernel.protocol_version(), Keeper::Server(Box::new(kernel)))
            }
        };
        let sealer = Sealer::new(version, secrets.tx.0, &secrets.tx.1);
        let opener = Opener::new(version, secrets.rx.0, &secrets.rx.1);
        match (sealer, opener) {
            (Some(sealer), Some(opener)) => Ok(Session {
                keeper,
                sealer,
                opener,
                version,
                peer_certificates,
            }),
            _ => Err(role.tls("the negotiated suite is not offered here")),
        }
    }
}

/// The one record that a failed handshake still has to send. The connection must not be asked again.
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
    (used, shown): (&mut usize, &mut usize),
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
                let fault = |cause: RecordFault| rustls::Error::General(cause.to_string());
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
