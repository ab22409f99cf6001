//! UUIDs as text (RFC 9562 §4).

/// Sixteen bytes as a UUID of this version, in lower case; sets the version and variant bits.
#[must_use]
pub fn uuid_text(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_set_in_any_bytes() {
        assert_eq!(uuid_text([0; 16], 5), "00000000-0000-5000-8000-000000000000");
        assert_eq!(uuid_text([0xff; 16], 4), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
