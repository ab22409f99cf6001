//! The signatures that are accepted, in certificates of every kind: RSA from 2048 bits on, and
//! ECDSA on P-256 and P-384, with SHA-256 or longer.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use gsi_wire::delegation::CertificateRequest;
use gsi_wire::{Certificate, PublicKeyKind};
use rustls_pki_types::SignatureVerificationAlgorithm;
use types::{Error, ErrorCode};

use super::refused;

/// Fewest bits of an RSA key.
const RSA_BITS_MIN: usize = 2048;

/// All algorithms that are accepted.
pub(super) static ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA256,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA384,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA512,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
    webpki::aws_lc_rs::ECDSA_P256_SHA256,
    webpki::aws_lc_rs::ECDSA_P256_SHA384,
    webpki::aws_lc_rs::ECDSA_P256_SHA512,
    webpki::aws_lc_rs::ECDSA_P384_SHA256,
    webpki::aws_lc_rs::ECDSA_P384_SHA384,
    webpki::aws_lc_rs::ECDSA_P384_SHA512,
];

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureFault {
    /// Its algorithm, or the key, is not one of ours.
    Weak,
    /// It does not belong to what it signs.
    Wrong,
}

impl SignatureFault {
    /// The refusal of the certificate that is called `whose`.
    pub(super) fn refuse(self, whose: &str) -> Error {
        match self {
            Self::Weak => refused(
                ErrorCode::CertificateWeak,
                format!("{whose} is signed in a way, or by a key, that is not accepted"),
            ),
            Self::Wrong => refused(
                ErrorCode::CertificateSignature,
                format!("{whose} was altered, or its issuer did not sign it"),
            ),
        }
    }
}

/// Checks that the key of `signer` made `signature` over `message`; `algorithm` is the content of
/// the signature's `AlgorithmIdentifier`.
pub(super) fn verify(
    signer: &Certificate<'_>,
    algorithm: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), SignatureFault> {
    if !is_strong(signer.public_key_kind()) {
        return Err(SignatureFault::Weak);
    }
    let key = PublicKey {
        algorithm: signer.key_algorithm_content(),
        bits: signer.public_key(),
    };
    verify_with(key, algorithm, message, signature)
}

/// The digests that proxies may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyDigests {
    /// Those that every certificate may have.
    Strong,
    /// SHA-1 too. An attacker who makes a user sign one of two proxies with the same SHA-1 has a
    /// proxy of that user anyway.
    AlsoSha1,
}

/// The content of the `AlgorithmIdentifier` of RSA with SHA-1 (RFC 3279 §2.2.1).
const RSA_SHA1: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05, 0x05, 0x00,
];

/// Checks that the key of `signer` signed a proxy.
pub(super) fn verify_proxy(
    signer: &Certificate<'_>,
    proxy: &Certificate<'_>,
    digests: ProxyDigests,
) -> Result<(), SignatureFault> {
    let algorithm = proxy.signature_algorithm_content();
    if digests == ProxyDigests::Strong || algorithm != RSA_SHA1 {
        return verify(signer, algorithm, proxy.signed_part(), proxy.signature());
    }
    if !matches!(signer.public_key_kind(), PublicKeyKind::Rsa(bits) if bits >= RSA_BITS_MIN) {
        return Err(SignatureFault::Weak);
    }
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, signer.public_key());
    key.verify(proxy.signed_part(), proxy.signature())
        .map_err(|_| SignatureFault::Wrong)
}

/// Whether a proxy of a chain (DER) is signed with SHA-1, as XRootD 5 signs them. Such a chain
/// is of use in `gsi` only: servers refuse it over TLS.
#[must_use]
pub fn has_sha1_proxy<'c>(chain: impl IntoIterator<Item = &'c [u8]>) -> bool {
    let parsed = chain.into_iter().filter_map(|der| Certificate::parse(der).ok());
    let mut proxies = parsed.filter(|certificate| certificate.proxy_kind().is_ok_and(|kind| kind.is_some()));
    proxies.any(|proxy| proxy.signature_algorithm_content() == RSA_SHA1)
}

/// A public key.
struct PublicKey<'a> {
    /// The content of its `AlgorithmIdentifier`.
    algorithm: &'a [u8],
    bits: &'a [u8],
}

/// As [`verify`], with a key that is in no certificate.
fn verify_with(key: PublicKey<'_>, algorithm: &[u8], message: &[u8], signature: &[u8]) -> Result<(), SignatureFault> {
    let found = ALGORITHMS.iter().find(|candidate| {
        candidate.signature_alg_id().as_ref() == algorithm && candidate.public_key_alg_id().as_ref() == key.algorithm
    });
    found
        .ok_or(SignatureFault::Weak)?
        .verify_signature(key.bits, message, signature)
        .map_err(|_| SignatureFault::Wrong)
}

/// Checks that the sender of a certificate request holds its key (RFC 2986 §3), and that the key is
/// strong enough for a certificate. SHA-1 is accepted here: a forged signature is of no use
/// without the key, and XRootD 5 signs its requests for proxies with it.
///
/// # Errors
/// `certificate_weak`, `certificate_signature`.
pub fn verify_request(request: &CertificateRequest<'_>) -> Result<(), Error> {
    check_key_kind(request.public_key_kind(), "the request")?;
    let (algorithm, signature) = (request.signature_algorithm_content, request.signature);
    if algorithm == RSA_SHA1 {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, request.public_key);
        let verified = key.verify(request.signed_part, signature);
        return verified.map_err(|_| SignatureFault::Wrong.refuse("the request"));
    }
    let key = PublicKey {
        algorithm: request.key_algorithm_content,
        bits: request.public_key,
    };
    verify_with(key, algorithm, request.signed_part, signature).map_err(|fault| fault.refuse("the request"))
}

/// Whether the key in `issuer` has signed `certificate`, both as DER. A signature of a kind that is
/// not accepted counts as such, since nothing is known of it; what cannot be read has signed
/// nothing.
#[must_use]
pub fn has_signed(issuer: &[u8], certificate: &[u8]) -> bool {
    let (Ok(issuer), Ok(certificate)) = (Certificate::parse(issuer), Certificate::parse(certificate)) else {
        return false;
    };
    let algorithm = certificate.signature_algorithm_content();
    let verified = verify(&issuer, algorithm, certificate.signed_part(), certificate.signature());
    verified != Err(SignatureFault::Wrong)
}

fn is_strong(key: PublicKeyKind) -> bool {
    match key {
        PublicKeyKind::Rsa(bits) => bits >= RSA_BITS_MIN,
        PublicKeyKind::EcP256 | PublicKeyKind::EcP384 => true,
        PublicKeyKind::Ed25519 | PublicKeyKind::Other => false,
    }
}

/// Refuses a certificate whose own key is too weak to trust what it signs.
///
/// # Errors
/// `certificate_weak`.
pub(super) fn check_key(certificate: &Certificate<'_>, whose: &str) -> Result<(), Error> {
    check_key_kind(certificate.public_key_kind(), whose)
}

fn check_key_kind(kind: PublicKeyKind, whose: &str) -> Result<(), Error> {
    if is_strong(kind) {
        return Ok(());
    }
    let key = match kind {
        PublicKeyKind::Rsa(bits) => format!("an RSA key of only {bits} bits"),
        _ => "a key of a kind that is not accepted".to_owned(),
    };
    Err(refused(ErrorCode::CertificateWeak, format!("{whose} has {key}")))
}
