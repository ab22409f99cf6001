//! The server's side: its certificate, what it asks of clients, and sessions that go on.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use types::Error;

use super::identity::{ClientIdentity, read};
use super::secrets::Listener;
use super::sessions::Sessions;
use super::shown::{ClientCertificates, Possession};
use super::{ALPN, config_error, crypto, read_certificates, words};

/// The server's certificate and key, replaceable while it runs; connections in progress keep
/// theirs.
#[derive(Clone)]
pub struct ServerTls(Arc<RwLock<Current>>);

struct Current {
    config: Arc<ServerConfig>,
    /// Certificate and key, for protocols that use them outside of TLS.
    identity: Option<ClientIdentity>,
    asks: ClientCertificates,
    sessions: Arc<Sessions>,
}

/// A certificate that was read and is not used yet.
pub struct FreshServerTls(Current);

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut shown = formatter.debug_struct("ServerTls");
        shown.field("asks", &current.asks);
        shown.field("sessions", &current.sessions).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads certificate chain and key from PEM files. Clients are not asked for certificates.
    ///
    /// # Errors
    /// `storage_failed` when a file cannot be read, `bad_request` when it holds no usable
    /// certificate or key, others than its owner may use the key, or the two do not belong
    /// together; the detail names the file.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        Self::asking(certificate, key, ClientCertificates::Off)
    }

    /// As [`ServerTls::load`]; `asks` says whether clients are asked for certificates.
    ///
    /// # Errors
    /// As [`ServerTls::load`].
    pub fn asking(certificate: &Path, key: &Path, asks: ClientCertificates) -> Result<Self, Error> {
        let sessions = Arc::default();
        let (config, identity) = server_config(certificate, key, asks, &sessions)?;
        let current = Current {
            config: Arc::new(config),
            identity,
            asks,
            sessions,
        };
        Ok(Self(Arc::new(RwLock::new(current))))
    }

    /// Reads the files again. When that fails the old certificate stays in use. Clients keep
    /// resuming their sessions, unless they were not asked for certificates before and are now, or
    /// the other way round.
    ///
    /// # Errors
    /// As [`ServerTls::load`].
    pub fn reload(&self, certificate: &Path, key: &Path, asks: ClientCertificates) -> Result<(), Error> {
        self.take(self.prepare(certificate, key, asks)?);
        Ok(())
    }

    /// The first half of [`ServerTls::reload`]: reads the files, and changes nothing.
    ///
    /// # Errors
    /// As [`ServerTls::load`].
    pub fn prepare(&self, certificate: &Path, key: &Path, asks: ClientCertificates) -> Result<FreshServerTls, Error> {
        let sessions = {
            let old = self.0.read().unwrap_or_else(PoisonError::into_inner);
            match old.asks == asks {
                true => old.sessions.clone(),
                false => Arc::new(old.sessions.renewed()),
            }
        };
        let (config, identity) = server_config(certificate, key, asks, &sessions)?;
        Ok(FreshServerTls(Current {
            config: Arc::new(config),
            identity,
            asks,
            sessions,
        }))
    }

    /// The second half of [`ServerTls::reload`]: what was prepared is used from now on.
    pub fn take(&self, fresh: FreshServerTls) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = fresh.0;
    }

    /// From now on the sessions that clients may resume take so many bytes at most. The oldest go
    /// first.
    pub fn limit_sessions(&self, bytes_max: usize) {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        current.sessions.limit(bytes_max);
    }

    /// Certificate and key of the moment, for protocols that show and use them outside of TLS;
    /// `None` when the key is of a kind that only TLS knows.
    #[must_use]
    pub fn identity(&self) -> Option<ClientIdentity> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        current.identity.clone()
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }
}

fn server_config(
    certificate: &Path,
    key: &Path,
    asks: ClientCertificates,
    sessions: &Arc<Sessions>,
) -> Result<(ServerConfig, Option<ClientIdentity>), Error> {
    let chain = read_certificates(certificate)?;
    if chain.is_empty() {
        return Err(config_error(certificate, "no certificate in the file"));
    }
    let secret = read(key, true).map_err(|why| config_error(key, &why))?;
    let key_der = PrivateKeyDer::from_pem_slice(&secret)
        .map_err(|cause| config_error(key, &format!("no usable private key: {cause}")))?;
    let identity = ClientIdentity::new(chain.clone(), key_der.clone_key()).ok();
    let provider = crypto();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|cause| config_error(certificate, &cause.to_string()))?;
    let builder = match asks {
        ClientCertificates::Off => builder.with_no_client_auth(),
        ClientCertificates::Optional => builder.with_client_cert_verifier(Possession::new(&provider)),
    };
    let mut config = builder
        .with_single_cert(chain, key_der)
        .map_err(|cause| config_error(certificate, &words(&cause)))?;
    config.enable_secret_extraction = true;
    config.ignore_client_order = true;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 1;
    config.session_storage = sessions.clone();
    config.key_log = Arc::new(Listener);
    Ok((config, identity))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused_at_start_and_at_reload() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("host.pem"), directory.path().join("host.key"));
        let pair = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, parameters.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let mode = |mode| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o600);
        let tls = ServerTls::load(&certificate, &key).expect("its owner's alone");
        for open in [0o644, 0o620, 0o604, 0o660] {
            mode(open);
            let words = |error: Error| error.detail().unwrap_or_default().to_owned();
            let refused = ServerTls::load(&certificate, &key).err().map(words).unwrap_or_default();
            assert!(
                refused.contains("chmod 600") && refused.contains("host.key"),
                "{open:o}: {refused}"
            );
            assert!(
                tls.reload(&certificate, &key, ClientCertificates::Off).is_err(),
                "{open:o}"
            );
        }
        mode(0o400);
        assert!(tls.reload(&certificate, &key, ClientCertificates::Off).is_ok());
    }
}
