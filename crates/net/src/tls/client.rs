//! The client's side: whose certificates are believed.

use std::path::Path;
use std::sync::{Arc, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use types::{Error, ErrorCode, Phase, Side};

use super::identity::ClientIdentity;
use super::{ALPN, crypto, read_certificates};

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

/// The client side of TLS, replaceable while running: whom we believe, and what we show of ourselves.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<RwLock<Arc<ClientConfig>>>,
    identity: Option<ClientIdentity>,
}

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
        let config = Arc::new(RwLock::new(Arc::new(config)));
        Ok((Self { config, identity: None }, count))
    }

    /// The same trust, also after [`ClientTls::reload`], showing `identity` to servers that ask who we
    /// are (RFC 8446 §4.3.2); `None` shows nothing.
    #[must_use]
    pub fn showing(&self, identity: Option<&ClientIdentity>) -> Self {
        Self {
            config: Arc::clone(&self.config),
            identity: identity.cloned(),
        }
    }

    /// Loads them again; on failure the old ones stay in use.
    ///
    /// # Errors
    /// As [`ClientTls::load`].
    pub fn reload(&self, trust: &Trust) -> Result<usize, Error> {
        let (config, count) = client_config(trust)?;
        *self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(config);
        Ok(count)
    }

    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        let base = self
            .config
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        match &self.identity {
            Some(identity) => identity.configure(base),
            None => base,
        }
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
