//! Requests that are wrong, and requests made of any values.

use proptest::collection::vec;
use proptest::prelude::*;
use types::ErrorCode;
use xroot_wire::limits::{PATH_PAYLOAD_BYTES_MAX, READV_ITEM_BYTES_MAX, READV_ITEMS_MAX, REQUEST_HEADER_BYTES};
use xroot_wire::request::{
    Access, AttributeAction, Checkpoint, CheckpointAction, Creation, FileAttributes, Open, Query, QueryKind, Read,
    ReadVector, Rename, Truncate, TruncateTarget, VectorItem, Write, WriteVector,
};
use xroot_wire::{
    Argument, AttributeOptions, ErrorNumber, FileHandle, Opcode, OpenExtraOptions, OpenOptions, Payload, Refusal,
    Request, RequestHeader, StreamId,
};

/// A header with an opcode, some bytes of the parameter block and a length.
fn header(opcode: u16, block: &[(usize, u8)], length: i32) -> RequestHeader {
    let mut header = RequestHeader {
        stream: StreamId::new(7),
        opcode,
        block: [0; 16],
        length,
    };
    for (at, byte) in block {
        header.block[*at] = *byte;
    }
    header
}

fn refusal(header: &RequestHeader, payload: &[u8]) -> Refusal {
    match header.payload() {
        Err(refusal) => refusal,
        Ok(_) => Request::parse(header, payload).expect_err("a refusal"),
    }
}

#[test]
fn lengths_that_lie_close_the_connection() {
    let closing = |opcode, length| {
        let refusal = header(opcode, &[], length).payload().expect_err("a refusal");
        assert!(refusal.closes, "{opcode} {length}");
        refusal.number
    };
    assert_eq!(closing(3010, -1), ErrorNumber::ARGUMENT_INVALID);
    assert_eq!(closing(3019, i32::MIN), ErrorNumber::ARGUMENT_INVALID);
    assert_eq!(closing(3026, 4), ErrorNumber::ARGUMENT_INVALID);
    assert_eq!(
        closing(3010, PATH_PAYLOAD_BYTES_MAX as i32 + 1),
        ErrorNumber::ARGUMENT_TOO_LONG
    );
    assert_eq!(closing(3025, i32::MAX), ErrorNumber::ARGUMENT_TOO_LONG);
    assert_eq!(closing(3031, i32::MAX), ErrorNumber::ARGUMENT_TOO_LONG);
    assert_eq!(closing(4711, i32::MAX), ErrorNumber::ARGUMENT_TOO_LONG);
}

#[test]
fn data_of_writes_are_never_asked_into_memory() {
    assert_eq!(
        header(3019, &[], i32::MAX).payload(),
        Ok(Payload::Streamed(i32::MAX as usize))
    );
    assert_eq!(header(3026, &[], 8_396_800).payload(), Ok(Payload::Streamed(8_396_800)));
    assert_eq!(header(3031, &[], 32).payload(), Ok(Payload::ListThenData(32)));
    assert_eq!(header(3012, &[(15, 4)], 24).payload(), Ok(Payload::Embedded(24)));
}

#[test]
fn a_missing_payload_is_missed_before_anything_else() {
    for opcode in [
        3000, 3001, 3002, 3004, 3008, 3009, 3010, 3014, 3015, 3020, 3021, 3022, 3025, 3027, 3031, 3032, 3999,
    ] {
        let refusal = refusal(&header(opcode, &[], 0), b"");
        assert_eq!(refusal.number, ErrorNumber::ARGUMENT_MISSING, "{opcode}");
    }
    let unknown = refusal(&header(3999, &[], 2), b"/a");
    assert_eq!((unknown.number, unknown.closes), (ErrorNumber::INVALID_REQUEST, false));
}

#[test]
fn negative_offsets_and_lengths_are_refused() {
    for (opcode, at) in [(3013, 4), (3013, 12), (3030, 4), (3030, 12), (3019, 4), (3028, 4)] {
        let refusal = refusal(&header(opcode, &[(at, 0x80)], 0), b"");
        assert_eq!(refusal.number, ErrorNumber::ARGUMENT_INVALID, "{opcode}, byte {at}");
    }
    let page_read_of_nothing = refusal(&header(3030, &[], 0), b"");
    assert_eq!(page_read_of_nothing.number, ErrorNumber::ARGUMENT_INVALID);
}

#[test]
fn vectors_are_refused_with_the_numbers_that_clients_know() {
    let item = |length: u32| {
        VectorItem {
            handle: FileHandle::new(1),
            length,
            offset: 0,
        }
        .encode()
    };
    let many = item(1).repeat(READV_ITEMS_MAX + 1);
    assert_eq!(
        ReadVector::new(0, &many).expect_err("too many").number,
        ErrorNumber::ARGUMENT_TOO_LONG
    );
    let closes = WriteVector::new(0, &many).expect_err("too many");
    assert!(closes.closes, "nobody knows how much data follows");
    let large = item(READV_ITEM_BYTES_MAX as u32 + 1);
    assert_eq!(
        ReadVector::new(0, &large).expect_err("too large").number,
        ErrorNumber::NO_MEMORY
    );
    for bad in [&item(1)[..15], &item(0x8000_0000)[..]] {
        assert_eq!(
            ReadVector::new(0, bad).expect_err("malformed").number,
            ErrorNumber::ARGUMENT_INVALID
        );
    }
    let whole = item(READV_ITEM_BYTES_MAX as u32).repeat(READV_ITEMS_MAX);
    let vector = ReadVector::new(0, &whole).expect("as large as can be");
    assert_eq!(
        vector.answer_bytes(),
        (READV_ITEM_BYTES_MAX as u64 + 16) * READV_ITEMS_MAX as u64
    );
}

#[test]
fn names_to_rename_are_split_by_length_or_at_the_first_space() {
    let split = |length: u8, payload: &'static [u8]| match Request::parse(&header(3009, &[(15, length)], 0), payload) {
        Ok(Request::Rename(rename)) => Some((rename.source.bytes(), rename.destination.bytes())),
        _ => None,
    };
    assert_eq!(split(0, b"/a /b c"), Some((&b"/a"[..], &b"/b c"[..])));
    assert_eq!(split(4, b"/a b /c"), Some((&b"/a b"[..], &b"/c"[..])));
    for (length, bad) in [
        (0, &b"/a"[..]),
        (0, b" /b"),
        (2, b"/a "),
        (3, b"/a /b"),
        (200, b"/a /b"),
    ] {
        assert_eq!(split(length, bad), None, "{length} {bad:?}");
    }
    let negative = refusal(&header(3009, &[(14, 0x80)], 5), b"/a /b");
    assert_eq!(negative.number, ErrorNumber::ARGUMENT_INVALID);
}

#[test]
fn attributes_with_lying_counts_and_lengths_are_refused() {
    let refused =
        |subcode: u8, count: u8, payload: &[u8]| refusal(&header(3020, &[(4, subcode), (5, count)], 1), payload).number;
    assert_eq!(refused(1, 1, b"/f"), ErrorNumber::ARGUMENT_INVALID, "no NUL");
    assert_eq!(refused(1, 0, b"/f\0"), ErrorNumber::ARGUMENT_MISSING, "no names");
    assert_eq!(
        refused(1, 2, b"/f\0\0\0a\0"),
        ErrorNumber::ARGUMENT_INVALID,
        "fewer names"
    );
    assert_eq!(
        refused(1, 1, b"/f\0\0\0\0"),
        ErrorNumber::ARGUMENT_INVALID,
        "an empty name"
    );
    assert_eq!(
        refused(1, 17, b"/f\0\0\0a\0"),
        ErrorNumber::ARGUMENT_TOO_LONG,
        "too many"
    );
    assert_eq!(
        refused(3, 1, b"/f\0\0\0a\0\0\0\0\x05xyz"),
        ErrorNumber::ARGUMENT_INVALID,
        "a cut value"
    );
    assert_eq!(
        refused(3, 1, b"/f\0\0\0a\0\xff\xff\xff\xff"),
        ErrorNumber::ARGUMENT_INVALID,
        "a negative length"
    );
    assert_eq!(
        refused(3, 1, b"/f\0\0\0a\0\0\x02\0\0"),
        ErrorNumber::ARGUMENT_TOO_LONG,
        "a huge value"
    );
    assert_eq!(
        refused(2, 1, b"/f\0"),
        ErrorNumber::ARGUMENT_INVALID,
        "a list with names"
    );
    assert_eq!(
        refused(9, 1, b"/f\0"),
        ErrorNumber::ARGUMENT_INVALID,
        "an unknown action"
    );
    assert_eq!(
        refused(1, 1, b"/f\0\0\0a\0more"),
        ErrorNumber::ARGUMENT_INVALID,
        "something behind"
    );
}

#[test]
fn a_checkpoint_carries_only_changes_of_its_own_stream() {
    let embedded = |opcode: u16, stream: u16| RequestHeader {
        stream: StreamId::new(stream),
        ..header(opcode, &[], 8)
    };
    let outer = header(3012, &[(15, 4)], 24);
    for (inner, good) in [
        (embedded(3019, 7), true),
        (embedded(3019, 8), false),
        (embedded(3010, 7), false),
        (embedded(3012, 7), false),
    ] {
        let bytes = inner.encode();
        let parsed = Request::parse(&outer, &bytes);
        assert_eq!(parsed.is_ok(), good, "{inner:?}");
        if let Ok(Request::Checkpoint(Checkpoint {
            action: CheckpointAction::Execute(found),
            ..
        })) = parsed
        {
            assert_eq!(found.payload(), Ok(Payload::Streamed(8)));
        }
    }
}

#[test]
fn what_an_open_is_for_follows_the_reference_server() {
    let open = |bits: u16| Open {
        mode: 0o644,
        options: OpenOptions::from_bits_retain(bits),
        extra_options: OpenExtraOptions::empty(),
        template: FileHandle::default(),
        path: Argument::new(b"/f"),
    };
    for (bits, access, creation, makes_path) in [
        (0x0450, Access::Read, Creation::MustExist, false),
        (0x0000, Access::Read, Creation::MustExist, false),
        (0x0468, Access::Update, Creation::MustNotExist, true),
        (0x0462, Access::Update, Creation::CreateOrTruncate, true),
        (0x0422, Access::Update, Creation::CreateOrTruncate, false),
        (0x042a, Access::Update, Creation::MustNotExist, false),
        (0x0522, Access::Update, Creation::CreateOrTruncate, true),
        (0x0020, Access::Update, Creation::MustExist, false),
        (0x8000, Access::Write, Creation::MustExist, false),
        (0x8002, Access::Write, Creation::CreateOrTruncate, false),
    ] {
        let open = open(bits);
        assert_eq!(
            (open.access(), open.creation(), open.makes_path()),
            (access, creation, makes_path),
            "{bits:#x}"
        );
    }
}

#[test]
fn configuration_keys_are_separated_by_spaces_or_lines() {
    for payload in [&b"tpc tpcdlg\0"[..], b"tpc\ntpcdlg", b" tpc  tpcdlg \0rest"] {
        let query = Query::new(QueryKind::Config, payload);
        assert_eq!(query.config_keys().iter().collect::<Vec<_>>(), ["tpc", "tpcdlg"]);
    }
    assert!(Query::new(QueryKind::OpaqueHandle, b"ofs.tpc cancel\0").cancels_third_party());
    assert!(!Query::new(QueryKind::OpaqueHandle, b"ofs.tpc cancel").cancels_third_party());
    for (asks, argument) in [
        (true, &b"/d?crossload.unlisted="[..]),
        (true, b"/d?authz=x&crossload.unlisted\0"),
        (false, b"/crossload.unlisted"),
        (false, b"/d?crossload.unlisted.more="),
        (false, b"/\xff?crossload.unlisted="),
    ] {
        assert_eq!(Query::unlisted(argument).asks_for_unlisted(), asks, "{argument:?}");
        assert!(!Query::new(QueryKind::Opaque, argument).asks_for_unlisted());
    }
}

#[test]
fn a_refusal_becomes_an_error_of_the_house() {
    let refusal = refusal(&header(3013, &[(12, 0x80)], 0), b"");
    let error = types::Error::from(refusal);
    assert_eq!(error.code(), ErrorCode::BadRequest);
    assert!(error.public().contains("the length is negative"), "{}", error.public());
}

/// Encodes a request and reads it back.
fn there_and_back(request: &Request<'_>) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    request.encode(StreamId::new(0x1234), &mut bytes);
    let (head, payload) = bytes.split_first_chunk::<REQUEST_HEADER_BYTES>().expect("a header");
    let header = RequestHeader::parse(head);
    prop_assert_eq!(header.stream.number(), 0x1234);
    let announced = header.payload().expect("a sound header");
    prop_assert_eq!(announced.buffered_bytes(), payload.len());
    prop_assert_eq!(&Request::parse(&header, payload).expect("a sound request"), request);
    Ok(())
}

proptest! {
    #[test]
    fn any_header_is_read_as_it_was_written(bytes: [u8; REQUEST_HEADER_BYTES]) {
        prop_assert_eq!(RequestHeader::parse(&bytes).encode(), bytes);
    }

    #[test]
    fn any_request_is_refused_or_written_again(bytes: [u8; REQUEST_HEADER_BYTES], payload in vec(any::<u8>(), 0..200)) {
        let header = RequestHeader { length: payload.len() as i32, ..RequestHeader::parse(&bytes) };
        if let Ok(request) = Request::parse(&header, &payload) {
            let mut again = Vec::new();
            request.encode(header.stream, &mut again);
            prop_assert_eq!(RequestHeader::parse(again.first_chunk().expect("a header")).opcode, header.opcode);
        }
    }

    #[test]
    fn requests_of_files_survive(handle: u32, offset in 0..=i64::MAX as u64, length in 0..=i32::MAX as u32, path: Option<u8>, size in 0..=i64::MAX as u64) {
        let handle = FileHandle::new(handle);
        there_and_back(&Request::Read(Read { handle, offset, length, path }))?;
        there_and_back(&Request::Write(Write { handle, offset, path: 0, data_bytes: length as usize }))?;
        there_and_back(&Request::Truncate(Truncate { target: TruncateTarget::Handle(handle), size_bytes: size }))?;
    }

    #[test]
    fn vectors_survive(items in vec((any::<u32>(), 0..=READV_ITEM_BYTES_MAX as u32, 0..=i64::MAX as u64), 1..50)) {
        let items: Vec<VectorItem> = items.into_iter()
            .map(|(handle, length, offset)| VectorItem { handle: FileHandle::new(handle), length, offset })
            .collect();
        let list: Vec<u8> = items.iter().flat_map(VectorItem::encode).collect();
        let vector = ReadVector::new(3, &list).expect("sound");
        prop_assert_eq!(vector.items().collect::<Vec<_>>(), items);
        there_and_back(&Request::ReadVector(vector))?;
        there_and_back(&Request::WriteVector(WriteVector::new(1, &list).expect("sound")))?;
    }

    #[test]
    fn names_survive(source in "/[a-z ]{1,30}", destination in "/[a-z ]{1,30}") {
        there_and_back(&Request::Rename(Rename::new(source.as_bytes(), destination.as_bytes())))?;
    }

    #[test]
    fn attributes_survive(values in vec(("[a-z.]{1,20}", vec(any::<u8>(), 0..100)), 1..=16), new: bool) {
        let request = FileAttributes {
            handle: FileHandle::default(),
            path: Some(Argument::new(b"/f")),
            options: if new { AttributeOptions::NEW } else { AttributeOptions::empty() },
            action: AttributeAction::Set(values.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect()),
        };
        there_and_back(&Request::FileAttributes(request))?;
    }
}

#[test]
fn every_opcode_has_one_number() {
    for opcode in Opcode::ALL {
        assert_eq!(Opcode::from_number(opcode.number()), Some(*opcode));
    }
    assert_eq!(Opcode::ALL.len(), 33);
}
