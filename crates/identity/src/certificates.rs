//! Who is the holder of the certificates that a client showed? The memory of chains that were
//! verified lies here, so that a certificate costs one hash on each connection.

use std::sync::{Arc, PoisonError, RwLock};

use crate::limits::{VERIFIED_CHAIN_LIFETIME, VERIFIED_CHAINS_MAX};
use credentials::Credential;
use credentials::x509::{CertificateRules, verify_chain, verify_gsi_chain};
use rustls_pki_types::CertificateDer;

use crate::clock::now_s;
use crate::verified::Verified;

/// How a chain is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownBy {
    /// In a TLS handshake.
    Tls,
    /// In a login of the XRootD protocol. Its proxies may be signed with SHA-1.
    Gsi,
}

impl ShownBy {
    fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Gsi => "gsi",
        }
    }
}

/// Judges chains of certificates. Clones share everything, so that new rules reach every door.
#[derive(Clone, Default)]
pub struct Certificates(Arc<RwLock<Arc<Judge>>>);

/// The rules, and what was verified by them: both are replaced together.
struct Judge {
    rules: Option<Arc<CertificateRules>>,
    verified: Verified,
}

impl Judge {
    fn new(rules: Option<CertificateRules>) -> Self {
        Self {
            rules: rules.map(Arc::new),
            verified: Verified::new(VERIFIED_CHAINS_MAX, VERIFIED_CHAIN_LIFETIME),
        }
    }
}

impl Default for Judge {
    fn default() -> Self {
        Self::new(None)
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Certificates")
    }
}

impl Certificates {
    /// Judges by these rules; without any, every holder of a certificate is anonymous.
    #[must_use]
    pub fn new(rules: Option<CertificateRules>) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(Judge::new(rules)))))
    }

    /// Judges by other rules from now on, for everybody who has a clone. What was verified before
    /// is forgotten.
    pub fn replace(&self, rules: Option<CertificateRules>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Judge::new(rules));
    }

    /// The rules of the moment.
    #[must_use]
    pub fn rules(&self) -> Option<Arc<CertificateRules>> {
        self.judge().rules.clone()
    }

    fn judge(&self) -> Arc<Judge> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The identity from a chain, the client's certificate first. The client is known to hold that
    /// one's key.
    ///
    /// Only valid chains are cached, so that invalid ones cannot push them out.
    pub(crate) fn credential(&self, chain: &[CertificateDer<'static>], shown_by: ShownBy) -> Arc<Credential> {
        let judge = self.judge();
        let (Some(rules), false) = (&judge.rules, chain.is_empty()) else {
            return Arc::new(Credential::Anonymous);
        };
        let now_s = now_s();
        let parts = chain.iter().map(AsRef::as_ref);
        let hash = judge.verified.hash(parts.chain([shown_by.name().as_bytes()]));
        if let Some(known) = hash.and_then(|hash| judge.verified.find(hash, now_s)) {
            return known.credential;
        }
        let parts: Vec<&[u8]> = chain.iter().map(AsRef::as_ref).collect();
        let verified = match shown_by {
            ShownBy::Tls => verify_chain(&parts, rules, now_s),
            ShownBy::Gsi => verify_gsi_chain(&parts, rules, now_s),
        };
        match verified {
            Ok(verified) => {
                let credential = Arc::new(Credential::Certificate(Box::new(verified)));
                if let Some(hash) = hash {
                    judge.verified.remember(hash, &credential, now_s);
                }
                credential
            }
            Err(error) => Arc::new(Credential::RefusedCertificate(Box::new(error))),
        }
    }
}
