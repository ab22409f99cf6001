//! Serialisation version 1 of libmacaroons: packets of four hexadecimal digits (the packet's whole
//! length), a key, a blank, the value and a line feed.

use types::Error;

use super::{Macaroon, Parts, RawCaveat};
use crate::invalid_token;

/// Hexadecimal digits of a packet's length.
const LENGTH_DIGITS: usize = 4;

pub(super) fn encode(macaroon: &Macaroon) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, "location", &macaroon.location);
    put(&mut out, "identifier", &macaroon.identifier);
    for caveat in &macaroon.caveats {
        put(&mut out, "cid", &caveat.identifier);
        if let Some(verification) = &caveat.verification {
            put(&mut out, "vid", verification);
        }
        if let Some(location) = &caveat.location {
            put(&mut out, "cl", location);
        }
    }
    put(&mut out, "signature", &macaroon.signature);
    out
}

/// The limit on a macaroon's size keeps every packet far below the 65535 bytes that four digits
/// can tell.
fn put(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let length = LENGTH_DIGITS + key.len() + 1 + value.len() + 1;
    out.extend_from_slice(format!("{length:04x}{key} ").as_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

pub(super) fn decode(mut rest: &[u8]) -> Result<Macaroon, Error> {
    let mut parts = Parts::default();
    if let Some(location) = take_if(&mut rest, b"location")? {
        parts.location = location.to_vec();
    }
    parts.identifier = take_if(&mut rest, b"identifier")?.map(<[u8]>::to_vec);
    while let Some(identifier) = take_if(&mut rest, b"cid")? {
        let identifier = identifier.to_vec();
        let verification = take_if(&mut rest, b"vid")?.map(<[u8]>::to_vec);
        let location = take_if(&mut rest, b"cl")?.map(<[u8]>::to_vec);
        parts.add_caveat(RawCaveat {
            identifier,
            verification,
            location,
        })?;
    }
    parts.signature = take_if(&mut rest, b"signature")?.map(<[u8]>::to_vec);
    if !rest.is_empty() {
        return Err(invalid_token("the macaroon holds a packet where none belongs"));
    }
    parts.finish()
}

/// Takes the next packet when it has that key.
fn take_if<'a>(rest: &mut &'a [u8], key: &[u8]) -> Result<Option<&'a [u8]>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let length = packet_length(rest).ok_or_else(|| invalid_token("a packet of the macaroon has no sound length"))?;
    let packet = &rest[LENGTH_DIGITS..length];
    let body = packet
        .strip_suffix(b"\n")
        .ok_or_else(|| invalid_token("a packet of the macaroon has no end"))?;
    let Some(value) = body.strip_prefix(key).and_then(|after| after.strip_prefix(b" ")) else {
        return Ok(None);
    };
    *rest = &rest[length..];
    Ok(Some(value))
}

fn packet_length(rest: &[u8]) -> Option<usize> {
    let digits = rest.get(..LENGTH_DIGITS)?;
    let mut length = 0;
    for digit in digits {
        length = length * 16 + char::from(*digit).to_digit(16)? as usize;
    }
    (length > LENGTH_DIGITS && length <= rest.len()).then_some(length)
}
