//! What we show of ourselves to others: a certificate chain and its private key, as TLS client.
//!
//! The chain may be that of a proxy (RFC 3820). rustls sends a chain as it is; only its own check
//! that chain and key belong together cannot read proxies, so that check is made here.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use gsi_wire::delegation::SignatureKind;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use types::limits::{CERTIFICATE_CHAIN_MAX, CREDENTIAL_FILE_BYTES_MAX};
use types::{Error, ErrorCode, Phase, Side, is_open_to_others};
use zeroize::{Zeroize as _, Zeroizing};

use super::tickets::own_sessions;

/// A certificate chain and its private key. Cheap to clone; two are equal when their chains are.
///
/// Connections of different identities are never exchanged for one another, nor are their TLS
/// sessions. The key is wiped when the last clone is gone, and never printed.
#[derive(Clone)]
pub struct ClientIdentity(Arc<Inner>);

struct Inner {
    certified: Arc<CertifiedKey>,
    key: KeptKey,
    /// SHA-256 of the chain.
    mark: [u8; 32],
    facts: Facts,
    /// The configuration made last: that of the trust it was made from, and ours. Its tickets are
    /// of use only as long as it is kept.
    configured: Mutex<Option<(Arc<ClientConfig>, Arc<ClientConfig>)>>,
}

struct Facts {
    subject: String,
    expires_s: i64,
}

impl Facts {
    fn of(chain: &[CertificateDer<'static>]) -> Result<Self, Error> {
        let mut facts = Self {
            subject: String::new(),
            expires_s: i64::MAX,
        };
        for (place, der) in chain.iter().enumerate() {
            let certificate = gsi_wire::Certificate::parse(der)
                .map_err(|why| unusable(&format!("certificate {} cannot be read: {why}", place + 1)))?;
            facts.expires_s = facts.expires_s.min(certificate.not_after_s());
            if place == 0 {
                facts.subject = certificate.subject().one_line.to_owned();
            }
        }
        Ok(facts)
    }
}

struct KeptKey(PrivateKeyDer<'static>);

impl Drop for KeptKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ClientIdentity {
    /// Reads the chain from `certificate` and the key from `key`, both PEM; a proxy has both in one
    /// file, which is then named twice.
    ///
    /// # Errors
    /// `certificate_unusable`; the detail begins with the file at fault, and says why: unreadable,
    /// too long, a key that others may read or another user owns, an encrypted key, or two that do
    /// not belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let in_file = |file: &Path, why: &str| unusable(&format!("{}: {why}", file.display()));
        let secret = read(key, true).map_err(|why| in_file(key, &why))?;
        let public = if certificate == key {
            secret.clone()
        } else {
            read(certificate, false).map_err(|why| in_file(certificate, &why))?
        };
        let chain = chain_of(&public).map_err(|why| in_file(certificate, &why))?;
        let secret = key_of(&secret).map_err(|why| in_file(key, why))?;
        Self::new(chain, secret).map_err(|error| in_file(certificate, error.detail().unwrap_or_default()))
    }

    /// Takes chain and key from PEM texts, which may be the same.
    ///
    /// # Errors
    /// `certificate_unusable` with the reason.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain = chain_of(certificates).map_err(|why| unusable(&why))?;
        let key = key_of(key).map_err(unusable)?;
        Self::new(chain, key)
    }

    /// Takes a chain, leaf first, and the leaf's private key.
    ///
    /// # Errors
    /// `certificate_unusable` with the reason.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, Error> {
        let key = KeptKey(key);
        let leaf = chain.first().ok_or_else(|| unusable(NO_CERTIFICATE))?;
        if chain.len() > CERTIFICATE_CHAIN_MAX {
            let why = format!("there are more than {CERTIFICATE_CHAIN_MAX} certificates");
            return Err(unusable(&why));
        }
        let signing = any_supported_type(&key.0)
            .map_err(|cause| unusable(&format!("the private key cannot be used: {cause}")))?;
        let facts = Facts::of(&chain)?;
        let certified = gsi_wire::Certificate::parse(leaf).map_err(|why| unusable(&why.to_string()))?;
        if signing
            .public_key()
            .is_some_and(|ours| ours.as_ref() != certified.public_key_info())
        {
            return Err(unusable("the private key is not that of the first certificate"));
        }
        let mut hash = Context::new(&SHA256);
        chain.iter().for_each(|certificate| hash.update(certificate));
        let mut mark = [0; 32];
        mark.copy_from_slice(hash.finish().as_ref());
        Ok(Self(Arc::new(Inner {
            certified: Arc::new(CertifiedKey::new(chain, signing)),
            key,
            mark,
            facts,
            configured: Mutex::new(None),
        })))
    }

    /// The certificates, leaf first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.certified.cert
    }

    /// The subject of the leaf in one line, as `/C=…/O=…/CN=…`.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.facts.subject
    }

    /// When the first of the certificates ends, in seconds since 1970.
    #[must_use]
    pub fn expires_s(&self) -> i64 {
        self.0.facts.expires_s
    }

    /// Signs with the private key as certificates are signed; says how, too.
    ///
    /// # Errors
    /// `certificate_unusable` when the key is of a kind that signs none.
    pub fn sign(&self, message: &[u8]) -> Result<(SignatureKind, Vec<u8>), Error> {
        let kinds = [
            (SignatureScheme::RSA_PKCS1_SHA256, SignatureKind::RsaSha256),
            (SignatureScheme::ECDSA_NISTP256_SHA256, SignatureKind::EcdsaSha256),
            (SignatureScheme::ECDSA_NISTP384_SHA384, SignatureKind::EcdsaSha384),
        ];
        let found = kinds.into_iter().find_map(|(scheme, kind)| {
            let signer = self.0.certified.key.choose_scheme(&[scheme])?;
            Some((kind, signer))
        });
        let (kind, signer) = found.ok_or_else(|| unusable("a key of this kind signs no certificates"))?;
        let signature = signer.sign(message).map_err(|cause| unusable(&cause.to_string()))?;
        Ok((kind, signature))
    }

    /// The private key of the leaf, for protocols that sign with it outside of TLS.
    #[must_use]
    pub fn private_key(&self) -> &PrivateKeyDer<'static> {
        &self.0.key.0
    }

    /// The configuration that shows this identity and trusts whom `base` trusts. Its sessions are
    /// its own: what one identity opened, no other resumes.
    pub(crate) fn configure(&self, base: Arc<ClientConfig>) -> Arc<ClientConfig> {
        let mut kept = self.0.configured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, config)) = kept.as_ref()
            && Arc::ptr_eq(of, &base)
        {
            return Arc::clone(config);
        }
        let mut config = ClientConfig::clone(&base);
        config.client_auth_cert_resolver = Arc::new(Shown(Arc::clone(&self.0.certified)));
        config.resumption = own_sessions();
        let config = Arc::new(config);
        *kept = Some((base, Arc::clone(&config)));
        config
    }
}

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.mark == other.0.mark
    }
}

impl Eq for ClientIdentity {}

impl Hash for ClientIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.mark.hash(state);
    }
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ClientIdentity({} certificates)", self.chain().len())
    }
}

/// The chain is sent to every server that asks for one: the names of authorities that a server
/// sends along say nothing about proxies, and are left out by many servers.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Reads a file of limited size; one with a key must be its owner's alone.
pub(super) fn read(path: &Path, has_key: bool) -> Result<Zeroizing<Vec<u8>>, String> {
    let file = File::open(path).map_err(|cause| cause.to_string())?;
    let facts = file.metadata().map_err(|cause| cause.to_string())?;
    if has_key && is_open_to_others(facts.mode(), facts.uid()) {
        let mode = facts.mode() & 0o777;
        return Err(format!(
            "others may read or write the key (mode {mode:o}); run chmod 600 on it, and replace it if it has been seen"
        ));
    }
    let us = rustix::process::geteuid().as_raw();
    if has_key && ![us, 0].contains(&facts.uid()) && us != 0 {
        return Err(format!("the key belongs to user {}, not to user {us}", facts.uid()));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(CREDENTIAL_FILE_BYTES_MAX + 1));
    let limit = CREDENTIAL_FILE_BYTES_MAX as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|cause| cause.to_string())?;
    if bytes.len() > CREDENTIAL_FILE_BYTES_MAX {
        return Err(format!("the file has more than {CREDENTIAL_FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// What a file without a certificate lacks.
const NO_CERTIFICATE: &str = "there is no certificate";

fn chain_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(NO_CERTIFICATE.to_owned()),
        chain => chain.map_err(|cause| format!("the certificates cannot be read: {cause}")),
    }
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| no_key(pem))
}

/// Why a text holds no usable key.
fn no_key(text: &[u8]) -> &'static str {
    let has = |words: &[u8]| text.windows(words.len()).any(|part| part == words);
    if has(b"ENCRYPTED") {
        "the private key is protected by a passphrase; make a proxy, or decrypt it into a file of your own"
    } else {
        "there is no private key"
    }
}

fn unusable(why: &str) -> Error {
    Error::new(ErrorCode::CertificateUnusable, Side::Active, Phase::Tls).with_detail(why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn made(name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn words(result: Result<ClientIdentity, Error>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::CertificateUnusable);
        error.public()
    }

    #[test]
    fn chain_and_key_must_belong_together() {
        let ((ours, our_key), (theirs, _)) = (made("ours"), made("theirs"));
        let identity = ClientIdentity::from_pem(ours.as_bytes(), our_key.as_bytes()).unwrap();
        assert!(!format!("{identity:?}").contains("KEY"));
        assert_eq!(
            identity,
            ClientIdentity::from_pem(ours.as_bytes(), our_key.as_bytes()).unwrap()
        );
        let other = words(ClientIdentity::from_pem(theirs.as_bytes(), our_key.as_bytes()));
        assert!(other.contains("not that of the first certificate"), "{other}");
        let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert!(words(ClientIdentity::from_pem(ours.as_bytes(), encrypted)).contains("passphrase"));
        assert!(words(ClientIdentity::from_pem(ours.as_bytes(), b"")).contains("no private key"));
        assert!(words(ClientIdentity::from_pem(b"", our_key.as_bytes())).contains("no certificate"));
        let many = ours.repeat(CERTIFICATE_CHAIN_MAX + 1);
        assert!(words(ClientIdentity::from_pem(many.as_bytes(), our_key.as_bytes())).contains("more than"));
    }

    #[test]
    fn a_key_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = made("ours");
        let file = directory.path().join("proxy.pem");
        std::fs::write(&file, certificate + &key).unwrap();
        for (mode, usable) in [(0o600, true), (0o400, true), (0o660, false), (0o604, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let loaded = ClientIdentity::load(&file, &file);
            assert_eq!(loaded.is_ok(), usable, "{mode:o}");
            if !usable {
                let said = words(loaded);
                assert!(said.contains("chmod 600") && said.contains("proxy.pem"), "{said}");
            }
        }
        std::fs::write(&file, vec![b'x'; CREDENTIAL_FILE_BYTES_MAX + 1]).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(words(ClientIdentity::load(&file, &file)).contains("bytes"));
    }
}
