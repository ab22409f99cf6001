//! Setting up and keeping sessions: TLS, credentials, connections that broke, answers out of line.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use types::ErrorCode;
use xroot_wire::{ErrorNumber, Opcode, ServerFlags, StreamId};

use crate::script::{Peer, Server, client, client_with_first_byte, client_with_stall, data_server, server_tls};

/// A server with TLS that asks for these authentication protocols and then tells sizes.
async fn secure_server(offered: &'static [&'static str]) -> Server {
    let tls = server_tls();
    Server::start(move |_, mut peer| {
        let tls = tls.clone();
        async move {
            peer.greet(data_server() | ServerFlags::HAS_TLS | ServerFlags::GO_TO_TLS)
                .await;
            peer.secure(&tls).await;
            if !peer.is_secure() {
                return;
            }
            peer.log_in(offered).await;
            answer_all(peer).await;
        }
    })
    .await
}

/// Accepts every credential but that for `gsi`, and tells sizes.
async fn answer_all(mut peer: Peer) {
    while let Some(heard) = peer.request().await {
        match heard.opcode() {
            Opcode::Stat => peer.tell_size(&heard, 3).await,
            _ => peer.ok(heard.id(), &[]).await,
        }
    }
}

#[tokio::test]
async fn a_token_is_shown_over_tls_only_at_the_login_and_with_each_request() {
    for offered in [&["ztn"][..], &["gsi", "ztn", "unix"], &[]] {
        let server = secure_server(offered).await;
        // The server leads to TLS even where the URL does not ask for it.
        for file in [server.file("/f"), server.secure_file("/f")] {
            client().stat(&file).await.unwrap();
        }
        for asked in server.heard_of(Opcode::Stat) {
            assert_eq!(asked.text(), "/f?authz=Bearer%20ours");
        }
        let shown = server.heard_of(Opcode::Authenticate);
        assert_eq!(shown.len(), if offered.is_empty() { 0 } else { 2 });
        assert!(
            shown.iter().all(|step| step.payload.ends_with(b"\0\0\0\x05ours\0")),
            "{shown:?}"
        );
    }
}

#[tokio::test]
async fn no_token_goes_out_in_clear_text() {
    let server = Server::start(|_, mut peer| async move {
        peer.greet(data_server()).await;
        peer.log_in(&["ztn", "unix"]).await;
        let step = peer.expect(Opcode::Authenticate).await;
        assert_eq!(step.payload, b"unix\0tester tester\0");
        peer.ok(step.id(), &[]).await;
        let heard = peer.expect(Opcode::Stat).await;
        peer.refuse(heard.id(), ErrorNumber::NOT_AUTHORIZED, "who are you?")
            .await;
        peer.request().await;
    })
    .await;
    let error = client().stat(&server.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerDenied);
    assert!(error.public().contains("roots://"), "{error}");
    assert!(server.heard().iter().all(|heard| !heard.text().contains("ours")));
}

#[tokio::test]
async fn the_next_protocol_is_tried_when_one_is_refused_and_none_left_is_an_error() {
    let server = Server::start(|_, mut peer| async move {
        peer.greet(data_server()).await;
        peer.log_in(&["host", "gsi", "unix"]).await;
        let step = peer.expect(Opcode::Authenticate).await;
        assert!(step.payload.starts_with(b"host\0"));
        peer.refuse(step.id(), ErrorNumber::AUTHENTICATION_FAILED, "not this host")
            .await;
        let step = peer.expect(Opcode::Authenticate).await;
        assert!(step.payload.starts_with(b"unix\0"));
        peer.refuse(step.id(), ErrorNumber::AUTHENTICATION_FAILED, "not this user")
            .await;
        peer.request().await;
    })
    .await;
    let error = client().stat(&server.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerDenied);
    assert_eq!(error.peer_words(), Some("not this user"));

    let strict = Server::start(|_, mut peer| async move {
        peer.greet(data_server()).await;
        peer.log_in(&["gsi", "krb5"]).await;
        peer.request().await;
    })
    .await;
    let error = client().stat(&strict.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerDenied);
    assert!(error.public().contains("gsi, krb5"), "{error}");
    assert!(strict.heard_of(Opcode::Authenticate).is_empty());
}

#[tokio::test]
async fn tls_that_is_asked_for_and_not_offered_is_an_error() {
    let server = Server::welcoming(|_, peer| answer_all(peer)).await;
    let error = client().stat(&server.secure_file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerTlsFailed);
    assert!(server.heard_of(Opcode::Login).is_empty());
}

#[tokio::test]
async fn tls_may_begin_behind_the_login() {
    let tls = server_tls();
    let server = Server::start(move |_, mut peer| {
        let tls = tls.clone();
        async move {
            peer.greet(data_server() | ServerFlags::HAS_TLS | ServerFlags::TLS_FOR_SESSION)
                .await;
            peer.log_in(&[]).await;
            peer.secure(&tls).await;
            answer_all(peer).await;
        }
    })
    .await;
    client().stat(&server.file("/f")).await.unwrap();
    assert!(server.heard_of(Opcode::Stat)[0].text().contains("authz="));
}

#[tokio::test]
async fn a_session_is_used_again_and_replaced_when_the_server_has_closed_it() {
    let server = Server::welcoming(|number, mut peer| async move {
        if number == 0 {
            for _ in 0..2 {
                let heard = peer.expect(Opcode::Stat).await;
                peer.tell_size(&heard, 3).await;
            }
            // The third request finds the connection closed.
            peer.request().await;
            return;
        }
        answer_all(peer).await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    for _ in 0..3 {
        assert_eq!(client.stat(&file).await.unwrap().size_bytes, Some(3));
    }
    assert_eq!(server.heard_of(Opcode::Login).len(), 2);
    // Another user does not get this session.
    let mut other = file.clone();
    other.access.user_name = Some("other".into());
    client.stat(&other).await.unwrap();
    assert_eq!(server.heard_of(Opcode::Login).len(), 3);
}

#[tokio::test]
async fn what_must_not_be_done_twice_is_not_sent_again() {
    let server = Server::welcoming(|number, mut peer| async move {
        if number == 0 {
            let heard = peer.expect(Opcode::Stat).await;
            peer.tell_size(&heard, 3).await;
            peer.request().await;
            return;
        }
        answer_all(peer).await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    client.stat(&file).await.unwrap();
    let error = client.make_directory(&file).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown);
    assert_eq!(server.heard_of(Opcode::MakeDirectory).len(), 1);
}

/// What a client makes of one odd answer to a stat.
async fn code_after(script: impl Fn(Peer, StreamId) -> Answering + Clone + Send + Sync + 'static) -> ErrorCode {
    let server = Server::welcoming(move |_, mut peer| {
        let script = script.clone();
        async move {
            let heard = peer.expect(Opcode::Stat).await;
            let mut peer = script(peer, heard.id()).await;
            peer.request().await;
        }
    })
    .await;
    client().stat(&server.file("/f")).await.unwrap_err().code()
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Peer> + Send>>;

#[tokio::test]
async fn answers_out_of_line_end_the_connection() {
    for (id, status, length) in [
        // Another request.
        (Some(StreamId([0x55, 0xaa])), 0, 0),
        // A negative length.
        (None, 0, -1),
        (None, 4003, i32::MIN),
        // An unknown kind.
        (None, 4711, 0),
        // An error, a redirection and a wait too short for what they must hold.
        (None, 4003, 0),
        (None, 4004, 0),
        (None, 4005, 0),
        // More than any answer has.
        (None, 4003, i32::MAX),
        (None, 0, i32::MAX),
        // An authentication and pages that were not requested.
        (None, 4002, 0),
    ] {
        let code = code_after(move |mut peer, asked| {
            Box::pin(async move {
                peer.head(id.unwrap_or(asked), status, length).await;
                peer
            })
        })
        .await;
        assert_eq!(code, ErrorCode::PeerMisbehaved, "{status} with length {length}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_a_lost_connection() {
    let server = Server::welcoming(|_, mut peer| async move {
        let heard = peer.expect(Opcode::Stat).await;
        peer.head(heard.id(), 0, 100).await;
        peer.say(b"4711 5").await;
    })
    .await;
    let error = client().stat(&server.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerClosed);
}

#[tokio::test]
async fn messages_that_nobody_asked_for_are_passed_over_but_not_for_ever() {
    let code = code_after(|mut peer, _| {
        Box::pin(async move {
            for _ in 0..100 {
                peer.head(StreamId::ZERO, 4001, 4).await;
                peer.say(&5002_u32.to_be_bytes()).await;
            }
            peer
        })
    })
    .await;
    assert_eq!(code, ErrorCode::PeerMisbehaved);
}

#[tokio::test]
async fn a_peer_of_another_protocol_is_no_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut tcp, _) = listener.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
    let file = crate::script::resource(&format!("root://localhost:{port}//f"));
    assert_eq!(
        client().stat(&file).await.unwrap_err().code(),
        ErrorCode::PeerMisbehaved
    );
}

#[tokio::test]
async fn an_answer_that_drips_is_given_up() {
    // Of a body, and of the head itself, whose seven later bytes take longer than the stall time.
    for (pause, head) in [(10, true), (100, false)] {
        let server = Server::welcoming(move |_, mut peer| async move {
            let heard = peer.expect(Opcode::Stat).await;
            if head {
                peer.head(heard.id(), 0, 4000).await;
            }
            for byte in heard.id().0.into_iter().chain([0; 4000]) {
                peer.say(&[byte]).await;
                sleep(Duration::from_millis(pause)).await;
            }
        })
        .await;
        let (client, file) = (client_with_stall(Duration::from_millis(300)), server.file("/f"));
        let asked = client.stat(&file);
        let late = timeout(Duration::from_secs(20), asked).await.expect("in time");
        assert_eq!(late.unwrap_err().code(), ErrorCode::PeerStalled, "head {head}");
    }
}

#[tokio::test]
async fn an_answer_whose_parts_do_not_end_is_given_up() {
    // Without bytes, and with one in each.
    for length in [0, 1] {
        let server = Server::welcoming(move |_, mut peer| async move {
            let heard = peer.request().await.unwrap();
            loop {
                peer.head(heard.id(), 4000, length).await;
                peer.say(&b"1"[..length as usize]).await;
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let (client, file) = (client_with_first_byte(Duration::from_millis(200)), server.file("/f"));
        let asked = async { tokio::join!(client.stat(&file), client.space(&file)) };
        let (stat, space) = timeout(Duration::from_secs(60), asked).await.expect("in time");
        let codes = [stat.unwrap_err().code(), space.unwrap_err().code()];
        assert_eq!(codes, [ErrorCode::PeerStalled; 2], "parts of {length} bytes");
    }
}
