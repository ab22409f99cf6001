//! Who delegates, and what their credentials are called.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use credentials::{CertificateIssuer, Credential, Principal, VerifiedCertificate};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::hex;

/// Who delegates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delegator {
    pub(super) dn: String,
    /// Two authorities may give the same subject to two people.
    pub(super) issuer: CertificateIssuer,
    /// In the order of the credential: other servers go by the first.
    pub(super) fqans: Vec<String>,
    /// Whether they showed a limited proxy, which must not be of use for a full one.
    pub(super) is_limited: bool,
}

impl Delegator {
    /// Whom a credential belongs to; `None` for one that is no certificate, or that allows no
    /// further proxy: its holder can delegate nothing, so nothing delegated is theirs.
    #[must_use]
    pub fn of(credential: &Credential) -> Option<Self> {
        let Credential::Certificate(certificate) = credential else {
            return None;
        };
        certificate.allows_proxies.then(|| Self::holder(certificate))?
    }

    /// Who delegates by this credential, for a client that asks for delegation.
    ///
    /// # Errors
    /// Why the certificate was refused; `unauthenticated` for one that [`Delegator::of`] does not
    /// take, and without one.
    pub fn required(credential: &Credential) -> Result<Self> {
        if let Credential::RefusedCertificate(error) = credential {
            return Err((**error).clone());
        }
        Self::of(credential).ok_or_else(certificate_needed)
    }

    /// Checks the name under which a client delegates: each has one, [`Delegator::id`].
    ///
    /// # Errors
    /// `forbidden` for any other.
    pub fn check_id(&self, id: &str) -> Result<()> {
        if id == self.id() {
            return Ok(());
        }
        let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
        Err(error.with_detail(format!("your delegation has the name {}", self.id())))
    }

    pub(super) fn holder(certificate: &VerifiedCertificate) -> Option<Self> {
        let Principal { dn, fqans, .. } = &certificate.principal;
        Some(Self {
            dn: dn.clone()?,
            issuer: certificate.issuer.clone(),
            fqans: fqans.clone(),
            is_limited: certificate.is_limited,
        })
    }

    /// The name under which FTS' clients delegate: the beginning of SHA-1 over the subject and all
    /// attributes, as these clients calculate it themselves.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(self.dn.as_bytes());
        self.fqans.iter().for_each(|fqan| hash.update(fqan.as_bytes()));
        hex(&hash.finish().as_ref()[..8])
    }

    /// The subject.
    #[must_use]
    pub fn dn(&self) -> &str {
        &self.dn
    }

    /// The attributes of VOMS.
    #[must_use]
    pub fn fqans(&self) -> &[String] {
        &self.fqans
    }

    /// Whether both have the same subject from the same authority, whatever their attributes.
    pub(super) fn is_same_person(&self, other: &Self) -> bool {
        self.dn == other.dn && self.issuer == other.issuer
    }

    /// Whether they may use a credential of `whose`: the same person's, and limited if theirs is.
    pub(super) fn may_hold(&self, whose: &Self) -> bool {
        self.is_same_person(whose) && (whose.is_limited || !self.is_limited)
    }

    /// The name of the person in a store, whatever the attributes.
    #[must_use]
    pub fn person(&self) -> String {
        name(&[self.dn.as_bytes(), self.issuer.dn.as_bytes(), &self.issuer.key_sha256])
    }

    /// The name of a credential of theirs in a store.
    #[must_use]
    pub fn slot(&self, id: &str) -> String {
        let fqans = self.fqans.join("\n");
        let kind: &[u8] = if self.is_limited { b"limited" } else { b"full" };
        name(&[self.person().as_bytes(), fqans.as_bytes(), id.as_bytes(), kind])
    }
}

/// A client cannot delegate without a certificate.
#[must_use]
pub fn certificate_needed() -> Error {
    let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
    error.with_detail("delegation needs a client certificate, or a proxy that allows a further proxy")
}

/// A name that no other list of parts has.
fn name(parts: &[&[u8]]) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finish().as_ref()[..16])
}
