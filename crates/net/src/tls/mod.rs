//! TLS configurations and handshakes. rustls decides everything here; when a handshake is done the
//! traffic secrets go to `record`.

mod client;
mod handshake;
mod identity;
mod secp521r1;
mod secrets;
mod server;
mod sessions;
mod shown;
mod suite;
mod tickets;
mod trust;
mod words;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs as provider;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use types::{Error, ErrorCode, Phase, Side};

pub use client::ClientTls;
pub(crate) use handshake::{Handshake, Step, TlsSession};
pub use identity::ClientIdentity;
pub use secrets::record_keys;
pub use server::ServerTls;
pub use shown::ClientCertificates;
pub use suite::Suite;
pub use trust::{Trust, Trusted, system_authorities};
pub(crate) use words::alert_words;
use words::words;

/// The key exchange, suites and versions on offer, and who signs. AES-128-GCM comes first: it is as
/// safe as AES-256 against everything known and costs a tenth less per byte.
fn crypto() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    provider.cipher_suites = vec![
        provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS13_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        provider::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    // Last: the curve costs most. ARC's clients offer no other.
    provider.kx_groups.push(&secp521r1::Secp521r1);
    Arc::new(provider)
}

/// Names of the groups for key exchange on offer, the preferred ones first.
fn group_names() -> String {
    let groups = crypto()
        .kx_groups
        .iter()
        .map(|group| format!("{:?}", group.name()))
        .collect::<Vec<_>>();
    groups.join(", ")
}

/// The only application protocol of the data door (RFC 7301): storage clients need no other.
const ALPN: &[u8] = b"http/1.1";

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|cause| config_error(file, &format!("the certificates cannot be read: {cause}")))
}

fn config_error(file: &Path, why: &str) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Active, Phase::Tls).with_detail(format!("{}: {why}", file.display()))
}
