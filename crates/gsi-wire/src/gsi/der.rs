//! As much of DER (X.690) as the numbers of keys and agreements need.

/// The tag of a number.
pub(super) const INTEGER: u8 = 0x02;
/// The tag of a string of bits.
pub(super) const BIT_STRING: u8 = 0x03;
/// The tag of a string of bytes.
pub(super) const OCTET_STRING: u8 = 0x04;
/// The tag of nothing.
pub(super) const NULL: u8 = 0x05;
/// The tag of an object identifier.
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
/// The tag of a sequence.
pub(super) const SEQUENCE: u8 = 0x30;

/// An element of DER (X.690 §8.1), up to 64 KiB long.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let mut out = vec![tag];
    match (high, low) {
        (0, 0..=0x7f) => out.push(low),
        (0, _) => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    out.extend_from_slice(content);
    out
}

/// A number that is not negative.
pub(super) fn integer(number: &[u8]) -> Vec<u8> {
    match number.first() {
        Some(first) if *first < 0x80 => element(INTEGER, number),
        _ => element(INTEGER, &[&[0], number].concat()),
    }
}

/// The content of the first element, and what follows it.
pub(super) fn take(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (length, rest) = match rest {
        [length @ 0..=0x7f, rest @ ..] => (usize::from(*length), rest),
        [0x81, length, rest @ ..] => (usize::from(*length), rest),
        [0x82, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The bytes of a number above zero.
pub(super) fn positive(content: &[u8]) -> Option<&[u8]> {
    let is_negative = content.first().is_none_or(|first| *first >= 0x80);
    let zeros = content.iter().take_while(|byte| **byte == 0).count();
    Some(&content[zeros..]).filter(|number| !is_negative && !number.is_empty())
}
