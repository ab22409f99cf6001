//! Targets for TLS records: what a stranger may send before and behind a handshake.

use ::records::{
    Algorithm, ContentType, HEADER_BYTES, Keys, NONCE_BYTES, Opener, PAYLOAD_BYTES_MAX, RECORD_BYTES_MAX, Sealer,
    Version, record_length,
};

/// Headers, of records and of what is none.
pub(crate) const WORDS: &[&str] = &[
    "\x14\x03\x03\0\x01\x01",
    "\x15\x03\x03\0\x02\x01\0",
    "\x16\x03\x01\0\x04",
    "\x17\x03\x03\0\x11",
    "\x17\x03\x03@\0",
    "GET / HTTP/1.1",
];

fn keys(choice: u8) -> Keys {
    let version = if choice & 1 == 0 {
        Version::Tls12
    } else {
        Version::Tls13
    };
    let algorithm =
        [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305][usize::from(choice >> 1) % 3];
    let key = vec![7; algorithm.key_bytes()];
    Keys::new(version, algorithm, &key, [9; NONCE_BYTES], u64::from(choice)).expect("a key of the right length")
}

/// The first byte chooses version and cipher. The rest is opened as records, and none of them may
/// open, since they were not sealed with these keys. Then it is sealed as payload, which comes out
/// as it went in, and only once.
pub(crate) fn record(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    foreign(*choice, data);
    own(*choice, &data[..data.len().min(PAYLOAD_BYTES_MAX)]);
}

fn foreign(choice: u8, mut data: &[u8]) {
    let mut opener = Opener::new(keys(choice));
    while let Ok(Some(length)) = record_length(data) {
        assert!((HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length));
        assert_eq!(
            record_length(&data[..HEADER_BYTES]),
            Ok(Some(length)),
            "the header tells it alone"
        );
        let Some((record, rest)) = data.split_at_checked(length) else {
            return;
        };
        if let Ok((content, range)) = opener.open(&mut record.to_vec()) {
            assert_eq!(
                (content, range),
                (ContentType::ChangeCipherSpec, 0..0),
                "no other side has the keys"
            );
        }
        data = rest;
    }
}

fn own(choice: u8, payload: &[u8]) {
    let (mut sealer, mut opener) = (Sealer::new(keys(choice)), Opener::new(keys(choice)));
    let mut wire = Vec::new();
    for content in [ContentType::ApplicationData, ContentType::Handshake, ContentType::Alert] {
        wire.clear();
        sealer.seal_copy(payload, content, &mut wire).expect("keys are fresh");
        assert_eq!(record_length(&wire), Ok(Some(sealer.record_bytes(payload.len()))));
        let mut altered = wire.clone();
        let at = HEADER_BYTES + usize::from(choice) % (wire.len() - HEADER_BYTES);
        altered[at] ^= 1;
        assert!(opener.open(&mut altered).is_err(), "a bit was turned over at {at}");
        let mut again = wire.clone();
        let (found, range) = opener.open(&mut wire).expect("what was sealed opens");
        assert_eq!((found, &wire[range]), (content, payload));
        assert!(opener.open(&mut again).is_err(), "it came twice");
    }
}
