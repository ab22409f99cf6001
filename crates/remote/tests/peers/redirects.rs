//! Redirects: what follows them and what must not.

use crate::script::{Server, client, read_all, resource, send};
use http_wire::ForwardedHeaders;
use net::http::Connection;
use net::listen::listen;
use net::tls::ClientIdentity;
use net::tls::ServerTls;
use remote::{Access, CopyOrder, Delegation, DelegationOutcome, Direction, GetOptions, PutOptions};
use testkit::SelfSigned;
use types::{ErrorCode, Secret};

async fn storage() -> Server {
    Server::start(|_, mut peer| async move {
        loop {
            let head = peer.head().await;
            match head.split(' ').next() {
                Some("PUT") => {
                    peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
                    peer.body(5).await;
                    peer.answer("201 Created", "", "").await;
                }
                Some("GET") => peer.answer("200 OK", "", "hello").await,
                Some("COPY") => peer.answer("202 Accepted", "", "success: Created").await,
                _ => return,
            }
        }
    })
    .await
}

/// A head node that sends everybody to `target`.
async fn head_node(status: u16, target: &str) -> Server {
    Server::always(format!(
        "HTTP/1.1 {status} Go\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
    ))
    .await
}

#[tokio::test]
async fn every_kind_of_redirect_is_followed_before_the_body_with_the_method_kept() {
    for status in [301, 302, 303, 307, 308] {
        let storage = storage().await;
        let head = head_node(status, &format!("{}/at/disk?authz=x", storage.url)).await;
        let mut download = client().get(&head.file("/f"), &GetOptions::default()).await.unwrap();
        assert_eq!(download.facts().location.path(), "/at/disk");
        assert_eq!(read_all(&mut download).await.unwrap(), b"hello");
        let options = PutOptions {
            size_bytes: Some(5),
            overwrite: true,
            ..PutOptions::default()
        };
        let mut outlet = client().put(&head.file("/f"), &options).await.unwrap();
        send(&mut outlet, b"hello").await.unwrap();
        assert!(outlet.finish().await.unwrap().created);
        let methods: Vec<_> = storage
            .heard()
            .iter()
            .map(|head| head.split(" HTTP").next().unwrap().to_owned())
            .collect();
        assert_eq!(methods, ["GET /at/disk?authz=x", "PUT /at/disk?authz=x"], "{status}");
    }
}

#[tokio::test]
async fn nothing_that_was_handed_over_follows_to_another_origin() {
    let storage = storage().await;
    let head = head_node(307, &format!("{}/f", storage.url)).await;
    let mut file = head.file("/f");
    file.access.client_info = Some("job=1".into());
    let mut handed_over = ForwardedHeaders::default();
    handed_over.push("Authorization", "Bearer theirs").unwrap();
    // Keys have any name.
    handed_over.push("X-Api-Key", "theirs too").unwrap();
    let mut delegated = file.clone();
    delegated.access.forwarded = handed_over;
    for file in [file, delegated] {
        read_all(&mut client().get(&file, &GetOptions::default()).await.unwrap())
            .await
            .unwrap();
    }
    assert!(head.heard()[0].contains("Bearer ours"));
    // What was handed over for this server counts instead of our own.
    assert!(head.heard()[1].contains("Bearer theirs") && !head.heard()[1].contains("ours"));
    assert!(head.heard()[1].contains("X-Api-Key: theirs too"));
    for heard in storage.heard() {
        assert!(
            !heard.contains("Bearer") && !heard.contains("theirs") && heard.contains("ClientInfo: job=1"),
            "{heard}"
        );
    }
}

/// A server that wants a proxy before it makes a copy.
async fn delegating(service: &'static str) -> Server {
    Server::start(move |_, mut peer| async move {
        loop {
            let head = peer.head().await;
            if head.is_empty() {
                return;
            }
            if head.contains("/again") || head.contains("Credential: none") {
                peer.answer("202 Accepted", "", "success: Created").await;
            } else {
                let headers = format!("Location: /again\r\nX-Delegate-To: {service}\r\n");
                peer.answer("302 Found", &headers, "").await;
            }
        }
    })
    .await
}

/// What became of a delegation to a server that wants a proxy, and the heads that it heard.
async fn delegated(
    service: &'static str,
    delegation: Delegation,
) -> (Result<DelegationOutcome, ErrorCode>, Vec<String>) {
    let server = delegating(service).await;
    let own = SelfSigned::localhost().unwrap();
    let mut active = server.file("/f");
    let read = |path| std::fs::read(path).unwrap();
    active.access.identity = ClientIdentity::from_pem(&read(own.certificate.clone()), &read(own.key.clone())).ok();
    active.access.bearer = None;
    active.access.delegation = delegation;
    let peer = resource("https://elsewhere.example/f").location;
    let order = CopyOrder::new(peer, Direction::Pull, Access::default());
    let outcome = match client().copy(&active, &order).await {
        Ok(copying) => Ok(copying.delegation().cloned().unwrap_or(DelegationOutcome::Delegated)),
        Err(error) => Err(error.code()),
    };
    (outcome, server.heard())
}

#[tokio::test]
async fn no_proxy_is_delegated_that_the_user_did_not_ask_for() {
    let service = "https://localhost:1/delegation";
    let (outcome, heard) = delegated(service, Delegation::Never).await;
    assert_eq!((outcome, heard.len()), (Ok(DelegationOutcome::Delegated), 1));
    assert!(heard[0].contains("Credential: none"), "{}", heard[0]);
}

#[tokio::test]
async fn no_proxy_goes_to_a_service_that_is_not_verified() {
    for (service, words) in [
        ("https://localhost:1/delegation", "is not verified"),
        ("http://localhost:1/delegation", "in clear text"),
    ] {
        let (outcome, heard) = delegated(service, Delegation::First).await;
        match outcome {
            Ok(DelegationOutcome::Without(why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(heard[0].contains("Credential: gridsite") && heard[1].contains("Credential: none"));
        let (outcome, heard) = delegated(service, Delegation::Only).await;
        assert!(outcome.is_err() && heard.len() == 1, "{outcome:?}");
    }
}

#[tokio::test]
async fn credentials_stay_on_the_same_origin() {
    let server = Server::start(|_, mut peer| async move {
        peer.head().await;
        peer.answer("302 Found", "Location: /other\r\n", "see there").await;
        peer.head().await;
        peer.answer("200 OK", "", "hello").await;
        peer.wait_for_end().await;
    })
    .await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    assert_eq!(read_all(&mut download).await.unwrap(), b"hello");
    assert!(server.heard()[1].starts_with("GET /other") && server.heard()[1].contains("Bearer ours"));
}

#[tokio::test]
async fn endless_and_foolish_redirects_are_errors() {
    for (target, code) in [
        ("/again", ErrorCode::TooManyRedirects),
        ("ftp://127.0.0.1/f", ErrorCode::PeerMisbehaved),
        ("file:///etc/passwd", ErrorCode::PeerMisbehaved),
        ("http://user:word@127.0.0.1/", ErrorCode::PeerMisbehaved),
    ] {
        let head = head_node(302, target).await;
        let error = client().head(&head.file("/f"), &[]).await.unwrap_err();
        assert_eq!(error.code(), code, "{target}");
    }
}

#[tokio::test]
async fn a_place_that_is_not_http_is_refused() {
    let error = client().head(&resource("s3://127.0.0.1/f"), &[]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BadUrl);
}

/// A TLS server that answers each connection's first request with `answer`, after reading `body`
/// where the request has one; returns its port.
async fn secure(answer: String, bodies: tokio::sync::mpsc::UnboundedSender<Vec<u8>>) -> u16 {
    let made = SelfSigned::localhost().unwrap();
    let tls = ServerTls::load(&made.certificate, &made.key).unwrap();
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let wait = std::time::Duration::from_secs(10);
            let stream = net::Stream::accept_tls(tcp, &tls, net::Waits::default()).await.unwrap();
            let mut connection = Connection::new(stream);
            let head = connection
                .request(&http_wire::HeadLimits::default(), wait, wait)
                .await
                .unwrap()
                .unwrap();
            if head.expects_continue() {
                connection.stream.queue(http_wire::CONTINUE);
                connection.stream.flush().await.unwrap();
            }
            let framing = head.framing().unwrap();
            let body = connection.body(framing).collect(1 << 24).await.unwrap();
            bodies.send(body).unwrap();
            connection.stream.queue(answer.as_bytes());
            connection.stream.close().await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn tokens_for_the_other_side_follow_a_copy_but_never_out_of_tls() {
    let order = || {
        let access = resource("https://elsewhere.example/f").access;
        let peer = resource("https://elsewhere.example/f").location;
        CopyOrder::new(peer, Direction::Pull, access)
    };
    let storage = storage().await;
    let clear = head_node(307, &format!("{}/f", storage.url)).await;
    let mut copying = client().copy(&clear.file("/f"), &order()).await.unwrap();
    assert_eq!(copying.next().await.unwrap(), None);
    let (sender, _bodies) = tokio::sync::mpsc::unbounded_channel();
    let go = format!(
        "HTTP/1.1 307 Go\r\nLocation: {}/f\r\nContent-Length: 0\r\n\r\n",
        storage.url
    );
    let port = secure(go, sender).await;
    let mut copying = client()
        .copy(&resource(&format!("https://localhost:{port}/f")), &order())
        .await
        .unwrap();
    assert_eq!(copying.next().await.unwrap(), None);
    let heard = storage.heard();
    assert!(heard[0].contains("TransferHeaderAuthorization: Bearer ours") && !heard[0].contains("\r\nAuthorization"));
    assert!(!heard[1].contains("Bearer") && heard[1].contains("Source: https://elsewhere.example/f"));
}

#[tokio::test]
async fn both_framings_arrive_whole_through_tls() {
    let (sender, mut bodies) = tokio::sync::mpsc::unbounded_channel();
    let port = secure("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into(), sender).await;
    let piece: Vec<u8> = (0..200_000u32).map(|number| ((number * 7919) >> 5) as u8).collect();
    let mut file = resource(&format!("https://localhost:{port}/f"));
    file.access.bearer = Some(Secret::new("x"));
    for size_bytes in [None, Some(3 * piece.len() as u64)] {
        let options = PutOptions {
            size_bytes,
            overwrite: true,
            ..PutOptions::default()
        };
        let mut outlet = client().put(&file, &options).await.unwrap();
        // Chunks have their lengths between them.
        assert_eq!(outlet.bare_stream().is_some(), size_bytes.is_some());
        for _ in 0..3 {
            send(&mut outlet, &piece).await.unwrap();
        }
        assert!(outlet.finish().await.unwrap().created);
        assert!(bodies.recv().await.unwrap() == piece.repeat(3), "{size_bytes:?}");
    }
}

/// A server of this name that answers everything with 204.
async fn named(server: &'static str) -> Server {
    Server::always(format!(
        "HTTP/1.1 204 No Content\r\nServer: {server}\r\nContent-Length: 0\r\n\r\n"
    ))
    .await
}

#[tokio::test]
async fn a_name_that_xrootd_would_cut_is_refused_before_anything_is_done() {
    let (xrootd, other) = (named("XrootD/v5.5.3").await, named("other").await);
    let (cut, whole) = (xrootd.file("/x%3F1"), xrootd.file("/x%2F1"));
    let options = PutOptions::default();
    let order = CopyOrder::new(cut.location.clone(), Direction::Push, Access::default());
    let refused = [
        client().delete(&cut).await.unwrap_err(),
        client().head(&cut, &[]).await.unwrap_err(),
        client().put(&cut, &options).await.unwrap_err(),
        client().rename(&whole, &cut.location, true).await.unwrap_err(),
        client().copy(&other.file("/f"), &order).await.err().unwrap(),
    ];
    for error in refused {
        assert_eq!(error.code(), ErrorCode::PathRefused, "{error}");
    }
    let is_question = |head: &String| head.starts_with("OPTIONS / HTTP");
    assert!(xrootd.heard().iter().all(is_question), "{:?}", xrootd.heard());
    assert!(other.heard().is_empty());
    client().delete(&whole).await.unwrap();
    client().delete(&other.file("/x%3F1")).await.unwrap();
}
