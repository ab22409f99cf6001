//! Names of X.501 in one line, `/C=CH/O=Example/CN=Jane Doe`, as OpenSSL's `X509_NAME_oneline` and
//! with it every grid program writes them: gridmap files, signing policies and `.lsc` files are
//! full of them.
//!
//! The form is not exact: a value may contain a slash, which OpenSSL 3 escapes and older ones do
//! not. All grid software compares it all the same, so the authorities see to it that no two of
//! their names are written alike.

use crate::limits::{NAME_PARTS_MAX, ONE_LINE_NAME_BYTES_MAX};

use crate::der::{self, OBJECT_IDENTIFIER, SEQUENCE, SET};
use crate::{Malformed, malformed};

/// Short names of attribute types, as OpenSSL 3 knows them (RFC 4519, RFC 2985, RFC 5912).
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

/// The tag of a value of type `GeneralString`. OpenSSL omits its zero bytes.
const GENERAL_STRING: u8 = 0x1b;

/// Other spellings of a type, each with the one that OpenSSL writes. Older programs and files have
/// them.
const OTHER_SPELLINGS: &[(&str, &str)] = &[
    ("/E=", "/emailAddress="),
    ("/Email=", "/emailAddress="),
    ("/USERID=", "/UID="),
    ("/UserID=", "/UID="),
    ("/S=", "/ST="),
];

/// One attribute of a name: its type in dotted form and its value as an element of DER.
struct Attribute<'a> {
    kind: String,
    value: der::Element<'a>,
}

/// The attributes of each relative name (`RelativeDistinguishedName`) of `name_der` (RFC 5280
/// §4.1.2.4).
fn relative_names(name_der: &[u8]) -> Result<Vec<Vec<Attribute<'_>>>, Malformed> {
    let mut names = Vec::new();
    let mut reader = der::only(name_der, SEQUENCE, "a name")?.inside();
    while !reader.is_at_end() {
        let mut attributes = Vec::new();
        let mut set = reader.expect(SET, "a part of a name")?.inside();
        while !set.is_at_end() {
            let mut pair = set.expect(SEQUENCE, "an attribute of a name")?.inside();
            let kind = der::dotted(pair.expect(OBJECT_IDENTIFIER, "the type of an attribute")?.content)?;
            let value = pair.any()?;
            pair.finish()?;
            attributes.push(Attribute { kind, value });
        }
        if attributes.is_empty() || names.len() + attributes.len() > NAME_PARTS_MAX {
            return Err(malformed("a name has an empty part, or too many parts"));
        }
        names.push(attributes);
    }
    Ok(names)
}

/// A name (DER of an X.501 `Name`) in one line. The empty name is the empty text.
///
/// Bytes that are not printable ASCII are written `\xC3`; slashes stay as they are. The second and
/// further attributes of a relative name that has several follow a plus sign, as OpenSSL 3 has it.
///
/// # Errors
/// When the name cannot be read, has more than [`NAME_PARTS_MAX`] parts, or is longer than
/// [`ONE_LINE_NAME_BYTES_MAX`].
pub fn one_line(name_der: &[u8]) -> Result<String, Malformed> {
    let mut line = String::new();
    for attributes in &relative_names(name_der)? {
        for (index, attribute) in attributes.iter().enumerate() {
            line.push(if index == 0 { '/' } else { '+' });
            line.push_str(short_name(&attribute.kind));
            line.push('=');
            push_value(&mut line, &attribute.value);
            if line.len() > ONE_LINE_NAME_BYTES_MAX {
                return Err(malformed("a name is too long"));
            }
        }
    }
    Ok(line)
}

fn short_name(dotted: &str) -> &str {
    SHORT_NAMES
        .iter()
        .find(|(oid, _)| *oid == dotted)
        .map_or(dotted, |(_, name)| name)
}

fn push_value(line: &mut String, value: &der::Element<'_>) {
    use std::fmt::Write as _;
    let skip_zeros = value.tag == GENERAL_STRING && value.content.len().is_multiple_of(4);
    for byte in value.content.iter().filter(|byte| **byte != 0 || !skip_zeros) {
        if (b' '..=b'~').contains(byte) {
            line.push(char::from(*byte));
        } else {
            let _ = write!(line, "\\x{byte:02X}");
        }
    }
}

/// The form in which two names in one line are compared: other spellings of types replaced by
/// OpenSSL's, slashes without the escapes of OpenSSL 3, and what is not ASCII written as OpenSSL
/// does, whether a file has it so or as UTF-8.
#[must_use]
pub fn canonical(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for character in line.trim().chars() {
        if (' '..='~').contains(&character) {
            if matches!(character, '/' | '+') {
                text.truncate(text.trim_end_matches('\\').len());
            }
            text.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("\\x{byte:02X}"));
            }
        }
    }
    for (other, usual) in OTHER_SPELLINGS {
        if text.contains(other) {
            text = text.replace(other, usual);
        }
    }
    uppercase_escapes(text)
}

/// `\xc3` as `\xC3`.
fn uppercase_escapes(text: String) -> String {
    if !text.contains("\\x") {
        return text;
    }
    let mut parts = text.split("\\x");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("\\x");
        match (part.get(..2), part.get(2..)) {
            (Some(digits), Some(rest)) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                result.push_str(&digits.to_ascii_uppercase());
                result.push_str(rest);
            }
            _ => result.push_str(part),
        }
    }
    result
}

/// Whether two names in one line are the same name.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// When `longer` is `shorter` and exactly one more part, a single common name, that name's value
/// (RFC 3820 §3.4). Both are DER; what they share is compared byte by byte.
///
/// # Errors
/// When one of them cannot be read.
pub fn appended_common_name(shorter: &[u8], longer: &[u8]) -> Result<Option<String>, Malformed> {
    let parts = |name| -> Result<Vec<&[u8]>, Malformed> {
        let mut reader = der::only(name, SEQUENCE, "a name")?.inside();
        let mut parts = Vec::new();
        while !reader.is_at_end() {
            parts.push(reader.expect(SET, "a part of a name")?.raw);
        }
        Ok(parts)
    };
    let (short, long) = (parts(shorter)?, parts(longer)?);
    if long.len() != short.len() + 1 || !long.starts_with(&short) {
        return Ok(None);
    }
    let names = relative_names(longer)?;
    Ok(match names.last().map(Vec::as_slice) {
        Some([Attribute { kind, value }]) if kind == "2.5.4.3" => {
            let mut text = String::new();
            push_value(&mut text, value);
            Some(text)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    /// The attributes of one part of a name: type, tag and value.
    type Attributes<'a> = &'a [(&'a str, u8, &'a [u8])];

    fn name(parts: &[Attributes<'_>]) -> Vec<u8> {
        let sets: Vec<Vec<u8>> = parts
            .iter()
            .map(|attributes| {
                let pairs: Vec<Vec<u8>> = attributes
                    .iter()
                    .map(|(oid, tag, value)| {
                        encode::sequence(&[&encode::object_identifier(oid), &encode::element(*tag, &[value])])
                    })
                    .collect();
                let pairs: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
                encode::set(&pairs)
            })
            .collect();
        let sets: Vec<&[u8]> = sets.iter().map(Vec::as_slice).collect();
        encode::sequence(&sets)
    }

    #[test]
    fn every_kind_of_text_is_written_byte_by_byte() {
        for (der, line) in [
            (name(&[]), ""),
            (name(&[&[("2.5.4.3", 0x0c, "\u{e4}".as_bytes())]]), "/CN=\\xC3\\xA4"),
            // T61String and BMPString
            (name(&[&[("2.5.4.3", 0x14, b"\xe4")]]), "/CN=\\xE4"),
            (name(&[&[("2.5.4.3", 0x1e, b"\0A")]]), "/CN=\\x00A"),
            (name(&[&[("2.5.4.3", 0x1b, b"\0\0\0A")]]), "/CN=A"),
            (name(&[&[("1.2.3.4", 0x13, b"x")]]), "/1.2.3.4=x"),
            (
                name(&[&[("2.5.4.3", 0x13, b"a"), ("2.5.4.10", 0x13, b"b")]]),
                "/CN=a+O=b",
            ),
            (name(&[&[("2.5.4.3", 0x13, b"a\n/O=b")]]), "/CN=a\\x0A/O=b"),
        ] {
            assert_eq!(one_line(&der).unwrap(), line);
        }
        let many: Vec<Attributes<'_>> = vec![&[("2.5.4.3", 0x13, b"a")]; NAME_PARTS_MAX + 1];
        assert!(one_line(&name(&many)).is_err());
        let long = vec![b'a'; ONE_LINE_NAME_BYTES_MAX];
        assert!(one_line(&name(&[&[("2.5.4.3", 0x13, &long)]])).is_err());
    }

    #[test]
    fn other_spellings_are_the_same_name() {
        for (one, other) in [
            ("/CN=a/Email=x@y", "/CN=a/emailAddress=x@y"),
            ("/CN=a/E=x@y", "/CN=a/emailAddress=x@y"),
            ("/USERID=u/CN=a", "/UID=u/CN=a"),
            ("/CN=host\\/a.b", "/CN=host/a.b"),
            ("/CN=\u{e4}", "/CN=\\xc3\\xA4"),
            (" /CN=a ", "/CN=a"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
        assert!(!same("/CN=a", "/CN=A"));
        assert!(!same("/CN=a", "/CN=a/CN=b"));
    }

    #[test]
    fn exactly_one_common_name_is_appended_to_a_proxys() {
        let a: Attributes<'_> = &[("2.5.4.10", 0x13, b"a")];
        let b: Attributes<'_> = &[("2.5.4.3", 0x13, b"1")];
        let both: Attributes<'_> = &[("2.5.4.3", 0x13, b"1"), ("2.5.4.10", 0x13, b"a")];
        let of = |longer: &[Attributes<'_>]| appended_common_name(&name(&[a]), &name(longer)).unwrap();
        assert_eq!(of(&[a, b]).as_deref(), Some("1"));
        assert_eq!(of(&[a]), None);
        assert_eq!(of(&[a, b, b]), None);
        assert_eq!(of(&[b, a]), None);
        assert_eq!(of(&[a, a]), None);
        assert_eq!(of(&[a, both]), None);
    }
}
