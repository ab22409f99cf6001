//! A distinguished name in the form over which OpenSSL takes the hash that names the files of a
//! trust directory (`X509_NAME_hash`, since OpenSSL 1.0): texts become UTF-8 in lower case without
//! superfluous spaces, and the sequence around the parts is left off.

use super::der::{SEQUENCE, element, take};

const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
/// `PrintableString`, `TeletexString`, `IA5String` and `VisibleString`: one byte a letter.
const NARROW_STRINGS: [u8; 4] = [0x13, 0x14, 0x16, 0x1a];
const UNIVERSAL_STRING: u8 = 0x1c;
const BMP_STRING: u8 = 0x1e;

/// Bytes of the longest name that is read. Its canonical form can be three times as long.
const NAME_BYTES_MAX: usize = 16 * 1024;

/// The canonical form of a name in DER; `None` when it is malformed.
#[must_use]
pub fn canonical(name: &[u8]) -> Option<Vec<u8>> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let (mut parts, _) = take(SEQUENCE, name)?;
    let mut out = Vec::new();
    while !parts.is_empty() {
        let (mut attributes, rest) = take(SET, parts)?;
        parts = rest;
        let mut set = Vec::new();
        while !attributes.is_empty() {
            let (attribute, rest) = take(SEQUENCE, attributes)?;
            attributes = rest;
            let (kind, value) = take(OBJECT_IDENTIFIER, attribute)?;
            let content = [element(OBJECT_IDENTIFIER, kind), canonical_value(value)?].concat();
            set.push(element(SEQUENCE, &content));
        }
        // The order of a set in DER (X.690 §11.6).
        set.sort();
        out.extend(element(SET, &set.concat()));
    }
    Some(out)
}

/// Texts are brought into one form; what is no text stays as it is.
fn canonical_value(value: &[u8]) -> Option<Vec<u8>> {
    let tag = *value.first()?;
    let (content, _) = take(tag, value)?;
    let text: String = match tag {
        UTF8_STRING => String::from_utf8(content.to_vec()).ok()?,
        tag if NARROW_STRINGS.contains(&tag) => content.iter().map(|byte| char::from(*byte)).collect(),
        BMP_STRING => {
            let units = content.as_chunks::<2>().0.iter().map(|unit| u16::from_be_bytes(*unit));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()?
        }
        UNIVERSAL_STRING => {
            let letters = content.as_chunks::<4>().0.iter();
            letters
                .map(|letter| char::from_u32(u32::from_be_bytes(*letter)))
                .collect::<Option<_>>()?
        }
        _ => return Some(value.to_vec()),
    };
    let words = text
        .split([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
        .filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    Some(element(UTF8_STRING, plain.as_bytes()))
}
