//! Writing DER (X.690), from the inside out.

use time::OffsetDateTime;

/// `[number]` around something constructed.
#[must_use]
pub const fn context(number: u8) -> u8 {
    crate::der::context(number)
}

/// An element with this tag (class, constructed or not, number: its first byte) around what `parts`
/// make together.
#[must_use]
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let digits = length.to_be_bytes();
    let digits = crate::significant(&digits);
    let mut der = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => der.push(short),
        // A `usize` has at most eight bytes.
        _ => {
            der.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
            der.extend_from_slice(digits);
        }
    }
    for part in parts {
        der.extend_from_slice(part);
    }
    der
}

/// A `SEQUENCE` of elements.
#[must_use]
pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(crate::der::SEQUENCE, parts)
}

/// A `SET` of elements, in the order that DER wants.
#[must_use]
pub fn set(parts: &[&[u8]]) -> Vec<u8> {
    let mut parts = parts.to_vec();
    parts.sort_unstable();
    element(crate::der::SET, &parts)
}

/// A positive `INTEGER` from its bytes.
#[must_use]
pub fn positive_integer(bytes: &[u8]) -> Vec<u8> {
    let digits = crate::significant(bytes);
    match digits.first() {
        Some(first) if first & 0x80 == 0 => element(crate::der::INTEGER, &[digits]),
        _ => element(crate::der::INTEGER, &[&[0], digits]),
    }
}

/// `TRUE`.
#[must_use]
pub fn boolean_true() -> Vec<u8> {
    element(crate::der::BOOLEAN, &[&[0xff]])
}

/// A `BIT STRING` of whole bytes.
#[must_use]
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(crate::der::BIT_STRING, &[&[0], bytes])
}

/// An `OCTET STRING`.
#[must_use]
pub fn octet_string(bytes: &[u8]) -> Vec<u8> {
    element(crate::der::OCTET_STRING, &[bytes])
}

/// A `UTF8String`.
#[must_use]
pub fn utf8_string(text: &str) -> Vec<u8> {
    element(0x0c, &[text.as_bytes()])
}

/// An `OBJECT IDENTIFIER` from its dotted form. Arcs that are no numbers count as zero.
#[must_use]
pub fn object_identifier(dotted: &str) -> Vec<u8> {
    let mut arcs = dotted.split('.').map(|arc| arc.parse::<u64>().unwrap_or(0));
    let (first, second) = (arcs.next().unwrap_or(0), arcs.next().unwrap_or(0));
    let mut content = Vec::new();
    for arc in std::iter::once(first.saturating_mul(40).saturating_add(second)).chain(arcs) {
        let groups = (arc.checked_ilog2().unwrap_or(0) / 7 + 1) as usize;
        for group in (0..groups).rev() {
            let more = if group == 0 { 0 } else { 0x80 };
            content.push(((arc >> (7 * group)) & 0x7f) as u8 | more);
        }
    }
    element(crate::der::OBJECT_IDENTIFIER, &[&content])
}

/// A time as certificates have it: `UTCTime` until 2049, then `GeneralizedTime` (RFC 5280
/// §4.1.2.5).
#[must_use]
pub fn certificate_time(time_s: i64) -> Vec<u8> {
    let generalized = generalized_time(time_s);
    match generalized.get(2..4) {
        Some(b"19" | b"20") if generalized[2..4] == *b"19" || generalized[4] < b'5' => {
            element(0x17, &[&generalized[4..]])
        }
        _ => generalized,
    }
}

/// A `GeneralizedTime` in whole seconds.
#[must_use]
pub fn generalized_time(time_s: i64) -> Vec<u8> {
    let time = OffsetDateTime::from_unix_timestamp(time_s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    element(crate::der::GENERALIZED_TIME, &[text.as_bytes()])
}

/// An extension of a certificate (RFC 5280 §4.1).
#[must_use]
pub fn extension(oid: &str, is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { boolean_true() } else { Vec::new() };
    sequence(&[&object_identifier(oid), &critical, &octet_string(value)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der;

    #[test]
    fn what_is_written_is_read() {
        for oid in [
            "1.2.840.113549.1.9.1",
            "2.5.29.15",
            "1.3.6.1.4.1.8005.100.100.5",
            "0.9.2342.19200300.100.1.25",
        ] {
            let written = object_identifier(oid);
            let read = der::only(&written, der::OBJECT_IDENTIFIER, "it").unwrap();
            assert_eq!(der::dotted(read.content).unwrap(), oid);
        }
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let written = octet_string(&vec![7; length]);
            assert_eq!(
                der::only(&written, der::OCTET_STRING, "it").unwrap().content.len(),
                length
            );
        }
        assert_eq!(positive_integer(&[0, 0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(positive_integer(&[0]), [2, 1, 0]);
    }

    #[test]
    fn times_change_their_form_in_2050() {
        assert_eq!(certificate_time(0), b"\x17\x0d700101000000Z");
        assert_eq!(certificate_time(2_524_607_999), b"\x17\x0d491231235959Z");
        assert_eq!(certificate_time(2_524_608_000), b"\x18\x0f20500101000000Z");
    }
}
