//! Targets for the decoders of `http-wire`.

use http_wire::{BodyDecoder, Framing, HeadLimits, parse_request, parse_response};

/// Pieces of heads.
pub(crate) const HEAD_WORDS: &[&str] = &[
    "GET ",
    "PUT ",
    "PROPFIND ",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.1 200 OK\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 05\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "http://a/",
    "*",
    "/",
    "%2e",
    "\0",
    "\u{80}",
];

/// Pieces of chunked bodies.
pub(crate) const CHUNK_WORDS: &[&str] = &[
    "0\r\n\r\n",
    "\r\n",
    "\n",
    "5\r\nhello\r\n",
    ";a=b",
    "FFFFFFFFFFFFFFFF",
    "0",
    "0\r\nA: b\r\n\r\n",
    "-1",
    "+",
    " ",
    "0x",
];

/// Bytes behind a head do not change it, and a head that was accepted states its framing or is refused.
pub(crate) fn request_head(data: &[u8]) {
    let limits = HeadLimits::default();
    let Ok(Some((head, consumed))) = parse_request(data, &limits) else {
        return;
    };
    assert!(consumed <= data.len());
    let alone = parse_request(&data[..consumed], &limits).expect("accepted with more bytes behind it");
    assert_eq!(alone.map(|(_, consumed)| consumed), Some(consumed));
    let cut = parse_request(&data[..consumed - 1], &limits).expect("the beginning of a good head is no error");
    assert!(cut.is_none(), "a head ends at its empty line, not before");
    let framing = head.framing();
    assert!(
        !matches!(framing, Ok(Framing::UntilClose)),
        "a request's body never ends with the connection"
    );
}

/// The same for answers.
pub(crate) fn response_head(data: &[u8]) {
    let limits = HeadLimits::default();
    let Ok(Some((head, consumed))) = parse_response(data, &limits) else {
        return;
    };
    assert!(consumed <= data.len());
    assert!((100..=999).contains(&head.status));
    let alone = parse_response(&data[..consumed], &limits).expect("accepted with more bytes behind it");
    assert_eq!(alone.map(|(_, consumed)| consumed), Some(consumed));
}

/// How the bytes arrive does not change the body. The first byte of the input says how they are cut.
pub(crate) fn body_chunked(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let piece_bytes = usize::from(*cut % 16) + 1;
    assert_eq!(
        decode(body, body.len().max(1)),
        decode(body, piece_bytes),
        "pieces of {piece_bytes}"
    );
}

/// What a decoder makes of a body, or `None` when it refuses it.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    /// Where the body ended; `None` when more should come.
    end: Option<usize>,
}

fn decode(body: &[u8], piece_bytes: usize) -> Option<Body> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let mut payload = Vec::new();
    let mut position = 0;
    for piece in body.chunks(piece_bytes) {
        let mut rest = piece;
        while !rest.is_empty() && !decoder.is_done() {
            let step = decoder.decode(rest).ok()?;
            assert!(step.consumed > 0, "no progress with {} bytes", rest.len());
            assert!(step.payload.end <= step.consumed && step.consumed <= rest.len());
            payload.extend_from_slice(&rest[step.payload]);
            rest = &rest[step.consumed..];
            position += step.consumed;
        }
    }
    Some(Body {
        payload,
        end: decoder.is_done().then_some(position),
    })
}
