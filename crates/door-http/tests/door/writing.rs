//! PUT: what is stored, what is refused, and what remains then.

use std::time::Duration;

use policy::AnonymousAccess;
use storage::{Effect, Fault, Faulty, Operation, Posix, PosixOptions};
use types::ErrorCode;

use crate::harness::{Raw, Server, export, head_text, memory, pattern};

#[tokio::test]
async fn a_file_is_created_then_replaced() {
    let server = Server::open().await;
    let mut client = server.connect().await;
    let new = client.ask("PUT /data/a/b/f\n", b"Wikipedia").await;
    assert_eq!((new.status, new.header("Digest")), (201, Some("adler32=11e60398")));
    let again = client.ask("PUT /data/a/b/f\nWant-Digest: md5\n", b"Wikipedia").await;
    assert_eq!(again.status, 204);
    assert_eq!(again.header("Digest"), Some("md5=nGdyhoZqrTj46bZg9UEYFA=="));
    let tag = again.header("ETag").map(str::to_owned);
    let head = client.ask("HEAD /data/a/b/f\n", b"").await;
    assert_eq!(head.header("ETag").map(str::to_owned), tag);
    let empty = client.ask("PUT /data/empty\nExpect: 100-continue\n", b"").await;
    assert_eq!(empty.status, 201, "no interim answer in front of an empty body");
    assert_eq!(client.ask("GET /data/empty\n", b"").await.body, b"");
}

#[tokio::test]
async fn chunks_are_taken_however_they_are_cut() {
    let server = Server::open().await;
    let content = pattern(300_000);
    let mut client = server.connect().await;
    client
        .send(head_text("PUT /data/f\nTransfer-Encoding: chunked\n", None))
        .await;
    for piece in content.chunks(70_001) {
        client.send(format!("{:x};x=y\r\n", piece.len())).await;
        client.send(piece).await;
        client.send("\r\n").await;
    }
    client.send("0\r\nX-Trailer: y\r\n\r\n").await;
    assert_eq!(client.answer(false).await.status, 201);
    assert!(client.ask("GET /data/f\n", b"").await.body == content);
}

#[tokio::test]
async fn a_digest_in_the_trailer_must_fit_and_be_readable() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let put = async |trailer: &str| {
        let mut client = server.connect().await;
        let head = "PUT /data/f\nTransfer-Encoding: chunked\nTrailer: Digest\n";
        client.send(head_text(head, None)).await;
        client.send(format!("9\r\nWikipedia\r\n0\r\n{trailer}\r\n\r\n")).await;
        client.answer(false).await.status
    };
    for wrong in [
        "Digest: adler32=00000001",
        "Digest: md5=AAAAAAAAAAAAAAAAAAAAAA==",
        "Repr-Digest: adler=:AAAAAQ==:",
        "Content-Digest: md5=:AAAAAAAAAAAAAAAAAAAAAA==:",
        "Content-MD5: 00000000000000000000000000000000",
        "Digest: adler32=11e60398\r\nDigest: adler32=00000001",
    ] {
        assert_eq!(put(wrong).await, 422, "{wrong}");
    }
    for unreadable in ["Digest: adler32=xyz", "Repr-Digest: md5=nGdy", "Content-MD5: !"] {
        assert_eq!(put(unreadable).await, 400, "{unreadable}");
    }
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"old");
    for right in [
        "Digest: adler32=11e60398",
        "Digest: md5=nGdyhoZqrTj46bZg9UEYFA==, unknown=5",
        "Repr-Digest: adler=:EeYDmA==:",
    ] {
        assert_eq!(put(right).await, 204, "{right}");
    }
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"Wikipedia");
}

#[tokio::test]
async fn the_body_is_invited_only_when_it_will_be_taken() {
    let server = Server::open().await;
    let mut client = server.connect().await;
    client
        .send(head_text("PUT /data/f\nExpect: 100-continue\n", Some(3)))
        .await;
    assert_eq!(client.answer(false).await.status, 100);
    client.send("abc").await;
    assert_eq!(client.answer(false).await.status, 201);
    let refused = "PUT /data/f\nExpect: 100-continue\nIf-None-Match: *\n";
    client.send(head_text(refused, Some(3))).await;
    let answer = client.answer(false).await;
    assert_eq!((answer.status, answer.header("Connection")), (412, Some("close")));
    assert!(client.is_closed().await);
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"abc");
}

#[tokio::test]
async fn declared_digests_must_fit_and_the_old_file_stays() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let mut client = server.connect().await;
    for wrong in [
        "Digest: adler32=00000001",
        "Repr-Digest: adler=:AAAAAQ==:",
        "Content-MD5: 00000000000000000000000000000000",
        "Digest: adler32=11e60398,md5=AAAAAAAAAAAAAAAAAAAAAA==",
    ] {
        let answer = client.ask(&format!("PUT /data/f\n{wrong}\n"), b"Wikipedia").await;
        assert_eq!(answer.status, 422, "{wrong}");
        assert!(answer.text().contains("CHECKSUM MISMATCH"), "{answer:?}");
    }
    assert_eq!(
        client
            .ask("PUT /data/f\nDigest: adler32=xyz\n", b"Wikipedia")
            .await
            .status,
        400
    );
    assert_eq!(client.ask("GET /data/f\n", b"").await.body, b"old");
    let right = "PUT /data/f\nDigest: adler32=11e60398,md5=nGdyhoZqrTj46bZg9UEYFA==\n";
    assert_eq!(client.ask(right, b"Wikipedia").await.status, 204);
    assert_eq!(client.ask("GET /data/f\n", b"").await.body, b"Wikipedia");
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, posix)], |_| {}).await;
    let mut client = server.connect().await;
    client.send(head_text("PUT /data/f\n", Some(1000))).await;
    client.send("only this").await;
    drop(client);
    let record = server.log.request("PUT").await;
    assert!(record.error.is_some() && record.bytes_in < 1000, "{record:?}");
    assert_eq!(server.ask("HEAD /data/f\n", b"").await.status, 404);
    assert_eq!(files_below(directory.path()), 0);
}

pub(crate) fn files_below(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => files_below(&entry.path()),
            // The lock that marks a running server belongs to no file.
            false => usize::from(entry.metadata().unwrap().len() > 0),
        })
        .sum()
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| {
        settings.site.limits.stall = Duration::from_millis(50);
    })
    .await;
    let mut client = server.connect().await;
    client.send(head_text("PUT /data/f\n", Some(1000))).await;
    client.send("a beginning").await;
    let answer = client.answer(false).await;
    assert_eq!((answer.status, answer.header("Connection")), (408, Some("close")));
    assert_eq!(server.ask("HEAD /data/f\n", b"").await.status, 404);
}

#[tokio::test]
async fn a_full_disk_is_told_before_the_body() {
    let exports = vec![export("/data", AnonymousAccess::Write, storage::Memory::new(1000))];
    let server = Server::start(exports, |_| {}).await;
    let mut client = server.connect().await;
    let head = head_text("PUT /data/f\nExpect: 100-continue\n", Some(100_000));
    client.send(head).await;
    assert_eq!(client.answer(false).await.status, 507);
    assert_eq!(server.ask("HEAD /data/f\n", b"").await.status, 404);
}

#[tokio::test]
async fn what_fails_at_the_end_leaves_the_old_file() {
    let disk = memory();
    let fails = Fault {
        operation: Operation::Commit,
        nth: 0,
        effect: Effect::Fail(ErrorCode::StorageFailed),
    };
    let exports = vec![
        export("/good", AnonymousAccess::Write, disk.clone()),
        export("/bad", AnonymousAccess::Write, Faulty::new(disk, vec![fails])),
    ];
    let server = Server::start(exports, |_| {}).await;
    server.put("/good/f", b"old").await;
    assert_eq!(server.ask("PUT /bad/f\n", b"new").await.status, 500);
    assert_eq!(server.ask("GET /good/f\n", b"").await.body, b"old");
}

async fn refused(client: &mut Raw, head: &str) -> u16 {
    client.ask(head, b"abc").await.status
}

#[tokio::test]
async fn parts_and_encodings_are_not_stored_and_the_connection_lives_on() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let mut client = server.connect().await;
    assert_eq!(
        refused(&mut client, "PUT /data/f\nContent-Range: bytes 0-2/9\n").await,
        400
    );
    assert_eq!(refused(&mut client, "PUT /data/f\nContent-Encoding: gzip\n").await, 415);
    assert_eq!(refused(&mut client, "PUT /data/f\nIf-None-Match: *\n").await, 412);
    assert_eq!(refused(&mut client, "PUT /data/f\nIf-Match: \"x\"\n").await, 412);
    assert_eq!(refused(&mut client, "PUT /data\n").await, 409);
    assert_eq!(refused(&mut client, "PUT /f\n").await, 404);
    assert_eq!(client.ask("GET /data/f\n", b"").await.body, b"old");
}

/// Begins an upload to `/data/in/job/f`, which exists already; the body is to follow.
async fn begin_held(server: &Server) -> Raw {
    server.put("/data/in/job/f", b"old").await;
    let mut client = server.connect().await;
    client
        .send(head_text("PUT /data/in/job/f\nExpect: 100-continue\n", Some(3)))
        .await;
    assert_eq!(client.answer(false).await.status, 100);
    client
}

#[tokio::test]
async fn an_upload_does_not_follow_its_directory_to_another_name() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    for server in [
        Server::start(vec![export("/data", AnonymousAccess::Write, disk)], |_| {}).await,
        Server::open().await,
    ] {
        let mut held = begin_held(&server).await;
        server.put("/data/arch/x", b"").await;
        let moved = server
            .ask("MOVE /data/in/job\nDestination: http://test/data/arch/job\n", b"")
            .await;
        assert_eq!(moved.status, 201);
        held.send("new").await;
        let told = held.answer(false).await;
        assert_eq!(told.status, 409, "{told:?}");
        assert_eq!(server.ask("GET /data/arch/job/f\n", b"").await.body, b"old");
        assert_eq!(server.ask("GET /data/in/job/f\n", b"").await.status, 404);
    }
}

#[tokio::test]
async fn rules_that_came_during_an_upload_hold_when_it_ends() {
    let server = Server::open().await;
    let mut held = begin_held(&server).await;
    let open = server.exports.current().list().to_vec();
    let mut closed = open.clone();
    closed[0].rules.anonymous = AnonymousAccess::Read;
    server.exports.replace(endpoint::Exports::new(closed));
    held.send("new").await;
    assert_eq!(held.answer(false).await.status, 401);
    assert_eq!(server.ask("GET /data/in/job/f\n", b"").await.body, b"old");
    server.exports.replace(endpoint::Exports::new(open));
    let mut held = begin_held(&server).await;
    let same = server.exports.current().list().to_vec();
    server.exports.replace(endpoint::Exports::new(same));
    held.send("new").await;
    assert_eq!(held.answer(false).await.status, 204, "a reload that changes nothing");
}
