//! The ciphers of records, each from the library that is faster on this processor.
//!
//! `aws-lc-rs` and `ring` share an ancestor and an interface, and differ in AES-GCM. `aws-lc-rs`
//! uses vector AES only together with AVX-512; `ring` uses it with AVX2 too. On processors with
//! AVX2 but without AVX-512 (AMD before Zen 4, Intel's small cores) `ring` takes half the time
//! (`docs/experiments/2026-11-23-cipher-library.md`), so it encrypts payload there. Everything else
//! uses `aws-lc-rs`.

use aws_lc_rs::aead as aws;
use ring::aead as ring;

/// Length of the nonce of every cipher here.
pub const NONCE_BYTES: usize = 12;
/// Length of the tag of every cipher here.
pub const TAG_BYTES: usize = 16;

/// Which cipher a key is for (RFC 8446 §B.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-GCM with a key of 128 bits.
    Aes128Gcm,
    /// AES-GCM with a key of 256 bits.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Algorithm {
    /// Length of its key.
    #[must_use]
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    fn of_aws(self) -> &'static aws::Algorithm {
        match self {
            Self::Aes128Gcm => &aws::AES_128_GCM,
            Self::Aes256Gcm => &aws::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aws::CHACHA20_POLY1305,
        }
    }

    fn of_ring(self) -> &'static ring::Algorithm {
        match self {
            Self::Aes128Gcm => &ring::AES_128_GCM,
            Self::Aes256Gcm => &ring::AES_256_GCM,
            Self::ChaCha20Poly1305 => &ring::CHACHA20_POLY1305,
        }
    }
}

/// The library whose code does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    AwsLc,
    Ring,
}

impl Library {
    /// The faster one on this processor.
    fn faster(algorithm: Algorithm) -> Self {
        if algorithm == Algorithm::ChaCha20Poly1305 || !has_vector_aes_without_avx512() {
            Self::AwsLc
        } else {
            Self::Ring
        }
    }
}

/// Checks the same processor features as the two libraries before they use their fastest code.
#[cfg(target_arch = "x86_64")]
fn has_vector_aes_without_avx512() -> bool {
    let has_vector_aes =
        is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2");
    has_vector_aes && !has_avx512()
}

/// Whether the processor has the features with which `aws-lc-rs` uses AVX-512.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vector_aes_without_avx512() -> bool {
    false
}

/// The tag does not match, or there are more bytes than one nonce covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A key, ready for use.
pub struct Cipher(Key);

enum Key {
    AwsLc(aws::LessSafeKey),
    Ring(Box<ring::LessSafeKey>),
}

impl Cipher {
    /// `None` when the key has the wrong length for the algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        Self::of(Library::faster(algorithm), algorithm, key)
    }

    fn of(library: Library, algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        let key = match library {
            Library::AwsLc => {
                let key = aws::UnboundKey::new(algorithm.of_aws(), key).ok()?;
                Key::AwsLc(aws::LessSafeKey::new(key))
            }
            Library::Ring => {
                let key = ring::UnboundKey::new(algorithm.of_ring(), key).ok()?;
                Key::Ring(Box::new(ring::LessSafeKey::new(key)))
            }
        };
        Some(Self(key))
    }

    /// Seals `body` where it lies and returns its tag, which covers `associated` too. The caller
    /// never uses a nonce twice.
    ///
    /// # Errors
    /// [`Refused`] when the body is longer than one nonce covers.
    pub fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        associated: &[u8],
        body: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], Refused> {
        let mut out = [0; TAG_BYTES];
        match &self.0 {
            Key::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, aws::Aad::from(associated), body);
                out.copy_from_slice(tag.map_err(|_| Refused)?.as_ref());
            }
            Key::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, ring::Aad::from(associated), body);
                out.copy_from_slice(tag.map_err(|_| Refused)?.as_ref());
            }
        }
        Ok(out)
    }

    /// Opens `sealed`, a body with its tag behind it, where it lies, and returns the body.
    ///
    /// # Errors
    /// [`Refused`] when the tag does not match: altered data, another nonce or another key.
    pub fn open<'a>(
        &self,
        nonce: [u8; NONCE_BYTES],
        associated: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Refused> {
        match &self.0 {
            Key::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                key.open_in_place(nonce, aws::Aad::from(associated), sealed)
                    .map_err(|_| Refused)
            }
            Key::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                key.open_in_place(nonce, ring::Aad::from(associated), sealed)
                    .map_err(|_| Refused)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 3] = [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305];
    const BOTH: [Library; 2] = [Library::AwsLc, Library::Ring];
    /// Lengths around the steps of the vector code, and a whole record.
    const LENGTHS: [usize; 13] = [0, 1, 15, 16, 17, 31, 127, 128, 129, 255, 4097, 16_383, 16_385];

    fn sealed(library: Library, algorithm: Algorithm, length: usize) -> Vec<u8> {
        let key: Vec<u8> = (0..algorithm.key_bytes()).map(|index| index as u8 ^ 0x55).collect();
        let cipher = Cipher::of(library, algorithm, &key).expect("a key");
        let mut body: Vec<u8> = (0..length).map(|index| (index * 7) as u8).collect();
        let tag = cipher.seal([3; NONCE_BYTES], b"header", &mut body).expect("sealed");
        body.extend_from_slice(&tag);
        body
    }

    #[test]
    fn both_libraries_seal_to_the_same_bytes_and_open_them() {
        for algorithm in ALL {
            let key: Vec<u8> = (0..algorithm.key_bytes()).map(|index| index as u8 ^ 0x55).collect();
            for length in LENGTHS {
                let expected = sealed(Library::AwsLc, algorithm, length);
                assert_eq!(
                    expected,
                    sealed(Library::Ring, algorithm, length),
                    "{algorithm:?}, {length}"
                );
                for library in BOTH {
                    let cipher = Cipher::of(library, algorithm, &key).expect("a key");
                    let mut bytes = expected.clone();
                    let body = cipher.open([3; NONCE_BYTES], b"header", &mut bytes).expect("opened");
                    assert!(body.iter().enumerate().all(|(index, byte)| *byte == (index * 7) as u8));
                    assert_eq!(body.len(), length);
                }
            }
        }
    }

    #[test]
    fn what_was_altered_anywhere_does_not_open() {
        for (library, algorithm) in BOTH.into_iter().flat_map(|library| ALL.map(|one| (library, one))) {
            let key: Vec<u8> = (0..algorithm.key_bytes()).map(|index| index as u8 ^ 0x55).collect();
            let cipher = Cipher::of(library, algorithm, &key).expect("a key");
            let whole = sealed(library, algorithm, 300);
            for at in [0, 150, 299, 300, 315] {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                assert_eq!(
                    cipher.open([3; NONCE_BYTES], b"header", &mut bytes),
                    Err(Refused),
                    "{at}"
                );
            }
            for (nonce, associated) in [([4; NONCE_BYTES], &b"header"[..]), ([3; NONCE_BYTES], b"Header")] {
                assert_eq!(cipher.open(nonce, associated, &mut whole.clone()), Err(Refused));
            }
            assert_eq!(
                cipher.open([3; NONCE_BYTES], b"header", &mut [0; 15]),
                Err(Refused),
                "no tag"
            );
        }
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        for (library, algorithm) in BOTH.into_iter().flat_map(|library| ALL.map(|one| (library, one))) {
            for length in [0, 15, 31, 33] {
                assert!(
                    Cipher::of(library, algorithm, &vec![1; length]).is_none(),
                    "{algorithm:?}, {length}"
                );
            }
        }
    }

    #[test]
    fn the_vector_code_is_for_aes_only() {
        assert_eq!(Library::faster(Algorithm::ChaCha20Poly1305), Library::AwsLc);
        let expected = if has_vector_aes_without_avx512() {
            Library::Ring
        } else {
            Library::AwsLc
        };
        for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm] {
            assert_eq!(Library::faster(algorithm), expected);
        }
    }
}
