//! The client's side: whom we believe, and what we show of ourselves.

use std::sync::{Arc, RwLock};

use rustls::ClientConfig;
use types::{Error, ErrorCode, Phase, Side};

use super::identity::ClientIdentity;
use super::trust::{Trust, Trusted, verifier};
use super::{ALPN, crypto};

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
    /// how much was read is for the caller to say.
    ///
    /// # Errors
    /// When a file that was named itself cannot be read.
    pub fn load(trust: &Trust) -> Result<(Self, Trusted), Error> {
        let (config, trusted) = client_config(trust)?;
        let config = Arc::new(RwLock::new(Arc::new(config)));
        Ok((Self { config, identity: None }, trusted))
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
    pub fn reload(&self, trust: &Trust) -> Result<Trusted, Error> {
        let (config, trusted) = client_config(trust)?;
        *self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(config);
        Ok(trusted)
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

fn client_config(trust: &Trust) -> Result<(ClientConfig, Trusted), Error> {
    let (verifier, trusted) = verifier(trust)?;
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Tls).with_private(cause))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok((config, trusted))
}
