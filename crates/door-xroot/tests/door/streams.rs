//! Further streams of a session.

use xroot_wire::request::{Bind, Close, Expect, PageRead, PageWrite, Read, Request, Write};
use xroot_wire::{ErrorNumber, FileHandle, OpenOptions, PageFlags, ProtocolOptions, SessionId};

use crate::harness::{Raw, Server, certificate};

async fn bound(server: &Server, session: SessionId) -> (Raw, u8) {
    let mut raw = server.connect().await;
    raw.greet(ProtocolOptions::empty(), Expect::Bind).await;
    let path = raw.ask(&Request::Bind(Bind { session })).await.ok();
    (raw, path[0])
}

#[tokio::test]
async fn a_read_is_answered_on_the_stream_that_it_names() {
    let server = Server::open();
    server.put("/f", b"0123456789");
    let mut raw = server.client().await;
    let (mut first, one) = bound(&server, raw.session).await;
    let (mut second, two) = bound(&server, raw.session).await;
    assert_eq!((one, two), (1, 2));
    let handle = raw.opened("/data/f", OpenOptions::READ).await;
    for (stream, offset, path) in [(11, 0, 2), (12, 3, 1), (13, 5, 0)] {
        let read = Read {
            handle,
            offset,
            length: 3,
            path: Some(path),
        };
        raw.say(stream, &Request::Read(read)).await;
    }
    let pages = PageRead {
        handle,
        offset: 8,
        length: 2,
        path: Some(1),
        flags: None,
    };
    raw.say(14, &Request::PageRead(pages)).await;
    let answers = [
        second.answer().await,
        first.answer().await,
        raw.answer().await,
        first.answer().await,
    ]
    .map(|answer| (answer.stream.number(), answer.body[answer.body.len() - 2..].to_vec()));
    let expected = [(11, b"12"), (12, b"45"), (13, b"67"), (14, b"89")];
    assert_eq!(answers, expected.map(|(stream, end)| (stream, end.to_vec())));
    let nowhere = Read {
        handle,
        offset: 0,
        length: 1,
        path: Some(3),
    };
    assert_eq!(
        raw.ask(&Request::Read(nowhere)).await.error(),
        ErrorNumber::ARGUMENT_INVALID
    );
    drop(first);
    let gone = Read {
        path: Some(1),
        ..nowhere
    };
    loop {
        raw.say(0x0102, &Request::Read(gone)).await;
        // Until the server notices, the answer goes to a closed connection.
        let next = tokio::time::timeout(std::time::Duration::from_millis(50), raw.answer()).await;
        if let Ok(answer) = next {
            assert_eq!(answer.error(), ErrorNumber::ARGUMENT_INVALID);
            break;
        }
    }
    drop(raw);
    assert!(second.is_closed().await, "streams end with their session");
}

#[tokio::test]
async fn a_foreign_or_unknown_session_cannot_be_bound_to() {
    let server = Server::open();
    let raw = server.client().await;
    let mut guess = raw.session;
    guess.0[15] ^= 1;
    let mut stranger = server.connect().await;
    stranger.greet(ProtocolOptions::empty(), Expect::Bind).await;
    let bind = |session| Request::Bind(Bind { session });
    assert_eq!(stranger.ask(&bind(guess)).await.error(), ErrorNumber::NOT_FOUND);
    // The client may try again; the connection is a stream then, and nothing else.
    assert_eq!(stranger.ask(&bind(raw.session)).await.ok(), [1]);
    // From another address of this machine it counts as another host.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = Raw {
        tcp: socket.connect(server.address).await.unwrap(),
        session: SessionId::default(),
    };
    other.greet(ProtocolOptions::empty(), Expect::Bind).await;
    assert_eq!(other.ask(&bind(raw.session)).await.error(), ErrorNumber::NOT_AUTHORIZED);
}

#[tokio::test]
async fn there_are_fifteen_streams_and_a_place_is_used_again() {
    let server = Server::open();
    let raw = server.client().await;
    let mut streams = Vec::new();
    for number in 1..=15 {
        let (stream, path) = bound(&server, raw.session).await;
        assert_eq!(path, number);
        streams.push(stream);
    }
    let mut one_more = server.connect().await;
    one_more.greet(ProtocolOptions::empty(), Expect::Bind).await;
    let bind = Request::Bind(Bind { session: raw.session });
    assert_eq!(one_more.ask(&bind).await.error(), ErrorNumber::NO_MEMORY);
    streams.remove(6);
    loop {
        let answer = one_more.ask(&bind).await;
        if answer.status == 0 {
            assert_eq!(answer.body, [7]);
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_in_clear_text_is_refused_where_data_are_to_be_encrypted() {
    let server = Server::start(|settings| {
        settings.site.tls = Some(certificate());
        settings.tls_policy.data = true;
    });
    let raw = server.client().await;
    let mut stream = server.connect().await;
    stream.greet(ProtocolOptions::empty(), Expect::Bind).await;
    let bind = Request::Bind(Bind { session: raw.session });
    assert_eq!(stream.ask(&bind).await.error(), ErrorNumber::TLS_REQUIRED);
}

fn write(handle: FileHandle, path: u8, offset: u64, data_bytes: usize) -> Request<'static> {
    Request::Write(Write {
        handle,
        offset,
        path,
        data_bytes,
    })
}

#[tokio::test]
async fn the_data_of_a_write_come_on_the_stream_that_it_names() {
    let server = Server::open();
    let mut raw = server.client().await;
    let (mut first, _) = bound(&server, raw.session).await;
    let (mut second, _) = bound(&server, raw.session).await;
    let handle = raw.opened("/data/f", OpenOptions::NEW).await;
    // The data may arrive before the request, and the main stream stays in step.
    first.send(b"567").await;
    raw.say(21, &write(handle, 1, 5, 3)).await;
    raw.say(22, &write(handle, 2, 0, 5)).await;
    second.send(b"01234").await;
    let pages = PageWrite {
        handle,
        offset: 8,
        path: 1,
        flags: PageFlags::empty(),
        encoded_bytes: 6,
    };
    raw.say(23, &Request::PageWrite(pages)).await;
    let sum = xroot_wire::pages::checksum_on(0, b"89");
    first.send(&[&sum.to_be_bytes()[..], b"89"].concat()).await;
    let answers = [first.answer().await, second.answer().await, first.answer().await];
    assert_eq!(
        answers.map(|answer| (answer.stream.number(), answer.status)),
        [(21, 0), (22, 0), (23, 4007)]
    );
    // A stream that has carried a write still answers reads.
    let read = Read {
        handle,
        offset: 4,
        length: 4,
        path: Some(1),
    };
    raw.say(24, &Request::Read(read)).await;
    assert_eq!(first.answer().await.ok(), b"4567");
    raw.ask(&Request::Close(Close { handle })).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"0123456789"[..]));
}

#[tokio::test]
async fn a_refused_write_leaves_its_stream_in_step() {
    let server = Server::open();
    let mut raw = server.client().await;
    let (mut first, _) = bound(&server, raw.session).await;
    let handle = raw.opened("/data/f", OpenOptions::NEW).await;
    raw.say(31, &write(FileHandle::new(77), 1, 0, 4)).await;
    raw.say(32, &write(handle, 1, u64::MAX, 4)).await;
    first.send(b"lostlost").await;
    assert_eq!(first.answer().await.error(), ErrorNumber::FILE_NOT_OPEN);
    assert_eq!(first.answer().await.status, 4003);
    raw.say(33, &write(handle, 1, 0, 4)).await;
    first.send(b"kept").await;
    assert_eq!(first.answer().await.status, 0);
    raw.ask(&Request::Ping).await.ok();
}

#[tokio::test]
async fn data_that_are_lost_with_their_stream_cost_the_file_and_not_the_session() {
    let server = Server::open();
    let mut raw = server.client().await;
    let (mut first, _) = bound(&server, raw.session).await;
    for path in [1, 7] {
        let name = format!("/data/{path}");
        let handle = raw.opened(&name, OpenOptions::NEW).await;
        raw.say(0x0102, &write(handle, path, 0, 5)).await;
        if path == 1 {
            first.send(b"012").await;
            tokio::io::AsyncWriteExt::shutdown(&mut first.tcp).await.unwrap();
        }
        assert_eq!(
            raw.answer().await.error(),
            ErrorNumber::ARGUMENT_INVALID,
            "stream {path}"
        );
        assert_eq!(raw.ask(&Request::Close(Close { handle })).await.status, 4003);
        assert_eq!(server.content(&format!("/{path}")), None);
    }
}
