//! The client's side: whom we believe, and what we show of ourselves.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use types::{Error, ErrorCode, Phase, Side};

use super::identity::ClientIdentity;
use super::suite::Suite;
use super::tickets::own_sessions;
use super::trust::{Trust, Trusted, verifier};
use super::{ALPN, crypto};
use crate::dial::bare;
use crate::failure::Role;

/// The client side of TLS, replaceable while running: whom we believe, and what we show of
/// ourselves.
#[derive(Clone)]
pub struct ClientTls {
    current: Arc<RwLock<Current>>,
    identity: Option<ClientIdentity>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
    is_verifying: bool,
}

impl ClientTls {
    /// Loads the trusted authorities.
    ///
    /// A broken file in a directory is left out, as one bad authority must not cut off all others;
    /// how much was read is for the caller to say.
    ///
    /// # Errors
    /// When a file that was named itself cannot be read.
    pub fn load(trust: &Trust) -> Result<(Self, Trusted), Error> {
        let (current, trusted) = load(trust)?;
        let current = Arc::new(RwLock::new(current));
        let identity = None;
        Ok((Self { current, identity }, trusted))
    }

    /// The same trust, also after [`ClientTls::reload`], showing `identity` to servers that ask who
    /// we are (RFC 8446 §4.3.2); `None` shows nothing.
    #[must_use]
    pub fn showing(&self, identity: Option<&ClientIdentity>) -> Self {
        Self {
            current: Arc::clone(&self.current),
            identity: identity.cloned(),
        }
    }

    /// The trust and identity of this moment, with one cipher suite on offer and nothing else: for
    /// measurements. Its sessions are its own, and none is resumed unless `resumes`.
    ///
    /// # Errors
    /// `internal` when the suite cannot be used alone.
    pub fn offering(&self, suite: Suite, resumes: bool) -> Result<Self, Error> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let config = suite.configure(&current.config, current.verifier.clone(), resumes)?;
        let current = Current {
            config: Arc::new(config),
            ..current
        };
        Ok(Self {
            current: Arc::new(RwLock::new(current)),
            identity: self.identity.clone(),
        })
    }

    /// Loads them again; on failure the old ones stay in use.
    ///
    /// # Errors
    /// As [`ClientTls::load`].
    pub fn reload(&self, trust: &Trust) -> Result<Trusted, Error> {
        let (current, trusted) = load(trust)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(trusted)
    }

    /// Whether the certificates of servers are verified ([`Trust::insecure`] is not set).
    #[must_use]
    pub fn is_verifying(&self) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).is_verifying
    }

    /// Whether a certificate that a server showed outside of TLS is believed, and is one for this
    /// host (a name or an address, IPv6 with or without brackets). That the server has its key is
    /// for the caller to know.
    ///
    /// # Errors
    /// `peer_tls_failed` with the reason, as in a TLS handshake.
    pub fn check_server(&self, certificate: &CertificateDer<'_>, host: &str, side: Side) -> Result<(), Error> {
        let role = Role::Peer(side);
        let verifier = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .verifier
            .clone();
        let name = ServerName::try_from(bare(host)).map_err(|cause| role.tls(cause).in_phase(Phase::Authenticate))?;
        let checked = verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now());
        let failed = |cause| role.tls_failed(&cause).in_phase(Phase::Authenticate);
        checked.map(|_| ()).map_err(failed)
    }

    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        let base = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .config
            .clone();
        match &self.identity {
            Some(identity) => identity.configure(base),
            None => base,
        }
    }
}

fn load(trust: &Trust) -> Result<(Current, Trusted), Error> {
    let (verifier, trusted) = verifier(trust)?;
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Tls).with_private(cause))?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    config.resumption = own_sessions();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = Arc::new(config);
    let current = Current {
        config,
        verifier,
        is_verifying: !trust.insecure,
    };
    Ok((current, trusted))
}
