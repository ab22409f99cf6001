//! Targets for the decoders of `xroot-wire`: requests, responses and their bodies.

use xroot_wire::limits::{
    LIST_PAYLOAD_BYTES_MAX, LISTING_LINE_BYTES_MAX, PAGE_BYTES, REQUEST_HEADER_BYTES, RESPONSE_HEADER_BYTES,
};
use xroot_wire::request::VectorItem;
use xroot_wire::response::{
    Attention, AttributeAnswer, AttributeList, BadPages, ListedEntry, ListingReader, ListingWriter, LocateWriter,
    LoginReply, OpenReply, ProtocolReply, ReadVectorDecoder, SpaceText, SpaceUsage, StatText, VectorPiece,
    checksum_answer, parse_checksum, parse_locations, parse_unlisted, parse_vector_answer, unlisted_answer,
};
use xroot_wire::{Answer, Argument, Cgi, CgiBuilder, Payload, Request, RequestHeader, ResponseHeader, pages, respond};

/// Pieces of requests.
pub(crate) const REQUEST_WORDS: &[&str] = &[
    "\x0b\u{b}",
    "\0\0\0\0",
    "/a",
    "/a?x=1",
    "/a /b",
    "\0",
    "\n",
    "?",
    "..",
    "*",
    "\0\0a\0",
    "\0\0\0\x01x",
    "\x7f\x7f\x7f\x7f",
    "\0\0\0\x10",
    "\0\0\0\x18",
];

/// Pieces of responses.
pub(crate) const FRAME_WORDS: &[&str] = &[
    "\0\0\0\0",
    "\x0f",
    "\0\0\0\x08",
    "\0\0\x05\x11",
    "&P=ztn,0:4096:",
    "&P=unix",
    "\0",
    "S\0",
    "B\0",
    "host",
    "?",
    "\x7f\x7f",
];

/// Pieces of the bodies of answers.
pub(crate) const BODY_WORDS: &[&str] = &[
    "7 19 48 1",
    " 1 2 0644 a b",
    "Sw[::1]:1094",
    " ",
    "\0",
    "adler32 f627ce87",
    "&P=",
    "oss.space=1",
    "names=1",
    "&links=1",
    "oss.free=1",
    "&",
    "S\0\0\0\x03\0",
    "\0\0a\0",
    "\0\0\0\x01",
];

/// Pieces of listings.
pub(crate) const LISTING_WORDS: &[&str] = &[
    ".\n0 0 0 0\n",
    "\n",
    "\0",
    "1 2 48 3",
    " [ adler32:47da0749 ]",
    " [ ",
    "..",
    "/",
    "f\n",
];

/// Pieces of data with checksums and of vectors.
pub(crate) const PAGE_WORDS: &[&str] = &["\0\0\0\0", "\0\0\0\x01", "\0\0\x10\0", "\x7f"];

/// Pieces of paths and CGI.
pub(crate) const CGI_WORDS: &[&str] = &[
    "/a",
    "?",
    "&",
    "=",
    "tpc.key=",
    "tpc.stage=copy",
    "tpc.src=h:1",
    "tpc.str=2",
    "tpc.scgi=",
    "\t",
    "authz=Bearer%20",
    "oss.asize=",
    "tried=a,b",
    "..",
    "//",
    "\0",
];

/// A payload that is asked into memory is bounded, and an accepted request is the same when it is
/// written and read again.
pub(crate) fn request(data: &[u8]) {
    let Some((head, payload)) = data.split_first_chunk::<REQUEST_HEADER_BYTES>() else {
        return;
    };
    let announced = RequestHeader::parse(head);
    assert_eq!(&announced.encode(), head);
    if let Ok(payload) = announced.payload() {
        assert!(payload.buffered_bytes() <= LIST_PAYLOAD_BYTES_MAX);
    }
    // The input's own length, so that more than a few inputs get further.
    let mut header = announced;
    if !matches!(announced.payload(), Ok(Payload::Streamed(_))) {
        header.length = i32::try_from(payload.len()).unwrap_or(i32::MAX);
    }
    let Ok(request) = Request::parse(&header, payload) else {
        return;
    };
    let mut bytes = Vec::new();
    request.encode(header.stream, &mut bytes);
    let (head, payload) = bytes
        .split_first_chunk::<REQUEST_HEADER_BYTES>()
        .expect("a header is written");
    let again = RequestHeader::parse(head);
    assert_eq!((again.stream, again.opcode), (header.stream, header.opcode));
    assert_eq!(Request::parse(&again, payload).as_ref(), Ok(&request), "{request:?}");
}

/// An accepted response is the same when it is written and read again.
pub(crate) fn response(data: &[u8]) {
    let Some((head, body)) = data.split_first_chunk::<RESPONSE_HEADER_BYTES>() else {
        return;
    };
    let mut header = ResponseHeader::parse(head);
    assert_eq!(&header.encode(), head);
    header.length = i32::try_from(body.len()).unwrap_or(i32::MAX);
    if header.body().is_err() {
        return;
    }
    let Ok(answer) = Answer::parse(&header, body) else {
        return;
    };
    let mut bytes = Vec::new();
    if !written(&header, &answer, &mut bytes) {
        return;
    }
    let (head, body) = bytes
        .split_first_chunk::<RESPONSE_HEADER_BYTES>()
        .expect("a header is written");
    let again = ResponseHeader::parse(head);
    let found = Answer::parse(&again, body).unwrap_or_else(|error| panic!("{answer:?} is refused: {error}"));
    assert_eq!(found, answer);
}

/// Writes an answer again; `false` for those that only clients read.
fn written(header: &ResponseHeader, answer: &Answer<'_>, out: &mut Vec<u8>) -> bool {
    let stream = header.stream;
    match answer {
        Answer::Ok(body) => respond::ok(out, stream, body),
        Answer::Partial(body) => respond::partial(out, stream, body),
        Answer::MoreAuthentication(body) => respond::more_authentication(out, stream, body),
        Answer::Error { number, message } => respond::error(out, stream, *number, message),
        Answer::Redirect(redirect) => respond::redirect(out, stream, redirect),
        Answer::Wait { seconds, message } => respond::wait(out, stream, *seconds, message),
        Answer::WaitForAnswer { seconds, message } => respond::wait_for_answer(out, stream, *seconds, message),
        Answer::Pages(status) => out.extend_from_slice(&status.encode()),
        Answer::Attention(Attention::Answer(late)) => {
            let kind = late.header.kind().expect("checked when it was read");
            respond::later(out, late.header.stream, kind, late.body);
        }
        Answer::Attention(Attention::Other(_)) => return false,
    }
    true
}

/// The bodies of answers: the first byte chooses which. What is accepted is the same when it is
/// written and read again.
pub(crate) fn body(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else {
        return;
    };
    match choice % 14 {
        0 => same(StatText::parse(body).ok(), stat_text, |bytes| {
            StatText::parse(bytes).ok()
        }),
        1 => same(OpenReply::parse(body).ok(), OpenReply::encode, |bytes| {
            OpenReply::parse(bytes).ok()
        }),
        2 => same(ProtocolReply::parse(body).ok(), ProtocolReply::encode, |bytes| {
            ProtocolReply::parse(bytes).ok()
        }),
        3 => same(LoginReply::parse(body).ok(), LoginReply::encode, |bytes| {
            LoginReply::parse(bytes).ok()
        }),
        4 => same(
            parse_locations(body).ok(),
            |locations| {
                let mut writer = LocateWriter::new();
                locations.iter().for_each(|location| writer.add(location));
                writer.build().into_bytes()
            },
            |bytes| parse_locations(bytes).ok(),
        ),
        5 => same(
            parse_checksum(body).ok().flatten(),
            |checksum| checksum_answer(checksum).into_bytes(),
            |bytes| parse_checksum(bytes).ok().flatten(),
        ),
        6 => same(
            SpaceText::parse(body).ok(),
            |space| space.to_text().into_bytes(),
            |bytes| SpaceText::parse(bytes).ok(),
        ),
        7 => same(
            SpaceUsage::parse(body).ok(),
            |space| space.to_text().into_bytes(),
            |bytes| SpaceUsage::parse(bytes).ok(),
        ),
        8 => same(
            AttributeAnswer::parse_changed(body).ok(),
            AttributeAnswer::encode,
            |bytes| AttributeAnswer::parse_changed(bytes).ok(),
        ),
        9 => same(
            AttributeAnswer::parse_values(body).ok(),
            AttributeAnswer::encode,
            |bytes| AttributeAnswer::parse_values(bytes).ok(),
        ),
        10 => same(AttributeList::parse(body, false).ok(), AttributeList::encode, |bytes| {
            AttributeList::parse(bytes, false).ok()
        }),
        11 => same(AttributeList::parse(body, true).ok(), AttributeList::encode, |bytes| {
            AttributeList::parse(bytes, true).ok()
        }),
        12 => {
            if let Ok(Some(pages)) = BadPages::parse(body) {
                assert!(!pages.offsets.is_empty() && pages.offsets.len() * 8 + 8 == body.len());
            }
        }
        _ => same(
            parse_unlisted(body).ok(),
            |unlisted| unlisted_answer(unlisted).into_bytes(),
            |bytes| parse_unlisted(bytes).ok(),
        ),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    value: Option<T>,
    write: impl Fn(&T) -> Vec<u8>,
    read: impl Fn(&[u8]) -> Option<T>,
) {
    let Some(value) = value else { return };
    let bytes = write(&value);
    assert_eq!(
        read(&bytes).as_ref(),
        Some(&value),
        "{}",
        String::from_utf8_lossy(&bytes)
    );
}

fn stat_text(stat: &StatText) -> Vec<u8> {
    let mut bytes = Vec::new();
    stat.write(&mut bytes);
    bytes
}

/// How a listing arrives does not change it, and what was read can be written. The first byte says
/// how it is cut, and whether stat texts were asked for.
pub(crate) fn listing(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let (piece_bytes, stat) = (usize::from(*cut >> 1) + 1, cut & 1 == 1);
    let whole = read_listing(body, body.len().max(1), stat);
    assert_eq!(whole, read_listing(body, piece_bytes, stat), "pieces of {piece_bytes}");
    let Some((entries, has_stat)) = whole else { return };
    let mut writer = ListingWriter::new(has_stat);
    for entry in &entries {
        assert!(entry.name.len() <= LISTING_LINE_BYTES_MAX && !entry.name.contains('/'));
        let added = writer.add(&entry.name, entry.stat.as_ref(), entry.checksum.as_deref());
        assert!(added, "{entry:?}");
    }
    let again = read_listing(&writer.finish(), usize::MAX, has_stat);
    assert_eq!(again, Some((entries, has_stat)));
}

fn read_listing(body: &[u8], piece_bytes: usize, stat: bool) -> Option<(Vec<ListedEntry>, bool)> {
    let mut reader = ListingReader::new(stat);
    let mut entries = Vec::new();
    for piece in body.chunks(piece_bytes) {
        reader.feed(piece, |entry| entries.push(entry)).ok()?;
    }
    let mut has_stat = reader.has_stat();
    reader.clone().finish(|entry| entries.push(entry)).ok()?;
    // A list that ends with its first two lines, without a NUL, is empty.
    has_stat |= stat && entries.is_empty() && body == b".\n0 0 0 0";
    Some((entries, has_stat))
}

/// Data with checksums give the same data and the same verdicts however they arrive. The first byte
/// says how they are cut, the next two where in the file they begin.
pub(crate) fn page_units(data: &[u8]) {
    let Some(([cut, high, low], encoded)) = data.split_first_chunk::<3>() else {
        return;
    };
    let offset = u64::from(u16::from_be_bytes([*high, *low]));
    let Some(data_bytes) = pages::data_bytes(offset, encoded.len()) else {
        assert!(pages::UnitDecoder::new(offset, encoded.len()).is_none());
        return;
    };
    assert_eq!(pages::encoded_bytes(offset, data_bytes), encoded.len());
    let mut decoder = pages::UnitDecoder::new(offset, encoded.len()).expect("whole units");
    let (mut found, mut verdicts) = (Vec::new(), Vec::new());
    for mut piece in encoded.chunks(usize::from(*cut) + 1).chain([&[][..]]) {
        while let Some(next) = decoder.next(&mut piece) {
            match next {
                pages::Piece::Data { data, .. } => found.extend_from_slice(data),
                pages::Piece::UnitEnd { offset, length, sound } => verdicts.push((offset, length, sound)),
            }
        }
        assert!(piece.is_empty());
    }
    assert!(decoder.is_done());
    let units: Vec<_> = pages::units(offset, encoded).collect();
    assert!(units.iter().all(|unit| (1..=PAGE_BYTES).contains(&unit.data.len())));
    let expected: Vec<_> = units
        .iter()
        .map(|unit| (unit.offset, unit.data.len(), unit.is_sound()))
        .collect();
    assert_eq!(verdicts, expected);
    assert_eq!(
        found,
        units.iter().flat_map(|unit| unit.data).copied().collect::<Vec<_>>()
    );
    assert_eq!(found.len(), data_bytes);
}

/// An answer to a vector read is the same however it arrives. The first byte says how it is cut.
pub(crate) fn vector_answer(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let whole = parse_vector_answer(body).ok();
    let mut decoder = ReadVectorDecoder::new();
    let mut items: Vec<(VectorItem, Vec<u8>)> = Vec::new();
    for mut piece in body.chunks(usize::from(*cut) + 1) {
        loop {
            match decoder.next(&mut piece) {
                Err(_) => {
                    assert!(whole.is_none());
                    return;
                }
                Ok(None) => break,
                Ok(Some(VectorPiece::Head { item, .. })) => items.push((item, Vec::new())),
                Ok(Some(VectorPiece::Data(data))) => {
                    items
                        .last_mut()
                        .expect("data stand behind their head")
                        .1
                        .extend_from_slice(data);
                }
            }
        }
    }
    match whole {
        Some(whole) => {
            let whole: Vec<_> = whole.into_iter().map(|(item, data)| (item, data.to_vec())).collect();
            assert_eq!(items, whole);
            assert!(decoder.is_between_items());
        }
        None => assert!(!decoder.is_between_items()),
    }
}

/// An accepted path is normal, and what its CGI says of a third-party copy survives being written.
pub(crate) fn cgi(data: &[u8]) {
    let argument = Argument::new(data);
    let Ok(found) = argument.path() else { return };
    assert!(found.path.as_str().starts_with('/') && !found.path.components().any(|name| name == ".."));
    let cgi: Cgi<'_> = found.cgi;
    if let Some(token) = cgi.token() {
        // Short ones may be part of what is shown by chance.
        assert!(token.expose().len() < 12 || !format!("{cgi:?}").contains(token.expose()));
    }
    let Some(copy) = cgi.third_party() else { return };
    let plain = !cgi
        .text()
        .chars()
        .any(|character| character.is_control() && character != '\t');
    if plain {
        let built = CgiBuilder::pairs_only().third_party(&copy).build();
        assert_eq!(Cgi::new(&built).third_party(), Some(copy), "{built}");
    }
}
