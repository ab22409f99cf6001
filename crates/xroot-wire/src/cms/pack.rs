//! Packed data: each value with its type in front.
//!
//! A text is its length (u16, with the NUL behind it), the bytes and the NUL; no text is the length
//! 0. A number begins with its type: `0x80` (16 bits), `0xa0` (32), `0xc0` (64). A small number
//! may instead lie in its own type byte (`0x10` set there): the lower half of that byte and those
//! behind it are the number, of the same width. Source: `XrdOucPup.cc`.

use crate::bytes::{Reader, text_bytes};

const TYPE: u8 = 0xe0;
const INLINE: u8 = 0x10;
const SHORT: u8 = 0x80;
const INT: u8 = 0xa0;
/// Numbers below it may be written inline.
const INLINE_END: u32 = 1 << 28;

/// Takes packed values from the front of some data; `None` when they do not suffice, or are of
/// another type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unpacker<'a>(Reader<'a>);

impl<'a> Unpacker<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(Reader(data))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without its NUL; empty if there is none.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        Some(text_bytes(self.counted()?))
    }

    /// Bytes that are packed as a text, but may contain NUL.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.0.u16()?;
        // With this bit it is the type of a number.
        if length & u16::from(SHORT) << 8 != 0 {
            return None;
        }
        self.0.bytes(usize::from(length))
    }

    /// A text that may be missing at the end of the data.
    pub(super) fn optional_text(&mut self) -> Option<&'a [u8]> {
        if self.is_empty() { Some(b"") } else { self.text() }
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        let kind = self.0.u8()?;
        if kind & TYPE != SHORT {
            return None;
        }
        let high = self.first(kind)?;
        Some(u16::from_be_bytes([high, self.0.u8()?]))
    }

    pub(super) fn int(&mut self) -> Option<u32> {
        let kind = self.0.u8()?;
        if kind & TYPE != INT {
            return None;
        }
        let first = self.first(kind)?;
        let [second, third, fourth] = self.0.array()?;
        Some(u32::from_be_bytes([first, second, third, fourth]))
    }

    /// The first byte of a number: in its type byte, or behind it.
    fn first(&mut self, kind: u8) -> Option<u8> {
        if kind & INLINE != 0 {
            Some(kind & 0x0f)
        } else {
            self.0.u8()
        }
    }
}

/// Appends packed values.
#[derive(Debug, Default)]
pub(super) struct Packer(pub(super) Vec<u8>);

impl Packer {
    /// A text; its writer has checked that it is short enough and has no NUL.
    pub(super) fn text(&mut self, text: &[u8]) {
        if text.is_empty() {
            self.0.extend_from_slice(&[0, 0]);
            return;
        }
        let length = u16::try_from(text.len() + 1).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(text);
        self.0.push(0);
    }

    pub(super) fn counted(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn short(&mut self, number: u16) {
        self.0.push(SHORT);
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// A number in its long form, as in a login.
    pub(super) fn int(&mut self, number: u32) {
        self.0.push(INT);
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// A number in its short form if it is small, as in reports about load and space.
    pub(super) fn small_int(&mut self, number: u32) {
        if number >= INLINE_END {
            return self.int(number);
        }
        let [first, rest @ ..] = number.to_be_bytes();
        self.0.push(INT | INLINE | first);
        self.0.extend_from_slice(&rest);
    }
}

#[cfg(test)]
mod tests {
    use super::{Packer, Unpacker};

    #[test]
    fn numbers_lie_in_their_type_or_behind_it() {
        let mut values = Unpacker::new(b"\xb0\x01\x26\x3d\xa0\xff\0\0\x01\x80\x12\x34\x91\x02");
        assert_eq!(values.int(), Some(75_325));
        assert_eq!(values.int(), Some(0xff00_0001));
        assert_eq!(values.short(), Some(0x1234));
        assert_eq!(values.short(), Some(0x102));
        assert!(values.is_empty());
        for number in [0, 1, 75_325, (1 << 28) - 1, 1 << 28, u32::MAX] {
            let mut out = Packer::default();
            out.small_int(number);
            assert_eq!(out.0.len(), if number < 1 << 28 { 4 } else { 5 });
            assert_eq!(Unpacker::new(&out.0).int(), Some(number));
        }
    }

    #[test]
    fn a_value_of_another_type_is_none() {
        assert_eq!(Unpacker::new(b"\x80\0\x01").int(), None);
        assert_eq!(Unpacker::new(b"\xa0\0\0\0\x01").short(), None);
        assert_eq!(Unpacker::new(b"\xa0\0\0").int(), None);
        assert_eq!(Unpacker::new(b"\x80\0\x01").text(), None);
        assert_eq!(Unpacker::new(b"\0\x03ab").text(), None);
        assert_eq!(Unpacker::new(b"\0\x03ab\0").text(), Some(&b"ab"[..]));
        assert_eq!(Unpacker::new(b"").text(), None);
        assert_eq!(Unpacker::new(b"").optional_text(), Some(&b""[..]));
    }
}
