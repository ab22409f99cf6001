//! The bare operations of RSA, for gsi's signatures without a digest, which no well-kept library
//! offers any more. (`aws-lc-rs` does all other work with RSA keys here.)
//!
//! The exponentiations are those of `crypto-bigint`, whose time depends on the length of numbers
//! and not on their values. On top of that the private operation is blinded: what goes through the
//! key is multiplied with a random number first, so that an attacker who chooses the input (a
//! client chooses the tag that a server signs) does not know what is calculated. Its result is
//! checked with the public key before it leaves, because a single wrong result of a calculation
//! with the primes would give them away.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Integer as _, Odd, Resize as _};
use gsi_wire::Certificate;
use gsi_wire::gsi::block::{pad, unpad};
use gsi_wire::gsi::key::{PrivateNumbers, PublicNumbers};
use gsi_wire::gsi::{Fault, Result};

use super::Random;

/// Bits of the shortest modulus that is calculated with. Whether a key of that length is trusted is
/// for the verification of the chain to say.
const MODULUS_BITS_MIN: u32 = 1024;
/// Bits of the longest, so that no peer makes us calculate for seconds.
const MODULUS_BITS_MAX: u32 = 8192;
/// Bits of the longest public exponent.
const EXPONENT_BITS_MAX: u32 = 33;

/// A public key.
#[derive(Clone)]
pub(super) struct RsaPublicKey {
    modulus: BoxedMontyParams,
    exponent: BoxedUint,
}

impl RsaPublicKey {
    /// A key of these numbers.
    ///
    /// # Errors
    /// Numbers that no RSA key has, or far too short or too long ones.
    pub(super) fn new(numbers: &PublicNumbers<'_>) -> Result<Self> {
        let modulus = odd(BoxedUint::from_be_slice_vartime(numbers.modulus))?;
        let exponent = BoxedUint::from_be_slice_vartime(numbers.exponent);
        let bits = modulus.as_ref().bits_vartime();
        if !(MODULUS_BITS_MIN..=MODULUS_BITS_MAX).contains(&bits) || exponent.bits_vartime() > EXPONENT_BITS_MAX {
            return Err(Fault("the RSA key is too short or too long"));
        }
        if !bool::from(exponent.is_odd()) || exponent.bits_vartime() < 2 {
            return Err(Fault("the RSA key is malformed"));
        }
        Ok(Self {
            modulus: BoxedMontyParams::new_vartime(modulus),
            exponent,
        })
    }

    /// The key of a certificate in DER.
    ///
    /// # Errors
    /// As [`RsaPublicKey::new`], and when the certificate is malformed.
    pub(super) fn of_certificate(der: &[u8]) -> Result<Self> {
        let certificate = Certificate::parse(der).map_err(|_| Fault("a certificate is malformed"))?;
        Self::new(&PublicNumbers::of_certificate(&certificate)?)
    }

    /// Bytes of a block: the length of the modulus.
    #[must_use]
    pub(super) fn block_bytes(&self) -> usize {
        self.modulus.modulus().as_ref().bits_vartime().div_ceil(8) as usize
    }

    /// The data that went through the private key, block by block.
    ///
    /// # Errors
    /// Blocks of another length, more data than `bytes_max`, padding that is not whole: it was
    /// another key.
    pub(super) fn open(&self, signed: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
        let length = self.block_bytes();
        if signed.is_empty() || !signed.len().is_multiple_of(length) || signed.len() > bytes_max {
            return Err(Fault("a signature has an impossible length"));
        }
        let mut data = Vec::with_capacity(signed.len());
        for block in signed.chunks(length) {
            let number = self.number(block)?;
            let opened = bytes(&self.power(&number).retrieve(), length);
            data.extend_from_slice(unpad(&opened)?);
        }
        Ok(data)
    }

    fn power(&self, number: &BoxedMontyForm) -> BoxedMontyForm {
        // The exponent is public.
        number.pow_bounded_exp(&self.exponent, self.exponent.bits_vartime())
    }

    /// A block as a number below the modulus.
    fn number(&self, block: &[u8]) -> Result<BoxedMontyForm> {
        let number = BoxedUint::from_be_slice_truncated(block, self.modulus.bits_precision());
        if number.cmp_vartime(self.modulus.modulus().as_ref()).is_ge() {
            return Err(Fault("a signature does not belong to the key"));
        }
        Ok(BoxedMontyForm::new(number, &self.modulus))
    }
}

impl PartialEq for RsaPublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.modulus
            .modulus()
            .as_ref()
            .cmp_vartime(other.modulus.modulus().as_ref())
            .is_eq()
            && self.exponent.cmp_vartime(&other.exponent).is_eq()
    }
}

impl std::fmt::Debug for RsaPublicKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RsaPublicKey({} bytes)", self.block_bytes())
    }
}

/// One prime and what belongs to it.
struct Prime {
    modulus: BoxedMontyParams,
    exponent: BoxedUint,
}

impl Prime {
    fn new(prime: &[u8], exponent: &[u8]) -> Result<Self> {
        let modulus = odd(BoxedUint::from_be_slice_vartime(prime))?;
        let bits = modulus.as_ref().bits_precision();
        let exponent = BoxedUint::from_be_slice(exponent, bits).map_err(|_| MALFORMED)?;
        Ok(Self {
            modulus: BoxedMontyParams::new(modulus),
            exponent,
        })
    }

    /// A number modulo the prime.
    fn reduce(&self, number: &BoxedUint) -> BoxedMontyForm {
        let rest = number.rem(self.modulus.modulus().as_nz_ref());
        BoxedMontyForm::new(rest, &self.modulus)
    }

    fn power(&self, number: &BoxedUint) -> BoxedUint {
        self.reduce(number).pow(&self.exponent).retrieve()
    }
}

const MALFORMED: Fault = Fault("the RSA key is malformed");

/// A private key, and its public part.
pub(super) struct RsaPrivateKey {
    public: RsaPublicKey,
    first: Prime,
    second: Prime,
    /// The inverse of the second prime modulo the first.
    coefficient: BoxedMontyForm,
}

impl RsaPrivateKey {
    /// Reads a key in PKCS #8 or PKCS #1. `aws-lc-rs` says whether its numbers belong together.
    ///
    /// # Errors
    /// It is malformed, of another algorithm, or too short.
    pub(super) fn from_der(der: &[u8]) -> Result<Self> {
        let numbers = PrivateNumbers::parse(der)?;
        let checked = aws_lc_rs::rsa::KeyPair::from_pkcs8(der).or_else(|_| aws_lc_rs::rsa::KeyPair::from_der(der));
        checked.map_err(|_| MALFORMED)?;
        let public = RsaPublicKey::new(&PublicNumbers {
            modulus: &numbers.modulus,
            exponent: &numbers.exponent,
        })?;
        let [first, second] = &numbers.primes;
        let [first_exponent, second_exponent] = &numbers.exponents;
        let first = Prime::new(first, first_exponent)?;
        let second = Prime::new(second, second_exponent)?;
        let coefficient = BoxedUint::from_be_slice_vartime(&numbers.coefficient);
        let coefficient = first.reduce(&coefficient);
        Ok(Self {
            public,
            first,
            second,
            coefficient,
        })
    }

    /// The public key, PEM.
    pub(super) fn public_pem(&self) -> Vec<u8> {
        let modulus = self.public.modulus.modulus().as_ref();
        let numbers = PublicNumbers {
            modulus: &modulus.to_be_bytes_trimmed_vartime(),
            exponent: &self.public.exponent.to_be_bytes_trimmed_vartime(),
        };
        numbers.to_pem()
    }

    /// The public part.
    #[must_use]
    pub(super) fn public(&self) -> &RsaPublicKey {
        &self.public
    }

    /// Sends data through the key, block by block. Never call it with data that a peer chose
    /// freely: the result for the digest of a document would be a signature of it.
    ///
    /// # Errors
    /// The calculation went wrong; nothing of it is given out.
    pub(super) fn seal(&self, data: &[u8], random: &mut Random<'_>) -> Result<Vec<u8>> {
        let blocks = pad(data, self.public.block_bytes()).ok_or(MALFORMED)?;
        let mut sealed = Vec::new();
        for block in blocks {
            sealed.extend(self.one(&block, random)?);
        }
        Ok(sealed)
    }

    fn one(&self, block: &[u8], random: &mut Random<'_>) -> Result<Vec<u8>> {
        let wrong = Fault("a signature could not be calculated");
        let length = self.public.block_bytes();
        let mut blind = vec![0; length];
        random(&mut blind);
        let modulus = &self.public.modulus;
        let blind = BoxedUint::from_be_slice_truncated(&blind, modulus.bits_precision());
        let blind = BoxedMontyForm::new(blind.rem(modulus.modulus().as_nz_ref()), modulus);
        // Only a multiple of a prime has none, and that is never drawn.
        let unblind = blind.invert().into_option().ok_or(wrong)?;
        let input = self.public.number(block)?.mul(&self.public.power(&blind));
        let output = BoxedMontyForm::new(self.power(&input.retrieve()), modulus);
        if self.public.power(&output).retrieve() != input.retrieve() {
            return Err(wrong);
        }
        Ok(bytes(&output.mul(&unblind).retrieve(), length))
    }

    /// The private exponentiation, by way of the primes (RFC 8017 §5.1.2).
    fn power(&self, input: &BoxedUint) -> BoxedUint {
        let at_first = self.first.power(input);
        let at_second = self.second.power(input);
        let difference = self.first.reduce(&at_first).sub(&self.first.reduce(&at_second));
        let factor = difference.mul(&self.coefficient).retrieve();
        let bits = self.public.modulus.bits_precision();
        let second = self.second.modulus.modulus().as_ref();
        let product = factor.resize(bits).wrapping_mul(second.resize(bits));
        product.wrapping_add(at_second.resize(bits))
    }
}

impl std::fmt::Debug for RsaPrivateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RsaPrivateKey")
    }
}

fn odd(number: BoxedUint) -> Result<Odd<BoxedUint>> {
    number.into_odd().into_option().ok_or(MALFORMED)
}

/// The last `length` bytes; those in front are zero.
pub(super) fn bytes(number: &BoxedUint, length: usize) -> Vec<u8> {
    let all = number.to_be_bytes();
    let mut out = vec![0; length.saturating_sub(all.len())];
    out.extend_from_slice(&all[all.len().saturating_sub(length)..]);
    out
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::KeyPair as _;

    use super::*;

    fn fresh(size: KeySize) -> (KeyPair, RsaPrivateKey) {
        let pair = KeyPair::generate(size).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let key = RsaPrivateKey::from_der(der.as_ref()).unwrap();
        (pair, key)
    }

    fn random() -> impl FnMut(&mut [u8]) {
        |out: &mut [u8]| aws_lc_rs::rand::fill(out).unwrap()
    }

    #[test]
    fn data_come_back_through_the_public_key() {
        let (pair, key) = fresh(KeySize::Rsa2048);
        let mut random = random();
        let public = pair.public_key();
        let public = RsaPublicKey::new(&PublicNumbers {
            modulus: public.modulus().big_endian_without_leading_zero(),
            exponent: public.exponent().big_endian_without_leading_zero(),
        });
        let public = public.unwrap();
        assert_eq!(&public, key.public());
        for length in [1, 8, 244, 245, 246, 900] {
            let data: Vec<u8> = (0..length).map(|at: u32| at as u8).collect();
            let sealed = key.seal(&data, &mut random).unwrap();
            assert_eq!(sealed.len(), data.len().div_ceil(245) * 256);
            assert_eq!(public.open(&sealed, 2048).unwrap(), data, "{length}");
            // The same key does the same whatever the blinding was.
            assert_eq!(key.seal(&data, &mut random).unwrap(), sealed);
        }
    }

    /// The digest's name and the digest are what PKCS #1 signatures are made over: what this code
    /// makes of them must be what the library makes.
    #[test]
    fn the_arithmetic_is_that_of_the_library() {
        let (pair, key) = fresh(KeySize::Rsa3072);
        let document = b"a document";
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, document);
        let mut info = vec![
            0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
            0x20,
        ];
        info.extend_from_slice(digest.as_ref());
        let sealed = key.seal(&info, &mut random()).unwrap();
        let mut theirs = vec![0; pair.public_modulus_len()];
        let system = aws_lc_rs::rand::SystemRandom::new();
        pair.sign(&aws_lc_rs::signature::RSA_PKCS1_SHA256, &system, document, &mut theirs)
            .unwrap();
        assert_eq!(sealed, theirs);
    }

    #[test]
    fn other_keys_and_impossible_lengths_are_refused() {
        let (_, key) = fresh(KeySize::Rsa2048);
        let (_, other) = fresh(KeySize::Rsa2048);
        let sealed = key.seal(b"ABCDEFGH", &mut random()).unwrap();
        assert!(key.public().open(&sealed, 256).is_ok());
        assert!(other.public().open(&sealed, 256).is_err());
        assert!(key.public().open(&sealed, 255).is_err());
        for wrong in [&sealed[..255], &[], &[0xff; 256]] {
            assert!(key.public().open(wrong, 4096).is_err());
        }
        let weak = PublicNumbers {
            modulus: &[0xff; 64],
            exponent: &[1, 0, 1],
        };
        assert!(RsaPublicKey::new(&weak).is_err());
        assert!(
            RsaPublicKey::new(&PublicNumbers {
                exponent: &[1],
                modulus: &[0xff; 256]
            })
            .is_err()
        );
        assert!(
            RsaPublicKey::new(&PublicNumbers {
                exponent: &[9; 8],
                modulus: &[0xff; 256]
            })
            .is_err()
        );
    }
}
