//! Serialisation version 2 of libmacaroons, binary: a version byte, then fields of type, length and
//! data in sections that a zero type ends.

use types::Error;

use super::{Macaroon, Parts, RawCaveat};
use crate::invalid_token;

const VERSION: u8 = 2;
const END: u64 = 0;
const LOCATION: u64 = 1;
const IDENTIFIER: u64 = 2;
const VERIFICATION: u64 = 4;
const SIGNATURE: u64 = 6;

pub(super) fn encode(macaroon: &Macaroon) -> Vec<u8> {
    let mut out = vec![VERSION];
    if !macaroon.location.is_empty() {
        put(&mut out, LOCATION, &macaroon.location);
    }
    put(&mut out, IDENTIFIER, &macaroon.identifier);
    put_number(&mut out, END);
    for caveat in &macaroon.caveats {
        if let Some(location) = &caveat.location {
            put(&mut out, LOCATION, location);
        }
        put(&mut out, IDENTIFIER, &caveat.identifier);
        if let Some(verification) = &caveat.verification {
            put(&mut out, VERIFICATION, verification);
        }
        put_number(&mut out, END);
    }
    put_number(&mut out, END);
    put(&mut out, SIGNATURE, &macaroon.signature);
    out
}

fn put(out: &mut Vec<u8>, field: u64, data: &[u8]) {
    put_number(out, field);
    put_number(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// A number in groups of seven bits, the lowest first, the top bit set where more follow.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn decode(bytes: &[u8]) -> Result<Macaroon, Error> {
    decode_fields(bytes).ok_or_else(|| invalid_token("the macaroon's fields cannot be read"))?
}

/// `None` when the framing is broken; an inner error for a limit or a missing part.
fn decode_fields(bytes: &[u8]) -> Option<Result<Macaroon, Error>> {
    let mut reader = Reader {
        rest: bytes.strip_prefix(&[VERSION])?,
    };
    let mut parts = Parts::default();
    if let Some(location) = reader.take_if(LOCATION)? {
        parts.location = location.to_vec();
    }
    parts.identifier = Some(reader.take_if(IDENTIFIER)??.to_vec());
    reader.end()?;
    while !reader.at_end() {
        let location = reader.take_if(LOCATION)?.map(<[u8]>::to_vec);
        let identifier = reader.take_if(IDENTIFIER)??.to_vec();
        let verification = reader.take_if(VERIFICATION)?.map(<[u8]>::to_vec);
        reader.end()?;
        if let Err(error) = parts.add_caveat(RawCaveat {
            identifier,
            verification,
            location,
        }) {
            return Some(Err(error));
        }
    }
    reader.end()?;
    parts.signature = Some(reader.take_if(SIGNATURE)??.to_vec());
    reader.rest.is_empty().then(|| parts.finish())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next field when it is of that type; the outer `None` when the framing is broken.
    fn take_if(&mut self, field: u64) -> Option<Option<&'a [u8]>> {
        let mut ahead = Reader { rest: self.rest };
        if ahead.number()? != field {
            return Some(None);
        }
        let length = usize::try_from(ahead.number()?).ok()?;
        let data = ahead.rest.get(..length)?;
        self.rest = &ahead.rest[length..];
        Some(Some(data))
    }

    fn at_end(&self) -> bool {
        self.rest.first() == Some(&0)
    }

    fn end(&mut self) -> Option<()> {
        (self.number()? == END).then_some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
