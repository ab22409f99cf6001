//! The XRootD protocol's `gsi` authentication, calculated: what the messages of [`gsi_wire::gsi`]
//! need of signatures, of a key agreement and of a cipher, and the order in which they come.
//!
//! Both sides are enums: a message goes in, the next one comes out, and nothing else is kept. The
//! caller passes randomness in, and verifies the chains that come out.

mod agreement;
mod cipher;
pub mod client;
mod hashes;
mod rsa;
pub mod server;
#[cfg(test)]
mod tests;

use aws_lc_rs::digest::{SHA256, digest};
use gsi_wire::gsi::{SERVER_HASH_BYTES, TAG_BYTES, Tag};
pub use hashes::name_hashes;

/// Bytes of an agreement that went through a private key: those of a prime of 4096 bits in blocks
/// of 1024.
const AGREEMENT_BYTES_MAX: usize = 4096;
/// Bytes of a tag that went through a private key of 8192 bits.
const SIGNED_TAG_BYTES_MAX: usize = 1024;
/// Certificates of a chain that are read.
const CHAIN_MAX: usize = 16;

/// Fills bytes with unpredictable values.
pub type Random<'a> = dyn FnMut(&mut [u8]) + 'a;

/// A tag in letters, because some peers handle it as text.
fn fresh_tag(random: &mut Random<'_>) -> Tag {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = [0; TAG_BYTES];
    random(&mut bytes);
    bytes.map(|byte| LETTERS[usize::from(byte % 64)])
}

/// What a client says of the server that it means: SHA-256 of the certificate.
fn server_hash(certificate: &[u8]) -> [u8; SERVER_HASH_BYTES] {
    let mut hash = [0; SERVER_HASH_BYTES];
    hash.copy_from_slice(digest(&SHA256, certificate).as_ref());
    hash
}

/// A certificate as text (RFC 7468 §5).
fn pem(certificate: &[u8]) -> Vec<u8> {
    gsi_wire::to_pem("CERTIFICATE", certificate).into_bytes()
}
