//! Targets for the messages of gsi, and for the keys and names in them.

use gsi_wire::gsi::agreement::Half;
use gsi_wire::gsi::block::{pad, unpad};
use gsi_wire::gsi::key::{PrivateNumbers, PublicNumbers};
use gsi_wire::gsi::name::canonical;
use gsi_wire::gsi::{
    Buffer, ClientHello, ClientProof, Opening, ProxyAnswer, ProxyProof, ProxyRequest, ServerEntry, ServerHello,
};

/// Pieces of messages.
pub(crate) const MESSAGE_WORDS: &[&str] = &[
    "gsi\0",
    "\0\0\x03\x08",
    "\0\0\0\x03ssl",
    "\0\0\0\0",
    "\0\0\x0b\x09",
    "\0\0\x0b\x0e\0\0\0\x08",
    "aes-128-cbc#16",
    "aes-128-cbc:bf-cbc",
    "-----BEGIN CERTIFICATE-----\n",
];

/// What was read can be written, and reads as the same.
pub(crate) fn message(data: &[u8]) {
    if let Ok(buffer) = Buffer::parse(data) {
        let bytes = buffer.encode();
        assert!(bytes.len() <= data.len());
        assert_eq!(Buffer::parse(&bytes).as_ref(), Ok(&buffer));
    }
    macro_rules! again {
        ($kind:ty) => {
            if let Ok(message) = <$kind>::parse(data) {
                let bytes = message.encode();
                assert_eq!(<$kind>::parse(&bytes).as_ref(), Ok(&message));
            }
        };
    }
    again!(Opening<'_>);
    again!(ServerHello<'_>);
    again!(ClientHello<'_>);
    again!(ClientProof<'_>);
    again!(ProxyRequest<'_>);
    again!(ProxyProof<'_>);
    if let Ok(sealed) = ProxyRequest::sealed(data) {
        assert_eq!(ProxyRequest::sealed(&ProxyRequest::seal(sealed)), Ok(sealed));
    }
    if let Ok(sealed) = ProxyAnswer::sealed(data) {
        assert_eq!(ProxyAnswer::sealed(&ProxyAnswer::seal(sealed)), Ok(sealed));
    }
}

/// Pieces of agreements and offers.
pub(crate) const AGREEMENT_WORDS: &[&str] = &[
    "-----BEGIN DH PARAMETERS-----\n",
    "-----END DH PARAMETERS-----\n",
    "---BPUB---",
    "---EPUB---",
    "v:10600,c:ssl,ca:",
    "6629c24d.0|f36e0485.0",
    "sslnopad",
];

/// Numbers stay what they are, and within their bounds.
pub(crate) fn agreement(data: &[u8]) {
    if let Ok(half) = Half::parse(data) {
        assert!(half.prime.len() <= 512 && half.value.len() <= 512);
        assert_eq!(Half::parse(half.encode().as_bytes()).as_ref(), Ok(&half));
    }
    if let Some(entry) = std::str::from_utf8(data)
        .ok()
        .and_then(|text| ServerEntry::parse(text).ok())
    {
        assert_eq!(ServerEntry::parse(&entry.encode()).as_ref(), Ok(&entry));
    }
}

/// Pieces of keys and names in DER.
pub(crate) const KEY_WORDS: &[&str] = &[
    "\x30\x0d\x06\x09",
    "\x02\x03\x01\0\x01",
    "\x03\x03\0",
    "\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02",
    "\x13\x04 A b",
    "\0\x01",
];

/// Keys stay what they are; a block gives up what was laid into it, and a canonical name is its own
/// canonical form.
pub(crate) fn key(data: &[u8]) {
    if let Ok(numbers) = PublicNumbers::parse(data) {
        assert!(!numbers.modulus.is_empty() && numbers.modulus[0] != 0);
        assert!(numbers.to_pem().starts_with(b"-----BEGIN PUBLIC KEY-----\n"));
    }
    let _ = PrivateNumbers::parse(data);
    if let Ok(content) = unpad(data)
        && !content.is_empty()
    {
        let blocks: Vec<_> = pad(content, data.len()).into_iter().flatten().collect();
        assert_eq!(blocks, [data]);
    }
    if let Some(name) = canonical(data) {
        let length = u8::try_from(name.len()).ok().filter(|length| *length < 0x80);
        if let Some(length) = length {
            let whole = [&[0x30, length], &name[..]].concat();
            assert_eq!(canonical(&whole), Some(name));
        }
    }
}
