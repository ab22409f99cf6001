//! The numbers of RSA keys, as DER has them.

use zeroize::Zeroizing;

use super::der::{
    BIT_STRING, INTEGER, NULL, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, element, integer, positive, take,
};
use super::{Fault, Result};
use crate::{Certificate, to_pem};

/// `rsaEncryption` (RFC 8017 appendix A.1).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// An RSA public key; numbers are big-endian without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicNumbers<'a> {
    /// The modulus.
    pub modulus: &'a [u8],
    /// The exponent.
    pub exponent: &'a [u8],
}

impl<'a> PublicNumbers<'a> {
    /// Reads a `SubjectPublicKeyInfo` (RFC 5280 §4.1).
    ///
    /// # Errors
    /// It is malformed, or the key of another algorithm.
    pub fn parse(der: &'a [u8]) -> Result<Self> {
        let parse = || {
            let (content, _) = take(SEQUENCE, der)?;
            let (algorithm, rest) = take(SEQUENCE, content)?;
            let (name, _) = take(OBJECT_IDENTIFIER, algorithm)?;
            let (bits, _) = take(BIT_STRING, rest)?;
            let (key, _) = take(SEQUENCE, bits.strip_prefix(&[0]).filter(|_| name == RSA)?)?;
            let (modulus, rest) = take(INTEGER, key)?;
            let (exponent, _) = take(INTEGER, rest)?;
            Some(Self {
                modulus: positive(modulus)?,
                exponent: positive(exponent)?,
            })
        };
        parse().ok_or(Fault("the public key is none of RSA"))
    }

    /// The same as a `SubjectPublicKeyInfo` in PEM (RFC 7468 §13).
    #[must_use]
    pub fn to_pem(&self) -> Vec<u8> {
        let key = element(SEQUENCE, &[integer(self.modulus), integer(self.exponent)].concat());
        let bits = element(BIT_STRING, &[&[0], &key[..]].concat());
        let algorithm = [element(OBJECT_IDENTIFIER, RSA), element(NULL, &[])].concat();
        let info = element(SEQUENCE, &[element(SEQUENCE, &algorithm), bits].concat());
        to_pem("PUBLIC KEY", &info).into_bytes()
    }

    /// The key of a certificate.
    ///
    /// # Errors
    /// It is of another algorithm.
    pub fn of_certificate(certificate: &Certificate<'a>) -> Result<Self> {
        Self::parse(certificate.public_key_info())
    }
}

/// An RSA private key with its primes; numbers are big-endian without leading zeros. Secret.
pub struct PrivateNumbers {
    /// The modulus, which is public.
    pub modulus: Vec<u8>,
    /// The public exponent.
    pub exponent: Vec<u8>,
    /// The primes.
    pub primes: [Zeroizing<Vec<u8>>; 2],
    /// The private exponent, modulo each prime less one.
    pub exponents: [Zeroizing<Vec<u8>>; 2],
    /// The inverse of the second prime modulo the first.
    pub coefficient: Zeroizing<Vec<u8>>,
}

impl PrivateNumbers {
    /// Reads a key in the form of PKCS #8 (RFC 5208) or PKCS #1 (RFC 8017 appendix A.1.2).
    ///
    /// # Errors
    /// It is malformed, of another algorithm, or has more than two primes.
    pub fn parse(der: &[u8]) -> Result<Self> {
        let inner = pkcs8(der).unwrap_or(der);
        pkcs1(inner).ok_or(Fault("the private key is none of RSA"))
    }
}

impl std::fmt::Debug for PrivateNumbers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PrivateNumbers")
    }
}

fn pkcs8(der: &[u8]) -> Option<&[u8]> {
    let (content, _) = take(SEQUENCE, der)?;
    let (_, rest) = take(INTEGER, content)?;
    let (algorithm, rest) = take(SEQUENCE, rest)?;
    let (name, _) = take(OBJECT_IDENTIFIER, algorithm)?;
    let (key, _) = take(OCTET_STRING, rest)?;
    (name == RSA).then_some(key)
}

fn pkcs1(der: &[u8]) -> Option<PrivateNumbers> {
    let (content, _) = take(SEQUENCE, der)?;
    let (version, mut rest) = take(INTEGER, content)?;
    if version != [0] {
        return None;
    }
    let mut next = || {
        let (number, behind) = take(INTEGER, rest)?;
        rest = behind;
        positive(number)
    };
    let (modulus, exponent) = (next()?.to_vec(), next()?.to_vec());
    let _whole_exponent = next()?;
    let mut secret = || next().map(|number| Zeroizing::new(number.to_vec()));
    Some(PrivateNumbers {
        modulus,
        exponent,
        primes: [secret()?, secret()?],
        exponents: [secret()?, secret()?],
        coefficient: secret()?,
    })
}
