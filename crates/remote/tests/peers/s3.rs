//! The client against scripted S3 servers: overload, errors behind a success, changes in the
//! middle. Real servers are in the conformance tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use remote::{Access, Account, Client, GetOptions, PutOptions, Resource, Validator, WithinOptions};
use types::{ByteRange, ErrorCode, Location, Secret, Side};

use crate::script::{Peer, Server, client, read_all, send};

/// Bytes that are collected before a part is sent.
const PART_BYTES: usize = 5 * 1024 * 1024;

/// An answer: status, headers, body.
type Answer = (&'static str, &'static str, String);

fn refusal(code: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no &amp; no</Message></Error>")
}

/// A server that answers the requests in order, each after its whole body, and keeps the bodies.
async fn scripted(answers: Vec<Answer>) -> (Server, Arc<Mutex<Vec<Vec<u8>>>>) {
    let (answers, bodies) = (
        Arc::new(Mutex::new(answers.into_iter())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let kept = Arc::clone(&bodies);
    let server = Server::start(move |_, mut peer| {
        let (answers, kept) = (Arc::clone(&answers), Arc::clone(&kept));
        async move {
            loop {
                let head = peer.head().await;
                if head.is_empty() {
                    return;
                }
                let body = body(&mut peer, &head).await;
                kept.lock().unwrap().push(body);
                let (status, headers, text) = answers.lock().unwrap().next().expect("one request too many");
                match head.starts_with("HEAD") {
                    true => peer.say(&format!("HTTP/1.1 {status}\r\n{headers}\r\n")).await,
                    false => peer.answer(status, headers, &text).await,
                }
            }
        }
    });
    (server.await, bodies)
}

async fn body(peer: &mut Peer, head: &str) -> Vec<u8> {
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .trim()
            .parse()
            .ok()
    });
    if head.to_ascii_lowercase().contains("100-continue") {
        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    peer.body(length.unwrap_or(0)).await
}

/// An object there, with an account, and a token for other servers.
fn object(server: &Server) -> Resource {
    let url = server.url.replace("http://", "s3://");
    Resource {
        location: Location::parse(&format!("{url}/bucket/dir/f")).unwrap(),
        access: Access {
            bearer: Some(Secret::new("ours")),
            account: Some(Arc::new(Account {
                key_id: "key".to_owned(),
                secret: Secret::new("hush"),
                token: None,
                region: None,
                addressing: None,
            })),
            ..Access::default()
        },
        side: Side::Source,
    }
}

fn s3() -> Client {
    client().with_s3()
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_with_a_signature_and_nothing_else() {
    let slow = || ("503 Slow Down", "", refusal("SlowDown"));
    let (server, _) = scripted(vec![slow(), slow(), ("200 OK", "ETag: \"a\"\r\n", "content".into())]).await;
    let mut download = s3().get(&object(&server), &GetOptions::default()).await.unwrap();
    assert_eq!(read_all(&mut download).await.unwrap(), b"content");
    let heard = server.heard();
    assert_eq!(heard.len(), 3);
    for head in &heard {
        assert!(
            head.starts_with("GET /bucket/dir/f?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
            "{head}"
        );
        assert!(
            !head.contains("ours") && !head.contains("hush") && !head.contains("Authorization"),
            "{head}"
        );
    }
    // A queue waits by itself.
    let (server, _) = scripted(vec![slow()]).await;
    let mut file = object(&server);
    file.access.returns_delays = true;
    let error = s3().get(&file, &GetOptions::default()).await.unwrap_err();
    assert!(
        error.retry() && error.peer_words().unwrap().starts_with("SlowDown: no & no"),
        "{error}"
    );
}

#[tokio::test]
async fn a_changed_object_and_an_expired_signature_have_their_words() {
    let part = GetOptions {
        range: Some(ByteRange::new(2, 4)),
        validator: Some(Validator::Tag("\"a\"".to_owned())),
        ..GetOptions::default()
    };
    let (server, _) = scripted(vec![("412 Precondition Failed", "", refusal("PreconditionFailed"))]).await;
    let error = s3().get(&object(&server), &part).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SourceChanged);
    assert!(server.heard()[0].contains("If-Match: \"a\""), "{}", server.heard()[0]);
    let other = (
        "206 Partial Content",
        "Content-Range: bytes 2-3/9\r\nETag: \"b\"\r\n",
        "xy".to_owned(),
    );
    let (server, _) = scripted(vec![other]).await;
    let error = s3().get(&object(&server), &part).await.unwrap_err();
    assert_eq!(
        error.code(),
        ErrorCode::SourceChanged,
        "the server ignores the condition"
    );
    for (code, words) in [("RequestTimeTooSkewed", "clock"), ("ExpiredToken", "expired")] {
        let (server, _) = scripted(vec![("403 Forbidden", "", refusal(code))]).await;
        let error = s3().get(&object(&server), &part).await.unwrap_err();
        assert!(
            error.code() == ErrorCode::PeerDenied && error.public().contains(words),
            "{error}"
        );
        assert!(!error.public().contains("X-Amz"), "{error}");
    }
    let (server, _) = scripted(vec![("403 Forbidden", "", refusal("QuotaExceeded"))]).await;
    let error = s3().get(&object(&server), &part).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerNoSpace);
}

#[tokio::test]
async fn a_bucket_that_is_elsewhere_in_urls_is_no_empty_directory() {
    let missing = || ("404 Not Found", "Content-Length: 0\r\n", String::new());
    let buckets = "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>".to_owned();
    for answer in [
        // The server has buckets in hosts, and takes ours in the path for an object.
        ("404 Not Found", "", refusal("NoSuchKey")),
        // The server has buckets in paths, and there is none.
        ("200 OK", "", buckets),
    ] {
        let (server, _) = scripted(vec![missing(), answer]).await;
        let error = s3().stat(&object(&server)).await.unwrap_err();
        assert!(
            error.code() == ErrorCode::PeerMisbehaved && error.public().contains("the bucket elsewhere in the URL"),
            "{error}"
        );
    }
    let (server, _) = scripted(vec![missing(), ("404 Not Found", "", refusal("NoSuchBucket"))]).await;
    let error = s3().stat(&object(&server)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerNotFound);
}

#[tokio::test]
async fn a_bucket_in_another_region_is_asked_there() {
    let moved = (
        "301 Moved Permanently",
        "x-amz-bucket-region: eu-west-1\r\n",
        refusal("PermanentRedirect"),
    );
    let bucket = (
        "301 Moved Permanently",
        "Content-Length: 0\r\nx-amz-bucket-region: eu-west-1\r\n",
        String::new(),
    );
    let (server, _) = scripted(vec![moved, bucket, ("200 OK", "", "x".into())]).await;
    let mut download = s3().get(&object(&server), &GetOptions::default()).await.unwrap();
    assert_eq!(read_all(&mut download).await.unwrap(), b"x");
    let heard = server.heard();
    assert!(
        heard[0].contains("%2Fus-east-1%2Fs3") && heard[2].contains("%2Feu-west-1%2Fs3"),
        "{heard:?}"
    );
}

async fn upload(file: &Resource, content: &[u8]) -> types::Result<remote::Stored> {
    upload_over(file, content, true).await
}

/// Stores an object, in place of another one or not.
async fn upload_over(file: &Resource, content: &[u8], overwrite: bool) -> types::Result<remote::Stored> {
    let options = PutOptions {
        size_bytes: None,
        overwrite,
        is_absent: !overwrite,
        ..PutOptions::default()
    };
    let mut outlet = s3().put(file, &options).await?;
    for piece in content.chunks(128 * 1024) {
        send(&mut outlet, piece).await?;
    }
    outlet.finish().await
}

const BEGUN: &str = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
const DONE: &str = "<CompleteMultipartUploadResult><ETag>\"c-2\"</ETag></CompleteMultipartUploadResult>";

#[tokio::test]
async fn an_error_behind_a_success_is_none_and_the_parts_are_sent_again_where_that_helps() {
    let content: Vec<u8> = (0..PART_BYTES + 1).map(|at| (at / 251) as u8).collect();
    let late = format!("  \n\n{}", refusal("InternalError"));
    let answers = vec![
        ("200 OK", "", BEGUN.into()),
        ("500 Internal Server Error", "", refusal("InternalError")),
        ("200 OK", "ETag: \"one\"\r\n", String::new()),
        ("200 OK", "ETag: \"two\"\r\n", String::new()),
        ("200 OK", "", late),
        ("200 OK", "", format!("\n{DONE}")),
    ];
    let (server, bodies) = scripted(answers).await;
    let stored = upload(&object(&server), &content).await.unwrap();
    assert_eq!(stored.version, Some(Validator::Tag("\"c-2\"".to_owned())));
    let (heard, bodies) = (server.heard(), bodies.lock().unwrap().clone());
    assert!(
        heard[0].starts_with("POST /bucket/dir/f?X-Amz-") && heard[0].contains("uploads="),
        "{}",
        heard[0]
    );
    assert!(heard[3].contains("partNumber=2") && bodies[3] == content[PART_BYTES..]);
    assert!(
        bodies[1] == content[..PART_BYTES] && bodies[2] == bodies[1],
        "the part is the same"
    );
    let list = String::from_utf8(bodies[5].clone()).unwrap();
    let parts = [
        "<PartNumber>1</PartNumber><ETag>&quot;one&quot;",
        "<PartNumber>2</PartNumber><ETag>&quot;two&quot;",
    ];
    assert!(parts.iter().all(|part| list.contains(part)), "{list}");
}

#[tokio::test]
async fn the_parts_of_a_failed_upload_are_removed() {
    let answers = vec![
        ("200 OK", "", BEGUN.into()),
        ("200 OK", "ETag: \"one\"\r\n", String::new()),
        ("200 OK", "", refusal("AccessDenied")),
        ("204 No Content", "", String::new()),
        // A part came behind it.
        ("204 No Content", "", String::new()),
        ("404 Not Found", "", refusal("NoSuchUpload")),
    ];
    let (server, _) = scripted(answers).await;
    let file = object(&server);
    let client = s3();
    let options = PutOptions {
        overwrite: true,
        ..PutOptions::default()
    };
    let mut outlet = client.put(&file, &options).await.unwrap();
    for _ in 0..PART_BYTES / (128 * 1024) {
        send(&mut outlet, &[7; 128 * 1024]).await.unwrap();
    }
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerForbidden, "{error}");
    client.settle().await;
    let heard = server.heard();
    assert_eq!(heard.len(), 6, "{heard:?}");
    for head in &heard[3..] {
        assert!(
            head.starts_with("DELETE /bucket/dir/f?") && head.contains("uploadId=u"),
            "{head}"
        );
    }
}

/// The part that shows whether the server computes checksums is refused, or its caller leaves.
#[tokio::test]
async fn an_upload_whose_first_part_fails_is_removed() {
    for leaves in [false, true] {
        let answered = Arc::new(tokio::sync::Semaphore::new(0));
        let gate = Arc::clone(&answered);
        let server = Server::start(move |_, mut peer| {
            let gate = Arc::clone(&gate);
            async move {
                loop {
                    let head = peer.head().await;
                    let length = body(&mut peer, &head).await.len();
                    match head.split(' ').next() {
                        Some("POST") => peer.answer(SUMS_BEGUN.0, SUMS_BEGUN.1, SUMS_BEGUN.2).await,
                        Some("PUT") => {
                            assert_eq!(length, 1);
                            gate.acquire().await.unwrap().forget();
                            peer.answer("403 Forbidden", "", &refusal("AccessDenied")).await;
                        }
                        Some("DELETE") => peer.answer("404 Not Found", "", &refusal("NoSuchUpload")).await,
                        _ => return,
                    }
                }
            }
        });
        let server = server.await;
        let (client, file) = (s3(), object(&server));
        let options = PutOptions {
            size_bytes: Some(PART_BYTES as u64),
            overwrite: true,
            ..PutOptions::default()
        };
        let mut put = Box::pin(client.put(&file, &options));
        let wait_until = async |count: usize| {
            while server.heard().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            put = &mut put => panic!("{put:?}"),
            () = wait_until(2) => {}
        }
        if leaves {
            drop(put);
            answered.add_permits(1);
        } else {
            answered.add_permits(1);
            assert_eq!(put.await.unwrap_err().code(), ErrorCode::PeerForbidden);
        }
        let removed = tokio::time::timeout(Duration::from_secs(60), wait_until(3)).await;
        removed.expect("it is removed");
        assert!(server.heard()[2].starts_with("DELETE /bucket/dir/f?"), "{leaves}");
    }
}

const UNCLEAR: (&str, &str) = ("500 Internal Server Error", "InternalError");

/// The answer to HEAD of an object that was just stored, or long ago, as the server counts.
fn stored_at(time: &str, length: usize, etag: &str) -> &'static str {
    let head = format!(
        "Content-Length: {length}\r\nETag: \"{etag}\"\r\nDate: Mon, 01 Jan 2024 01:00:00 GMT\r\n\
        Last-Modified: Mon, 01 Jan 2024 {time} GMT\r\n"
    );
    head.leak()
}

#[tokio::test]
async fn an_object_in_parts_whose_answer_is_lost_is_looked_for() {
    let part = "0123456789abcdef0123456789abcdef";
    // As `etag_of_parts` computes it of one such part.
    let etag = "4662bdea8654776d486072ff7074945e-1";
    for (time, length, etag, expected) in [
        ("01:00:00", PART_BYTES, etag, None),
        ("00:00:00", PART_BYTES, etag, Some(ErrorCode::OutcomeUnknown)),
        ("01:00:00", PART_BYTES, "other-1", Some(ErrorCode::OutcomeUnknown)),
        ("01:00:00", 7, etag, Some(ErrorCode::OutcomeUnknown)),
    ] {
        let answers = vec![
            ("200 OK", "", BEGUN.into()),
            ("200 OK", &*format!("ETag: \"{part}\"\r\n").leak(), String::new()),
            (UNCLEAR.0, "", refusal(UNCLEAR.1)),
            ("404 Not Found", "", refusal("NoSuchUpload")),
            ("200 OK", stored_at(time, length, etag), String::new()),
            // The parts of a failed upload are removed.
            ("404 Not Found", "", refusal("NoSuchUpload")),
        ];
        let (server, _) = scripted(answers).await;
        let stored = upload(&object(&server), &vec![7; PART_BYTES]).await;
        assert_eq!(
            stored.err().map(|error| error.code()),
            expected,
            "{time} {length} {etag}"
        );
    }
}

#[tokio::test]
async fn an_object_whose_answer_is_lost_is_looked_for() {
    let failed = || (UNCLEAR.0, "", refusal(UNCLEAR.1));
    let late = || ("200 OK", "ETag: \"x\"\r\n", refusal(UNCLEAR.1));
    let none = || ("404 Not Found", "Content-Length: 0\r\n", String::new());
    // The MD5 of "x".
    let ours = |time| {
        (
            "200 OK",
            stored_at(time, 1, "9dd4e461268c8034f5c8564e155c67a6"),
            String::new(),
        )
    };
    for (answers, expected) in [
        (vec![failed(), ours("01:00:00")], None),
        (vec![late(), ours("01:00:00")], None),
        (vec![failed(), ours("00:00:00")], Some(ErrorCode::PeerFailed)),
        (vec![late(), none()], Some(ErrorCode::PeerFailed)),
    ] {
        let (server, _) = scripted(answers).await;
        let stored = upload(&object(&server), b"x").await;
        assert_eq!(stored.err().map(|error| error.code()), expected, "{:?}", server.heard());
    }
    // An empty object is sent again, and must not be taken for one of another client.
    let empty = (
        "200 OK",
        stored_at("01:00:00", 0, "d41d8cd98f00b204e9800998ecf8427e"),
        String::new(),
    );
    let exists = ("412 Precondition Failed", "", refusal("PreconditionFailed"));
    let (server, _) = scripted(vec![none(), failed(), exists, empty]).await;
    let new = s3().put(&object(&server), &PutOptions::default()).await.unwrap();
    new.finish().await.unwrap();
}

/// A server that ignores checksums may make an object of what came of a request that broke off.
#[tokio::test]
async fn the_beginning_of_an_object_is_removed() {
    // The MD5 of "some", and of another object.
    let (beginning, other) = ("03d59e663c1af9ac33a9949d1193505a", "8e1b7f8e4a7d4b5d9e7d8c8f6a5b4c3d");
    for (etag, overwrite, expected, removals) in [
        (beginning, false, ErrorCode::PeerClosed, 1),
        (other, false, ErrorCode::OutcomeUnknown, 0),
        // It may be the object that was there.
        (beginning, true, ErrorCode::OutcomeUnknown, 0),
    ] {
        let server = Server::start(move |_, mut peer| async move {
            loop {
                let head = peer.head().await;
                match head.split(' ').next() {
                    Some("PUT") => {
                        peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
                        peer.body(4).await;
                        return;
                    }
                    Some("HEAD") => {
                        let headers = stored_at("01:00:00", 4, etag);
                        peer.say(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).await;
                    }
                    Some("DELETE") => peer.answer("204 No Content", "", "").await,
                    _ => return,
                }
            }
        })
        .await;
        let sent = upload_over(&object(&server), b"some bytes", overwrite).await;
        let error = sent.unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
        let heard = server.heard();
        // The MD5 of all of it.
        assert!(
            heard[0].contains("content-md5: nQVoRp0gbBrt8bcfEvR0vA=="),
            "{}",
            heard[0]
        );
        let removed: Vec<_> = heard.iter().filter(|head| head.starts_with("DELETE")).collect();
        assert_eq!(removed.len(), removals, "{heard:?}");
        let is_bound = |head: &&String| head.contains(&format!("If-Match: \"{etag}\""));
        assert!(removed.into_iter().all(|head| is_bound(&head)), "{heard:?}");
    }
}

/// What is declared is compared before there is an object: by the server, or here.
#[tokio::test]
async fn declared_checksums_are_compared() {
    let declaring = |size_bytes, declared| PutOptions {
        size_bytes: Some(size_bytes),
        overwrite: true,
        declared,
        ..PutOptions::default()
    };
    let refused = ("400 Bad Request", "", refusal("BadDigest"));
    let (server, _) = scripted(vec![refused]).await;
    let sums = vec![types::Checksum::crc32c(1)];
    let mut outlet = s3().put(&object(&server), &declaring(1, sums)).await.unwrap();
    send(&mut outlet, b"x").await.unwrap();
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{error}");
    assert!(server.heard()[0].contains("x-amz-checksum-crc32c: AAAAAQ=="));
    let answers = vec![
        ("200 OK", "", BEGUN.into()),
        ("200 OK", "ETag: \"one\"\r\n", String::new()),
        ("404 Not Found", "", refusal("NoSuchUpload")),
    ];
    let (server, _) = scripted(answers).await;
    let sums = vec![types::Checksum::crc64nvme(1)];
    let mut outlet = s3()
        .put(&object(&server), &declaring(PART_BYTES as u64, sums))
        .await
        .unwrap();
    for _ in 0..PART_BYTES / (128 * 1024) {
        send(&mut outlet, &[7; 128 * 1024]).await.unwrap();
    }
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{error}");
    assert!(
        !server
            .heard()
            .iter()
            .any(|head| head.starts_with("POST") && head.contains("uploadId=u"))
    );
}

/// Nothing of an object is there before its end.
#[tokio::test]
async fn of_an_upload_that_is_given_up_nothing_is_seen() {
    let (server, _) = scripted(Vec::new()).await;
    let (file, client) = (object(&server), s3());
    let small = PutOptions {
        size_bytes: Some(PART_BYTES as u64 - 1),
        overwrite: true,
        ..PutOptions::default()
    };
    let mut outlet = client.put(&file, &small).await.unwrap();
    send(&mut outlet, &[7; 128 * 1024]).await.unwrap();
    drop(outlet);
    assert!(server.heard().is_empty(), "a small file waits for its end");
    // A larger one is a part, which is no object yet.
    let answers = vec![
        ("200 OK", "", BEGUN.into()),
        ("200 OK", "ETag: \"one\"\r\n", String::new()),
        ("200 OK", "", DONE.into()),
    ];
    let (server, _) = scripted(answers).await;
    let large = PutOptions {
        size_bytes: Some(PART_BYTES as u64),
        ..small
    };
    let mut outlet = client.put(&object(&server), &large).await.unwrap();
    for _ in 0..PART_BYTES / (128 * 1024) {
        send(&mut outlet, &[7; 128 * 1024]).await.unwrap();
    }
    outlet.finish().await.unwrap();
    assert!(server.heard()[1].contains("partNumber=1"), "{:?}", server.heard());
}

#[tokio::test]
async fn what_a_storage_offers_is_tried() {
    let head = || ("200 OK", "ETag: \"e\"\r\nContent-Length: 8\r\n", String::new());
    let tagged = "<Tagging><TagSet><Tag><Key>adler32</Key><Value>0c8b02a8</Value></Tag>\
        <Tag><Key>checksums-etag</Key><Value>e</Value></Tag></TagSet></Tagging>";
    let ok = || ("200 OK", "", String::new());
    let none = || ("200 OK", "", "<Tagging><TagSet/></Tagging>".to_owned());
    let refused = ("501 Not Implemented", "", refusal("NotImplemented"));
    let met = ("412 Precondition Failed", "", refusal("PreconditionFailed"));
    for (first, rest, expected) in [
        (
            vec![ok(), met],
            vec![none(), ok(), ("200 OK", "", tagged.to_owned())],
            (true, true),
        ),
        (vec![ok(), ok()], vec![none(), ok(), none()], (false, false)),
        (vec![refused.clone(), ok()], vec![refused], (false, false)),
    ] {
        // Another server has just begun one; an old one was left by a server that was killed.
        let listed = |name: &str, time: &str| {
            format!(
                "<Contents><Key>dir/f/.crossload-trial-{name}</Key><LastModified>{time}</LastModified>\
                <Size>8</Size></Contents>"
            )
        };
        let (old, young) = (
            listed("old", "2026-01-01T00:00:00Z"),
            listed("young", "2999-01-01T00:00:00Z"),
        );
        let left = format!("<ListBucketResult>{old}{young}</ListBucketResult>");
        let end = [ok(), ("200 OK", "", left), ok()];
        let answers = first.into_iter().chain([head()]).chain(rest).chain(end).collect();
        let (server, _) = scripted(answers).await;
        let offers = s3().store_offers(&object(&server)).await.unwrap();
        assert_eq!((offers.creates_only, offers.keeps_tags), expected);
        let heard = server.heard();
        let [tried @ .., list, last] = heard.as_slice() else {
            panic!("{heard:?}")
        };
        let is_trial = |head: &String| head.contains("/bucket/dir/f/.crossload-trial-");
        assert!(tried.iter().all(is_trial), "{heard:?}");
        assert!(tried.last().unwrap().starts_with("DELETE"), "{heard:?}");
        assert!(list.contains("prefix=dir%2Ff%2F.crossload-trial-"), "{list}");
        assert!(last.starts_with("DELETE /bucket/dir/f/.crossload-trial-old?"), "{last}");
    }
}

/// What a server that computes checksums of parts says to the beginning, and to a part of one byte.
const SUMS_BEGUN: (&str, &str, &str) = ("200 OK", "x-amz-checksum-algorithm: CRC64NVME\r\n", BEGUN);
const SAMPLE_SUM: &str = "ETag: \"s\"\r\nx-amz-checksum-crc64nvme: XPtRC3YuN6s=\r\n";

#[tokio::test]
async fn a_part_that_arrived_damaged_makes_no_object() {
    let answers = vec![
        (SUMS_BEGUN.0, SUMS_BEGUN.1, SUMS_BEGUN.2.to_owned()),
        ("200 OK", SAMPLE_SUM, String::new()),
        // The checksum of other bytes.
        ("200 OK", SAMPLE_SUM, String::new()),
        ("204 No Content", "", String::new()),
        ("404 Not Found", "", refusal("NoSuchUpload")),
    ];
    let (server, _) = scripted(answers).await;
    let client = s3();
    let file = object(&server);
    let options = PutOptions {
        overwrite: true,
        ..PutOptions::default()
    };
    let mut outlet = client.put(&file, &options).await.unwrap();
    let mut sent = Ok(());
    for _ in 0..PART_BYTES / (128 * 1024) {
        sent = sent.and(send(&mut outlet, &[7; 128 * 1024]).await);
    }
    let error = sent.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{error}");
    drop(outlet);
    client.settle().await;
    let heard = server.heard();
    assert!(heard[0].contains("x-amz-checksum-algorithm: CRC64NVME"), "{}", heard[0]);
    assert!(heard[1].contains("partNumber=10000"), "{}", heard[1]);
    assert!(heard[3].starts_with("DELETE /bucket/dir/f?"), "{}", heard[3]);
}

/// A server without CRC-64/NVME keeps a checksum of the checksums of the parts.
#[tokio::test]
async fn a_checksum_of_the_parts_is_compared_and_a_wrong_object_is_removed() {
    // Of "0", of the first part, and of the checksums of both.
    for (name, refused, sample, part, composite) in [
        ("CRC32C", 1, "Yp4a4A==", "Hf2flw==", "5+4yLg==-2"),
        ("CRC32", 2, "9NvfIQ==", "JJDgYg==", "lv428g==-2"),
    ] {
        for told in [composite, "AAAAAA==-2"] {
            let header = name.to_ascii_lowercase();
            let begun = format!("x-amz-checksum-algorithm: {name}\r\n");
            let sampled = format!("ETag: \"s\"\r\nx-amz-checksum-{header}: {sample}\r\n");
            let done = format!(
                "<CompleteMultipartUploadResult><ETag>\"c-2\"</ETag><Checksum{name}>{told}</Checksum{name}>\
                <ChecksumType>COMPOSITE</ChecksumType></CompleteMultipartUploadResult>"
            );
            let mut answers = vec![("400 Bad Request", "", refusal("InvalidRequest")); refused];
            answers.extend([
                ("200 OK", &*begun.leak(), BEGUN.to_owned()),
                ("200 OK", &*sampled.leak(), String::new()),
                ("200 OK", "ETag: \"p\"\r\n", String::new()),
                ("200 OK", "ETag: \"p\"\r\n", String::new()),
                ("200 OK", "", done),
                // The object, and parts that may be left.
                ("204 No Content", "", String::new()),
                ("404 Not Found", "", refusal("NoSuchUpload")),
            ]);
            let (server, bodies) = scripted(answers).await;
            let stored = upload(&object(&server), &vec![7; PART_BYTES + 1]).await;
            let (heard, bodies) = (server.heard(), bodies.lock().unwrap().clone());
            assert!(
                heard[refused].contains("x-amz-checksum-type: COMPOSITE"),
                "{}",
                heard[refused]
            );
            let list = String::from_utf8(bodies[refused + 4].clone()).unwrap();
            assert!(
                list.contains(&format!("<Checksum{name}>{part}</Checksum{name}>")),
                "{list}"
            );
            if told == composite {
                assert_eq!(stored.unwrap().sent.len(), 1, "{name}");
                continue;
            }
            assert_eq!(stored.unwrap_err().code(), ErrorCode::ChecksumMismatch, "{name}");
            let removal = &heard[refused + 5];
            assert!(removal.starts_with("DELETE /bucket/dir/f?"), "{removal}");
            assert!(removal.contains("If-Match: \"c-2\""), "{removal}");
        }
    }
}

#[tokio::test]
async fn a_server_that_wants_checksums_in_front_of_parts_gets_none() {
    let content = vec![7; PART_BYTES + 1];
    let part = || ("200 OK", "ETag: \"p\"\r\n", String::new());
    let answers = vec![
        (SUMS_BEGUN.0, SUMS_BEGUN.1, SUMS_BEGUN.2.to_owned()),
        ("400 Bad Request", "", refusal("InvalidRequest")),
        ("204 No Content", "", String::new()),
        ("404 Not Found", "", refusal("NoSuchUpload")),
        ("200 OK", "", BEGUN.into()),
        part(),
        part(),
        ("200 OK", "", DONE.into()),
    ];
    let (server, bodies) = scripted(answers).await;
    let stored = upload(&object(&server), &content).await.unwrap();
    assert!(stored.checksums.is_empty() && stored.sent.len() == 1, "{stored:?}");
    let (heard, bodies) = (server.heard(), bodies.lock().unwrap().clone());
    assert!(heard[2].starts_with("DELETE "), "{}", heard[2]);
    assert!(!heard[4].contains("checksum-algorithm"), "{}", heard[4]);
    assert!(!String::from_utf8(bodies[7].clone()).unwrap().contains("Checksum"));
}

/// The answer to HEAD of an object of three bytes.
fn three_bytes(headers: &'static str) -> Answer {
    ("200 OK", headers, String::new())
}

const THREE: &str = "Content-Length: 3\r\nETag: \"a\"\r\nx-amz-checksum-crc64nvme: XPtRC3YuN6s=\r\n";
const OTHER_THREE: &str = "Content-Length: 3\r\nETag: \"a\"\r\nx-amz-checksum-crc64nvme: AAAAAAAAAAE=\r\n";
const OF_ANOTHER_CLIENT: &str = "Content-Length: 4\r\nETag: \"b\"\r\nx-amz-checksum-crc64nvme: AAAAAAAAAAE=\r\n";
const COPIED: &str = "<CopyObjectResult><ETag>\"a\"</ETag></CopyObjectResult>";

#[tokio::test]
async fn a_copy_within_a_server_may_fail_behind_a_success() {
    let answers = vec![
        three_bytes(THREE),
        ("404 Not Found", "Content-Length: 0\r\n", String::new()),
        ("200 OK", "", refusal("InternalError")),
        ("200 OK", "", COPIED.into()),
        three_bytes(THREE),
    ];
    let (server, _) = scripted(answers).await;
    let (source, client) = (object(&server), s3());
    let mut target = source.clone();
    target.location = target.location.with_path("/bucket/g%20h");
    assert!(client.copies_within(&source, &target));
    let copied = client
        .copy_within(&source, &target, &WithinOptions::default())
        .await
        .unwrap();
    assert_eq!((copied.target.size_bytes, copied.difference()), (Some(3), None));
    let heard = server.heard();
    assert!(heard[3].starts_with("PUT /bucket/g%20h?"), "{}", heard[3]);
    let conditions = [
        "x-amz-copy-source: /bucket/dir/f",
        "x-amz-copy-source-if-match: \"a\"",
        "If-None-Match: *",
    ];
    assert!(
        conditions.iter().all(|header| heard[3].contains(header)),
        "{}",
        heard[3]
    );
    // Another account has other rights.
    let mut account = (**target.access.account.as_ref().unwrap()).clone();
    account.key_id = "other".to_owned();
    target.access.account = Some(Arc::new(account));
    assert!(!client.copies_within(&source, &target));
}

#[tokio::test]
async fn a_renamed_object_that_differs_is_not_left_and_the_old_one_stays() {
    let answers = vec![
        three_bytes(THREE),
        three_bytes(THREE),
        ("200 OK", "", COPIED.into()),
        three_bytes(OTHER_THREE),
        ("204 No Content", "", String::new()),
    ];
    let (server, _) = scripted(answers).await;
    let source = object(&server);
    let target = source.location.with_path("/bucket/g");
    let error = s3().rename(&source, &target, true).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{error}");
    let heard = server.heard();
    assert!(heard[4].starts_with("DELETE /bucket/g?"), "{}", heard[4]);
    assert!(heard[4].contains("If-Match: \"a\""), "{}", heard[4]);
    assert_eq!(heard.len(), 5);
}

/// Another client stores an object in place of the copy before we look at it, or the server does
/// not say which version is the copy.
#[tokio::test]
async fn what_may_be_an_object_of_another_client_is_not_removed() {
    let unnamed = "<CopyObjectResult><LastModified>x</LastModified></CopyObjectResult>";
    for (answer, difference) in [(COPIED, None), (unnamed, Some("the source has 3 bytes, the copy 4"))] {
        let copies = || {
            vec![
                three_bytes(THREE),
                ("200 OK", "", answer.to_owned()),
                three_bytes(OF_ANOTHER_CLIENT),
            ]
        };
        let (server, _) = scripted(copies()).await;
        let options = WithinOptions {
            overwrite: true,
            is_absent: false,
        };
        let source = object(&server);
        let mut target = source.clone();
        target.location = target.location.with_path("/bucket/g");
        let copied = s3().copy_within(&source, &target, &options).await.unwrap();
        assert_eq!(copied.version, None, "{answer}");
        assert_eq!(copied.difference().as_deref(), difference);
        // The old name is removed only after a sound copy.
        let removed = ("204 No Content", "", String::new());
        let answers = [vec![three_bytes(THREE)], copies(), vec![removed]].concat();
        let (server, _) = scripted(answers).await;
        let source = object(&server);
        let renamed = s3()
            .rename(&source, &source.location.with_path("/bucket/g"), true)
            .await;
        assert_eq!(renamed.is_err(), difference.is_some(), "{renamed:?}");
        let heard = server.heard();
        let removals: Vec<_> = heard.iter().filter(|head| head.starts_with("DELETE ")).collect();
        assert_eq!(removals.len(), usize::from(difference.is_none()), "{heard:?}");
        let of_source = |head: &&String| head.starts_with("DELETE /bucket/dir/f?") && head.contains("If-Match: \"a\"");
        assert!(removals.iter().all(of_source), "{heard:?}");
    }
}

/// Some servers refuse the end of an upload that does not name the checksum of each part.
#[tokio::test]
async fn the_end_of_a_copy_in_parts_names_the_checksums_that_the_server_has_told() {
    const PARTS: usize = 11;
    let large = "Content-Length: 5368709121\r\nETag: \"a\"\r\n";
    let part = "<CopyPartResult><ETag>\"p\"</ETag><ChecksumCRC64NVME>XPtRC3YuN6s=</ChecksumCRC64NVME></CopyPartResult>";
    let mut answers = vec![
        three_bytes(large),
        (SUMS_BEGUN.0, SUMS_BEGUN.1, SUMS_BEGUN.2.to_owned()),
        ("200 OK", SAMPLE_SUM, String::new()),
    ];
    answers.extend(vec![("200 OK", "", part.to_owned()); PARTS]);
    answers.extend([("200 OK", "", DONE.to_owned()), three_bytes(large)]);
    let (server, bodies) = scripted(answers).await;
    let source = object(&server);
    let mut target = source.clone();
    target.location = target.location.with_path("/bucket/g");
    let options = WithinOptions {
        overwrite: true,
        is_absent: false,
    };
    s3().copy_within(&source, &target, &options).await.unwrap();
    let (heard, bodies) = (server.heard(), bodies.lock().unwrap().clone());
    let end = PARTS + 3;
    let list = String::from_utf8(bodies[end].clone()).unwrap();
    let named = list
        .matches("<ChecksumCRC64NVME>XPtRC3YuN6s=</ChecksumCRC64NVME>")
        .count();
    assert_eq!(named, PARTS, "{list}");
    assert!(heard[end].contains("x-amz-checksum-crc64nvme: "), "{}", heard[end]);
}

#[tokio::test]
async fn a_list_of_uploads_that_does_not_advance_is_an_error() {
    let page = "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
        <Upload><Key>dir/f/..</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>";
    let (server, _) = scripted(vec![("200 OK", "", page.into()), ("200 OK", "", page.into())]).await;
    let mut uploads = s3().unfinished_uploads(&object(&server)).await.unwrap();
    let first = uploads.next().await.unwrap().unwrap();
    // What no URL can name is not asked for.
    let refused = s3()
        .remove_upload(
            &Resource {
                location: first[0].location.clone(),
                ..object(&server)
            },
            "u",
        )
        .await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PathRefused);
    assert_eq!(uploads.next().await.unwrap_err().code(), ErrorCode::PeerMisbehaved);
}

/// Each page leads to another one, and none has an entry.
#[tokio::test]
async fn a_listing_that_never_ends_is_given_up() {
    let (listed, uploads) = ("ListBucketResult", "ListMultipartUploadsResult");
    for (root, next) in [(listed, "NextContinuationToken"), (uploads, "NextKeyMarker")] {
        let page = |number: usize| {
            let body = format!("<{root}><IsTruncated>true</IsTruncated><{next}>{number}</{next}></{root}>");
            ("200 OK", "", body)
        };
        // The first page of a directory has to show that it is there.
        let first = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>\
            <Contents><Key>dir/f/a</Key></Contents></ListBucketResult>";
        let first = (root == listed).then(|| ("200 OK", "", first.to_owned()));
        let (server, _) = scripted(first.into_iter().chain((0..1100).map(page)).collect()).await;
        let (client, file) = (s3(), object(&server));
        let error = if root == listed {
            let mut listing = client.list(&file).await.unwrap();
            assert_eq!(listing.next().await.unwrap().unwrap().len(), 1);
            listing.next().await.unwrap_err()
        } else {
            client
                .unfinished_uploads(&file)
                .await
                .unwrap()
                .next()
                .await
                .unwrap_err()
        };
        assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{error}");
        assert!(error.public().contains("goes on without entries"), "{error}");
    }
}

#[tokio::test]
async fn the_adler32_of_a_tag_is_asked_for_where_it_is_wanted() {
    let tags = "<Tagging><TagSet><Tag><Key>adler32</Key><Value>091e01de</Value></Tag></TagSet></Tagging>";
    let (server, _) = scripted(vec![
        three_bytes("Content-Length: 9\r\nx-amz-tagging-count: 1\r\n"),
        ("200 OK", "", tags.into()),
    ])
    .await;
    let facts = s3()
        .head(&object(&server), &[types::ChecksumAlgorithm::Adler32])
        .await
        .unwrap();
    assert_eq!(facts.checksums, [types::Checksum::adler32(0x091e_01de)]);
    // It names no version, so an export does not pass it on.
    let (server, _) = scripted(vec![three_bytes("Content-Length: 9\r\nx-amz-tagging-count: 1\r\n")]).await;
    let file = Resource {
        side: Side::Upstream,
        ..object(&server)
    };
    let facts = s3().head(&file, &[types::ChecksumAlgorithm::Adler32]).await.unwrap();
    assert_eq!(facts.checksums, []);
}

#[tokio::test]
async fn signed_urls_tell_what_their_stores_keep() {
    const MD5: &str = "3a393d7377617f182829554763015b1d";
    for (query, headers, expected) in [
        (
            "X-Goog-Signature=ab&X-Goog-Date=20991231T000000Z&X-Goog-Expires=60",
            "Content-Range: bytes 0-0/9\r\nx-goog-hash: crc32c=n03x6A==\r\nx-goog-hash: md5=Ojk9c3dhfxgoKVVHYwFbHQ==\r\n",
            vec!["crc32c:9f4df1e8".to_owned(), format!("md5:{MD5}")],
        ),
        (
            "X-Amz-Signature=ab&X-Amz-Date=20991231T000000Z&X-Amz-Expires=60",
            "Content-Range: bytes 0-0/9\r\nETag: \"3a393d7377617f182829554763015b1d\"\r\n",
            vec![format!("md5:{MD5}")],
        ),
    ] {
        let (server, _) = scripted(vec![("206 Partial Content", headers, "x".into())]).await;
        let mut file = object(&server);
        file.location = Location::parse(&format!("{}/bucket/dir/f?{query}", server.url)).unwrap();
        let facts = s3().head(&file, &[]).await.unwrap();
        let words: Vec<String> = facts.checksums.iter().map(ToString::to_string).collect();
        assert_eq!((words, facts.size_bytes), (expected, Some(9)));
    }
}

#[tokio::test]
async fn short_content_of_unknown_size_is_one_request() {
    for content in [&b""[..], b"x"] {
        let (server, bodies) = scripted(vec![("200 OK", "ETag: \"a\"\r\n", String::new())]).await;
        upload(&object(&server), content).await.unwrap();
        assert_eq!(*bodies.lock().unwrap(), [content]);
        assert!(server.heard()[0].starts_with("PUT /bucket/dir/f?"));
    }
}

#[tokio::test]
async fn a_listing_comes_page_by_page_without_what_is_no_path() {
    let page = |entries: &str, next: &str| format!("<ListBucketResult>{next}{entries}</ListBucketResult>");
    let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>";
    let first = "<Contents><Key>dir/</Key><Size>0</Size></Contents><Contents><Key>dir/a</Key><Size>3</Size></Contents>\
        <CommonPrefixes><Prefix>dir//</Prefix></CommonPrefixes>";
    let second = "<CommonPrefixes><Prefix>dir/b c/</Prefix></CommonPrefixes><Contents><Key>dir/..</Key></Contents>";
    let (server, _) = scripted(vec![
        ("200 OK", "", page(first, more)),
        ("200 OK", "", page(second, "")),
    ])
    .await;
    let mut directory = object(&server);
    directory.location = directory.location.with_path("/bucket/dir");
    let mut listing = s3().list(&directory).await.unwrap();
    let mut names = Vec::new();
    while let Some(batch) = listing.next().await.unwrap() {
        names.extend(batch.iter().map(|entry| (entry.path.clone(), entry.is_directory)));
    }
    assert_eq!(
        names,
        [
            ("/bucket/dir/a".to_owned(), false),
            ("/bucket/dir/b c".to_owned(), true)
        ]
    );
    let omitted = listing.description().unwrap();
    assert!(
        omitted.starts_with("2 keys") && omitted.contains("dir//, dir/.."),
        "{omitted}"
    );
    let second = &server.heard()[1];
    assert!(
        second.contains("continuation-token=t%2B1") && second.contains("prefix=dir%2F"),
        "{second}"
    );
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_error() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").await;
        peer.say_no_more().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    })
    .await;
    let mut download = s3().get(&object(&server), &GetOptions::default()).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerClosed, "{error}");
}
