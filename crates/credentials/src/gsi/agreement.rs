//! The key agreement of gsi: Diffie and Hellman's, modulo a prime that the server chooses.
//!
//! As a server we use `ffdhe2048` (RFC 7919 appendix A.1), whose prime is safe. As a client we have
//! to take what comes: XRootD 5 makes a fresh prime of 512 bits when it starts, which does not
//! protect against an attacker who records the traffic and has some weeks. It protects only the
//! client's chain, which is no secret; a signature proves the client's identity. Confidential data
//! need TLS in any case.

use crypto_bigint::BoxedUint;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use gsi_wire::gsi::agreement::Half;
use gsi_wire::gsi::{CIPHER_KEY_BYTES, Fault, Result};
use zeroize::Zeroizing;

use super::Random;
use super::cipher::SessionKey;
use super::rsa::bytes;

/// Bytes of our secret exponent: twice the strength that 2048 bits have, and more (RFC 7919 §5.2).
const SECRET_BYTES: usize = 32;

/// The prime of `ffdhe2048` (RFC 7919 appendix A.1).
const FFDHE2048: &str = "\
    FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF97D2FE363630C75D8\
    F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935984F0C70E0E68B77E2A689DAF3EFE872\
    1DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FBB96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB19\
    0B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F619172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005\
    C58EF1837D1683B2C6F34A26C1B2EFFA886B423861285C97FFFFFFFFFFFFFFFF";

/// Our half of an agreement, with its secret.
pub(super) struct Agreement {
    modulus: BoxedMontyParams,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    half: Half,
}

impl Agreement {
    /// A fresh one of a server.
    pub(super) fn offer(random: &mut Random<'_>) -> Result<Self> {
        let digits = FFDHE2048.as_bytes().as_chunks::<2>().0.iter();
        let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let prime = digits.map(|[high, low]| nibble(*high) << 4 | nibble(*low)).collect();
        Self::new(prime, vec![2], random)
    }

    /// A fresh one of a client, with the parameters that the server chose.
    pub(super) fn answer(theirs: &Half, random: &mut Random<'_>) -> Result<Self> {
        Self::new(theirs.prime.clone(), theirs.generator.clone(), random)
    }

    fn new(prime: Vec<u8>, generator: Vec<u8>, random: &mut Random<'_>) -> Result<Self> {
        let modulus = BoxedUint::from_be_slice_vartime(&prime).into_odd().into_option();
        let modulus = modulus.ok_or(Fault("the prime of the key agreement is even"))?;
        let modulus = BoxedMontyParams::new_vartime(modulus);
        let base = element(&modulus, &generator).ok_or(Fault("the generator of the key agreement is out of bounds"))?;
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        random(&mut secret[..]);
        let value = power(&base, &secret);
        Ok(Self {
            half: Half {
                prime,
                generator,
                value: value.to_be_bytes_trimmed_vartime().into_vec(),
            },
            modulus,
            secret,
        })
    }

    /// What the other end is to see of it.
    pub(super) fn half(&self) -> &Half {
        &self.half
    }

    /// The key that both halves make; `pads` says that the secret is padded to the prime's length
    /// first.
    ///
    /// # Errors
    /// The other half has other parameters, or a value with which the key would be known to
    /// anybody.
    pub(super) fn key(&self, theirs: &Half, pads: bool) -> Result<SessionKey> {
        if (&theirs.prime, &theirs.generator) != (&self.half.prime, &self.half.generator) {
            return Err(Fault("the key agreement has other parameters than ours"));
        }
        let value = element(&self.modulus, &theirs.value);
        let value = value.ok_or(Fault("the value of the key agreement is out of bounds"))?;
        let shared = power(&value, &self.secret);
        let shared = Zeroizing::new(match pads {
            true => bytes(&shared, self.half.prime.len()),
            false => shared.to_be_bytes_trimmed_vartime().into_vec(),
        });
        let key = shared.first_chunk::<CIPHER_KEY_BYTES>();
        Ok(SessionKey::new(*key.ok_or(Fault("the key agreement has no result"))?))
    }
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Agreement")
    }
}

/// A number from 2 up to the prime less 2: the others generate next to nothing.
fn element(modulus: &BoxedMontyParams, number: &[u8]) -> Option<BoxedMontyForm> {
    let prime = modulus.modulus().as_ref();
    if number.len() * 8 > prime.bits_precision() as usize {
        return None;
    }
    let number = BoxedUint::from_be_slice_truncated(number, prime.bits_precision());
    let one = BoxedUint::one_with_precision(prime.bits_precision());
    let last = prime.wrapping_sub(&one);
    let is_inside = number.cmp_vartime(&one).is_gt() && number.cmp_vartime(&last).is_lt();
    is_inside.then(|| BoxedMontyForm::new(number, modulus))
}

fn power(base: &BoxedMontyForm, secret: &[u8; SECRET_BYTES]) -> BoxedUint {
    let exponent = BoxedUint::from_be_slice_truncated(secret, SECRET_BYTES as u32 * 8);
    base.pow(&exponent).retrieve()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> impl FnMut(&mut [u8]) {
        |out: &mut [u8]| aws_lc_rs::rand::fill(out).unwrap()
    }

    #[test]
    fn both_ends_get_the_same_key() {
        let mut random = random();
        let server = Agreement::offer(&mut random).unwrap();
        assert_eq!(server.half().prime.len(), 256);
        let client = Agreement::answer(server.half(), &mut random).unwrap();
        let at_server = server.key(client.half(), true).unwrap();
        let at_client = client.key(server.half(), true).unwrap();
        let sealed = at_server.encrypt(b"hello", &mut random).unwrap();
        assert_eq!(at_client.decrypt(&sealed).unwrap(), b"hello");
    }

    #[test]
    fn values_that_give_the_key_away_are_refused() {
        let mut random = random();
        let ours = Agreement::offer(&mut random).unwrap();
        let mut last = ours.half().prime.clone();
        *last.last_mut().unwrap() -= 1;
        let mut above = ours.half().prime.clone();
        above.push(0);
        for value in [vec![0], vec![1], last, ours.half().prime.clone(), above] {
            let theirs = Half {
                value,
                ..ours.half().clone()
            };
            assert!(ours.key(&theirs, true).is_err());
        }
        let other = Half {
            generator: vec![5],
            ..ours.half().clone()
        };
        assert!(ours.key(&other, true).is_err());
        assert!(
            Agreement::answer(
                &Half {
                    generator: vec![1],
                    ..other
                },
                &mut random
            )
            .is_err()
        );
    }
}
