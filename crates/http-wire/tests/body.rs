//! Bodies: framing and payload are separated however the input is cut, and malformed chunks are
//! refused.

use http_wire::{BodyDecoder, CHUNK_END, Framing, Headers, LAST_CHUNK, chunk_head, last_chunk_with_trailers};
use proptest::prelude::*;
use types::ErrorCode;

/// Feeds the input in pieces that end at `cuts`; returns payload, consumed bytes and the decoder.
fn decode(framing: Framing, input: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, usize, BodyDecoder), types::Error> {
    let mut decoder = BodyDecoder::new(framing);
    let mut payload = Vec::new();
    let mut at = 0;
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    ends.push(input.len());
    ends.sort_unstable();
    for end in ends {
        while at < end {
            let step = decoder.decode(&input[at..end])?;
            assert!(step.payload.end <= step.consumed && step.consumed <= end - at);
            payload.extend_from_slice(&input[at..end][step.payload]);
            at += step.consumed;
            if step.consumed == 0 {
                assert!(decoder.is_done(), "nothing consumed before the end");
                return Ok((payload, at, decoder));
            }
        }
    }
    Ok((payload, at, decoder))
}

fn chunked(pieces: &[Vec<u8>], trailers: &Headers) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        out.extend_from_slice(chunk_head(piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(CHUNK_END);
    }
    out.extend_from_slice(&last_chunk_with_trailers(trailers));
    out
}

proptest! {
    #[test]
    fn chunks_decode_the_same_however_the_input_is_cut(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut trailers = Headers::new();
        trailers.append("X-Transfer-Status", "200: OK");
        let mut input = chunked(&pieces, &trailers);
        let end = input.len();
        input.extend_from_slice(b"GET / HTTP/1.1\r\n");
        let (payload, consumed, decoder) = decode(Framing::Chunked, &input, &cuts).unwrap();
        prop_assert_eq!(payload, pieces.concat());
        prop_assert_eq!(consumed, end);
        prop_assert!(decoder.is_done());
        prop_assert_eq!(decoder.trailers().get("x-transfer-status"), Some("200: OK"));
    }

    #[test]
    fn whatever_comes_no_cut_changes_the_verdict(
        input in "[0-9a-fA-F;x \r\n:]{0,60}",
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let whole = decode(Framing::Chunked, input.as_bytes(), &[]);
        let cut = decode(Framing::Chunked, input.as_bytes(), &cuts);
        prop_assert_eq!(whole.is_ok(), cut.is_ok());
        if let (Ok(whole), Ok(cut)) = (whole, cut) {
            prop_assert_eq!((whole.0, whole.1), (cut.0, cut.1));
        }
    }
}

#[test]
fn a_length_is_taken_in_one_step_and_no_byte_more() {
    let mut decoder = BodyDecoder::new(Framing::Length(5));
    assert_eq!(decoder.remaining(), Some(5));
    let step = decoder.decode(b"abc").unwrap();
    assert_eq!((step.consumed, step.payload, decoder.remaining()), (3, 0..3, Some(2)));
    assert_eq!(decoder.finish_at_eof().unwrap_err().code(), ErrorCode::BodyIncomplete);
    let step = decoder.decode(b"deGET").unwrap();
    assert_eq!((step.consumed, step.payload), (2, 0..2));
    assert!(decoder.is_done() && decoder.finish_at_eof().is_ok());
}

#[test]
fn the_end_of_the_connection_ends_only_what_it_delimits() {
    let mut decoder = BodyDecoder::for_response(Framing::UntilClose);
    assert_eq!(decoder.decode(b"abc").unwrap().payload, 0..3);
    assert!(!decoder.is_done() && decoder.finish_at_eof().is_ok() && decoder.remaining().is_none());
    let cut = BodyDecoder::for_response(Framing::Chunked);
    assert_eq!(cut.finish_at_eof().unwrap_err().code(), ErrorCode::PeerClosed);
    assert!(BodyDecoder::new(Framing::Empty).is_done());
}

#[test]
fn chunk_sizes_are_plain_hexadecimal() {
    for good in ["5\r\n", "05\r\n", "5;a=b\r\n", "5 ;a=\"b\"\r\n", "0000000000000005\r\n"] {
        let input = format!("{good}hello\r\n0\r\n\r\n");
        assert_eq!(
            decode(Framing::Chunked, input.as_bytes(), &[]).unwrap().0,
            b"hello",
            "{good:?}"
        );
    }
    for bad in [
        "\r\n",
        "+5\r\n",
        "0x5\r\n",
        "5 \r\n",
        " 5\r\n",
        "5\n",
        "g\r\n",
        "00000000000000005\r\n",
        "5 5\r\n",
        "5\r\r\n",
        "5;\0\r\n",
    ] {
        let input = format!("{bad}hello\r\n0\r\n\r\n");
        let error = decode(Framing::Chunked, input.as_bytes(), &[]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadRequest, "{bad:?}");
    }
    for bad in ["2\r\nhello", "5\r\nhello\n0\r\n\r\n", "0\r\n\n", "0\r\nbroken\r\n\r\n"] {
        assert!(decode(Framing::Chunked, bad.as_bytes(), &[]).is_err(), "{bad:?}");
    }
}

#[test]
fn the_largest_size_does_not_overflow() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    decoder.decode(b"ffffffffffffffff\r\n").unwrap();
    assert_eq!(decoder.contiguous(), u64::MAX);
    assert_eq!(decoder.decode(b"abc").unwrap().payload, 0..3);
}

#[test]
fn endless_lines_and_trailers_are_refused() {
    let line = format!("5;{}", "x".repeat(http_wire::limits::CHUNK_LINE_BYTES_MAX));
    assert!(decode(Framing::Chunked, line.as_bytes(), &[10, 20]).is_err());
    let trailers = format!(
        "0\r\n{}",
        "X: y\r\n".repeat(http_wire::limits::TRAILER_BYTES_MAX / 6 + 1)
    );
    assert!(decode(Framing::Chunked, trailers.as_bytes(), &[100]).is_err());
}

#[test]
fn trailers_that_would_change_framing_are_dropped() {
    let input = b"0\r\nContent-Length: 5\r\ntransfer-encoding: chunked\r\nDigest: adler32=1\r\n\r\n";
    let (_, _, decoder) = decode(Framing::Chunked, input, &[]).unwrap();
    assert_eq!(decoder.trailers().iter().collect::<Vec<_>>(), [("Digest", "adler32=1")]);
}

#[test]
fn chunk_heads_are_lower_case_hexadecimal() {
    for (length, text) in [
        (0, "0\r\n"),
        (1, "1\r\n"),
        (0x8e, "8e\r\n"),
        (usize::MAX, "ffffffffffffffff\r\n"),
    ] {
        assert_eq!(chunk_head(length).as_bytes(), text.as_bytes());
    }
    assert_eq!(last_chunk_with_trailers(&Headers::new()), LAST_CHUNK);
}
