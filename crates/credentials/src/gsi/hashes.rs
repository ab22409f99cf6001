//! The names of files in a trust directory.

use aws_lc_rs::digest;
use gsi_wire::gsi::name::canonical;
use md5::{Digest as _, Md5};

/// OpenSSL's hashes of a distinguished name (DER): the present one, and that of before OpenSSL 1.0.
/// They name files, and protect nothing. `None` for a malformed name.
#[must_use]
pub fn name_hashes(name: &[u8]) -> Option<[u32; 2]> {
    let present = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &canonical(name)?);
    let front = |bytes: &[u8]| bytes.first_chunk::<4>().map(|front| u32::from_le_bytes(*front));
    Some([front(present.as_ref())?, front(&Md5::digest(name))?])
}
