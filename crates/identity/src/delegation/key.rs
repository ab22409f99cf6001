//! A key that is made here for a proxy, and the request for it.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use gsi_wire::delegation::{SignatureKind, certificate_request, proxy_extensions};
use gsi_wire::{Certificate, encode, to_pem};
use net::tls::ClientIdentity;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use types::{Error, ErrorCode, Phase, Result, Side};
use zeroize::Zeroizing;

/// A key that is made here for a client's proxy.
///
/// An RSA key of 2048 bits: every grid program takes it, and `gsi` knows no other kind.
pub struct DelegatedKey {
    pair: KeyPair,
    /// Its public half, as certificates have it.
    public: Vec<u8>,
}

impl DelegatedKey {
    /// Makes one. It takes a fraction of a second of computing: not for a thread that serves
    /// others.
    ///
    /// # Errors
    /// `internal` when the library fails.
    pub fn generate() -> Result<Self> {
        Self::of(KeyPair::generate(KeySize::Rsa2048).map_err(|_| internal("no key can be made"))?)
    }

    /// Reads what [`DelegatedKey::to_pkcs8`] wrote.
    ///
    /// # Errors
    /// `internal` for anything else.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self> {
        Self::of(KeyPair::from_pkcs8(der).map_err(|_| internal("a stored key cannot be read"))?)
    }

    /// The private key, as PKCS #8 in DER.
    ///
    /// # Errors
    /// `internal` when the library fails.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>> {
        let der = self.pair.as_der().map_err(|_| internal("the key cannot be written"))?;
        let der: Pkcs8V1Der<'static> = der;
        Ok(Zeroizing::new(der.as_ref().to_vec()))
    }

    fn of(pair: KeyPair) -> Result<Self> {
        let public: PublicKeyX509Der<'static> = pair
            .public_key()
            .as_der()
            .map_err(|_| internal("the key cannot be written"))?;
        let public = public.as_ref().to_vec();
        Ok(Self { pair, public })
    }

    /// The request to be signed, in PEM. Its name means nothing: the signer gives the proxy its
    /// own.
    ///
    /// # Errors
    /// `internal` when the library fails.
    pub fn request(&self) -> Result<String> {
        let word = encode::sequence(&[
            &encode::object_identifier("2.5.4.3"),
            &encode::utf8_string("delegation"),
        ]);
        let name = encode::sequence(&[&encode::set(&[&word])]);
        self.request_of(&name, &[])
    }

    /// The request to be signed, in PEM, for a proxy with this name (DER).
    pub(super) fn proxy_request(&self, name: &[u8]) -> Result<String> {
        self.request_of(name, &proxy_extensions())
    }

    fn request_of(&self, name: &[u8], extensions: &[Vec<u8>]) -> Result<String> {
        let kind = SignatureKind::RsaSha256;
        let request = certificate_request(name, &self.public, extensions, kind, |content| {
            let mut signature = vec![0; self.pair.public_modulus_len()];
            self.pair
                .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content, &mut signature)
                .map_err(|_| internal("the request cannot be signed"))?;
            Ok::<_, Error>(signature)
        })?;
        Ok(to_pem("CERTIFICATE REQUEST", &request))
    }

    /// Whether a certificate is for this key.
    pub(super) fn is_that_of(&self, certificate: &[u8]) -> bool {
        Certificate::parse(certificate).is_ok_and(|certificate| certificate.public_key_info() == self.public)
    }

    /// The key with the chain that was signed for it.
    pub(super) fn into_identity(self, chain: Vec<CertificateDer<'static>>) -> Result<ClientIdentity> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.to_pkcs8()?.to_vec()));
        ClientIdentity::new(chain, key)
    }
}

impl std::fmt::Debug for DelegatedKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DelegatedKey")
    }
}

fn internal(why: &'static str) -> Error {
    Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate).with_private(why)
}
