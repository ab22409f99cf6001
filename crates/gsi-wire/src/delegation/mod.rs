//! Delegation as bytes: the server makes a key and a request (PKCS#10, RFC 2986), the client signs
//! a proxy for it (RFC 3820). No keys here: the caller passes a signing function.

mod proxy_certificate;
mod request;

pub use proxy_certificate::{ProxyDraft, proxy_extensions, proxy_name};
pub use request::{CertificateRequest, RequestedExtension, certificate_request};

use crate::encode;

/// How something is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// RSA (PKCS#1 v1.5) with SHA-256.
    RsaSha256,
    /// ECDSA with SHA-256, on P-256.
    EcdsaSha256,
    /// ECDSA with SHA-384, on P-384.
    EcdsaSha384,
}

impl SignatureKind {
    /// Its `AlgorithmIdentifier` in DER (RFC 4055 §5, RFC 5758 §3.2).
    #[must_use]
    pub fn algorithm(self) -> Vec<u8> {
        match self {
            Self::RsaSha256 => encode::sequence(&[&encode::object_identifier("1.2.840.113549.1.1.11"), &[5, 0]]),
            Self::EcdsaSha256 => encode::sequence(&[&encode::object_identifier("1.2.840.10045.4.3.2")]),
            Self::EcdsaSha384 => encode::sequence(&[&encode::object_identifier("1.2.840.10045.4.3.3")]),
        }
    }

    /// Puts together what is signed, the algorithm and the signature that `sign` makes.
    ///
    /// # Errors
    /// What `sign` says.
    pub fn seal<E>(self, content: &[u8], sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let signature = encode::bit_string(&sign(content)?);
        Ok(encode::sequence(&[content, &self.algorithm(), &signature]))
    }
}
