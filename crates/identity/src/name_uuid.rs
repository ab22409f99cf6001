//! Identifiers that follow from names (RFC 9562 §5.5), and those that FTS derives from the names of
//! virtual organisations.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use types::uuid_text;

/// The namespace from which FTS derives the identifiers of VOs:
/// 01874efb-4735-4595-bc9c-591aef8240c9.
pub const BASE_ID: [u8; 16] = [
    0x01, 0x87, 0x4e, 0xfb, 0x47, 0x35, 0x45, 0x95, 0xbc, 0x9c, 0x59, 0x1a, 0xef, 0x82, 0x40, 0xc9,
];

/// The UUID of version 5 of a name within a namespace.
#[must_use]
pub fn name_uuid(namespace: [u8; 16], name: &str) -> [u8; 16] {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&namespace);
    hash.update(name.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finish().as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The identifier that FTS gives to a VO.
#[must_use]
pub fn vo_id(vo: &str) -> String {
    uuid_text(name_uuid(BASE_ID, vo), 5)
}

/// [`BASE_ID`] as text.
#[must_use]
pub fn base_id() -> String {
    uuid_text(BASE_ID, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vo_has_the_identifier_that_fts_gives_it() {
        assert_eq!(base_id(), "01874efb-4735-4595-bc9c-591aef8240c9");
        assert_eq!(vo_id("testvo"), "477b9065-8416-5b27-be32-ff1573788e71");
    }
}
