//! Exchanges captured from the programs of XRootD 5.5.3, its Python module and gfal2: every frame
//! is parsed and written again, and must come out as it went in.
//!
//! Each file of `tests/vectors` is one exchange. A line `1 > # … name len=…` begins a frame of the
//! client on connection 1, `1 < …` one of the server; indented lines are its bytes in hexadecimal.
//! `1 > EOF` is the end of a direction, `1 = …` a remark. Addresses, names and session ids are
//! those of a throw-away laboratory.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use xroot_wire::limits::{HELLO_REPLY_BYTES, REQUEST_HEADER_BYTES, RESPONSE_HEADER_BYTES};
use xroot_wire::request::{CheckpointAction, QueryKind, StatTarget};
use xroot_wire::response::{
    Attention, AttributeAnswer, AttributeList, BadPages, Body, ConfigAnswer, ListingReader, ListingWriter,
    LocateWriter, LoginReply, OpenReply, PageStatus, PageStatusKind, ProtocolReply, SpaceText, SpaceUsage, StatText,
    checksum_answer, parse_checksum, parse_locations, parse_vector_answer,
};
use xroot_wire::{
    Answer, HELLO, HelloReply, Opcode, OpenOptions, Payload, Request, RequestHeader, ResponseHeader, Status, StreamId,
    limits, pages, respond,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

struct Frame {
    connection: String,
    side: Side,
    label: String,
    bytes: Vec<u8>,
}

/// The frames of one file, in order.
fn frames(text: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines() {
        if let Some(digits) = line.strip_prefix("  ") {
            let frame = frames.last_mut().expect("bytes stand behind the head of their frame");
            frame.bytes.extend(hex(digits.trim()));
            continue;
        }
        let mut words = line.splitn(3, ' ');
        let (Some(connection), Some(side), Some(label)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let side = match side {
            ">" => Side::Client,
            "<" => Side::Server,
            _ => continue,
        };
        if label != "EOF" {
            frames.push(Frame {
                connection: connection.to_owned(),
                side,
                label: label.to_owned(),
                bytes: Vec::new(),
            });
        }
    }
    frames
}

fn hex(digits: &str) -> Vec<u8> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
        .collect()
}

/// What was seen, to show that the test did something.
#[derive(Default)]
struct Seen {
    requests: BTreeMap<u16, usize>,
    refused: usize,
    responses: BTreeMap<u16, usize>,
    late: usize,
    bodies: BTreeMap<&'static str, usize>,
    units: usize,
    damaged_units: usize,
    hellos: usize,
}

/// The part of a request that decides about the body of its answer.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Opcode(Opcode),
    Stat { space: bool },
    Query(QueryKind),
    List { stat: bool },
    AttributeValues,
    AttributeList { values: bool },
    AttributeChange,
    OpenWithStat(bool),
}

fn request(frame: &Frame, seen: &mut Seen) -> Option<(StreamId, Asked)> {
    let bytes = &frame.bytes;
    let (head, rest) = bytes
        .split_first_chunk::<REQUEST_HEADER_BYTES>()
        .expect("a request has a header");
    let header = RequestHeader::parse(head);
    assert_eq!(&header.encode(), head, "{}", frame.label);
    *seen.requests.entry(header.opcode).or_default() += 1;
    let Ok(payload) = header.payload() else {
        seen.refused += 1;
        return None;
    };
    let (buffered, data) = rest.split_at(payload.buffered_bytes());
    let request = match Request::parse(&header, buffered) {
        Ok(request) => request,
        Err(refusal) => {
            // Only what the hand-written clients sent on purpose.
            assert!(refusal.number.0 >= 3000, "{}: {refusal:?}", frame.label);
            seen.refused += 1;
            return None;
        }
    };
    let mut again = Vec::new();
    request.encode(header.stream, &mut again);
    again.extend_from_slice(data);
    assert_eq!(&again, bytes, "{}: {request:?}", frame.label);
    check_data(&request, payload, data, seen);
    Some((header.stream, asked(&request)))
}

fn check_data(request: &Request<'_>, payload: Payload, data: &[u8], seen: &mut Seen) {
    match request {
        Request::PageWrite(write) => {
            assert_eq!(data.len(), write.encoded_bytes);
            count_units(write.offset, data, seen);
        }
        Request::Write(write) => assert_eq!(data.len(), write.data_bytes),
        Request::WriteVector(write) => assert_eq!(data.len() as u64, write.data_bytes()),
        Request::Checkpoint(checkpoint) if matches!(checkpoint.action, CheckpointAction::Execute(_)) => {}
        _ => assert!(data.is_empty() && matches!(payload, Payload::Buffered(_))),
    }
}

fn count_units(offset: u64, encoded: &[u8], seen: &mut Seen) {
    let data_bytes = pages::data_bytes(offset, encoded.len()).expect("whole units");
    let (mut data, mut sums) = (Vec::new(), Vec::new());
    for unit in pages::units(offset, encoded) {
        seen.units += 1;
        seen.damaged_units += usize::from(!unit.is_sound());
        data.extend_from_slice(unit.data);
        sums.push(unit.sum);
    }
    assert_eq!(data.len(), data_bytes);
    let mut damaged = Vec::new();
    pages::verify_units(offset, &[&data], &sums, &mut damaged);
    if damaged.is_empty() {
        let mut again = Vec::new();
        pages::encode_units(offset, &data, &mut again);
        assert_eq!(again, encoded);
    }
}

fn asked(request: &Request<'_>) -> Asked {
    use xroot_wire::AttributeOptions;
    use xroot_wire::request::AttributeAction;
    match request {
        Request::Stat(stat) => {
            assert!(matches!(stat.target, StatTarget::Handle(_) | StatTarget::Path(_)));
            Asked::Stat {
                space: stat.asks_for_space(),
            }
        }
        Request::Query(query) => Asked::Query(query.kind),
        Request::ListDirectory(list) => Asked::List {
            stat: list.wants_stat(),
        },
        Request::Open(open) => Asked::OpenWithStat(open.options.contains(OpenOptions::RETURN_STAT)),
        Request::FileAttributes(request) => match request.action {
            AttributeAction::Get(_) => Asked::AttributeValues,
            AttributeAction::List => Asked::AttributeList {
                values: request.options.contains(AttributeOptions::WITH_VALUES),
            },
            AttributeAction::Delete(_) | AttributeAction::Set(_) => Asked::AttributeChange,
        },
        other => Asked::Opcode(other.opcode()),
    }
}

/// Parses a response and writes it again with the builders of the server.
fn response(frame: &Frame, asked: &HashMap<StreamId, Asked>, seen: &mut Seen) {
    let bytes = &frame.bytes;
    let (head, rest) = bytes
        .split_first_chunk::<RESPONSE_HEADER_BYTES>()
        .expect("a response has a header");
    let header = ResponseHeader::parse(head);
    assert_eq!(&header.encode(), head);
    *seen.responses.entry(header.status).or_default() += 1;
    let body = header.body().expect("a sound header");
    assert!(
        matches!(body, Body::Pages(_)) || body.bytes() == rest.len(),
        "{}",
        frame.label
    );
    let (body, data) = rest.split_at(body.bytes());
    let answer = Answer::parse(&header, body).expect("a sound response");
    let mut again = Vec::new();
    write_again(&header, body, &answer, &mut again, seen);
    again.extend_from_slice(data);
    assert_eq!(&again, bytes, "{}: {answer:?}", frame.label);
    match answer {
        Answer::Ok(body) => check_body(frame, asked.get(&header.stream), body, seen),
        Answer::Pages(status) => check_pages(&status, data, seen),
        _ => {}
    }
}

fn write_again(header: &ResponseHeader, body: &[u8], answer: &Answer<'_>, out: &mut Vec<u8>, seen: &mut Seen) {
    let stream = header.stream;
    match answer {
        Answer::Ok(body) => respond::ok(out, stream, body),
        Answer::Partial(body) => respond::partial(out, stream, body),
        Answer::MoreAuthentication(body) => respond::more_authentication(out, stream, body),
        Answer::Error { number, message } => respond::error(out, stream, *number, message),
        Answer::Redirect(redirect) => respond::redirect(out, stream, redirect),
        Answer::Wait { seconds, message } => respond::wait(out, stream, *seconds, message),
        Answer::WaitForAnswer { seconds, message } if body.last() == Some(&0) => {
            respond::frame(
                out,
                stream,
                Status::WaitForAnswer,
                &respond::wait_body(*seconds, &format!("{message}\0")),
            );
        }
        Answer::WaitForAnswer { seconds, message } => respond::wait_for_answer(out, stream, *seconds, message),
        Answer::Pages(status) => out.extend_from_slice(&status.encode()),
        Answer::Attention(Attention::Answer(late)) => {
            seen.late += 1;
            let inner = Answer::parse(&late.header, late.body).expect("a sound late answer");
            let mut frame = Vec::new();
            write_again(&late.header, late.body, &inner, &mut frame, seen);
            let kind = late.header.kind().expect("a known kind");
            respond::later(out, late.header.stream, kind, &frame[RESPONSE_HEADER_BYTES..]);
        }
        Answer::Attention(Attention::Other(action)) => panic!("an unsolicited message {action}"),
    }
}

fn check_pages(status: &PageStatus, data: &[u8], seen: &mut Seen) {
    assert_eq!(data.len(), status.data_bytes);
    match status.opcode {
        Opcode::PageRead => count_units(status.offset, data, seen),
        _ => {
            let bad = BadPages::parse(data).expect("a sound list");
            *seen
                .bodies
                .entry(if bad.is_some() { "bad pages" } else { "page write" })
                .or_default() += 1;
            let whole = PageStatus::page_write(status.stream, status.offset, bad.as_ref());
            assert_eq!(&whole[limits::STATUS_HEAD_BYTES..], data);
            assert_eq!(status.kind, PageStatusKind::Final);
        }
    }
}

/// Decodes the body of an answer by what was asked, and encodes it again.
fn check_body(frame: &Frame, asked: Option<&Asked>, body: &[u8], seen: &mut Seen) {
    let with_nul = |text: String| format!("{text}\0").into_bytes();
    let Some(asked) = asked.filter(|_| !body.is_empty()) else {
        return;
    };
    let (name, again): (&'static str, Vec<u8>) = match asked {
        Asked::Opcode(Opcode::Protocol) => ("protocol", ProtocolReply::parse(body).expect("sound").encode()),
        Asked::Opcode(Opcode::Login) => ("login", LoginReply::parse(body).expect("sound").encode()),
        Asked::OpenWithStat(stat) => {
            let reply = OpenReply::parse(body).expect("sound");
            assert_eq!(reply.stat.is_some(), *stat);
            ("open", reply.encode())
        }
        Asked::Stat { space: true } => ("space", with_nul(SpaceText::parse(body).expect("sound").to_text())),
        Asked::Stat { space: false } => {
            let mut text = Vec::new();
            StatText::parse(body).expect("sound").write(&mut text);
            text.push(0);
            ("stat", text)
        }
        Asked::List { stat } => ("listing", listing_again(body, *stat)),
        Asked::Opcode(Opcode::Locate) => {
            let mut writer = LocateWriter::new();
            for location in parse_locations(body).expect("sound") {
                writer.add(&location);
            }
            ("locate", with_nul(writer.build()))
        }
        Asked::Opcode(Opcode::ReadVector) => {
            let mut again = Vec::new();
            for (item, data) in parse_vector_answer(body).expect("sound") {
                again.extend_from_slice(&item.encode());
                again.extend_from_slice(data);
            }
            ("vector", again)
        }
        Asked::Query(QueryKind::Checksum) => {
            let checksum = parse_checksum(body).expect("sound").expect("a known algorithm");
            ("checksum", with_nul(checksum_answer(&checksum)))
        }
        Asked::Query(QueryKind::Space) => ("usage", with_nul(SpaceUsage::parse(body).expect("sound").to_text())),
        Asked::Query(QueryKind::Config) => {
            ConfigAnswer::parse(body).expect("sound");
            ("config", body.to_vec())
        }
        Asked::AttributeValues => ("values", AttributeAnswer::parse_values(body).expect("sound").encode()),
        Asked::AttributeChange => ("changed", AttributeAnswer::parse_changed(body).expect("sound").encode()),
        Asked::AttributeList { values } => (
            "attributes",
            AttributeList::parse(body, *values).expect("sound").encode(),
        ),
        Asked::Query(_) | Asked::Opcode(_) => return,
    };
    *seen.bodies.entry(name).or_default() += 1;
    assert_eq!(again, body, "{}: {name}", frame.label);
}

fn listing_again(body: &[u8], asked_for_stat: bool) -> Vec<u8> {
    let mut reader = ListingReader::new(asked_for_stat);
    let mut entries = Vec::new();
    reader.feed(body, |entry| entries.push(entry)).expect("sound");
    let mut writer = ListingWriter::new(reader.has_stat());
    reader.finish(|entry| entries.push(entry)).expect("whole");
    for entry in &entries {
        assert!(writer.add(&entry.name, entry.stat.as_ref(), entry.checksum.as_deref()));
    }
    writer.finish()
}

fn walk(text: &str, seen: &mut Seen) {
    let mut asked: HashMap<String, HashMap<StreamId, Asked>> = HashMap::new();
    for frame in frames(text).iter().filter(|frame| !frame.bytes.is_empty()) {
        let pending = asked.entry(frame.connection.clone()).or_default();
        if frame.bytes == HELLO {
            seen.hellos += 1;
        } else if frame.label.contains("handshake reply") {
            let bytes: &[u8; HELLO_REPLY_BYTES] = frame.bytes.as_slice().try_into().expect("16 bytes");
            assert_eq!(&HelloReply::parse(bytes).expect("sound").encode(), bytes);
        } else if frame.side == Side::Client {
            pending.extend(request(frame, seen));
        } else {
            response(frame, pending, seen);
        }
    }
}

#[test]
fn captured_exchanges_are_read_and_written_again_unchanged() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut seen = Seen::default();
    let mut files = 0;
    for entry in std::fs::read_dir(directory).expect("the vectors are there") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        walk(&text, &mut seen);
        files += 1;
    }
    // Fewer would mean that frames were passed over.
    assert_eq!(files, 66);
    assert_eq!(seen.requests.values().sum::<usize>(), 561);
    assert_eq!((seen.requests.len(), seen.refused), (32, 3));
    assert_eq!(seen.responses.values().sum::<usize>(), 571);
    assert_eq!((seen.responses.len(), seen.late, seen.hellos), (8, 8, 110));
    assert_eq!((seen.units, seen.damaged_units), (35, 3), "three are wrong on purpose");
    assert_eq!(seen.bodies.values().sum::<usize>(), 364, "{:?}", seen.bodies);
    assert_eq!(seen.bodies.len(), 16);
}
