//! How gsi lays data out for the arithmetic of RSA: blocks with padding of type 1 (RFC 8017 §9.2
//! without the digest's name; PKCS #1 1.5 §8.1), over the data themselves. "Signed" and "encrypted
//! with the private key" are the same here.
//!
//! A block is as long as the key's modulus and holds up to eleven bytes less; longer data take
//! several. Without a digest, a peer must not choose what is signed: callers sign only tags of
//! [`super::TAG_BYTES`] and their own key agreement.

use super::{Fault, Result};

/// What the padding takes of a block.
const PADDING_BYTES_MIN: usize = 11;

/// Lays data out in blocks of `block_bytes`, which go through the private key one by one. `None`
/// for a modulus too short to hold anything.
pub fn pad(data: &[u8], block_bytes: usize) -> Option<impl Iterator<Item = Vec<u8>>> {
    let room = block_bytes.checked_sub(PADDING_BYTES_MIN).filter(|room| *room > 0)?;
    Some(data.chunks(room).map(move |part| {
        let mut block = vec![0xff; block_bytes];
        let at = block_bytes - part.len();
        block[..2].copy_from_slice(&[0, 1]);
        block[at - 1] = 0;
        block[at..].copy_from_slice(part);
        block
    }))
}

/// The data of one block that came out of the public key.
///
/// # Errors
/// Padding that is not whole.
pub fn unpad(block: &[u8]) -> Result<&[u8]> {
    let broken = Fault("a signature does not belong to the key");
    let rest = block.strip_prefix(&[0, 1]).ok_or(broken)?;
    let filled = rest.iter().take_while(|byte| **byte == 0xff).count();
    let data = rest[filled..]
        .strip_prefix(&[0])
        .filter(|_| filled >= PADDING_BYTES_MIN - 3);
    data.ok_or(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_come_out_as_they_went_in() {
        for length in [0_usize, 1, 8, 52, 53, 54, 200] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let blocks: Vec<_> = pad(&data, 64).unwrap().collect();
            assert_eq!(blocks.len(), length.div_ceil(53));
            assert!(blocks.iter().all(|block| block.len() == 64));
            let joined: Vec<u8> = blocks.iter().flat_map(|block| unpad(block).unwrap().to_vec()).collect();
            assert_eq!(joined, data);
        }
        assert!(pad(b"x", 11).is_none());
    }

    #[test]
    fn broken_padding_is_refused() {
        let good = pad(b"tag", 32).unwrap().next().unwrap();
        assert!(unpad(&good).is_ok());
        for at in [0, 1, 2, 9, 28] {
            let mut broken = good.clone();
            broken[at] ^= 0x55;
            assert!(unpad(&broken).is_err(), "{at}");
        }
        assert!(unpad(&[]).is_err());
        // Too little padding in front of data that fill the rest.
        assert!(unpad(&[0, 1, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8]).is_err());
    }
}
