//! TLS for a server that is part of a test.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Error, Result};

/// TLS with the certificate (and its chain) and the key in these PEM files; clients are not asked
/// for theirs.
///
/// # Errors
/// [`Error::Failed`] when a file cannot be read or does not hold what it should.
pub fn tls_server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    tls_server_of(rustls::crypto::aws_lc_rs::default_provider(), certificate, key)
}

/// As [`tls_server`], by what `provider` has.
///
/// # Errors
/// As [`tls_server`].
pub fn tls_server_of(provider: CryptoProvider, certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let fault = |what: String| Error::Failed(what);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|cause| fault(cause.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|cause| fault(cause.to_string()))?;
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map(Arc::new)
        .map_err(|cause| fault(cause.to_string()))
}
