//! A proxy that a client has signed: whose it is, and with which key it is complete.

use credentials::Credential;
use credentials::x509::has_sha1_proxy;
use gsi_wire::{Certificate, certificates_in_pem};
use net::tls::ClientIdentity;
use rustls_pki_types::CertificateDer;
use types::limits::CERTIFICATE_CHAIN_MAX;
use types::{Error, Result};

use super::{DelegatedKey, Delegator, latest_end_s, refused};
use crate::Authenticator;

/// A signed proxy with its chain, verified: it belongs to the client that sent it.
#[derive(Debug)]
pub struct SignedProxy {
    chain: Vec<CertificateDer<'static>>,
    /// The end of the first of its certificates and VOMS attributes, in seconds since 1970.
    ends_s: i64,
}

/// A proxy with its key.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Chain and key.
    pub identity: ClientIdentity,
    /// When it ends or must be removed, in seconds since 1970.
    pub expires_s: i64,
    /// Whether servers accept it over TLS too: it is not signed with SHA-1.
    pub is_for_tls: bool,
}

impl SignedProxy {
    /// Reads a proxy with its chain, in PEM, that `owner` sent.
    ///
    /// # Errors
    /// `delegation_refused` for what is no proxy, or not of this user; those of a certificate that
    /// is not believed.
    pub fn read(owner: &Delegator, pem: &[u8], authenticator: &Authenticator) -> Result<Self> {
        let chain = read_chain(pem)?;
        let (whose, ends_s) = verified(&authenticator.certificates(Some(&chain)))?;
        if !owner.may_hold(&whose) {
            return Err(refused(
                "the proxy belongs to another identity than its sender, or is more than limited",
            ));
        }
        Ok(Self { chain, ends_s })
    }

    /// Completes it with the key of its request.
    ///
    /// # Errors
    /// `delegation_refused` when it was signed for another key.
    pub fn with_key(self, key: DelegatedKey) -> Result<Accepted> {
        if !key.is_that_of(&self.chain[0]) {
            return Err(other_key());
        }
        let identity = key.into_identity(self.chain)?;
        Ok(Accepted::new(identity, self.ends_s))
    }

    /// Completes it with the key of an earlier proxy, signed for the same request.
    ///
    /// # Errors
    /// As [`SignedProxy::with_key`].
    pub fn with_key_of(self, earlier: &ClientIdentity) -> Result<Accepted> {
        let key = earlier.private_key().clone_key();
        let identity = ClientIdentity::new(self.chain, key).map_err(|_| other_key())?;
        Ok(Accepted::new(identity, self.ends_s))
    }
}

impl Accepted {
    fn new(identity: ClientIdentity, ends_s: i64) -> Self {
        Self {
            expires_s: identity.expires_s().min(ends_s).min(latest_end_s()),
            is_for_tls: !has_sha1_proxy(identity.chain().iter().map(AsRef::as_ref)),
            identity,
        }
    }
}

/// There is no key for a proxy.
#[must_use]
pub fn request_missing() -> Error {
    refused("no request has been made, or it is too old: ask for one")
}

fn other_key() -> Error {
    refused("the proxy is for another key than that of the request")
}

/// Whose a credential is, and when its first certificate or VOMS attribute ends, in seconds since
/// 1970.
///
/// # Errors
/// Those of a chain that is not believed.
pub(super) fn verified(credential: &Credential) -> Result<(Delegator, i64)> {
    let unaccepted = || refused("certificates of clients are not accepted here");
    match credential {
        // It may be one that allows no further proxy: it is only shown.
        Credential::Certificate(certificate) => {
            let whose = Delegator::holder(certificate).ok_or_else(unaccepted)?;
            Ok((whose, certificate.expires_s))
        }
        Credential::RefusedCertificate(error) => Err((**error).clone()),
        _ => Err(unaccepted()),
    }
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let chain = certificates_in_pem(pem).map_err(|why| refused(&why.to_string()))?;
    if !(2..=CERTIFICATE_CHAIN_MAX).contains(&chain.len()) {
        return Err(refused("a proxy comes with the certificate that signed it"));
    }
    let leaf = Certificate::parse(&chain[0]).map_err(|why| refused(&why.to_string()))?;
    if leaf.proxy_kind().ok().flatten().is_none() {
        return Err(refused("the first certificate is no proxy"));
    }
    drop(leaf);
    Ok(chain.into_iter().map(CertificateDer::from).collect())
}
