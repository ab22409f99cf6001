//! The server's side: its certificate, what it asks of clients, and sessions that go on.

use std::path::Path;
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use types::Error;

use super::{ALPN, config_error, crypto, read_certificates};

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
