//! Text that only servers with the same key can read or change: AES-256-GCM under a key made
//! for this one text (HKDF, RFC 5869), so that no two texts ever share key and nonce.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use zeroize::Zeroizing;

/// Bytes of the salt in front of every sealed text. It must be random: two texts with one salt
/// would share a key.
pub const SEAL_SALT_BYTES: usize = 16;
/// Bytes of the mark of authenticity behind it.
const TAG_BYTES: usize = 16;

/// Bytes of a key's fingerprint.
const FINGERPRINT_BYTES: usize = 32;

/// A key that seals. It cannot be printed.
#[derive(Clone)]
pub struct SealingKey(Prk);

impl SealingKey {
    /// Derives it from a secret of any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(Salt::new(HKDF_SHA256, b"crossload sealing key").extract(secret))
    }

    /// The key for one text.
    fn key(&self, purpose: &'static [u8], salt: &[u8]) -> Option<LessSafeKey> {
        let info = [purpose, salt];
        let derived = self.0.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// A mark that tells this key from others, and nothing about it; `None` only when the library
    /// fails.
    #[must_use]
    pub fn fingerprint(&self) -> Option<[u8; FINGERPRINT_BYTES]> {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        let derived = self.0.expand(&[b"fingerprint"], HKDF_SHA256).ok()?;
        derived.fill(&mut fingerprint).ok()?;
        Some(fingerprint)
    }

    /// Seals `content`. `purpose` separates uses of the same secret; `bound` must be the same when
    /// it is opened. Gives salt, encrypted content and mark; `None` only when the library fails.
    #[must_use]
    pub fn seal(
        &self,
        purpose: &'static [u8],
        salt: [u8; SEAL_SALT_BYTES],
        bound: &[u8],
        content: &[u8],
    ) -> Option<Vec<u8>> {
        let key = self.key(purpose, &salt)?;
        let mut sealed = Vec::with_capacity(SEAL_SALT_BYTES + content.len() + TAG_BYTES);
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(content);
        let tag = key
            .seal_in_place_separate_tag(nonce(), Aad::from(bound), &mut sealed[SEAL_SALT_BYTES..])
            .ok()?;
        sealed.extend_from_slice(tag.as_ref());
        Some(sealed)
    }

    /// The content; `None` when it was sealed with another key, for another purpose or bound to
    /// something else, or has been changed.
    #[must_use]
    pub fn open(&self, purpose: &'static [u8], bound: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (salt, rest) = sealed.split_at_checked(SEAL_SALT_BYTES)?;
        let key = self.key(purpose, salt)?;
        let mut content = Zeroizing::new(rest.to_vec());
        let length = key.open_in_place(nonce(), Aad::from(bound), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

/// A key is used for one text, and so its nonce may be the same for all.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SealingKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_purpose_and_binding_open_it_unchanged() {
        let key = SealingKey::new(b"secret");
        let sealed = key.seal(b"purpose", [7; 16], b"bound", b"content").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"content"));
        let opened = |key: &SealingKey, purpose, bound: &[u8], sealed: &[u8]| {
            key.open(purpose, bound, sealed).map(|content| content.to_vec())
        };
        assert_eq!(
            opened(&key, b"purpose", b"bound", &sealed).as_deref(),
            Some(&b"content"[..])
        );
        assert_eq!(opened(&SealingKey::new(b"other"), b"purpose", b"bound", &sealed), None);
        assert_eq!(opened(&key, b"another", b"bound", &sealed), None);
        assert_eq!(opened(&key, b"purpose", b"other", &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(opened(&key, b"purpose", b"bound", &changed), None, "{place}");
            assert_eq!(opened(&key, b"purpose", b"bound", &sealed[..place]), None, "{place}");
        }
    }
}
