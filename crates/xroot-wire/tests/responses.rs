//! Responses that are wrong, and responses made of any values.

use proptest::collection::vec;
use proptest::prelude::*;
use types::ErrorCode;
use xroot_wire::limits::{LISTING_LINE_BYTES_MAX, PAGE_BYTES, RESPONSE_HEADER_BYTES};
use xroot_wire::request::VectorItem;
use xroot_wire::response::{
    Attention, AttributeAnswer, AttributeList, BadPages, ConfigAnswer, ListingReader, ListingWriter, LoginReply,
    OpenReply, PageStatus, PageStatusKind, ProtocolReply, ReadVectorDecoder, Redirect, RedirectTarget, SecurityEntry,
    SigningLevel, SigningNeed, SigningRules, SpaceText, StatExtension, StatText, VectorPiece, parse_checksum,
    parse_file_kinds, parse_locations, parse_security_list, parse_unlisted, parse_vector_answer,
};
use xroot_wire::{
    Answer, ErrorNumber, FileHandle, Opcode, ResponseHeader, StatFlags, Status, StreamId, pages, respond,
};

const STREAM: StreamId = StreamId::new(0x0100);

fn parse(bytes: &[u8]) -> Result<Answer<'_>, types::Error> {
    let (head, body) = bytes.split_first_chunk::<RESPONSE_HEADER_BYTES>().expect("a header");
    let header = ResponseHeader::parse(head);
    header.body()?;
    Answer::parse(&header, body)
}

fn misbehaves<T: std::fmt::Debug>(result: Result<T, types::Error>) -> bool {
    result.is_err_and(|error| error.code() == ErrorCode::PeerMisbehaved)
}

#[test]
fn an_error_ends_with_nul_and_is_never_shorter_than_five_bytes() {
    let mut bytes = Vec::new();
    respond::error(&mut bytes, STREAM, ErrorNumber::NOT_FOUND, "");
    assert_eq!(bytes, [1, 0, 0x0f, 0xa3, 0, 0, 0, 5, 0, 0, 0x0b, 0xc3, 0]);
    let message = String::new();
    assert_eq!(
        parse(&bytes).expect("sound"),
        Answer::Error {
            number: ErrorNumber::NOT_FOUND,
            message
        }
    );
    assert!(misbehaves(parse(&[1, 0, 0x0f, 0xa3, 0, 0, 0, 3, 0, 0, 0])));
}

#[test]
fn headers_that_lie_are_refused() {
    for (status, length) in [(1, 0), (0, -1), (4003, 17 << 20), (4007, 15), (4007, 5000)] {
        let header = ResponseHeader {
            stream: STREAM,
            status,
            length,
        };
        assert!(misbehaves(header.body()), "{status} {length}");
    }
    let data = ResponseHeader {
        stream: STREAM,
        status: 0,
        length: i32::MAX,
    };
    assert_eq!(data.body().expect("data may be long").bytes(), i32::MAX as usize);
}

#[test]
fn late_answers_hold_an_ordinary_answer_of_the_right_length() {
    let mut bytes = Vec::new();
    respond::later(&mut bytes, STREAM, Status::Ok, b"adler32 f627ce87\0");
    assert_eq!(bytes.len(), 8 + 16 + 17);
    let Ok(Answer::Attention(Attention::Answer(late))) = parse(&bytes) else {
        panic!("a late answer")
    };
    assert_eq!((late.header.stream, late.body), (STREAM, &b"adler32 f627ce87\0"[..]));
    for (at, value) in [(23, 16), (23, 18), (18, 0x0f), (21, 1)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        bad[19] = if at == 18 { 0xa1 } else { bad[19] };
        assert!(misbehaves(parse(&bad)), "byte {at}");
    }
    let obsolete = [0, 0, 0x0f, 0xa1, 0, 0, 0, 4, 0, 0, 0x13, 0x8a];
    assert_eq!(
        parse(&obsolete).expect("ignored"),
        Answer::Attention(Attention::Other(5002))
    );
}

#[test]
fn redirections_keep_what_follows_the_host() {
    let redirect = |port: i32, text: &str| {
        let mut bytes = Vec::new();
        let body = [&port.to_be_bytes()[..], text.as_bytes()].concat();
        respond::frame(&mut bytes, STREAM, Status::Redirect, &body);
        match parse(&bytes) {
            Ok(Answer::Redirect(redirect)) => {
                assert_eq!(redirect.encode(), body, "{text}");
                Some(redirect)
            }
            _ => None,
        }
    };
    let plain = redirect(1095, "pool.example.org").expect("sound");
    assert_eq!(plain, Redirect::to_host("pool.example.org", 1095));
    let full = redirect(1095, "[::1]?org.dcache.uuid=1&a=b?token").expect("sound");
    assert_eq!(full.cgi.as_deref(), Some("org.dcache.uuid=1&a=b"));
    assert_eq!(full.login_token.as_deref(), Some("token"));
    let empty_cgi = redirect(1095, "host??token").expect("sound");
    assert_eq!(
        (empty_cgi.cgi.as_deref(), empty_cgi.login_token.as_deref()),
        (Some(""), Some("token"))
    );
    let url = redirect(-1, "https://a/f?x").expect("sound");
    assert_eq!(url, Redirect::to_url("https://a/f?x"));
    let flags = redirect(!0x2000, "root://a//f").expect("sound");
    assert!(matches!(flags.target, RedirectTarget::Url { flags: 0x2000, .. }));
    assert_eq!(
        redirect(0, "host:1094").expect("sound").target,
        RedirectTarget::Host {
            host: "host:1094".to_owned(),
            port: None
        }
    );
    assert!(redirect(70000, "host").is_none() && redirect(1, "").is_none());
}

#[test]
fn page_answers_are_checked_by_their_sum() {
    let head = PageStatus::page_read(STREAM, PageStatusKind::Final, 0, 0x17).encode();
    // The bytes that XRootD 5.5.3 sent for the same.
    assert_eq!(head[8..12], [0x97, 0x43, 0xc3, 0x54]);
    let Ok(Answer::Pages(status)) = parse(&head) else {
        panic!("sound")
    };
    assert_eq!((status.opcode, status.data_bytes), (Opcode::PageRead, 0x17));
    for at in 8..32 {
        let mut bad = head;
        bad[at] ^= 1;
        assert!(misbehaves(parse(&bad)), "byte {at}");
    }
    let mut other_stream = head;
    other_stream[0] = 9;
    assert!(misbehaves(parse(&other_stream)));
}

#[test]
fn lists_of_damaged_pages_are_checked() {
    let bad = BadPages {
        first_bytes: 4096,
        last_bytes: 4096,
        offsets: vec![4096],
    };
    let bytes = PageStatus::page_write(STREAM, 100, Some(&bad));
    let list = &bytes[32..];
    assert_eq!(list[..4], [0x80, 0x39, 0x4a, 0xd3], "as XRootD 5.5.3 sent it");
    assert_eq!(BadPages::parse(list).expect("sound"), Some(bad));
    assert_eq!(BadPages::parse(b"").expect("sound"), None);
    for bad in [&list[..15], &list[..3], &list[..8], &[&list[..4], &[0; 12]].concat()] {
        assert!(misbehaves(BadPages::parse(bad)));
    }
}

#[test]
fn stat_texts_of_four_and_nine_words_are_read() {
    let short = StatText::parse(b"7 19 48 1795286507").expect("sound");
    assert_eq!((short.size_bytes, short.extension.is_none()), (19, true));
    let long = StatText::parse(b"7 19 51 1 2 3 0755 nobody nogroup and more\0rest").expect("sound");
    assert_eq!(long.extension.as_ref().map(|more| more.mode), Some(0o755));
    assert!(long.is_directory());
    for bad in [
        "",
        "7 19 48",
        "a 19 48 1",
        "7 -1 48 1",
        "7 19 48 x",
        "7 19 48 1 2 3 0999 a b",
        "7 19 48 1 x 3 0755 a b",
    ] {
        assert!(misbehaves(StatText::parse(bad.as_bytes())), "{bad}");
    }
    let strange = StatText {
        extension: Some(StatExtension {
            changed_s: 0,
            accessed_s: 0,
            mode: 0,
            owner: "a b".to_owned(),
            group: String::new(),
        }),
        ..short
    };
    let mut text = Vec::new();
    strange.write(&mut text);
    assert!(text.ends_with(b" 0000 ? ?"), "names are single words");
    assert!(misbehaves(SpaceText::parse(b"1 2 3 4 5")) && misbehaves(SpaceText::parse(b"1 2 3 4 5 x")));
}

#[test]
fn open_answers_are_read_with_and_without_stat() {
    assert_eq!(
        OpenReply::parse(&[0, 0, 0, 1]).expect("sound").handle,
        FileHandle::new(1)
    );
    assert!(OpenReply::parse(&[0; 12]).expect("sound").stat.is_none());
    for bad in [
        &[0; 3][..],
        &[0; 11],
        &[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        b"\0\0\0\0\0\0\0\0\0\0\0\0nonsense",
    ] {
        assert!(misbehaves(OpenReply::parse(bad)), "{bad:?}");
    }
}

fn list(asked_for_stat: bool, parts: &[&[u8]]) -> Result<Vec<(String, bool, Option<String>)>, types::Error> {
    let mut reader = ListingReader::new(asked_for_stat);
    let mut entries = Vec::new();
    for part in parts {
        reader.feed(part, |entry| {
            entries.push((entry.name, entry.stat.is_some(), entry.checksum))
        })?;
    }
    reader.finish(|entry| entries.push((entry.name, entry.stat.is_some(), entry.checksum)))?;
    Ok(entries)
}

#[test]
fn listings_are_read_however_they_are_cut() {
    let plain = |name: &str| (name.to_owned(), false, None);
    assert_eq!(
        list(false, &[b"a\nb", b"b\nc\0"]).expect("sound"),
        [plain("a"), plain("bb"), plain("c")]
    );
    assert_eq!(list(false, &[b"a\nb"]).expect("no NUL"), [plain("a"), plain("b")]);
    assert!(list(false, &[]).expect("empty").is_empty());
    assert!(list(true, &[b".\n0 0 0 0\0"]).expect("empty").is_empty());
    assert_eq!(
        list(true, &[b"a\nb\0"]).expect("a server without stat"),
        [plain("a"), plain("b")]
    );
    let entries = list(
        true,
        &[
            b".\n0 0 ",
            b"0 0\nf\n1 2 48 3 [ adler32:47da0749 ]\ng\n1 2 48 3 [ adler32:none ]\0",
        ],
    );
    let with = |name: &str, sum: &str| (name.to_owned(), true, Some(sum.to_owned()));
    assert_eq!(
        entries.expect("sound"),
        [with("f", "adler32:47da0749"), with("g", "adler32:none")]
    );
}

#[test]
fn listings_that_lead_astray_are_refused() {
    let long = vec![b'a'; LISTING_LINE_BYTES_MAX + 1];
    let cases: [(bool, &[u8]); 8] = [
        (false, b"..\0"),
        (false, b"a/b\0"),
        (false, b"\xff\0"),
        (false, &long),
        (true, b".\n1 2 3 4\0"),
        (true, b".\n0 0 0 0\nf\0"),
        (true, b".\n0 0 0 0\n../f\n1 2 48 3\0"),
        (true, b".\n0 0 0 0\nf\n1 2 48 3 [ adler32:1\0"),
    ];
    for (stat, body) in cases {
        assert!(
            misbehaves(list(stat, &[body])),
            "{:?}",
            String::from_utf8_lossy(&body[..body.len().min(40)])
        );
    }
    let mut writer = ListingWriter::new(false);
    assert!(!writer.add("a\nb", None, None) && !writer.add("", None, None));
    assert!(writer.finish().is_empty());
    assert_eq!(ListingWriter::new(true).finish(), b".\n0 0 0 0\0");
}

#[test]
fn the_protocols_records_are_read_in_their_order() {
    let captured = b"\0\0\x05\x11\0\x30\0\x01S\0\0\0\x03\0";
    let reply = ProtocolReply::parse(captured).expect("sound");
    let rules = reply.signing.clone().expect("a record");
    assert_eq!(rules.level, SigningLevel::Intense);
    assert_eq!(reply.encode(), captured);
    assert_eq!(rules.need(Opcode::Write), SigningNeed::Needed);
    assert_eq!(rules.need(Opcode::Read), SigningNeed::Ignored);
    assert_eq!(rules.need(Opcode::Query), SigningNeed::IfModifying);
    assert_eq!(rules.need(Opcode::WriteVector), SigningNeed::Ignored);
    let overridden = SigningRules {
        overrides: vec![(13, 2), (19, 0)],
        ..rules
    };
    assert_eq!(
        (overridden.need(Opcode::Read), overridden.need(Opcode::Write)),
        (SigningNeed::Needed, SigningNeed::Ignored)
    );
    let both = ProtocolReply {
        bind_interfaces: Some("a:1,b:2".to_owned()),
        signing: Some(overridden),
        ..reply
    };
    assert_eq!(ProtocolReply::parse(&both.encode()).expect("sound"), both);
    for cut in [7, 9, 11, 13, 19, 21, 25] {
        assert!(misbehaves(ProtocolReply::parse(&both.encode()[..cut])), "{cut}");
    }
}

#[test]
fn logins_and_their_lists_are_read_with_and_without_nul() {
    let body = [&[7; 16][..], b"&P=ztn,0:4096:&P=unix"].concat();
    let reply = LoginReply::parse(&body).expect("sound");
    assert_eq!(reply.encode(), body);
    let names: Vec<_> = reply.protocols.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["ztn", "unix"]);
    let gsi = parse_security_list(b"&P=gsi,v:10400,c:ssl,ca:1.0|2.0\0garbage");
    assert_eq!(
        gsi,
        [SecurityEntry {
            name: "gsi".to_owned(),
            parameters: Some("v:10400,c:ssl,ca:1.0|2.0".to_owned())
        }]
    );
    assert!(parse_security_list(b"&P=&Q=x&&P").is_empty());
    assert!(misbehaves(LoginReply::parse(&[0; 15])));
}

#[test]
fn small_answers_are_refused_when_they_are_wrong() {
    assert!(parse_checksum(b"sha512 00").expect("sound").is_none());
    for bad in [&b"adler32"[..], b"adler32 1 2", b"adler32 xyz", b"\xff"] {
        assert!(misbehaves(parse_checksum(bad)), "{bad:?}");
    }
    for bad in [&b"S"[..], b"Sw", b"Xwhost", b"Sxhost", b"Swhost \xff"] {
        assert!(misbehaves(parse_locations(bad)), "{bad:?}");
    }
    assert_eq!(
        parse_file_kinds(&[0, 2], 2).expect("sound"),
        [StatFlags::empty(), StatFlags::DIRECTORY]
    );
    assert!(misbehaves(parse_file_kinds(&[0], 2)));
    let config = ConfigAnswer::parse(b"1\ntpcdlg\nv5.5.3\n").expect("sound");
    assert!(config.offers_third_party(0) && config.value(1, "tpcdlg").is_none() && config.value(3, "x").is_none());
    assert!(!ConfigAnswer::parse(b"tpc\n").expect("sound").offers_third_party(0));
    for bad in [&b"\0"[..], b"\0\x01\0", b"\0\x01\0\0a", b"\0\x01\0\0a\0more", b"\0\x11"] {
        assert!(misbehaves(AttributeAnswer::parse_changed(bad)), "{bad:?}");
    }
    for bad in [
        &b"\0\x01\0\0a\0"[..],
        b"\0\x01\0\0a\0\xff\xff\xff\xff",
        b"\0\x01\0\0a\0\0\0\0\x02x",
    ] {
        assert!(misbehaves(AttributeAnswer::parse_values(bad)), "{bad:?}");
    }
    assert!(misbehaves(AttributeList::parse(b"a", false)) && misbehaves(AttributeList::parse(b"a\0\0\0\0\x01", true)));
    assert!(misbehaves(parse_vector_answer(&[0; 17])));
    for bad in [
        &b""[..],
        b"names",
        b"names=",
        b"names=-1",
        b"names=18446744073709551616&links=1",
        b"names=1",
        b"links=1",
        b"\xff",
    ] {
        assert!(misbehaves(parse_unlisted(bad)), "{bad:?}");
    }
    let unlisted = parse_unlisted(b"names=2&links=1&more=x\0").expect("sound");
    assert_eq!((unlisted.names.count, unlisted.links.count), (2, 1));
}

fn vector_pieces(body: &[u8], piece_bytes: usize) -> (Vec<VectorItem>, Vec<u8>) {
    let mut decoder = ReadVectorDecoder::new();
    let (mut items, mut data) = (Vec::new(), Vec::new());
    for mut piece in body.chunks(piece_bytes) {
        while let Some(next) = decoder.next(&mut piece).expect("sound") {
            match next {
                VectorPiece::Head { number, item } => {
                    assert_eq!(number, items.len());
                    items.push(item);
                }
                VectorPiece::Data(bytes) => data.extend_from_slice(bytes),
            }
        }
    }
    assert!(decoder.is_between_items());
    (items, data)
}

proptest! {
    #[test]
    fn vector_answers_are_the_same_however_they_are_cut(ranges in vec((0..=i64::MAX as u64, vec(any::<u8>(), 0..40)), 0..12), piece in 1_usize..50) {
        let mut body = Vec::new();
        let mut items = Vec::new();
        for (offset, data) in &ranges {
            let item = VectorItem { handle: FileHandle::new(5), length: data.len() as u32, offset: *offset };
            items.push(item);
            body.extend_from_slice(&item.encode());
            body.extend_from_slice(data);
        }
        let data: Vec<u8> = ranges.iter().flat_map(|(_, data)| data.clone()).collect();
        prop_assert_eq!(vector_pieces(&body, piece), (items, data));
    }

    #[test]
    fn listings_are_the_same_however_they_are_cut(names in vec("[^/\n\0]{1,20}", 0..20), stat: bool, piece in 1_usize..40) {
        let names: Vec<String> = names.into_iter().filter(|name| name != "." && name != "..").collect();
        let text = StatText { id: 1, size_bytes: 2, flags: StatFlags::READABLE, modified_s: 3, extension: None };
        let mut writer = ListingWriter::new(stat);
        for name in &names {
            prop_assert!(writer.add(name, stat.then_some(&text), None));
        }
        let body = writer.finish();
        let parts: Vec<&[u8]> = body.chunks(piece).collect();
        let found = list(stat, &parts).expect("sound");
        prop_assert_eq!(found.iter().map(|entry| entry.0.clone()).collect::<Vec<_>>(), names);
        prop_assert!(found.iter().all(|entry| entry.1 == stat));
    }

    #[test]
    fn units_are_the_same_however_they_are_cut(offset in 0_u64..20_000, data in vec(any::<u8>(), 0..20_000), piece in 1_usize..9000, damage: Option<u16>) {
        let mut encoded = Vec::new();
        pages::encode_units(offset, &data, &mut encoded);
        prop_assert_eq!(encoded.len(), pages::encoded_bytes(offset, data.len()));
        prop_assert_eq!(pages::data_bytes(offset, encoded.len()), Some(data.len()));
        let hit = damage.map(usize::from).filter(|at| *at < encoded.len());
        if let Some(at) = hit {
            encoded[at] ^= 0x40;
        }
        let mut decoder = pages::UnitDecoder::new(offset, encoded.len()).expect("whole units");
        let (mut found, mut sound, mut damaged, mut at) = (Vec::new(), 0, 0, offset);
        for mut input in encoded.chunks(piece).chain([&[][..]]) {
            while let Some(next) = decoder.next(&mut input) {
                match next {
                    pages::Piece::Data { offset, data } => {
                        prop_assert_eq!(offset, at);
                        at += data.len() as u64;
                        found.extend_from_slice(data);
                    }
                    pages::Piece::UnitEnd { offset, length, sound: good } => {
                        prop_assert_eq!(offset + length as u64, at);
                        prop_assert!(length <= PAGE_BYTES);
                        sound += usize::from(good);
                        damaged += usize::from(!good);
                    }
                }
            }
        }
        prop_assert!(decoder.is_done());
        prop_assert_eq!(sound + damaged, pages::unit_count(offset, data.len()));
        prop_assert_eq!(damaged, usize::from(hit.is_some()));
        prop_assert_eq!(pages::units(offset, &encoded).filter(|unit| !unit.is_sound()).count(), damaged);
        prop_assert_eq!(found.len(), data.len());
        let mut sums = Vec::new();
        let cut = data.len() / 3;
        pages::unit_checksums(offset, &[&data[..cut], &[], &data[cut..]], &mut sums);
        prop_assert_eq!(sums.len(), pages::unit_count(offset, data.len()));
        let mut wrong = Vec::new();
        pages::verify_units(offset, &[&found], &sums, &mut wrong);
        prop_assert!(wrong.len() <= 1);
    }

    #[test]
    fn any_error_that_is_read_is_written_as_the_same(number: u32, text in vec(any::<u8>(), 0..100)) {
        let body = [&number.to_be_bytes()[..], &text].concat();
        let mut bytes = Vec::new();
        respond::frame(&mut bytes, STREAM, Status::Error, &body);
        let answer = parse(&bytes).expect("sound");
        let Answer::Error { number, message } = &answer else { panic!("an error") };
        let mut again = Vec::new();
        respond::error(&mut again, STREAM, *number, message);
        prop_assert_eq!(parse(&again).expect("sound"), answer);
    }
}

#[test]
fn units_that_end_in_a_checksum_are_refused() {
    assert_eq!(pages::data_bytes(0, 4), None);
    assert_eq!(pages::data_bytes(0, 4100 + 4), None);
    assert_eq!(pages::data_bytes(0, 4100 + 5), Some(4097));
    assert_eq!(pages::data_bytes(4095, 5), Some(1));
    assert_eq!(pages::data_bytes(4095, 9), None);
    assert_eq!(pages::data_bytes(4000, 0xd0), Some(200), "as captured");
    assert_eq!(pages::encoded_bytes(0, 8 << 20), 0x80_2000, "a chunk of xrdcp");
    assert!(pages::UnitDecoder::new(u64::MAX, 5).is_none());
    assert_eq!(pages::checksum(b"123456789"), 0xe306_9283);
}
