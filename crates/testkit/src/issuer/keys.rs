//! The keys of the issuer and their public halves.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RsaKeyPair,
};
use aws_lc_rs::{encoding::AsDer as _, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, RsaKeySize};
use serde_json::json;

use super::TokenAlgorithm;
use crate::{Error, Result};

/// One RSA and one P-256 key.
#[derive(Debug)]
pub(super) struct SigningKeys {
    generation: u32,
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl SigningKeys {
    /// Makes the keys `rsa-N` and `ec-N`.
    pub(super) fn new(generation: u32) -> Result<Self> {
        let fault = |what: &str| Error::Failed(format!("no {what} key"));
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let ec = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        Ok(Self {
            generation,
            rsa: RsaKeyPair::from_pkcs8(&rsa.serialize_der()).map_err(|_| fault("RSA"))?,
            ec: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &ec.serialize_der())
                .map_err(|_| fault("P-256"))?,
        })
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// The name of the key that signs so.
    pub(super) fn key_name(&self, algorithm: TokenAlgorithm) -> String {
        match algorithm {
            TokenAlgorithm::Es256 => format!("ec-{}", self.generation),
            _ => format!("rsa-{}", self.generation),
        }
    }

    pub(super) fn jwks(&self) -> String {
        let rsa = self.rsa.public_key();
        // An uncompressed point: 4, then both coordinates (SEC 1 §2.3.3).
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_name(TokenAlgorithm::Rs256),
             "n": encoded(rsa.modulus().big_endian_without_leading_zero()),
             "e": encoded(rsa.exponent().big_endian_without_leading_zero())},
            {"kty": "EC", "use": "sig", "crv": "P-256", "kid": self.key_name(TokenAlgorithm::Es256),
             "x": encoded(&point[1..33]), "y": encoded(&point[33..65])},
        ]})
        .to_string()
    }

    /// The signature over `message`.
    pub(super) fn sign(&self, algorithm: TokenAlgorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let with_rsa = |padding: &'static dyn aws_lc_rs::signature::RsaEncoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa
                .sign(padding, &random, message, &mut signature)
                .expect("an RSA key of 2048 bits signs");
            signature
        };
        match algorithm {
            TokenAlgorithm::Rs256 => with_rsa(&RSA_PKCS1_SHA256),
            TokenAlgorithm::Rs384 => with_rsa(&RSA_PKCS1_SHA384),
            TokenAlgorithm::Es256 => self
                .ec
                .sign(&random, message)
                .expect("a P-256 key signs")
                .as_ref()
                .to_vec(),
            TokenAlgorithm::Hs256WithPublicKey => {
                let public = self.rsa.public_key().as_der().expect("the key has a DER form");
                let pem = format!(
                    "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
                    base64::engine::general_purpose::STANDARD.encode(public.as_ref())
                );
                let key = hmac::Key::new(hmac::HMAC_SHA256, pem.as_bytes());
                hmac::sign(&key, message).as_ref().to_vec()
            }
            TokenAlgorithm::None => Vec::new(),
        }
    }
}

pub(super) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
