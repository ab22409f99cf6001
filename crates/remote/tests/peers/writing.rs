//! PUT: the invitation to send, refusals at any moment, both framings.

use std::sync::Mutex;

use crate::script::{Server, client, send};
use remote::PutOptions;
use types::{Checksum, ErrorCode, Location, PeerStatus};

fn sized(size_bytes: u64) -> PutOptions {
    PutOptions {
        size_bytes: Some(size_bytes),
        overwrite: true,
        ..PutOptions::default()
    }
}

#[tokio::test]
async fn an_invited_body_is_sent_and_the_answer_read() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.answer("404 Not Found", "", "").await;
        peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        assert_eq!(peer.body(10).await, b"helloworld");
        peer.answer("201 Created", "Digest: adler32=1736044f\r\n", "").await;
        // The connection is used again.
        peer.head().await;
        peer.answer("204 No Content", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let options = PutOptions {
        declared: vec![Checksum::adler32(1)],
        overwrite: false,
        ..sized(10)
    };
    let mut outlet = client.put(&file, &options).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    send(&mut outlet, b"world").await.unwrap();
    let stored = outlet.finish().await.unwrap();
    assert!(stored.created);
    assert_eq!(stored.checksums, [Checksum::adler32(0x1736_044f)]);
    client.delete(&file).await.unwrap();
    let head = &server.heard()[1];
    for line in [
        "Expect: 100-continue",
        "Content-Length: 10",
        "If-None-Match: *",
        "Digest: adler32=00000001",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
    }
}

/// A store with a known MD5 refuses what breaks off. One that wants the header to be signed gets
/// none.
#[tokio::test]
async fn a_known_md5_goes_along_with_an_upload_by_a_signed_url() {
    let server = Server::start(|_, mut peer| async move {
        loop {
            let head = peer.head().await;
            if head.is_empty() {
                return;
            }
            if head.contains("/strict") && head.contains("Content-MD5") {
                peer.answer("403 Forbidden", "", "SignatureDoesNotMatch").await;
                continue;
            }
            peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            assert_eq!(peer.body(5).await, b"hello");
            peer.answer("200 OK", "", "").await;
        }
    })
    .await;
    let md5 = Checksum::md5(0x5d41_402a_bc4b_2a76_b971_9d91_1017_c592_u128.to_be_bytes());
    let options = PutOptions {
        declared: vec![Checksum::adler32(1), md5],
        ..sized(5)
    };
    let v4 = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=60&X-Amz-Signature=00";
    for (path, query, sent) in [
        ("/f", v4, vec![true]),
        ("/strict", v4, vec![true, false]),
        ("/f", "AWSAccessKeyId=AK&Signature=00&Expires=99999999999", vec![false]),
        ("/f", "", vec![false]),
    ] {
        let mut file = server.file(path);
        file.location = Location::parse(&format!("{}?{query}", file.location)).unwrap();
        let before = server.heard().len();
        let mut outlet = client().put(&file, &options).await.unwrap();
        send(&mut outlet, b"hello").await.unwrap();
        outlet.finish().await.unwrap();
        let has_md5 = |head: &String| head.contains("\r\nContent-MD5: XUFAKrxLKna5cZ2REBfFkg==\r\n");
        let heard = server.heard();
        let puts = heard[before..].iter().filter(|head| head.starts_with("PUT "));
        assert_eq!(puts.map(has_md5).collect::<Vec<_>>(), sent, "{path}?{query}");
        assert!(heard.iter().all(|head| head.matches("\r\nDigest: ").count() <= 1));
    }
}

#[tokio::test]
async fn a_peer_that_knows_no_invitation_gets_the_body_anyway() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        assert_eq!(peer.body(5).await, b"hello");
        peer.answer("200 OK", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(5)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    assert!(!outlet.finish().await.unwrap().created);
}

/// A copy takes one more buffer before it learns that nothing is left to send. A quick server has
/// answered by then.
#[tokio::test]
async fn an_answer_behind_the_last_byte_is_not_too_early() {
    let (answered, answer) = tokio::sync::oneshot::channel();
    let answered = Mutex::new(Some(answered));
    let server = Server::start(move |_, mut peer| {
        let answered = answered.lock().unwrap().take();
        async move {
            peer.head().await;
            peer.body(5).await;
            peer.answer("201 Created", "", "").await;
            answered.unwrap().send(()).unwrap();
            peer.wait_for_end().await;
        }
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(5)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    answer.await.unwrap();
    let room = outlet.outgoing().await;
    drop(room.expect("it has been sent whole"));
    assert!(outlet.finish().await.unwrap().created);
}

#[tokio::test]
async fn a_peer_that_refuses_the_expectation_is_asked_without() {
    let server = Server::start(|_, mut peer| async move {
        let first = peer.head().await;
        assert!(first.contains("Expect"));
        peer.answer("417 Expectation Failed", "", "").await;
        let second = peer.head().await;
        assert!(!second.contains("Expect"));
        peer.body(5).await;
        peer.answer("201 Created", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(5)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    assert!(outlet.finish().await.unwrap().created);
}

#[tokio::test]
async fn a_refusal_comes_before_a_byte_is_sent() {
    for (status, overwrite, code) in [
        ("412 P", false, ErrorCode::PeerExists),
        ("412 P", true, ErrorCode::PeerFailed),
        ("403 F", true, ErrorCode::PeerForbidden),
        ("507 I", true, ErrorCode::PeerNoSpace),
    ] {
        let server = Server::start(move |_, mut peer| async move {
            while !peer.head().await.is_empty() {
                // HEAD has no body; the test reads the PUT's answer.
                let put = peer.last_was("PUT");
                peer.answer(status, "", if put { "no\n" } else { "" }).await;
            }
        })
        .await;
        let options = PutOptions { overwrite, ..sized(5) };
        let error = client().put(&server.file("/f"), &options).await.unwrap_err();
        assert_eq!(
            (error.code(), error.peer_words()),
            (code, Some("no")),
            "{status} {overwrite}"
        );
    }
}

#[tokio::test]
async fn a_peer_that_ignores_the_condition_is_asked_before() {
    let server = Server::always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let options = PutOptions {
        overwrite: false,
        ..sized(5)
    };
    let error = client().put(&server.file("/f"), &options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerExists);
    assert!(server.heard().iter().all(|head| head.starts_with("HEAD")));
}

#[tokio::test]
async fn an_answer_in_the_middle_of_the_body_ends_it_with_the_peers_words() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        peer.body(1000).await;
        peer.answer("507 Insufficient Storage", "Connection: close\r\n", "the pool is full")
            .await;
        peer.say_no_more().await;
        peer.wait_for_end().await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(1 << 40)).await.unwrap();
    let piece = vec![7; 100_000];
    let error = loop {
        if let Err(error) = send(&mut outlet, &piece).await {
            break error;
        }
    };
    assert_eq!(
        (error.code(), error.peer_words()),
        (ErrorCode::PeerNoSpace, Some("the pool is full"))
    );
    assert_eq!(
        send(&mut outlet, &piece).await.unwrap_err().code(),
        ErrorCode::PeerClosed
    );
}

#[tokio::test]
async fn a_file_that_is_not_what_was_declared_is_refused_as_that() {
    let ours = "client checksum: CHECKSUM MISMATCH: the data are not what was declared (adler32:1 / adler32:2), /f";
    for (status, words, code) in [
        ("422 Unprocessable Content", ours, ErrorCode::ChecksumMismatch),
        ("422 Unprocessable Content", "no", ErrorCode::PeerFailed),
        ("400 Bad Request", "Checksum mismatch", ErrorCode::ChecksumMismatch),
        ("500 Internal Server Error", "Checksum mismatch", ErrorCode::PeerFailed),
    ] {
        let server = Server::start(move |_, mut peer| async move {
            peer.head().await;
            peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            peer.body(5).await;
            peer.answer(status, "", words).await;
            peer.wait_for_end().await;
        })
        .await;
        let mut outlet = client().put(&server.file("/f"), &sized(5)).await.unwrap();
        send(&mut outlet, b"hello").await.unwrap();
        let error = outlet.finish().await.unwrap_err();
        assert_eq!((error.code(), error.phase()), (code, types::Phase::Commit), "{status}");
        assert_eq!(error.peer_words(), Some(words));
    }
}

#[tokio::test]
async fn a_redirect_in_the_middle_of_the_body_comes_too_late() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        peer.body(5).await;
        peer.answer("307 Go", "Location: /elsewhere\r\n", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(5)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(
        (error.code(), error.peer_status()),
        (ErrorCode::PeerMisbehaved, Some(PeerStatus::Http(307)))
    );
}

#[tokio::test]
async fn a_connection_torn_while_sending_still_gives_the_peers_words() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        peer.body(1000).await;
        // Closes with unread data, so that the client's next write fails.
        peer.answer("403 Forbidden", "", "quota of this user").await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(1 << 40)).await.unwrap();
    let piece = vec![7; 200_000];
    let error = loop {
        if let Err(error) = send(&mut outlet, &piece).await {
            break error;
        }
    };
    assert_eq!(
        (error.code(), error.peer_words()),
        (ErrorCode::PeerForbidden, Some("quota of this user"))
    );
}

#[tokio::test]
async fn a_body_of_unknown_size_goes_in_chunks() {
    let server = Server::start(|_, mut peer| async move {
        assert!(peer.head().await.contains("Transfer-Encoding: chunked"));
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        assert_eq!(peer.until("0\r\n\r\n").await, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
        peer.answer("201 Created", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let options = PutOptions {
        size_bytes: None,
        ..sized(0)
    };
    let mut outlet = client().put(&server.file("/f"), &options).await.unwrap();
    assert!(outlet.bare_stream().is_none());
    send(&mut outlet, b"hello").await.unwrap();
    send(&mut outlet, b" world").await.unwrap();
    outlet.finish().await.unwrap();
}

/// Only the server that compares it gets one: behind a redirect there may be another.
#[tokio::test]
async fn a_checksum_goes_behind_the_content_to_a_server_that_compares_it() {
    let server = Server::start(|_, mut peer| async move {
        let head = peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        if head.contains("Transfer-Encoding: chunked\r\nTrailer: Digest\r\n") {
            let sent = peer.until("\r\n\r\n").await;
            assert_eq!(sent, "5\r\nhello\r\n0\r\nDigest: adler32=062c0215\r\n\r\n");
        } else {
            assert!(head.contains("Content-Length: 5\r\n"), "{head}");
            assert_eq!(peer.body(5).await, b"hello");
        }
        peer.answer("204 No Content", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let here = server.file("/old").location;
    let elsewhere = Location::parse("http://127.0.0.1:1/f").unwrap();
    for (compares_trailers_at, is_declared) in [(None, false), (Some(elsewhere), false), (Some(here), true)] {
        let options = PutOptions {
            compares_trailers_at,
            ..sized(5)
        };
        let mut outlet = client().put(&server.file("/f"), &options).await.unwrap();
        assert_eq!(outlet.bare_stream().is_none(), is_declared);
        send(&mut outlet, b"hello").await.unwrap();
        outlet.declare(&[Checksum::adler32(0x062c_0215)]);
        outlet.finish().await.unwrap();
        let heard = server.heard().pop().unwrap();
        assert_eq!(heard.contains("\r\nTrailer: Digest\r\n"), is_declared, "{heard}");
    }
}

#[tokio::test]
async fn a_server_that_compares_a_checksum_behind_the_content_says_who_it_is() {
    for (name, compares) in [("crossload/0.1.0", true), ("XrootD/v5.5.3", false)] {
        let server = Server::always(format!(
            "HTTP/1.1 200 OK\r\nServer: {name}\r\nContent-Length: 0\r\n\r\n"
        ))
        .await;
        let facts = client().head(&server.file("/f"), &[]).await.unwrap();
        assert_eq!(facts.compares_trailers, compares, "{name}");
    }
}

#[tokio::test]
async fn an_empty_file_is_stored_with_its_head() {
    let server = Server::start(|_, mut peer| async move {
        let head = peer.head().await;
        assert!(head.contains("Content-Length: 0") && !head.contains("Expect"));
        peer.answer("201 Created", "", "").await;
        peer.wait_for_end().await;
    })
    .await;
    let outlet = client().put(&server.file("/f"), &sized(0)).await.unwrap();
    assert!(outlet.finish().await.unwrap().created);
}

#[tokio::test]
async fn too_few_bytes_are_never_passed_off_as_a_file() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        peer.wait_for_end().await;
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(9)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    assert!(outlet.bare_stream().is_some());
    assert_eq!(outlet.finish().await.unwrap_err().code(), ErrorCode::Internal);
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced_before_the_body() {
    let server = Server::start(|number, mut peer| async move {
        peer.head().await;
        if number == 0 {
            peer.answer("200 OK", "", "").await;
            peer.head().await;
        } else {
            peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            peer.body(5).await;
            peer.answer("201 Created", "", "").await;
            peer.wait_for_end().await;
        }
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    client.options(&file).await.unwrap();
    let mut outlet = client.put(&file, &sized(5)).await.unwrap();
    send(&mut outlet, b"hello").await.unwrap();
    assert!(outlet.finish().await.unwrap().created);
    assert_eq!(server.heard().len(), 3);
}
