//! Tests of frames.

use super::*;

fn frame(bytes: &[u8], version: Version) -> Frame {
    match decode(bytes, version).unwrap() {
        Decoded::Frame(frame, count) => {
            assert_eq!(count, bytes.len());
            frame
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn escapes_are_those_of_the_version() {
    let bytes = b"SEND\nk\\cey:a\\nb\\\\c\\rd\n\n\0";
    assert_eq!(frame(bytes, Version::V12).header("k:ey"), Some("a\nb\\c\rd"));
    assert!(decode(bytes, Version::V11).is_err());
    assert_eq!(frame(bytes, Version::V10).header("k\\cey"), Some("a\\nb\\\\c\\rd"));
    let opening = frame(b"CONNECT\nlogin:a\\b:c\n\n\0", Version::V12);
    assert_eq!(opening.header("login"), Some("a\\b:c"));
    assert!(decode(b"SEND\na:\\t\n\n\0", Version::V12).is_err());
}

#[test]
fn a_length_covers_zero_bytes() {
    let read = frame(b"SEND\ncontent-length:3\n\na\0b\0", Version::V12);
    assert_eq!(read.body, b"a\0b");
    let mut out = Vec::new();
    read.encode(Version::V12, &mut out);
    assert_eq!(frame(&out, Version::V12), read);
    assert!(decode(b"SEND\ncontent-length:1\n\nab\0", Version::V12).is_err());
    assert_eq!(frame(b"SEND\n\nabc\0", Version::V12).body, b"abc");
}

#[test]
fn text_for_a_broker_has_no_length_and_answers_have_one() {
    let mut out = Vec::new();
    Frame::new(Command::Send).with_body("{}").encode(Version::V12, &mut out);
    assert_eq!(out, b"SEND\n\n{}\0");
    out.clear();
    Frame::new(Command::Message)
        .with_body("{}")
        .encode(Version::V12, &mut out);
    assert_eq!(out, b"MESSAGE\ncontent-length:2\n\n{}\0");
}

#[test]
fn the_first_of_repeated_headers_counts() {
    assert_eq!(frame(b"SEND\na:1\na:2\n\n\0", Version::V12).header("a"), Some("1"));
    let cut = frame(b"SEND\r\na:1\r\n\r\n\0", Version::V12);
    assert_eq!(cut.header("a"), Some("1"));
}

#[test]
fn every_cut_is_partial_and_line_ends_are_beats() {
    let bytes = b"SUBSCRIBE\nid:1\ncontent-length:2\n\nab\0";
    for end in 0..bytes.len() {
        assert_eq!(decode(&bytes[..end], Version::V12), Ok(Decoded::Partial), "{end}");
    }
    assert_eq!(decode(b"\nSEND", Version::V12), Ok(Decoded::Beat(1)));
    assert_eq!(decode(b"\r\n", Version::V12), Ok(Decoded::Beat(2)));
    assert_eq!(decode(b"\n\n\r\n\n\rA", Version::V12), Ok(Decoded::Beat(5)));
}

#[test]
fn what_is_no_frame_is_refused() {
    let long = format!("SEND\na:{}", "x".repeat(HEAD_BYTES_MAX));
    let many = format!("SEND\n{}\n\0", "a:1\n".repeat(HEADERS_MAX + 1));
    let body = format!("SEND\n\n{}", "x".repeat(BODY_BYTES_MAX + 1));
    let lines: [&[u8]; 9] = [
        b"GET / HTTP/1.1\n",
        b"SEND\n:1\n\n\0",
        b"SEND\nab\n\n\0",
        b"SEND\0",
        b"SEND\ncontent-length:x\n\n\0",
        b"SEND\ncontent-length:999999999\n\n",
        long.as_bytes(),
        many.as_bytes(),
        body.as_bytes(),
    ];
    for bytes in lines {
        assert!(decode(bytes, Version::V12).is_err());
    }
}

#[test]
fn a_header_cannot_end_a_line_or_a_frame() {
    let mut out = Vec::new();
    let connected = Frame::new(Command::Connected).with("session", "a\nevil:1\0");
    connected.encode(Version::V12, &mut out);
    assert_eq!(frame(&out, Version::V12).header("session"), Some("a evil:1 "));
}

#[test]
fn heart_beats_are_the_slower_of_both() {
    let ours = Beats::parse(Some("10000,20000"));
    let agreed = ours.agreed(Beats::parse(Some("5000,30000")));
    assert_eq!(agreed.word(), "30000,20000");
    assert_eq!(ours.agreed(Beats::parse(None)), Beats::default());
}

#[test]
fn a_password_is_not_shown() {
    let frame = Frame::new(Command::Connect).with("passcode", "hidden");
    assert!(!format!("{frame:?}").contains("hidden"));
}
