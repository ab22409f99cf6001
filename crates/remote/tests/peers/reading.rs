//! HEAD and GET against peers that keep the rules and peers that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::script::{Server, client, client_within, read_all};
use net::address::AddressPolicy;
use remote::limits::CHECKSUM_ASKED_AGAIN_AFTER;
use remote::{Facts, GetOptions, Validator};
use tokio::time::Instant;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Side};

fn part(start: u64, end: u64) -> GetOptions {
    GetOptions {
        range: Some(ByteRange::new(start, end)),
        ..GetOptions::default()
    }
}

#[tokio::test]
async fn head_and_get_share_a_connection() {
    let server = Server::start(|number, mut peer| async move {
        assert_eq!(number, 0, "a second connection");
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\nDigest: adler32=00000001\r\n\r\n")
            .await;
        peer.head().await;
        peer.answer("200 OK", "", "hello").await;
        peer.wait_for_end().await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let facts = client.head(&file, &[ChecksumAlgorithm::Adler32]).await.unwrap();
    assert_eq!(facts.size_bytes, Some(5));
    assert_eq!(facts.checksums, [Checksum::adler32(1)]);
    let mut download = client.get(&file, &GetOptions::default()).await.unwrap();
    assert_eq!(
        (download.range(), download.facts().size_bytes),
        (ByteRange::new(0, 5), Some(5))
    );
    assert_eq!(read_all(&mut download).await.unwrap(), b"hello");
    let heard = server.heard();
    assert!(
        heard[0].starts_with("HEAD /f HTTP/1.1\r\n") && heard[0].contains("Want-Digest: adler32"),
        "{}",
        heard[0]
    );
    assert!(heard[1].contains("Authorization: Bearer ours") && heard[1].contains("User-Agent: crossload-test/1"));
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_no_file() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await;
    })
    .await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!((error.code(), error.side()), (ErrorCode::PeerClosed, Side::Source));
    assert!(error.public().contains("/f"), "{error}");
}

#[tokio::test]
async fn chunks_must_add_up_to_the_part() {
    for chunks in ["3\r\nhel\r\n0\r\n\r\n", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"] {
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nTransfer-Encoding: chunked\r\n\r\n";
        let server = Server::always(format!("{head}{chunks}")).await;
        let mut download = client().get(&server.file("/f"), &part(0, 5)).await.unwrap();
        let error = read_all(&mut download).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerSizeDiffers, "{chunks:?}");
    }
}

#[tokio::test]
async fn exactly_the_part_must_come() {
    let cases = [
        ("206 P\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3", (2, 5), None),
        (
            "206 P\r\nContent-Range: bytes 1-3/9\r\nContent-Length: 3",
            (2, 5),
            Some(ErrorCode::PeerMisbehaved),
        ),
        ("206 P\r\nContent-Length: 3", (2, 5), Some(ErrorCode::PeerMisbehaved)),
        (
            "206 P\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 2",
            (2, 5),
            Some(ErrorCode::PeerMisbehaved),
        ),
        ("200 OK\r\nContent-Length: 3", (0, 3), None),
        ("200 OK\r\nContent-Length: 9", (0, 3), Some(ErrorCode::PeerMisbehaved)),
        ("200 OK\r\nContent-Length: 3", (1, 3), Some(ErrorCode::PeerMisbehaved)),
        ("416 R\r\nContent-Length: 0", (2, 5), Some(ErrorCode::SourceChanged)),
    ];
    for (head, (start, end), expected) in cases {
        let server = Server::always(format!("HTTP/1.1 {head}\r\n\r\nabc")).await;
        let outcome = client().get(&server.file("/f"), &part(start, end)).await;
        assert_eq!(
            outcome.err().map(|error| error.code()),
            expected,
            "{head} for {start}-{end}"
        );
        assert!(server.heard()[0].contains(&format!("Range: bytes={start}-{}\r\n", end - 1)));
    }
    let server = Server::always("HTTP/1.1 206 P\r\nContent-Range: bytes 0-2/3\r\nContent-Length: 3\r\n\r\nabc").await;
    let whole = client().get(&server.file("/f"), &GetOptions::default()).await;
    assert_eq!(whole.unwrap_err().code(), ErrorCode::PeerMisbehaved);
}

#[tokio::test]
async fn a_changed_source_is_noticed_whatever_the_peer_knows_of_conditions() {
    let old = GetOptions {
        validator: Some(Validator::Tag("\"old\"".into())),
        ..part(2, 5)
    };
    let whole = GetOptions {
        range: None,
        ..old.clone()
    };
    let cases = [
        ("200 OK\r\nETag: \"new\"\r\nContent-Length: 9", &old),
        ("200 OK\r\nContent-Length: 9", &old),
        (
            "206 P\r\nETag: \"new\"\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3",
            &old,
        ),
        ("416 R\r\nContent-Length: 0", &old),
        ("412 P\r\nContent-Length: 0", &whole),
        ("200 OK\r\nETag: \"new\"\r\nContent-Length: 9", &whole),
    ];
    for (head, options) in cases {
        let server = Server::always(format!("HTTP/1.1 {head}\r\n\r\n")).await;
        let error = client().get(&server.file("/f"), options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SourceChanged, "{head}");
        let condition = if options.range.is_some() {
            "If-Range: \"old\""
        } else {
            "If-Match: \"old\""
        };
        assert!(server.heard()[0].contains(condition));
    }
    let server = Server::always("HTTP/1.1 200 OK\r\nETag: \"old\"\r\nContent-Length: 9\r\n\r\n").await;
    let error = client().get(&server.file("/f"), &old).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
}

#[tokio::test]
async fn what_comes_behind_the_body_counts() {
    let body = |trailer: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailer}\r\n\r\n")
    };
    let server = Server::always(body("Digest: adler32=024d0127")).await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    assert_eq!(read_all(&mut download).await.unwrap(), b"abc");
    assert_eq!(download.facts().checksums, [Checksum::adler32(0x024d_0127)]);

    let server = Server::always(body("Repr-Digest: md5=broken")).await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);

    let server = Server::always(body("X-Transfer-Status: 500: Unable to read; input/output error")).await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!(
        (error.code(), error.peer_status()),
        (ErrorCode::PeerFailed, Some(PeerStatus::Http(500)))
    );
    assert_eq!(error.peer_words(), Some("Unable to read; input/output error"));
}

#[tokio::test]
async fn a_peer_that_is_still_computing_is_asked_again() {
    let server = Server::start(|_, mut peer| async move {
        for _ in 0..3 {
            peer.head().await;
            peer.say("HTTP/1.1 202 Accepted\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
                .await;
        }
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nDigest: adler32=1\r\n\r\n")
            .await;
        peer.wait_for_end().await;
    })
    .await;
    let facts = client()
        .head(&server.file("/f"), &[ChecksumAlgorithm::Adler32])
        .await
        .unwrap();
    assert_eq!((facts.checksums.len(), server.heard().len()), (1, 4));
}

/// Asks a peer for a checksum. Each of its two connections answers with a status after so many
/// seconds, or never.
async fn ask_slow(answers: [Option<(u64, &'static str)>; 2]) -> (Result<Facts, Error>, usize) {
    let server = Server::start(move |number, mut peer| async move {
        peer.head().await;
        if let Some((wait_s, answer)) = answers[number] {
            tokio::time::sleep(Duration::from_secs(wait_s)).await;
            peer.answer(answer, "Digest: adler32=1\r\n", "").await;
        }
        peer.wait_for_end().await;
    })
    .await;
    let facts = client().head(&server.file("/f"), &[ChecksumAlgorithm::Adler32]).await;
    (facts, server.heard().len())
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_loses_the_question_for_a_checksum_is_asked_once_more() {
    let began = Instant::now();
    let (facts, asked) = ask_slow([None, Some((0, "200 OK"))]).await;
    assert_eq!((facts.unwrap().checksums.len(), asked), (1, 2));
    assert!(began.elapsed() < CHECKSUM_ASKED_AGAIN_AFTER + Duration::from_secs(1));
    // Whichever answers well first.
    let (facts, asked) = ask_slow([Some((20, "200 OK")), Some((1, "503 Busy"))]).await;
    assert_eq!((facts.unwrap().checksums.len(), asked), (1, 2));
    let (facts, asked) = ask_slow([Some((20, "503 Busy")), Some((20, "200 OK"))]).await;
    assert_eq!((facts.unwrap().checksums.len(), asked), (1, 2));
    // No patience goes beyond that for the first byte.
    let (facts, asked) = ask_slow([None, None]).await;
    assert_eq!((facts.unwrap_err().code(), asked), (ErrorCode::PeerStalled, 2));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_in_time_is_not_asked_twice() {
    let (facts, asked) = ask_slow([Some((8, "200 OK")), None]).await;
    assert_eq!((facts.unwrap().checksums.len(), asked), (1, 1));
    let (facts, asked) = ask_slow([Some((8, "404 Not Found")), None]).await;
    assert_eq!((facts.unwrap_err().code(), asked), (ErrorCode::PeerNotFound, 1));
}

/// Asks a peer of this name, whose first answer has no checksum.
async fn ask_forgetful(name: &'static str, second: &'static str, wanted: &[ChecksumAlgorithm]) -> (Facts, usize) {
    let server = Server::start(move |number, mut peer| async move {
        peer.head().await;
        let (status, digest) = match number {
            0 => ("200 OK", ""),
            _ => (second, "Digest: adler32=1\r\n"),
        };
        peer.answer(status, &format!("Server: {name}\r\n{digest}"), "").await;
        peer.wait_for_end().await;
    })
    .await;
    let facts = client().head(&server.file("/f"), wanted).await.unwrap();
    (facts, server.heard().len())
}

#[tokio::test]
async fn xrootd_that_leaves_the_checksum_out_is_asked_once_more() {
    let adler32 = [ChecksumAlgorithm::Adler32];
    let (facts, asked) = ask_forgetful("XrootD/v5.5.3", "200 OK", &adler32).await;
    assert_eq!((facts.checksums, asked), (vec![Checksum::adler32(1)], 2));
    // What was answered first counts when it does not answer again.
    let (facts, asked) = ask_forgetful("XrootD", "503 Busy", &adler32).await;
    assert_eq!((facts.checksums, facts.size_bytes, asked), (vec![], Some(0), 2));
    for (name, wanted) in [("nginx", &adler32[..]), ("XrootD/v5.5.3", &[])] {
        let (facts, asked) = ask_forgetful(name, "200 OK", wanted).await;
        assert_eq!((facts.checksums, asked), (vec![], 1), "{name}");
    }
}

/// XRootD fails so while it computes checksums of several files.
#[tokio::test(start_paused = true)]
async fn xrootd_that_fails_to_compute_a_checksum_is_asked_again() {
    let ask = async |name: &'static str, failures: usize, wanted: &[ChecksumAlgorithm]| {
        let server = Server::start(move |number, mut peer| async move {
            peer.head().await;
            let status = if number < failures {
                "500 Internal Server Error"
            } else {
                "200 OK"
            };
            let headers = format!("Server: {name}\r\nConnection: close\r\nDigest: adler32=1\r\n");
            peer.answer(status, &headers, "").await;
        })
        .await;
        let facts = client().head(&server.file("/f"), wanted).await;
        (facts.map(|facts| facts.checksums.len()), server.heard().len())
    };
    let adler32 = [ChecksumAlgorithm::Adler32];
    let (found, asked) = ask("XrootD/v5.5.3", 2, &adler32).await;
    assert_eq!((found.unwrap(), asked), (1, 3));
    // It may fail for good, others do, and so does a question without checksums.
    for (name, wanted, asks) in [
        ("XrootD/v5.5.3", &adler32[..], 4),
        ("nginx", &adler32, 1),
        ("XrootD", &[], 1),
    ] {
        let (found, asked) = ask(name, usize::MAX, wanted).await;
        assert_eq!(
            (found.unwrap_err().code(), asked),
            (ErrorCode::PeerFailed, asks),
            "{name}"
        );
    }
}

/// The thread in XRootD that computed the checksum may still use the connection.
#[tokio::test]
async fn xrootd_gets_no_request_behind_its_answer_about_a_checksum() {
    for (name, is_xrootd) in [("XRootD", true), ("XRootD/v5.5.3", true), ("nginx", false)] {
        let behind = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&behind);
        let server = Server::start(move |_, mut peer| {
            let counted = Arc::clone(&counted);
            async move {
                let mut was_asked = false;
                loop {
                    let head = peer.head().await.to_ascii_lowercase();
                    if head.is_empty() {
                        break;
                    }
                    counted.fetch_add(usize::from(was_asked), Ordering::SeqCst);
                    was_asked |= head.contains("want-digest:");
                    let headers = format!("Server: {name}\r\nDigest: adler32=1\r\n");
                    peer.answer("200 OK", &headers, "").await;
                }
            }
        })
        .await;
        let (client, file) = (client(), server.file("/f"));
        let options = GetOptions {
            wanted: vec![ChecksumAlgorithm::Adler32],
            ..GetOptions::default()
        };
        client.head(&file, &options.wanted).await.unwrap();
        let mut download = client.get(&file, &options).await.unwrap();
        read_all(&mut download).await.unwrap();
        client.head(&file, &[]).await.unwrap();
        assert_eq!(behind.load(Ordering::SeqCst) == 0, is_xrootd, "{name}");
    }
}

#[tokio::test]
async fn refusals_carry_the_peers_words() {
    let cases = [
        ("401 U", ErrorCode::PeerDenied),
        ("403 F", ErrorCode::PeerForbidden),
        ("404 N", ErrorCode::PeerNotFound),
        ("410 G", ErrorCode::PeerNotFound),
        ("405 M", ErrorCode::PeerUnsupported),
        ("501 N", ErrorCode::PeerUnsupported),
        ("507 I", ErrorCode::PeerNoSpace),
        ("500 E", ErrorCode::PeerFailed),
    ];
    let page = "<html><title>Oops</title><body>the <b>disk</b> is away</body></html>";
    for (status, code) in cases {
        let server = Server::start(move |_, mut peer| async move {
            peer.head().await;
            peer.answer(status, "Content-Type: text/html\r\n", page).await;
            peer.wait_for_end().await;
        })
        .await;
        let error = client()
            .get(&server.file("/f?secret=1"), &GetOptions::default())
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.side()), (code, Side::Source), "{status}");
        assert_eq!(error.peer_words(), Some("Oops the disk is away"));
        assert!(!error.public().contains("secret"));
    }
}

#[tokio::test]
async fn a_kept_connection_that_died_costs_no_failure() {
    let server = Server::start(|number, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
        if number == 0 {
            // Hears the second request, and goes without a word.
            peer.head().await;
        } else {
            peer.wait_for_end().await;
        }
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    for _ in 0..2 {
        client.head(&file, &[]).await.unwrap();
    }
    assert_eq!(server.heard().len(), 3);
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_a_failure() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
    })
    .await;
    let error = client().head(&server.file("/f"), &[]).await.unwrap_err();
    assert_eq!((error.code(), server.heard().len()), (ErrorCode::PeerClosed, 1));
}

#[tokio::test]
async fn an_unfinished_body_takes_its_connection_along() {
    let server = Server::start(|number, mut peer| async move {
        while !peer.head().await.is_empty() {
            peer.answer("200 OK", "", &format!("connection {number}")).await;
        }
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    drop(client.get(&file, &GetOptions::default()).await.unwrap());
    for _ in 0..2 {
        let mut download = client.get(&file, &GetOptions::default()).await.unwrap();
        assert!(
            download
                .ends()
                .is_some_and(|ends| server.url.ends_with(&ends.peer.to_string()))
        );
        assert_eq!(read_all(&mut download).await.unwrap(), b"connection 1");
    }
}

#[tokio::test]
async fn a_refused_address_is_never_connected_to() {
    let server = Server::always("").await;
    let strict = AddressPolicy {
        local: false,
        private: true,
    };
    let client = client_within(strict);
    let error = client.head(&server.file("/f"), &[]).await.unwrap_err();
    assert_eq!((error.code(), server.heard().len()), (ErrorCode::PeerAddressRefused, 0));
}

#[test]
fn work_can_move_between_threads() {
    fn moves<T: Send>(_: &T) {}
    let (client, file) = (client(), crate::script::resource("http://192.0.2.1/f"));
    moves(&client.head(&file, &[]));
    moves(&client.get(&file, &GetOptions::default()));
    moves(&client.put(&file, &remote::PutOptions::default()));
    moves(&client.list(&file));
}
