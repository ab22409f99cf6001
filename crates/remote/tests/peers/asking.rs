//! Copies between servers, names, listings and macaroons.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::script::{Server, client, resource};
use credentials::Activities;
use remote::{Access, CopyOrder, CopyProgress, Copying, Direction, PutOptions, Resource, ServiceCall, ServiceMethod};
use types::{Error, ErrorCode, Location, PeerStatus, Phase, Secret, Side};

fn order(direction: Direction) -> CopyOrder {
    let peer = resource("https://other.example/f");
    CopyOrder::new(peer.location, direction, peer.access)
}

async fn follow(copying: &mut Copying) -> Result<Vec<CopyProgress>, Error> {
    let mut news = Vec::new();
    while let Some(progress) = copying.next().await? {
        news.push(progress);
    }
    Ok(news)
}

/// An active server whose answer has this body, in one chunk per piece.
async fn active(status: &'static str, pieces: &'static [&'static str], end: &'static str) -> Server {
    Server::start(move |_, mut peer| async move {
        peer.head().await;
        peer.say(&format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n"))
            .await;
        for piece in pieces {
            peer.say(&format!("{:x}\r\n{piece}\r\n", piece.len())).await;
        }
        peer.say(end).await;
    })
    .await
}

const OURS: &[&str] = &[
    "Perf Marker\nTimestamp: 1\nStripe Index: 0\nStripe Bytes Transferred: 0\nTotal Stripe Count: 1\nEnd\n",
    "Perf Marker\nTimestamp: 6\nStripe Index: 0\nStripe Bytes Transferred: 99\nTotal Stripe Count: 1\nRemoteConnections: tcp:192.0.2.1:443\nEnd\n",
    "success: Created\n",
];
const DCACHE: &[&str] = &[
    "Perf Marker\n    Timestamp: 1\n    State: 2\n    Stripe Index: 0\n    Stripe Bytes Transferred: 99\n    Total Stripe Count: 1\nEnd\n",
    "success: Created\n",
];
const DPM: &[&str] = &[
    "Perf Marker\n\tStripe Index: 0\n\tStripe Bytes Transf",
    "erred: 99\nEnd\nSuccess: copied",
];
const XROOTD: &[&str] = &[
    "Perf Marker\nTimestamp: 1\nStripe Index: 0\nStripe Bytes Transferred: 99\nEnd\n",
    "success: Created",
];

#[tokio::test]
async fn markers_and_success_of_every_server_are_understood() {
    for (status, pieces) in [
        ("202 Accepted", OURS),
        ("202 A", DCACHE),
        ("201 Created", DPM),
        ("201 Created", XROOTD),
    ] {
        let server = active(status, pieces, "0\r\n\r\n").await;
        let mut copying = client()
            .copy(&server.file("/f"), &order(Direction::Pull))
            .await
            .unwrap();
        follow(&mut copying).await.unwrap();
        assert_eq!(copying.progress().bytes, 99, "{pieces:?}");
        let head = &server.heard()[0];
        for line in [
            "Source: https://other.example/f",
            "Credential: none",
            "Overwrite: T",
            "TransferHeaderAuthorization: Bearer ours",
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
        }
    }
}

#[tokio::test]
async fn a_status_alone_is_no_success() {
    let marker = &OURS[..1];
    let cases: [(&'static [&'static str], &'static str, ErrorCode, Side); 6] = [
        (marker, "0\r\n\r\n", ErrorCode::OutcomeUnknown, Side::Destination),
        (marker, "", ErrorCode::OutcomeUnknown, Side::Destination),
        (
            &["failure: Remote side failed with status code 404; error message: \"x\""],
            "0\r\n\r\n",
            ErrorCode::PeerNotFound,
            Side::Source,
        ),
        (
            &["failure: source transfer: The peer failed; the peer answered 500\n"],
            "0\r\n\r\n",
            ErrorCode::PeerFailed,
            Side::Source,
        ),
        (
            &["failed: no space left on device\n"],
            "0\r\n\r\n",
            ErrorCode::PeerNoSpace,
            Side::Destination,
        ),
        (
            &["aborted: shutting down\n"],
            "0\r\n\r\n",
            ErrorCode::Cancelled,
            Side::Destination,
        ),
    ];
    for (pieces, end, code, side) in cases {
        let server = active("202 Accepted", pieces, end).await;
        let mut file = server.file("/f");
        file.side = Side::Destination;
        let mut copying = client().copy(&file, &order(Direction::Pull)).await.unwrap();
        let error = follow(&mut copying).await.unwrap_err();
        assert_eq!((error.code(), error.side()), (code, side), "{pieces:?} {error}");
        assert_eq!(copying.next().await.unwrap(), None);
    }
}

/// A failure at the other side is about the file there, whether it came in the status or later.
#[tokio::test]
async fn a_failure_at_the_other_side_names_the_file_there() {
    let missing = "source open: No such file or directory at the peer, https://other.example/f";
    let refused = "destination connect: Cannot connect to the peer, https://other.example/f";
    for (direction, side, words, phase) in [
        (Direction::Pull, Side::Source, missing, Phase::Open),
        (Direction::Push, Side::Destination, refused, Phase::Connect),
    ] {
        for late in [false, true] {
            let server = Server::start(move |_, mut peer| async move {
                peer.head().await;
                match late {
                    true => peer.answer("202 Accepted", "", &format!("failure: {words}\n")).await,
                    false => peer.answer("502 Bad Gateway", "", words).await,
                }
                peer.wait_for_end().await;
            })
            .await;
            let mut file = server.file("/f");
            file.side = match direction {
                Direction::Pull => Side::Destination,
                Direction::Push => Side::Source,
            };
            let error = match client().copy(&file, &order(direction)).await {
                Ok(mut copying) => follow(&mut copying).await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!((error.side(), error.phase()), (side, phase), "{error}");
            assert_eq!(error.subject(), Some("https://other.example/f"), "{error}");
        }
    }
    // What the server itself refuses is about its own file.
    let server = Server::always("HTTP/1.1 403 F\r\nContent-Length: 24\r\n\r\nclient authorize: no, /f\n").await;
    let error = client()
        .copy(&server.file("/f"), &order(Direction::Push))
        .await
        .unwrap_err();
    assert_eq!(
        (error.side(), error.subject()),
        (Side::Source, Some(&*server.file("/f").location.to_string()))
    );
}

#[tokio::test]
async fn silence_ends_a_copy() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.say("HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await;
        peer.wait_for_end().await;
    })
    .await;
    let order = CopyOrder {
        silence: Duration::from_millis(50),
        ..order(Direction::Push)
    };
    let mut copying = client().copy(&server.file("/f"), &order).await.unwrap();
    assert_eq!(copying.next().await.unwrap_err().code(), ErrorCode::OutcomeUnknown);
    assert!(server.heard()[0].contains("Destination: https://other.example/f"));
}

#[tokio::test]
async fn an_order_without_an_answer_may_have_begun_a_copy() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
    })
    .await;
    let error = client()
        .copy(&server.file("/f"), &order(Direction::Pull))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    assert!(!error.another_way());
    // Where no server listens nothing has begun.
    let closed = resource("http://127.0.0.1:1/f");
    let error = client().copy(&closed, &order(Direction::Pull)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerUnreachable, "{error}");
}

#[tokio::test]
async fn streams_are_told_when_somebody_wants_a_number_even_of_one() {
    for (streams, expected) in [(None, None), (Some(1), Some("1")), (Some(4), Some("4"))] {
        let server = active("202 Accepted", OURS, "0\r\n\r\n").await;
        let order = CopyOrder {
            streams,
            ..order(Direction::Pull)
        };
        let mut copying = client().copy(&server.file("/f"), &order).await.unwrap();
        follow(&mut copying).await.unwrap();
        let head = &server.heard()[0];
        let told = head.lines().find_map(|line| line.strip_prefix("X-Number-Of-Streams: "));
        assert_eq!(told, expected, "{head}");
    }
}

#[tokio::test]
async fn a_refused_copy_tells_whose_fault_it_is() {
    let cases = [
        (
            "412 P",
            "the file is there",
            false,
            ErrorCode::PeerExists,
            Side::Destination,
        ),
        (
            "412 P",
            "Connection refused",
            true,
            ErrorCode::PeerUnreachable,
            Side::Destination,
        ),
        (
            "404 N",
            "failure: Remote side failed with status code 404",
            true,
            ErrorCode::PeerNotFound,
            Side::Source,
        ),
        ("403 F", "no", true, ErrorCode::PeerForbidden, Side::Destination),
        ("405 M", "", true, ErrorCode::PeerUnsupported, Side::Destination),
        ("400 B", "bad header", true, ErrorCode::PeerFailed, Side::Destination),
    ];
    for (status, words, overwrite, code, side) in cases {
        let server = Server::start(move |_, mut peer| async move {
            peer.head().await;
            peer.answer(status, "", words).await;
            peer.wait_for_end().await;
        })
        .await;
        let mut file = server.file("/f");
        file.side = Side::Destination;
        let order = CopyOrder {
            overwrite,
            ..order(Direction::Pull)
        };
        let error = client().copy(&file, &order).await.unwrap_err();
        assert_eq!((error.code(), error.side()), (code, side), "{status} {words}");
    }
}

fn entry(path: &str, inner: &str) -> String {
    format!(
        "<D:response><D:href>{path}</D:href><D:propstat><D:prop>{inner}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    )
}

fn listing(entries: &str) -> String {
    let body = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{entries}</D:multistatus>");
    format!(
        "HTTP/1.1 207 Multi-Status\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const DIRECTORY: &str = "<D:resourcetype><D:collection/></D:resourcetype>";
const FILE: &str = "<D:resourcetype/><D:getcontentlength>7</D:getcontentlength>";

#[tokio::test]
async fn a_listing_leaves_the_directory_itself_out() {
    let many: String = (0..2000)
        .map(|number| entry(&format!("/d%20x/f{number}"), FILE))
        .collect();
    for own in ["/d%20x/", "//d x", "http://proxy.example/d%20x"] {
        let server = Server::always(listing(&(entry(own, DIRECTORY) + &many))).await;
        let mut listing = client().list(&server.file("/d%20x/")).await.unwrap();
        let mut names = Vec::new();
        while let Some(entries) = listing.next().await.unwrap() {
            names.extend(entries.iter().map(|entry| entry.name().to_owned()));
        }
        assert_eq!((names.len(), names[0].as_str()), (2000, "f0"), "{own}");
        assert!(server.heard()[0].contains("Depth: 1"));
    }
    let server = Server::always(listing(&entry("/f", FILE))).await;
    let error = client()
        .list(&server.file("/f"))
        .await
        .unwrap()
        .next()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotDirectory);
}

#[tokio::test]
async fn a_listing_that_never_ends_is_given_up() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        let begin = format!("<D:multistatus xmlns:D=\"DAV:\">{}", entry("/d/", DIRECTORY));
        peer.say(&format!("HTTP/1.1 207 Multi-Status\r\n\r\n{begin}")).await;
        let refused = "<D:response><D:href>/d/f</D:href><D:status>HTTP/1.1 403 Forbidden</D:status></D:response>";
        while peer.try_say(&refused.repeat(1000)).await {}
    })
    .await;
    let mut listed = client().list(&server.file("/d/")).await.unwrap();
    let error = listed.next().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{error}");
    assert!(error.public().contains("goes on without entries"), "{error}");
}

#[tokio::test]
async fn a_refusal_within_a_listing_is_no_empty_directory() {
    let refused = "<D:response><D:href>/d/</D:href><D:status>HTTP/1.1 403 Forbidden</D:status></D:response>";
    for nothing in [refused, ""] {
        let server = Server::always(listing(nothing)).await;
        let mut listed = client().list(&server.file("/d/")).await.unwrap();
        assert_eq!(listed.next().await.unwrap_err().code(), ErrorCode::PeerMisbehaved);
    }
    let server = Server::always(listing(&(entry("/d/", DIRECTORY) + &refused.replace("/d/", "/d/sub/")))).await;
    let mut listed = client().list(&server.file("/d/")).await.unwrap();
    assert!(listed.next().await.unwrap().is_none());
    assert!(listed.description().unwrap().contains("/d/sub/"));
}

#[tokio::test]
async fn what_xrootd_says_of_its_files_is_not_decoded() {
    let of_xrootd = |entries: String| {
        let entries = entries.replace("<D:response>", "<D:response xmlns:lp3=\"LCGDM:\">");
        listing(&entries).replace("\r\nContent-Length", "\r\nServer: XRootD\r\nContent-Length")
    };
    let server = Server::always(of_xrootd(entry("/d/r%41", FILE))).await;
    let found = client().stat(&server.file("/d/r%2541")).await.unwrap();
    assert_eq!(found.path, "/d/r%41");
    let server = Server::always(of_xrootd(entry("/d%2F/", DIRECTORY) + &entry("/d%2F/p%2Fq", FILE))).await;
    let mut listed = client().list(&server.file("/d%252F/")).await.unwrap();
    let names: Vec<_> = listed.next().await.unwrap().unwrap();
    assert_eq!((names.len(), names[0].name()), (1, "p%2Fq"));
}

#[tokio::test]
async fn a_file_is_looked_at_by_webdav_and_else_by_head() {
    let server = Server::always(listing(&entry("/f", FILE))).await;
    let found = client().stat(&server.file("/f")).await.unwrap();
    assert_eq!((found.is_directory, found.size_bytes), (false, Some(7)));
    let plain = Server::start(|_, mut peer| async move {
        peer.until("</D:propfind>").await;
        peer.answer("405 Method Not Allowed", "", "").await;
        peer.head().await;
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n").await;
        peer.wait_for_end().await;
    })
    .await;
    let found = client().stat(&plain.file("/a%20b")).await.unwrap();
    assert_eq!((found.path.as_str(), found.size_bytes), ("/a b", Some(8)));
    let missing = Server::always("HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(
        client().stat(&missing.file("/f")).await.unwrap_err().code(),
        ErrorCode::PeerNotFound
    );
}

#[tokio::test]
async fn names_are_changed_and_refusals_told_apart() {
    let always = |status: &str| Server::always(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
    for (status, code) in [
        ("405", ErrorCode::PeerExists),
        ("409", ErrorCode::ParentMissing),
        ("403", ErrorCode::PeerForbidden),
    ] {
        let error = client()
            .make_directory(&always(status).await.file("/d"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{status}");
    }
    let created = always("201").await;
    client().make_directory(&created.file("/d")).await.unwrap();
    let gone = client().delete(&always("404").await.file("/d")).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::PeerNotFound);
}

/// Answers MOVE with `moved`, and every question about a name with `asked`.
async fn renaming(moved: &'static str, asked: &'static str) -> Server {
    Server::start(move |_, mut peer| async move {
        loop {
            // The body of a PROPFIND stands before the next head.
            let head = peer.head().await;
            match head.as_str() {
                "" => return,
                head if head.contains("MOVE /") => peer.answer(moved, "", "").await,
                _ => peer.answer(asked, "", "").await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_replaced_by_servers_that_would() {
    let (free, taken, xrootd) = (
        renaming("201 Created", "404 Not Found").await,
        renaming("412 Precondition Failed", "403 Forbidden").await,
        renaming("201 Created", "200 OK").await,
    );
    let rename = async |server: &Server, overwrite| {
        let destination = Location::parse(&format!("{}/new", server.url)).unwrap();
        client().rename(&server.file("/d"), &destination, overwrite).await
    };
    rename(&free, false).await.unwrap();
    let heard = free.heard();
    let head = heard.last().unwrap();
    assert!(head.contains("MOVE /d ") && head.contains("Overwrite: F") && head.contains("/new"));
    for server in [&taken, &xrootd] {
        let error = rename(server, false).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerExists);
    }
    assert!(!xrootd.heard().iter().any(|head| head.contains("MOVE /")));
    rename(&xrootd, true).await.unwrap();
}

#[tokio::test]
async fn a_question_is_repeated_when_a_kept_connection_is_cut_in_its_answer() {
    let server = Server::start(|number, mut peer| async move {
        while !peer.head().await.is_empty() {
            if number == 0 {
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
                peer.head().await;
                peer.say("HTTP/1.1 200 OK\r\nContent-Le").await;
                return;
            }
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n").await;
        }
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let first = client.head(&file, &[]).await.unwrap();
    let second = client.head(&file, &[]).await.unwrap();
    assert_eq!((first.size_bytes, second.size_bytes), (Some(5), Some(7)));
    assert_eq!(server.heard().len(), 3);
}

#[tokio::test]
async fn what_must_not_be_done_twice_is_not_sent_again() {
    for method in ["COPY", "DELETE", "MKCOL", "MOVE", "POST", "PUT"] {
        // A connection that was used a moment ago, and dies with this request.
        let server = Server::start(|_, mut peer| async move {
            while peer.head().await.starts_with("OPTIONS") {
                peer.answer("200 OK", "", "").await;
            }
        })
        .await;
        let (client, file) = (client(), server.file("/f"));
        let destination = Location::parse(&format!("{}/new", server.url)).unwrap();
        let empty = PutOptions {
            size_bytes: Some(0),
            overwrite: true,
            ..PutOptions::default()
        };
        client.options(&file).await.unwrap();
        let error = match method {
            "COPY" => client.copy(&file, &order(Direction::Pull)).await.map(drop),
            "DELETE" => client.delete(&file).await,
            "MKCOL" => client.make_directory(&file).await,
            "MOVE" => client.rename(&file, &destination, true).await,
            "POST" => client.request_macaroon(&file, Activities::READ, 60).await.map(drop),
            _ => client.put(&file, &empty).await.map(drop),
        };
        let code = match method {
            "POST" | "PUT" => ErrorCode::PeerClosed,
            _ => ErrorCode::OutcomeUnknown,
        };
        assert_eq!(error.unwrap_err().code(), code, "{method}");
        let heard = server.heard();
        let times = heard.iter().filter(|head| head.starts_with(method)).count();
        assert_eq!(times, 1, "{heard:?}");
    }
}

#[tokio::test]
async fn a_name_whose_removal_was_not_answered_is_looked_for() {
    for (found, removals) in [("404 Not Found", 1), ("200 OK", 2)] {
        let server = Server::start(move |_, mut peer| async move {
            loop {
                let head = peer.head().await;
                match head.split(' ').next() {
                    Some("OPTIONS") => peer.answer("200 OK", "", "").await,
                    Some("HEAD") => {
                        peer.answer(found, "", "").await;
                        let again = peer.head().await;
                        assert!(again.is_empty() || again.starts_with("DELETE"), "{again}");
                        return peer.answer("200 OK", "", "").await;
                    }
                    // The first removal, on the connection of the first request.
                    _ => return,
                }
            }
        })
        .await;
        let (client, file) = (client(), server.file("/f"));
        client.options(&file).await.unwrap();
        client.delete(&file).await.unwrap();
        let heard = server.heard();
        let times = heard.iter().filter(|head| head.starts_with("DELETE")).count();
        assert_eq!(times, removals, "{found}: {heard:?}");
    }
}

#[tokio::test]
async fn a_rename_whose_answer_was_lost_is_looked_for() {
    // What is there afterwards, and how often the rename is asked for.
    for (there, renames, is_made) in [("/new", 1, true), ("/f", 2, true), ("/other", 1, false)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let server = Server::start(move |_, mut peer| {
            let asked = Arc::clone(&asked);
            async move {
                loop {
                    let head = peer.head().await;
                    let mut words = head.split(' ');
                    match (words.next(), words.next()) {
                        (Some("MOVE"), _) if asked.fetch_add(1, Ordering::Relaxed) == 0 => return,
                        (Some("MOVE"), _) => peer.answer("201 Created", "", "").await,
                        (Some("HEAD"), Some(path)) if path == there => peer.answer("200 OK", "", "").await,
                        (Some("HEAD"), _) => peer.answer("404 Not Found", "", "").await,
                        // The client asks by HEAD then.
                        _ => return peer.answer("405 Method Not Allowed", "Connection: close\r\n", "").await,
                    }
                }
            }
        })
        .await;
        let destination = server.file("/new").location;
        let renamed = client().rename(&server.file("/f"), &destination, true).await;
        let code = renamed.err().map(|error| error.code());
        assert_eq!(code, (!is_made).then_some(ErrorCode::OutcomeUnknown), "{there}");
        let heard = server.heard();
        let times = heard.iter().filter(|head| head.starts_with("MOVE")).count();
        assert_eq!(times, renames, "{there}: {heard:?}");
    }
}

#[tokio::test]
async fn a_macaroon_is_asked_for_in_whole_minutes() {
    let server = Server::start(|_, mut peer| async move {
        let head = peer.head().await;
        assert!(head.starts_with("POST /f ") && head.contains("Content-Type: application/macaroon-request"));
        let wish = peer.until("}").await;
        assert_eq!(
            wish,
            r#"{"caveats":["activity:READ_METADATA,LIST,DOWNLOAD"],"validity":"PT2M"}"#
        );
        peer.answer("200 OK", "", r#"{"macaroon":"MDAx","expires_in":120}"#)
            .await;
        peer.head().await;
        peer.answer("200 OK", "", r#"{"error":"no"}"#).await;
        peer.wait_for_end().await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let macaroon = client.request_macaroon(&file, Activities::READ, 61).await.unwrap();
    assert_eq!(macaroon.expose(), "MDAx");
    let error = client.request_macaroon(&file, Activities::READ, 61).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
}

#[tokio::test]
async fn a_server_without_macaroons_is_told_from_one_that_refuses() {
    let cases = [
        ("501 Not Implemented", ErrorCode::NoMacaroons),
        ("405 Method Not Allowed", ErrorCode::NoMacaroons),
        ("415 Unsupported Media Type", ErrorCode::NoMacaroons),
        ("403 Forbidden", ErrorCode::PeerForbidden),
        ("404 Not Found", ErrorCode::PeerNotFound),
    ];
    for (status, code) in cases {
        let server = Server::start(move |_, mut peer| async move {
            peer.until("}").await;
            peer.answer(status, "", "no macaroons (secret_file is not set)").await;
        })
        .await;
        let file = server.file("/f");
        let error = client()
            .request_macaroon(&file, Activities::READ, 60)
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{status}");
        assert_eq!(error.peer_words(), Some("no macaroons (secret_file is not set)"));
    }
}

#[tokio::test]
async fn nothing_is_asked_for_what_goes_in_clear_text_and_a_token_is_handed_on_as_it_is() {
    // No server listens there, so a request would fail.
    let mut file = resource("http://localhost:1/f");
    file.access.bearer = None;
    let clear = client().shown_in_copy(&file, Direction::Pull).await;
    assert!(clear.note.is_none() && clear.access.bearer.is_none());
    file = resource("https://localhost:1/f");
    file.access.bearer = Some(types::Secret::new("own"));
    let own = client().shown_in_copy(&file, Direction::Push).await;
    assert_eq!(
        own.access.bearer.map(|token| token.expose().to_owned()),
        Some("own".to_owned())
    );
    assert!(own.note.is_none());
    file.access.bearer = None;
    let note = client()
        .shown_in_copy(&file, Direction::Pull)
        .await
        .note
        .unwrap_or_default();
    let words = "localhost:1 gave out no macaroon, so the other server comes to it without one: ";
    assert!(note.starts_with(words) && note.contains("Cannot connect"), "{note}");
}

#[tokio::test]
async fn a_token_that_no_other_server_gets_is_in_no_order() {
    let server = active("201 Created", XROOTD, "0\r\n\r\n").await;
    let mut kept = order(Direction::Pull);
    kept.peer_access.keeps_bearer = true;
    let mut copying = client().copy(&server.file("/f"), &kept).await.unwrap();
    follow(&mut copying).await.unwrap();
    let head = &server.heard()[0];
    assert!(!head.contains("TransferHeaderAuthorization"), "{head}");
    // No server listens there, so there is no macaroon either.
    for (url, why) in [
        ("http://localhost:1/f", "it is not reached over TLS"),
        ("https://localhost:1/f", "localhost:1 gave out no macaroon"),
        ("roots://localhost:1//f", "its protocol has no macaroons"),
    ] {
        let mut file = resource(url);
        file.access.bearer = Some(Secret::new("own"));
        file.access.keeps_bearer = true;
        for direction in [Direction::Pull, Direction::Push] {
            let shown = client().shown_in_copy(&file, direction).await;
            let error = shown.check_shown(&file, &kept.peer).unwrap_err();
            assert_eq!(error.code(), ErrorCode::PeerUnsupported);
            assert!(error.public().contains(why), "{error}");
            // With a rendezvous key, the client shows it itself.
            let root = resource("root://other.example//f").location;
            assert_eq!(
                shown.check_shown(&file, &root).is_ok(),
                url.starts_with("root"),
                "{url}"
            );
        }
    }
}

#[tokio::test]
async fn a_service_gets_a_document_once_and_at_one_place() {
    let server = Server::start(|number, mut peer| async move {
        peer.head().await;
        match number {
            0 => {
                assert_eq!(peer.body(7).await, b"a=b&c=d");
                peer.answer(
                    "201 Created",
                    "Location: /stage/7\r\nConnection: close\r\n",
                    "{\"id\":7}",
                )
                .await;
            }
            1 => {
                peer.answer("307 Temporary Redirect", "Location: /else\r\nConnection: close\r\n", "")
                    .await
            }
            2 => {
                peer.answer("429 Slow Down", "Retry-After: 30\r\nConnection: close\r\n", "no")
                    .await
            }
            _ => peer.answer("200 OK", "Connection: close\r\n", "more than fits").await,
        }
    })
    .await;
    let place = Resource {
        access: Access::default(),
        ..server.file("/token")
    };
    let (body, secret) = (Secret::new("a=b&c=d"), Secret::new("p w"));
    let call = ServiceCall {
        method: ServiceMethod::Post,
        content_type: "application/x-www-form-urlencoded",
        body: &body,
        login: Some(("us:er", &secret)),
        webhook: None,
        answer_bytes_max: 10,
    };
    let client = client();
    let made = client.call(&place, &call).await.unwrap();
    assert_eq!((made.status, made.location.as_deref()), (201, Some("/stage/7")));
    assert_eq!(made.body.expose(), "{\"id\":7}");
    let head = &server.heard()[0];
    // `us%3Aer:p+w`
    assert!(head.contains("Authorization: Basic dXMlM0FlcjpwK3c=\r\n"), "{head}");
    assert_eq!(client.call(&place, &call).await.unwrap().status, 307);
    let put_off = client.call(&place, &call).await.unwrap();
    assert_eq!((put_off.status, put_off.retry_after_s), (429, Some(30)));
    let refused = client.refusal_of(&place, &put_off);
    assert_eq!(
        (refused.code(), refused.peer_words()),
        (ErrorCode::PeerFailed, Some("no"))
    );
    let too_long = client.call(&place, &call).await.unwrap_err();
    assert_eq!(too_long.code(), ErrorCode::PeerMisbehaved);
    assert_eq!(server.heard().len(), 4, "nothing goes elsewhere");
    let put = ServiceCall {
        method: ServiceMethod::Put,
        webhook: None,
        answer_bytes_max: 100,
        ..call
    };
    assert_eq!(client.call(&place, &put).await.unwrap().status, 200);
    let head = &server.heard()[4];
    assert!(head.starts_with("PUT /token "), "{head}");
    assert!(head.contains("Content-Length: 7\r\n"), "{head}");
    let unsafe_place = client.sign_delegation(&place, "no request").unwrap_err();
    assert_eq!(unsafe_place.code(), ErrorCode::CertificateUnusable);
}

/// A server that has the directory `/a`, and makes further ones as nginx does: under a name with a
/// slash at its end, and otherwise says that the parent is missing; none at all if it is `full`.
async fn nginx(full: bool) -> Server {
    let made = Arc::new(Mutex::new(vec!["/a".to_owned()]));
    Server::start(move |_, mut peer| {
        let made = Arc::clone(&made);
        async move {
            loop {
                let head = peer.head().await;
                let mut words = head.split(' ');
                let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default());
                let name = path.trim_end_matches('/');
                let has = |name: &str| made.lock().unwrap().iter().any(|known| known == name);
                let status = match method {
                    "" => return,
                    "PROPFIND" if has(name) => {
                        let body = "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response>\
                                    <D:href>/a/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>\
                                    </D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
                                    </D:response></D:multistatus>";
                        // Its body is not read.
                        let headers = "Content-Type: application/xml\r\nConnection: close\r\n";
                        return peer.answer("207 Multi-Status", headers, body).await;
                    }
                    _ if has(name) => "405 Method Not Allowed",
                    _ if !full && path.ends_with('/') && has(&name[..name.rfind('/').unwrap()]) => {
                        made.lock().unwrap().push(name.to_owned());
                        "201 Created"
                    }
                    _ => "409 Conflict",
                };
                peer.answer(status, "", "").await;
            }
        }
    })
    .await
}

fn asked(server: &Server) -> Vec<String> {
    let heads = server.heard();
    let first = |head: &String| head.split(" HTTP").next().unwrap().to_owned();
    heads.iter().map(first).collect()
}

#[tokio::test]
async fn missing_parents_are_made_from_the_top() {
    let server = nginx(false).await;
    client().make_directories(&server.file("/a/b/c")).await.unwrap();
    let wanted = [
        "MKCOL /a/b/c",
        "MKCOL /a/b/c/",
        "MKCOL /a/b",
        "MKCOL /a/b/",
        "MKCOL /a/b/c",
        "MKCOL /a/b/c/",
    ];
    assert_eq!(asked(&server), wanted);
    client().make_directories(&server.file("/a/b/c")).await.unwrap();
}

#[tokio::test]
async fn a_server_that_always_misses_the_parent_is_asked_once_more() {
    let server = nginx(true).await;
    let error = client().make_directories(&server.file("/a/b")).await.unwrap_err();
    let status = Some(PeerStatus::Http(409));
    assert_eq!((error.code(), error.peer_status()), (ErrorCode::PeerFailed, status));
    let round = ["MKCOL /a/b", "MKCOL /a/b/"];
    let wanted = [&round[..], &["MKCOL /a", "PROPFIND /a"], &round].concat();
    assert_eq!(asked(&server), wanted);
}
