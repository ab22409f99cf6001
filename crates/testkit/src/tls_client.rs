//! TLS for a client that is part of a test or a measurement.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::{Error, Result};

/// TLS that trusts the authorities in this PEM file; what it shows of itself is still to be said.
///
/// # Errors
/// [`Error::Failed`] when the file cannot be read, holds no certificate, or something that is no
/// authority.
pub fn tls_client(ca_file: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let fault = |what: String| Error::Failed(what);
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(ca_file).map_err(|cause| fault(cause.to_string()))? {
        let authority = authority.map_err(|cause| fault(cause.to_string()))?;
        roots.add(authority).map_err(|cause| fault(cause.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fault(format!("{} holds no certificate", ca_file.display())));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| fault(cause.to_string()))?;
    Ok(builder.with_root_certificates(roots))
}
