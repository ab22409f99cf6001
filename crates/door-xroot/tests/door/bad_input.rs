//! Requests that no correct client sends.

use xroot_wire::request::{Expect, Query, QueryKind, Read, ReadVector, Request, RequestHeader, Stat, VectorItem};
use xroot_wire::{ErrorNumber, FileHandle, HELLO, OpenOptions, ProtocolOptions, StreamId};

use crate::harness::{Server, login, open};

fn header(opcode: u16, length: i32) -> [u8; 24] {
    RequestHeader {
        stream: StreamId::new(5),
        opcode,
        block: [0; 16],
        length,
    }
    .encode()
}

#[tokio::test]
async fn what_is_no_hello_is_hung_up_on() {
    let server = Server::open();
    for first in [&[0; 20][..], &HELLO[..19], b"GET / HTTP/1.1\r\n\r\n\r\n\r\n"] {
        let mut raw = server.connect().await;
        raw.send(first).await;
        // The client's direction is closed, so that the server does not wait for the rest of a cut
        // hello.
        tokio::io::AsyncWriteExt::shutdown(&mut raw.tcp).await.unwrap();
        assert!(raw.is_closed().await);
    }
    assert!(
        server.client().await.ask(&Request::Ping).await.ok().is_empty(),
        "others are served"
    );
}

#[tokio::test]
async fn nothing_is_done_before_the_login() {
    let server = Server::open();
    server.put("/f", b"x");
    let requests = [
        Request::Stat(Stat::path(b"/data/f")),
        open("/data/f", OpenOptions::READ),
        Request::Ping,
    ];
    for request in requests {
        let mut raw = server.connect().await;
        raw.greet(ProtocolOptions::empty(), Expect::Login).await;
        assert_eq!(raw.ask(&request).await.error(), ErrorNumber::INVALID_REQUEST);
        assert!(raw.is_closed().await);
    }
}

#[tokio::test]
async fn a_second_login_is_refused_and_the_session_goes_on() {
    let server = Server::open();
    let mut raw = server.client().await;
    assert_eq!(raw.ask(&login(true)).await.error(), ErrorNumber::INVALID_REQUEST);
    assert!(raw.ask(&Request::Ping).await.ok().is_empty());
}

#[tokio::test]
async fn lengths_that_cannot_be_end_the_connection_with_an_answer() {
    let server = Server::open();
    let cases = [
        (3017, -1, ErrorNumber::ARGUMENT_INVALID),
        (3019, -1, ErrorNumber::ARGUMENT_INVALID),
        (3026, 4, ErrorNumber::ARGUMENT_INVALID),
        (3010, i32::MAX, ErrorNumber::ARGUMENT_TOO_LONG),
        (3025, i32::MAX, ErrorNumber::ARGUMENT_TOO_LONG),
    ];
    for (opcode, length, number) in cases {
        let mut raw = server.client().await;
        raw.send(&header(opcode, length)).await;
        let answer = raw.answer().await;
        assert_eq!(
            (answer.stream, answer.error()),
            (StreamId::new(5), number),
            "{opcode} {length}"
        );
        assert!(raw.is_closed().await);
    }
}

#[tokio::test]
async fn unknown_and_empty_requests_are_refused_and_the_session_goes_on() {
    let server = Server::open();
    let mut raw = server.client().await;
    let cases = [
        (4711, ErrorNumber::ARGUMENT_MISSING),
        (2999, ErrorNumber::ARGUMENT_MISSING),
        (3010, ErrorNumber::ARGUMENT_MISSING),
        (3004, ErrorNumber::ARGUMENT_MISSING),
        (3017, ErrorNumber::FILE_NOT_OPEN),
        (3003, ErrorNumber::FILE_NOT_OPEN),
        (3005, ErrorNumber::UNSUPPORTED),
        (3012, ErrorNumber::UNSUPPORTED),
    ];
    for (opcode, number) in cases {
        raw.send(&header(opcode, 0)).await;
        assert_eq!(raw.answer().await.error(), number, "{opcode}");
    }
    raw.send(&[&header(4711, 3)[..], b"abc"].concat()).await;
    assert_eq!(raw.answer().await.error(), ErrorNumber::INVALID_REQUEST);
    let unknown = Query::new(QueryKind::Unknown(77), b"x");
    assert_eq!(
        raw.ask(&Request::Query(unknown)).await.error(),
        ErrorNumber::ARGUMENT_INVALID
    );
    assert!(raw.ask(&Request::Ping).await.ok().is_empty());
}

#[tokio::test]
async fn a_request_that_is_cut_off_leaves_nothing_behind() {
    let server = Server::open();
    let options = OpenOptions::TRUNCATE | OpenOptions::MAKE_PATH;
    for cut in [1, 23, 24, 40] {
        let mut raw = server.client().await;
        let handle = raw.opened("/data/cut/f", options).await;
        let mut bytes = Vec::new();
        let write = xroot_wire::request::Write {
            handle,
            offset: 0,
            path: 0,
            data_bytes: 1000,
        };
        Request::Write(write).encode(StreamId::new(1), &mut bytes);
        bytes.extend_from_slice(&[7; 1000]);
        raw.send(&bytes[..cut]).await;
        tokio::io::AsyncWriteExt::shutdown(&mut raw.tcp).await.unwrap();
        assert!(raw.is_closed().await);
        assert_eq!(server.content("/cut/f"), None);
        let last = server.log.all().pop().unwrap();
        assert_eq!((&*last.method, last.path.as_str()), ("close", "/data/cut/f"));
        assert_eq!(last.error.unwrap().code, "client_gone");
    }
}

#[tokio::test]
async fn reads_past_the_end_and_of_unknown_files() {
    let server = Server::open();
    server.put("/f", b"0123456789");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::READ).await;
    let read = |handle, offset, length| {
        Request::Read(Read {
            handle,
            offset,
            length,
            path: None,
        })
    };
    for (offset, length, expected) in [
        (8, 100, &b"89"[..]),
        (10, 1, b""),
        (1 << 62, 1 << 30, b""),
        (0, 0, b""),
        (0, i32::MAX as u32, b"0123456789"),
    ] {
        assert_eq!(raw.ask(&read(handle, offset, length)).await.ok(), expected);
    }
    for number in [handle.number() ^ 1, handle.number() + (1 << 16), u32::MAX] {
        let answer = raw.ask(&read(FileHandle::new(number), 0, 1)).await;
        assert_eq!(answer.error(), ErrorNumber::FILE_NOT_OPEN);
    }
    let mut negative = header(3013, 0);
    negative[4..8].copy_from_slice(&handle.0);
    negative[16..20].copy_from_slice(&(-5i32).to_be_bytes());
    raw.send(&negative).await;
    assert_eq!(raw.answer().await.error(), ErrorNumber::ARGUMENT_INVALID);
    let item = VectorItem {
        handle,
        length: 3,
        offset: 8,
    };
    let list = item.encode();
    let vector = Request::ReadVector(ReadVector::new(0, &list).unwrap());
    assert_eq!(raw.ask(&vector).await.error(), ErrorNumber::FILE_SYSTEM);
    let close = Request::Close(xroot_wire::request::Close { handle });
    assert!(raw.ask(&close).await.ok().is_empty());
    assert_eq!(raw.ask(&close).await.error(), ErrorNumber::FILE_NOT_OPEN);
}

#[tokio::test]
async fn files_left_open_are_limited_and_go_with_their_session() {
    let server = Server::start(|settings| settings.limits.handles = 512);
    server.put("/f", b"x");
    let mut raw = server.client().await;
    for _ in 0..511 {
        raw.opened("/data/f", OpenOptions::READ).await;
    }
    raw.opened("/data/new", OpenOptions::NEW).await;
    let one_more = raw.ask(&open("/data/f", OpenOptions::READ)).await;
    assert_eq!(one_more.error(), ErrorNumber::OVERLOADED);
    assert!(raw.ask(&Request::Ping).await.ok().is_empty());
    drop(raw);
    while server.door.connections() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.content("/new"), None, "what was not closed is not there");
    let mut other = server.client().await;
    other.opened("/data/new", OpenOptions::NEW).await;
}

#[tokio::test]
async fn one_stream_id_for_many_requests_gets_as_many_answers() {
    let server = Server::open();
    server.put("/f", b"abc");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::READ).await;
    let mut bytes = Vec::new();
    for index in 0..100u64 {
        let read = Read {
            handle,
            offset: index % 3,
            length: 1,
            path: None,
        };
        Request::Read(read).encode(StreamId::new(9), &mut bytes);
        Request::Stat(Stat::path(b"/data/f")).encode(StreamId::new(9), &mut bytes);
    }
    raw.send(&bytes).await;
    for index in 0..100 {
        let answer = raw.answer().await;
        assert_eq!(answer.stream, StreamId::new(9));
        assert_eq!(answer.ok(), &b"abc"[index % 3..index % 3 + 1]);
        assert!(raw.answer().await.text().contains(" 3 48 "));
    }
}

#[tokio::test]
async fn who_drips_before_the_login_or_within_a_request_is_given_up() {
    let server = Server::start(|settings| settings.site.limits.head_timeout = std::time::Duration::from_millis(300));
    let mut hello = server.connect().await;
    hello.send(&HELLO[..7]).await;
    let mut stranger = server.connect().await;
    stranger.greet(ProtocolOptions::empty(), Expect::Login).await;
    stranger.send(&header(3007, 0)[..7]).await;
    let mut client = server.client().await;
    client.send(&[&header(3017, 1000)[..], b"/data"].concat()).await;
    let mut patient = server.client().await;
    for raw in [&mut hello, &mut stranger, &mut client] {
        assert!(raw.is_closed().await);
    }
    patient.ask(&Request::Ping).await.ok();
}
