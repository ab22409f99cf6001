//! The answer about many files: one byte for each.

use types::Error;

use crate::flags::StatFlags;
use crate::refusal::misbehaved;

/// What a file is, in one byte: the low bits of [`StatFlags`].
pub type FileKind = StatFlags;

/// Reads the answer about `count` files.
///
/// # Errors
/// `peer_misbehaved` when it has another length.
pub fn parse_file_kinds(body: &[u8], count: usize) -> Result<Vec<FileKind>, Error> {
    // Some servers end it with a NUL, which is also what a plain file is.
    if body.len() != count && body.len() != count + 1 {
        return Err(misbehaved("the answer about many files has a wrong length"));
    }
    let kinds = body.iter().take(count);
    Ok(kinds
        .map(|byte| StatFlags::from_bits_retain(u32::from(*byte)))
        .collect())
}
