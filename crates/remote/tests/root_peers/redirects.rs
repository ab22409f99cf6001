//! Redirections, waits and late answers.

use std::time::Duration;

use net::address::AddressPolicy;
use tokio::time::timeout;
use types::ErrorCode;
use xroot_wire::response::Redirect;
use xroot_wire::{ErrorNumber, Opcode, ServerFlags, Status, respond};

use crate::script::{Peer, Server, client, client_within, data_server, resource, server_tls, stat};

fn manager() -> ServerFlags {
    ServerFlags::MANAGER | ServerFlags::PAGES
}

/// Answers every request with this redirection.
async fn redirect_all(mut peer: Peer, redirect: Redirect) {
    peer.welcome(manager()).await;
    while let Some(heard) = peer.request().await {
        peer.put(|out| respond::redirect(out, heard.id(), &redirect)).await;
    }
}

async fn stat_all(mut peer: Peer, size_bytes: u64) {
    while let Some(heard) = peer.request().await {
        peer.tell_size(&heard, size_bytes).await;
    }
}

#[tokio::test]
async fn a_redirection_is_followed_with_its_cgi_and_its_token_for_the_login() {
    let data = Server::welcoming(|_, peer| stat_all(peer, 5)).await;
    let port = data.port;
    let door = Server::start(move |_, peer| {
        let redirect = Redirect {
            cgi: Some("org.dcache.uuid=1&x=theirs".into()),
            login_token: Some("ticket&more".into()),
            ..Redirect::to_host("localhost", port)
        };
        redirect_all(peer, redirect)
    })
    .await;
    let entry = client().stat(&door.file("/f?x=ours&y=2")).await.unwrap();
    assert_eq!((entry.path.as_str(), entry.size_bytes), ("/f", Some(5)));
    let asked = &data.heard_of(Opcode::Stat)[0];
    assert_eq!(asked.text(), "/f?org.dcache.uuid=1&x=theirs&y=2");
    let login = &data.heard_of(Opcode::Login)[0];
    assert!(login.text().ends_with("&ticket&more"), "{}", login.text());
}

#[tokio::test]
async fn a_server_that_fails_is_reported_to_the_redirector() {
    for (number, reason) in [
        (ErrorNumber::NOT_FOUND, "enoent"),
        (ErrorNumber::INPUT_OUTPUT, "ioerr"),
        (ErrorNumber::OVERLOADED, "srverr"),
    ] {
        let bad = Server::welcoming(move |_, mut peer| async move {
            while let Some(heard) = peer.request().await {
                peer.refuse(heard.id(), number, "not here").await;
            }
        })
        .await;
        let good = Server::welcoming(|_, peer| stat_all(peer, 7)).await;
        let (bad_port, good_port) = (bad.port, good.port);
        let door = Server::start(move |_, mut peer| async move {
            peer.welcome(manager()).await;
            while let Some(heard) = peer.request().await {
                let was_tried = heard.text().contains("tried=localhost");
                let port = if was_tried { good_port } else { bad_port };
                peer.put(|out| respond::redirect(out, heard.id(), &Redirect::to_host("localhost", port)))
                    .await;
            }
        })
        .await;
        let entry = client().stat(&door.file("/f")).await.unwrap();
        assert_eq!(entry.size_bytes, Some(7));
        let again = &door.heard_of(Opcode::Stat)[1];
        assert_eq!(again.text(), format!("/f?tried=localhost&triedrc={reason}"));
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_reported_too_and_the_refusal_of_the_redirector_counts() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let door = Server::start(move |_, mut peer| async move {
        peer.welcome(manager()).await;
        while let Some(heard) = peer.request().await {
            if heard.text().contains("tried=") {
                peer.refuse(heard.id(), ErrorNumber::NOT_FOUND, "no servers").await;
            } else {
                peer.put(|out| respond::redirect(out, heard.id(), &Redirect::to_host("localhost", port)))
                    .await;
            }
        }
    })
    .await;
    let error = client().stat(&door.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerNotFound);
    assert_eq!(error.peer_words(), Some("no servers"));
    assert!(door.heard_of(Opcode::Stat)[1].text().contains("triedrc=srverr"));
}

#[tokio::test]
async fn endless_redirections_end() {
    let door = Server::start(|_, mut peer| async move {
        peer.welcome(manager()).await;
        while let Some(heard) = peer.request().await {
            let here = Redirect::to_host("localhost", peer.port());
            peer.put(|out| respond::redirect(out, heard.id(), &here)).await;
        }
    })
    .await;
    let error = client().stat(&door.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooManyRedirects);
    assert_eq!(door.heard_of(Opcode::Stat).len(), 17);
    // The same connection does for all of them.
    assert_eq!(door.heard_of(Opcode::Login).len(), 1);
}

#[tokio::test]
async fn a_redirection_does_not_lead_out_of_the_allowed_addresses_nor_to_other_protocols() {
    let strict = AddressPolicy {
        local: true,
        private: false,
    };
    let door = Server::start(|_, peer| redirect_all(peer, Redirect::to_host("10.255.255.1", 1094))).await;
    let error = client_within(strict).stat(&door.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerAddressRefused);
    for url in ["https://localhost/f", "file:///etc/passwd", "root://", "nonsense"] {
        let door = Server::start(move |_, peer| redirect_all(peer, Redirect::to_url(url))).await;
        let error = client().stat(&door.file("/f")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{url}");
    }
}

#[tokio::test]
async fn tls_is_never_left() {
    let tls = server_tls();
    let clear = Server::start(|_, mut peer| async move {
        // This one has no TLS to offer.
        peer.greet(data_server()).await;
        peer.request().await;
    })
    .await;
    let url = format!("root://localhost:{}//f", clear.port);
    let door = Server::start(move |_, mut peer| {
        let (tls, url) = (tls.clone(), url.clone());
        async move {
            peer.greet(manager() | ServerFlags::HAS_TLS | ServerFlags::GO_TO_TLS)
                .await;
            peer.secure(&tls).await;
            peer.log_in(&[]).await;
            let heard = peer.expect(Opcode::Stat).await;
            peer.put(|out| respond::redirect(out, heard.id(), &Redirect::to_url(&url)))
                .await;
            peer.request().await;
        }
    })
    .await;
    let error = client().stat(&door.secure_file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerTlsFailed);
    assert!(clear.heard_of(Opcode::Login).is_empty() && clear.heard_of(Opcode::Stat).is_empty());
}

#[tokio::test]
async fn a_request_is_sent_again_after_a_wait() {
    let server = Server::welcoming(|_, mut peer| async move {
        for _ in 0..3 {
            let heard = peer.expect(Opcode::Stat).await;
            peer.put(|out| respond::wait(out, heard.id(), 0, "busy")).await;
        }
        stat_all(peer, 9).await;
    })
    .await;
    let entry = client().stat(&server.file("/f")).await.unwrap();
    assert_eq!(entry.size_bytes, Some(9));
    assert_eq!(server.heard_of(Opcode::Stat).len(), 4);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited_for() {
    let server = Server::welcoming(|_, mut peer| async move {
        let heard = peer.expect(Opcode::Stat).await;
        peer.put(|out| respond::wait(out, heard.id(), 86_400, "come back tomorrow"))
            .await;
        peer.request().await;
    })
    .await;
    let error = client().stat(&server.file("/f")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerStalled);
}

#[tokio::test]
async fn a_late_answer_is_taken_as_if_it_had_come_at_once() {
    let server = Server::welcoming(|_, mut peer| async move {
        let heard = peer.expect(Opcode::Stat).await;
        peer.put(|out| respond::wait_for_answer(out, heard.id(), 60, "job scheduled"))
            .await;
        // Something obsolete that is to be ignored.
        peer.put(|out| respond::frame(out, xroot_wire::StreamId::ZERO, Status::Attention, &[0, 0, 0x13, 0x8a]))
            .await;
        let mut text = Vec::new();
        stat(11).write(&mut text);
        peer.put(|out| respond::later(out, heard.id(), Status::Ok, &text)).await;

        let heard = peer.expect(Opcode::Stat).await;
        peer.put(|out| respond::wait_for_answer(out, heard.id(), 60, "")).await;
        let body = respond::error_body(ErrorNumber::NO_SPACE, "full");
        peer.put(|out| respond::later(out, heard.id(), Status::Error, &body))
            .await;

        // A request that was put off is completed by one to send it again.
        let heard = peer.expect(Opcode::Stat).await;
        peer.put(|out| respond::wait_for_answer(out, heard.id(), 60, "")).await;
        peer.put(|out| respond::later(out, heard.id(), Status::Wait, &respond::wait_body(0, "")))
            .await;
        stat_all(peer, 12).await;
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    assert_eq!(client.stat(&file).await.unwrap().size_bytes, Some(11));
    assert_eq!(client.stat(&file).await.unwrap_err().code(), ErrorCode::PeerNoSpace);
    assert_eq!(client.stat(&file).await.unwrap().size_bytes, Some(12));
}

#[tokio::test]
async fn a_name_that_cannot_be_expressed_is_not_asked_for() {
    let server = Server::welcoming(|_, peer| stat_all(peer, 1)).await;
    let mut file = server.file("/f");
    file.location = file.location.child("a?b");
    assert_eq!(client().stat(&file).await.unwrap_err().code(), ErrorCode::PathRefused);
    assert!(server.heard_of(Opcode::Stat).is_empty());
    let unknown = resource("s3://localhost/f");
    assert_eq!(client().stat(&unknown).await.unwrap_err().code(), ErrorCode::BadUrl);
}

#[tokio::test]
async fn a_client_that_waits_is_not_put_off_for_long() {
    let server = Server::welcoming(|number, mut peer| async move {
        while let Some(heard) = peer.request().await {
            peer.put(|out| match number {
                0 => respond::wait(out, heard.id(), 100, ""),
                _ => respond::wait_for_answer(out, heard.id(), 100, ""),
            })
            .await;
        }
    })
    .await;
    let (client, mut file) = (client(), server.file("/f"));
    file.access.is_awaited = true;
    let refused = timeout(Duration::from_secs(60), client.stat(&file))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PeerStalled);
    assert!(refused.public().contains("for more than 10 s"), "{refused}");
    let silent = timeout(Duration::from_secs(60), client.stat(&file))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(silent.code(), ErrorCode::PeerStalled);
}
