//! Cipher suites one by one: what a measurement compares. Connections otherwise offer them all.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, ClientConfig, ProtocolVersion, SupportedCipherSuite};
use types::{Error, ErrorCode, Phase, Side};

use super::crypto;
use super::tickets::own_sessions;

/// One of the cipher suites that connections offer.
#[derive(Clone, Copy, PartialEq)]
pub struct Suite(SupportedCipherSuite);

impl Suite {
    /// All that connections offer, the preferred ones first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        crypto().cipher_suites.iter().copied().map(Self).collect()
    }

    /// The version of TLS that it belongs to.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self.is_tls13() {
            true => "TLS 1.3",
            false => "TLS 1.2",
        }
    }

    /// Whether it belongs to TLS 1.3.
    #[must_use]
    pub fn is_tls13(self) -> bool {
        self.0.version().version == ProtocolVersion::TLSv1_3
    }

    /// The cipher, and in TLS 1.2 the signature of the server's certificate, which the suite names
    /// there.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "AES-128-GCM",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "AES-256-GCM",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "ChaCha20-Poly1305",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDSA AES-128-GCM",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "RSA AES-128-GCM",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDSA AES-256-GCM",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "RSA AES-256-GCM",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDSA ChaCha20-Poly1305",
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "RSA ChaCha20-Poly1305",
            _ => "another",
        }
    }

    /// A configuration that offers nothing else, with sessions of its own; none are resumed unless
    /// `resumes`.
    pub(super) fn configure(
        self,
        base: &ClientConfig,
        verifier: Arc<dyn rustls::client::danger::ServerCertVerifier>,
        resumes: bool,
    ) -> Result<ClientConfig, Error> {
        let provider = CryptoProvider {
            cipher_suites: vec![self.0],
            ..CryptoProvider::clone(&crypto())
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[self.0.version()])
            .map_err(|cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Tls).with_private(cause))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.enable_secret_extraction = base.enable_secret_extraction;
        config.alpn_protocols.clone_from(&base.alpn_protocols);
        config.resumption = match resumes {
            true => own_sessions(),
            false => Resumption::disabled(),
        };
        Ok(config)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", self.version(), self.name())
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Suite({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_on_offer_has_a_name_of_its_own() {
        let mut names: Vec<String> = Suite::all().iter().map(ToString::to_string).collect();
        assert!(names.iter().all(|name| !name.contains("another")), "{names:?}");
        assert_eq!(names[0], "TLS 1.3, AES-128-GCM");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
