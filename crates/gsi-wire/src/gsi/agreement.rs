//! One half of the key agreement (Diffie and Hellman's) as text: the parameters in PEM, and the
//! public value in hexadecimal between marks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::der::{INTEGER, SEQUENCE, element, integer, positive, take};
use super::{Fault, Result};
use crate::to_pem;

const PEM_LABEL: &str = "DH PARAMETERS";
const PEM_BEGIN: &str = "-----BEGIN DH PARAMETERS-----\n";
const PEM_END: &str = "-----END DH PARAMETERS-----\n";
const VALUE_BEGIN: &str = "---BPUB---";
const VALUE_END: &str = "---EPUB---";
/// Bits of the longest prime that is read. XRootD 6 has 3072.
pub const PRIME_BITS_MAX: usize = 4096;
/// Bits of the shortest. XRootD 5 makes primes of 512 bits, and dCache has one.
pub const PRIME_BITS_MIN: usize = 512;

/// Parameters and a public value. Numbers are big-endian without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// The prime.
    pub prime: Vec<u8>,
    /// The generator.
    pub generator: Vec<u8>,
    /// The public value.
    pub value: Vec<u8>,
}

impl Half {
    /// The text to send.
    #[must_use]
    pub fn encode(&self) -> String {
        let content = [integer(&self.prime), integer(&self.generator)].concat();
        let mut text = to_pem(PEM_LABEL, &element(SEQUENCE, &content));
        text.push_str(VALUE_BEGIN);
        for byte in &self.value {
            text.push_str(&format!("{byte:02X}"));
        }
        text.push_str(VALUE_END);
        text
    }

    /// Reads such a text and ignores what follows it.
    ///
    /// # Errors
    /// Something is missing or malformed, a prime shorter than [`PRIME_BITS_MIN`] or longer than
    /// [`PRIME_BITS_MAX`]. The caller checks the numbers themselves.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let broken = Fault("the key agreement is malformed");
        let text = std::str::from_utf8(text).map_err(|_| broken)?;
        let rest = text.strip_prefix(PEM_BEGIN).ok_or(broken)?;
        let (encoded, rest) = rest.split_once(PEM_END).ok_or(broken)?;
        let rest = rest.strip_prefix(VALUE_BEGIN).ok_or(broken)?;
        let (digits, _) = rest.split_once(VALUE_END).ok_or(broken)?;
        let encoded: String = encoded.split_ascii_whitespace().collect();
        let der = STANDARD.decode(encoded).map_err(|_| broken)?;
        let (prime, generator) = parameters(&der).ok_or(broken)?;
        let bits = prime.len() * 8 - prime.first().map_or(0, |byte| byte.leading_zeros() as usize);
        if !(PRIME_BITS_MIN..=PRIME_BITS_MAX).contains(&bits) {
            return Err(Fault("the prime of the key agreement is too short or too long"));
        }
        if generator.len() > prime.len() {
            return Err(broken);
        }
        let value = hexadecimal(digits).filter(|value| value.len() <= PRIME_BITS_MAX / 8);
        Ok(Self {
            prime: prime.to_vec(),
            generator: generator.to_vec(),
            value: value.ok_or(broken)?,
        })
    }
}

/// `SEQUENCE { prime, base, … }` (PKCS #3 §9).
fn parameters(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, behind) = take(SEQUENCE, der)?;
    let (prime, rest) = take(INTEGER, content)?;
    let (generator, _) = take(INTEGER, rest)?;
    behind.is_empty().then_some((positive(prime)?, positive(generator)?))
}

/// Digits in either case, an even number of them; leading zeros are dropped.
fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?));
    let bytes = bytes.collect::<Option<Vec<u8>>>()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec()).filter(|number| !number.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(prime_bytes: usize) -> Half {
        Half {
            prime: vec![0xfb; prime_bytes],
            generator: vec![2],
            value: vec![0x0a; prime_bytes - 1],
        }
    }

    #[test]
    fn a_half_comes_out_as_it_went_in() {
        for bytes in [64, 127, 256, 384, 512] {
            let half = half(bytes);
            let text = half.encode();
            assert_eq!(Half::parse(text.as_bytes()).unwrap(), half, "{bytes}");
            assert_eq!(Half::parse(text.replace("0A", "0a").as_bytes()).unwrap(), half);
        }
    }

    #[test]
    fn primes_out_of_bounds_and_broken_texts_are_refused() {
        assert!(Half::parse(half(63).encode().as_bytes()).is_err());
        assert!(Half::parse(half(513).encode().as_bytes()).is_err());
        let good = half(64).encode();
        for end in 0..good.len() {
            assert!(Half::parse(&good.as_bytes()[..end]).is_err(), "{end}");
        }
        let empty = Half {
            value: Vec::new(),
            ..half(64)
        };
        assert!(Half::parse(empty.encode().as_bytes()).is_err());
    }
}
