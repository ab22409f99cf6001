//! The gsi messages of XRootD 5.5.3's programs, captured in a throw-away laboratory: each is read,
//! and written again as the same bytes. `tests/vectors` has them in the form that `xroot-wire`
//! describes.

use gsi_wire::gsi::{Buffer, ClientHello, ClientOptions, Opening, ProxyAnswer, ProxyRequest, ServerHello, Step};

const HEADER_BYTES: usize = 24;
const AUTHENTICATE: [u8; 2] = 3000_u16.to_be_bytes();
const MORE: [u8; 2] = 4002_u16.to_be_bytes();

/// The messages of one file, in order, of all its connections.
fn messages(text: &str) -> Vec<Vec<u8>> {
    let mut frames: Vec<(bool, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some(digits) = line.strip_prefix("  ") {
            let digits = digits.trim().as_bytes();
            let nibble = |digit: u8| char::from(digit).to_digit(16).expect("hexadecimal") as u8;
            let bytes = digits
                .chunks_exact(2)
                .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]));
            frames.last_mut().expect("a frame has begun").1.extend(bytes);
        } else if let [_, side @ (">" | "<"), ..] = line.split(' ').collect::<Vec<_>>()[..] {
            frames.push((side == ">", Vec::new()));
        }
    }
    let message = |(is_client, bytes): (bool, Vec<u8>)| match is_client {
        true if bytes.get(2..4) == Some(&AUTHENTICATE) => Some(bytes[HEADER_BYTES..].to_vec()),
        false if bytes.get(2..4) == Some(&MORE) => Some(bytes[8..].to_vec()),
        _ => None,
    };
    frames.into_iter().filter_map(message).collect()
}

/// Reads a message for what it is, and gives its step and what it is written as.
fn again(bytes: &[u8]) -> (Step, Vec<u8>) {
    let buffer = Buffer::parse(bytes).expect("readable");
    assert_eq!(buffer.encode(), bytes);
    let written = match buffer.step() {
        Step::Opening => Opening::parse(bytes).expect("opening").encode(),
        Step::Server => ServerHello::parse(bytes).expect("server").encode(),
        Step::Client => ClientHello::parse(bytes).expect("client").encode(),
        Step::ProxyRequest => ProxyRequest::seal(ProxyRequest::sealed(bytes).expect("request")),
        Step::Proxy => ProxyAnswer::seal(ProxyAnswer::sealed(bytes).expect("answer")),
    };
    (buffer.step(), written)
}

/// Whether both are the same message, by lengths and kinds.
fn assert_same(bytes: &[u8], written: &[u8]) {
    let (read, again) = (Buffer::parse(bytes).unwrap(), Buffer::parse(written).unwrap());
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
    assert_eq!(written, bytes);
}

#[test]
fn captured_messages_come_out_as_they_went_in() {
    let files = [
        ("xrdcp", include_str!("vectors/auth_gsi.hex"), 3),
        (
            "delegation",
            include_str!("vectors/auth_gsi_delegation_keys_known.hex"),
            5,
        ),
        ("copy", include_str!("vectors/tpc_delegated_gsi.hex"), 10),
    ];
    for (name, text, at_least) in files {
        let messages = messages(text);
        assert!(messages.len() >= at_least, "{name}: {}", messages.len());
        for bytes in messages {
            let (_, written) = again(&bytes);
            assert_same(&bytes, &written);
        }
    }
}

#[test]
fn what_a_capture_says_is_understood() {
    let messages = messages(include_str!("vectors/auth_gsi_delegation_keys_known.hex"));
    let opening = Opening::parse(&messages[0]).unwrap();
    assert_eq!((opening.version, opening.tag), (10_600, *b"ABCDEFG1"));
    assert_eq!(opening.authorities, "6629c24d.0|f36e0485.0");
    assert!(opening.options.would_delegate() && !opening.options.contains(ClientOptions::SENDS_KEY));
    let server = ServerHello::parse(&messages[1]).unwrap();
    assert!(server.offers_our_cipher());
    assert_eq!(server.first_digest(), "sha1");
    assert!(server.certificate.starts_with(b"-----BEGIN CERTIFICATE-----\n"));
    let client = ClientHello::parse(&messages[2]).unwrap();
    assert_eq!((client.cipher, client.digest), ("aes-128-cbc#16", "sha1"));
    let steps: Vec<_> = messages.iter().map(|bytes| again(bytes).0).collect();
    assert_eq!(
        steps,
        [
            Step::Opening,
            Step::Server,
            Step::Client,
            Step::ProxyRequest,
            Step::Proxy
        ]
    );
}
