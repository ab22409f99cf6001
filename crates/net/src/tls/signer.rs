//! Whose code signs handshakes: an RSA signature is most of what a full one costs a server.
//!
//! As with the ciphers of records (`cipher.rs`) there are two libraries of one ancestor.
//! `aws-lc-rs` has code of its own for processors that multiply integers of 52 bits in AVX-512; on
//! all others with x86-64 `ring` takes a little less time
//! (`docs/experiments/2026-11-26-rsa-signatures.md`). Both check a signature before it leaves.

use std::sync::Arc;

use rustls::crypto::{KeyProvider, aws_lc_rs, ring};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureAlgorithm};
use rustls_pki_types::PrivateKeyDer;

/// Takes private keys in, each for the library that signs faster with it. `aws-lc-rs` knows all
/// kinds.
#[derive(Debug)]
pub struct FasterSigner;

impl KeyProvider for FasterSigner {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        signing_key(&key)
    }
}

/// As [`FasterSigner`] takes it in.
pub(super) fn signing_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, Error> {
    let signing = aws_lc_rs::sign::any_supported_type(key)?;
    let is_slow = signing.algorithm() == SignatureAlgorithm::RSA && !has_wide_multiplication();
    Ok(is_slow.then(|| of_ring(key)).flatten().unwrap_or(signing))
}

/// `None` for what it cannot use, such as keys of more than 4096 bits.
fn of_ring(key: &PrivateKeyDer<'_>) -> Option<Arc<dyn SigningKey>> {
    ring::sign::any_supported_type(key).ok()
}

/// Asks for exactly what `aws-lc-rs` asks for before it uses its fastest code, which does for keys
/// of 2048, 3072 and 4096 bits. On other architectures it has more of its own.
fn has_wide_multiplication() -> bool {
    #[cfg(target_arch = "x86_64")]
    return records::has_avx512() && is_x86_feature_detected!("avx512ifma");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

#[cfg(test)]
mod tests {
    use ::aws_lc_rs::signature::{self, KeyPair as _, RsaKeyPair, RsaParameters, UnparsedPublicKey};
    use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
    use rustls::SignatureScheme;

    use super::*;

    fn der(key: &KeyPair) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(key.serialize_der()).unwrap()
    }

    #[test]
    fn what_one_library_signs_the_other_finds_good_in_every_scheme() {
        let key = der(&KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap());
        let public = RsaKeyPair::from_pkcs8(key.secret_der()).unwrap().public_key().clone();
        let schemes: [(_, &RsaParameters); 6] = [
            (SignatureScheme::RSA_PSS_SHA256, &signature::RSA_PSS_2048_8192_SHA256),
            (SignatureScheme::RSA_PSS_SHA384, &signature::RSA_PSS_2048_8192_SHA384),
            (SignatureScheme::RSA_PSS_SHA512, &signature::RSA_PSS_2048_8192_SHA512),
            (
                SignatureScheme::RSA_PKCS1_SHA256,
                &signature::RSA_PKCS1_2048_8192_SHA256,
            ),
            (
                SignatureScheme::RSA_PKCS1_SHA384,
                &signature::RSA_PKCS1_2048_8192_SHA384,
            ),
            (
                SignatureScheme::RSA_PKCS1_SHA512,
                &signature::RSA_PKCS1_2048_8192_SHA512,
            ),
        ];
        for signing in [
            of_ring(&key).unwrap(),
            FasterSigner.load_private_key(key.clone_key()).unwrap(),
        ] {
            for (scheme, verifies) in schemes {
                let signer = signing.choose_scheme(&[scheme]).unwrap();
                let signature = signer.sign(b"a transcript").unwrap();
                let public = UnparsedPublicKey::new(verifies, public.as_ref());
                assert!(public.verify(b"a transcript", &signature).is_ok(), "{scheme:?}");
                assert!(public.verify(b"another one", &signature).is_err(), "{scheme:?}");
            }
        }
    }

    #[test]
    fn keys_that_one_library_does_not_know_are_of_use_all_the_same() {
        let key = der(&KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).unwrap());
        assert!(of_ring(&key).is_none());
        let signing = FasterSigner.load_private_key(key).unwrap();
        assert_eq!(signing.algorithm(), SignatureAlgorithm::ECDSA);
    }
}
