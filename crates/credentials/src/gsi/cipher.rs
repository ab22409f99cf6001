//! The cipher of gsi: AES with 128 bits in CBC mode, PKCS #7 padding, a random vector in front.
//!
//! It protects no integrity. What is in it is signed where that matters (the tag), or public
//! (certificates); and whatever is wrong with it is refused with the same words.

use aws_lc_rs::cipher::{
    AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use gsi_wire::gsi::{CIPHER_KEY_BYTES, Fault, Result};
use zeroize::Zeroizing;

use super::Random;

/// The key of one session.
pub(super) struct SessionKey(Zeroizing<[u8; CIPHER_KEY_BYTES]>);

impl SessionKey {
    pub(super) fn new(key: [u8; CIPHER_KEY_BYTES]) -> Self {
        Self(Zeroizing::new(key))
    }

    pub(super) fn encrypt(&self, data: &[u8], random: &mut Random<'_>) -> Result<Vec<u8>> {
        let failed = |_| Fault("the message cannot be encrypted");
        let mut vector = [0; CIPHER_KEY_BYTES];
        random(&mut vector);
        let key = UnboundCipherKey::new(&AES_128, &*self.0).map_err(failed)?;
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(failed)?;
        let mut content = data.to_vec();
        let context = EncryptionContext::Iv128(FixedLength::from(vector));
        key.less_safe_encrypt(&mut content, context).map_err(failed)?;
        Ok([&vector[..], &content].concat())
    }

    pub(super) fn decrypt(&self, sealed: &[u8]) -> Result<Vec<u8>> {
        let failed = Fault("the message cannot be decrypted");
        let (vector, content) = sealed.split_first_chunk::<CIPHER_KEY_BYTES>().ok_or(failed)?;
        let key = UnboundCipherKey::new(&AES_128, &*self.0).map_err(|_| failed)?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| failed)?;
        let mut content = Zeroizing::new(content.to_vec());
        let context = DecryptionContext::Iv128(FixedLength::from(*vector));
        let plain = key.decrypt(&mut content, context).map_err(|_| failed)?;
        Ok(plain.to_vec())
    }
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encrypted_can_be_decrypted() {
        let key = SessionKey::new([7; 16]);
        let mut random = |out: &mut [u8]| out.fill(9);
        for length in [0, 1, 15, 16, 17, 4000] {
            let data = vec![1; length];
            let sealed = key.encrypt(&data, &mut random).unwrap();
            assert_eq!(sealed.len(), 16 + (length / 16 + 1) * 16);
            assert_eq!(key.decrypt(&sealed).unwrap(), data);
            assert!(key.decrypt(&sealed[..sealed.len() - 1]).is_err());
            assert_ne!(SessionKey::new([8; 16]).decrypt(&sealed).ok(), Some(data));
        }
        assert!(key.decrypt(&[0; 16]).is_err() && key.decrypt(&[]).is_err());
    }
}
