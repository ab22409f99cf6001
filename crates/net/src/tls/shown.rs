//! Certificates that clients show of themselves.
//!
//! The handshake proves one thing: that the client holds the key of the first certificate. Whether
//! the chain behind it is to be believed is judged afterwards by the crate `identity`, so that the
//! client gets an answer with a reason instead of a TLS alert, and so that proxies (RFC 3820) are
//! possible at all: the libraries for TLS take none.

use std::sync::Arc;

use crate::limits::CERTIFICATE_CHAIN_BYTES_MAX;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, PeerMisbehaved, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use types::limits::CERTIFICATE_CHAIN_MAX;
use x509_parser::asn1_rs::Sequence;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked, and cannot show any.
    #[default]
    Off,
    /// They are asked, and may well have none.
    Optional,
}

/// Asks for a certificate of whatever authority, and checks that its key is at hand.
#[derive(Debug)]
pub(super) struct Possession(WebPkiSupportedAlgorithms);

impl Possession {
    pub(super) fn new(provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self(provider.signature_verification_algorithms))
    }
}

impl ClientCertVerifier for Possession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: an empty list means any (RFC 5246 §7.4.4, RFC 8446 §4.2.4). Those of all grid
    /// authorities would take some kilobytes in each handshake, and clients with proxies cannot
    /// match them anyway.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        first: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let bytes: usize = others.iter().map(|certificate| certificate.len()).sum();
        if others.len() >= CERTIFICATE_CHAIN_MAX || first.len() + bytes > CERTIFICATE_CHAIN_BYTES_MAX {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        public_key(first).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = public_key(certificate)?;
        // In TLS 1.2 a scheme says nothing about the curve: the first algorithm for such a key
        // counts.
        let offered = self.0.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = offered.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let fits = algorithms
            .iter()
            .find(|algorithm| is_for(algorithm.public_key_alg_id().as_ref(), &key));
        let algorithm = fits.ok_or(CertificateError::BadSignature)?;
        let checked = algorithm.verify_signature(&key.subject_public_key.data, message, signed.signature());
        checked.map_err(|_| CertificateError::BadSignature)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(public_key(certificate)?.raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Whether a key is one of the algorithm whose identifier has this content (without tag and
/// length).
fn is_for(identifier: &[u8], key: &SubjectPublicKeyInfo<'_>) -> bool {
    let whole = Sequence::from_der(key.raw);
    let first = whole.as_ref().map(|(_, whole)| Sequence::from_der(&whole.content));
    matches!(first, Ok(Ok((_, first))) if first.content == identifier)
}

fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> Result<SubjectPublicKeyInfo<'a>, rustls::Error> {
    let unreadable = CertificateError::BadEncoding;
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| unreadable)?;
    Ok(parsed.tbs_certificate.subject_pki)
}
