//! Walking through DER (X.690) one element at a time, for structures that no library reads for us.
//! Lengths are definite and tags small, as in everything that certificates contain.

use crate::{Malformed, malformed};

/// `BOOLEAN`.
pub(crate) const BOOLEAN: u8 = 0x01;
/// `INTEGER`.
pub(crate) const INTEGER: u8 = 0x02;
/// `BIT STRING`.
pub(crate) const BIT_STRING: u8 = 0x03;
/// `OCTET STRING`.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// `OBJECT IDENTIFIER`.
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
/// `GeneralizedTime`.
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
/// `SEQUENCE`.
pub(crate) const SEQUENCE: u8 = 0x30;
/// `SET`.
pub(crate) const SET: u8 = 0x31;

/// The tag `[number]` around something constructed.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// The tag `[number]` in place of a primitive's own.
pub(crate) const fn context_primitive(number: u8) -> u8 {
    0x80 | number
}

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    /// The first byte: class, constructed or not, number.
    pub(crate) tag: u8,
    /// What is in it.
    pub(crate) content: &'a [u8],
    /// All of it, tag and length included.
    pub(crate) raw: &'a [u8],
}

impl<'a> Element<'a> {
    /// Its content as a series of elements.
    pub(crate) fn inside(&self) -> Reader<'a> {
        Reader(self.content)
    }

    /// The bytes of a bit string with whole bytes.
    pub(crate) fn bits(&self) -> Result<&'a [u8], Malformed> {
        match self.content.split_first() {
            Some((0, bytes)) if self.tag == BIT_STRING => Ok(bytes),
            _ => Err(malformed("a bit string is not made of whole bytes")),
        }
    }
}

/// A series of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag of what comes next.
    pub(crate) fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next element, whatever it is.
    pub(crate) fn any(&mut self) -> Result<Element<'a>, Malformed> {
        let cut = || malformed("it is cut off");
        let (&tag, rest) = self.0.split_first().ok_or_else(cut)?;
        if tag & 0x1f == 0x1f {
            return Err(malformed("it has a tag that is not used here"));
        }
        let (&first, mut rest) = rest.split_first().ok_or_else(cut)?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 || count > rest.len() {
                return Err(malformed("it has a length that is not allowed"));
            }
            let (digits, after) = rest.split_at(count);
            length = digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
            rest = after;
        }
        if length > rest.len() {
            return Err(cut());
        }
        let whole = self.0.len() - rest.len() + length;
        let (raw, after) = self.0.split_at(whole);
        self.0 = after;
        let content = &rest[..length];
        Ok(Element { tag, content, raw })
    }

    /// The next element, which must have this tag; `what` names it when it has not.
    pub(crate) fn expect(&mut self, tag: u8, what: &'static str) -> Result<Element<'a>, Malformed> {
        let element = self.any()?;
        if element.tag == tag {
            return Ok(element);
        }
        Err(malformed(format!("{what} is not where it should be")))
    }

    /// The next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        (self.tag() == Some(tag)).then(|| self.any()).transpose()
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        if self.is_at_end() {
            return Ok(());
        }
        Err(malformed("there is more in it than belongs there"))
    }
}

/// The only element of `bytes`, with this tag.
pub(crate) fn only<'a>(bytes: &'a [u8], tag: u8, what: &'static str) -> Result<Element<'a>, Malformed> {
    let mut reader = Reader::new(bytes);
    let element = reader.expect(tag, what)?;
    reader.finish()?;
    Ok(element)
}

/// An object identifier in dotted form, from its content.
pub(crate) fn dotted(content: &[u8]) -> Result<String, Malformed> {
    x509_parser::asn1_rs::Oid::new(content.into())
        .iter()
        .filter(|_| content.last().is_some_and(|last| last & 0x80 == 0))
        .map(|arcs| arcs.map(|arc| arc.to_string()).collect::<Vec<_>>().join("."))
        .ok_or_else(|| malformed("an object identifier cannot be read"))
}
