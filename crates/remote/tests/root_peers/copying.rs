//! A copy that one server fetches from another, as the client between them orders it.

use remote::{Access, CopyAbilities, CopyOrder, Direction, Resource};
use types::{ErrorCode, Secret, Side};
use xroot_wire::request::Request;
use xroot_wire::respond;
use xroot_wire::response::OpenReply;
use xroot_wire::{Cgi, ErrorNumber, Opcode, Status};

use crate::script::{HANDLE, Heard, Peer, Server, client, resource, stat};

fn order(source: &Resource) -> CopyOrder {
    CopyOrder::new(source.location.clone(), Direction::Pull, source.access.clone())
}

/// A source that can be opened and takes a rendezvous key.
pub(crate) async fn source() -> Server {
    Server::welcoming(|_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            match heard.opcode() {
                Opcode::Open => opened(&mut peer, &heard, 5000).await,
                _ => peer.ok(heard.id(), &[]).await,
            }
        }
    })
    .await
}

pub(crate) async fn opened(peer: &mut Peer, heard: &Heard, size_bytes: u64) {
    let reply = OpenReply {
        handle: HANDLE,
        stat: Some(stat(size_bytes)),
    };
    peer.ok(heard.id(), &reply.encode()).await;
}

/// A destination up to its second sync, which it promises to answer.
pub(crate) async fn begun(peer: &mut Peer) -> Heard {
    let open = peer.expect(Opcode::Open).await;
    opened(peer, &open, 0).await;
    let first = peer.expect(Opcode::Sync).await;
    peer.ok(first.id(), &[]).await;
    let second = peer.expect(Opcode::Sync).await;
    peer.put(|out| respond::wait_for_answer(out, second.id(), 1800, ""))
        .await;
    second
}

/// The same destination when it has all: it answers the second sync, and is left.
pub(crate) async fn done(peer: &mut Peer, second: &Heard) {
    peer.put(|out| respond::later(out, second.id(), Status::Ok, &[])).await;
    let close = peer.expect(Opcode::Close).await;
    peer.ok(close.id(), &[]).await;
}

/// The CGI of an open.
pub(crate) fn cgi(heard: &Heard) -> String {
    heard
        .text()
        .split_once('?')
        .map(|(_, cgi)| cgi.to_owned())
        .unwrap_or_default()
}

#[tokio::test]
async fn the_steps_are_those_of_the_reference_client() {
    let from = source().await;
    let to = Server::welcoming(|_, mut peer| async move {
        let second = begun(&mut peer).await;
        let look = peer.expect(Opcode::Stat).await;
        peer.tell_size(&look, 1234).await;
        done(&mut peer, &second).await;
    })
    .await;
    let wanted = CopyOrder {
        streams: Some(4),
        overwrite: false,
        ..order(&from.file("/data/f"))
    };
    let mut copying = client().copy(&to.file("/data/g"), &wanted).await.unwrap();
    let news = copying.next().await.unwrap().expect("it runs");
    assert_eq!(news.bytes, 1234);
    assert!(copying.next().await.unwrap().is_none());

    let opens = from.heard_of(Opcode::Open);
    let (placement, registration) = (cgi(&opens[0]), cgi(&opens[1]));
    assert_eq!((opens.len(), placement.as_str()), (2, "tpc.stage=placement"));
    let ordered = to.heard_of(Opcode::Open)[0].clone();
    let (destination, source) = (cgi(&ordered), Cgi::new(&registration));
    let third = Cgi::new(&destination).third_party().unwrap();
    let key = third.key.unwrap();
    assert_eq!(
        (key.len(), source.value("tpc.key"), source.value("tpc.dst")),
        (24, Some(key), Some("localhost"))
    );
    let place = from.file("/").location;
    assert_eq!(
        third.source,
        Some(format!("{}:{}", place.host(), place.port()).as_str())
    );
    assert_eq!((third.source_path, third.streams), (Some("/data/f"), Some("3")));
    assert_eq!(Cgi::new(&destination).expected_bytes(), Some(5000));
    let Request::Open(open) = Request::parse(&ordered.header, &ordered.payload).unwrap() else {
        panic!("an open");
    };
    assert_eq!(open.creation(), xroot_wire::request::Creation::MustNotExist);
}

/// XRootD reads the number as that of further streams, takes 0, and goes by its own configuration
/// without any.
#[tokio::test]
async fn the_destination_is_told_how_many_streams_were_asked_for_and_of_one_too() {
    let cases = [
        (None, None),
        (Some(1), Some("0")),
        (Some(2), Some("1")),
        (Some(100), Some("15")),
    ];
    for (asked, told) in cases {
        let from = source().await;
        let to = Server::welcoming(|_, mut peer| async move {
            let second = begun(&mut peer).await;
            done(&mut peer, &second).await;
        })
        .await;
        let wanted = CopyOrder {
            streams: asked,
            ..order(&from.file("/data/f"))
        };
        let mut copying = client().copy(&to.file("/data/g"), &wanted).await.unwrap();
        assert!(copying.next().await.unwrap().is_none());
        let destination = cgi(&to.heard_of(Opcode::Open)[0]);
        assert_eq!(Cgi::new(&destination).value("tpc.str"), told, "{asked:?}");
    }
}

#[tokio::test]
async fn what_the_destination_met_is_told_in_its_words() {
    let from = source().await;
    let to = Server::welcoming(|_, mut peer| async move {
        let second = begun(&mut peer).await;
        let body = respond::error_body(ErrorNumber::FILE_SYSTEM, "[3010] tpc authorization expired");
        peer.put(|out| respond::later(out, second.id(), Status::Error, &body))
            .await;
        closed(&mut peer, None).await;
    })
    .await;
    let mut copying = client().copy(&to.file("/g"), &order(&from.file("/f"))).await.unwrap();
    let error = copying.next().await.unwrap_err();
    assert_eq!(error.peer_words(), Some("[3010] tpc authorization expired"));
    assert!(copying.next().await.unwrap().is_none(), "it has ended");
}

/// Another session could write the file only after it is closed, so the error waits for that.
async fn closed(peer: &mut Peer, look: Option<Heard>) {
    let close = peer.expect(Opcode::Close).await;
    if let Some(look) = look {
        peer.tell_size(&look, 1234).await;
    }
    peer.ok(close.id(), &[]).await;
}

#[tokio::test]
async fn the_destination_of_a_failed_copy_is_closed_before_the_error_comes() {
    for (refused, of_source) in [("first sync", false), ("second sync", false), ("registration", true)] {
        let from = match of_source {
            false => source().await,
            true => {
                Server::welcoming(|_, mut peer| async move {
                    while let Some(heard) = peer.request().await {
                        match heard.opcode() {
                            Opcode::Open if heard.text().contains("tpc.key") => {
                                peer.refuse(heard.id(), ErrorNumber::NOT_AUTHORIZED, "no").await;
                            }
                            Opcode::Open => opened(&mut peer, &heard, 5000).await,
                            _ => peer.ok(heard.id(), &[]).await,
                        }
                    }
                })
                .await
            }
        };
        let to = Server::welcoming(move |_, mut peer| async move {
            let mut look = None;
            if refused == "second sync" {
                let second = begun(&mut peer).await;
                look = Some(peer.expect(Opcode::Stat).await);
                let body = respond::error_body(ErrorNumber::FILE_SYSTEM, "no");
                peer.put(|out| respond::later(out, second.id(), Status::Error, &body))
                    .await;
            } else {
                let open = peer.expect(Opcode::Open).await;
                opened(&mut peer, &open, 0).await;
                let sync = peer.expect(Opcode::Sync).await;
                match of_source {
                    true => peer.ok(sync.id(), &[]).await,
                    false => peer.refuse(sync.id(), ErrorNumber::FILE_SYSTEM, "no").await,
                }
            }
            closed(&mut peer, look).await;
        })
        .await;
        let error = match client().copy(&to.file("/g"), &order(&from.file("/f"))).await {
            Err(error) => error,
            Ok(mut copying) => loop {
                match copying.next().await {
                    Ok(news) => assert!(news.is_some(), "{refused}"),
                    Err(error) => break error,
                }
            },
        };
        assert_eq!(error.peer_words(), Some("no"), "{refused}");
        assert_eq!(to.heard_of(Opcode::Close).len(), 1, "{refused}");
    }
}

#[tokio::test]
async fn what_a_lost_destination_does_is_not_known() {
    let from = source().await;
    let to = Server::welcoming(|_, mut peer| async move {
        begun(&mut peer).await;
    })
    .await;
    let mut copying = client().copy(&to.file("/g"), &order(&from.file("/f"))).await.unwrap();
    let error = loop {
        match copying.next().await {
            Ok(news) => assert!(news.is_some(), "it is no success"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
}

#[tokio::test]
async fn who_makes_no_copies_is_passed_over_whatever_number_it_answers() {
    for number in [ErrorNumber::FILE_SYSTEM, ErrorNumber::UNSUPPORTED] {
        let from = source().await;
        let to = Server::welcoming(move |_, mut peer| async move {
            let open = peer.expect(Opcode::Open).await;
            peer.refuse(open.id(), number, "Unable to open /g; tpc not supported")
                .await;
        })
        .await;
        let refused = client().copy(&to.file("/g"), &order(&from.file("/f"))).await;
        assert_eq!(refused.unwrap_err().code(), ErrorCode::PeerUnsupported);
    }
    let push = CopyOrder {
        direction: Direction::Push,
        ..order(&resource("root://127.0.0.1:1//f"))
    };
    let refused = client().copy(&resource("root://127.0.0.1:1//g"), &push).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PeerUnsupported);
}

#[tokio::test]
async fn a_source_of_http_is_for_servers_that_say_so() {
    let mut web = resource("http://127.0.0.1:1/a%20b?x=1");
    web.side = Side::Source;
    let to = Server::welcoming(|_, mut peer| async move {
        let question = peer.expect(Opcode::Query).await;
        assert_eq!(question.text(), "crossload.tpc\0");
        peer.ok(question.id(), b"root,http\n").await;
        let second = begun(&mut peer).await;
        done(&mut peer, &second).await;
    })
    .await;
    let mut copying = client().copy(&to.file("/g"), &order(&web)).await.unwrap();
    while copying.next().await.unwrap().is_some() {}
    let destination = cgi(&to.heard_of(Opcode::Open)[0]);
    let third = Cgi::new(&destination).third_party().unwrap();
    assert_eq!((third.source_path, third.source_protocol), (Some("/a b"), Some("http")));
    assert_eq!((third.source, third.source_cgi), (Some("127.0.0.1:1"), Some("x=1")));

    let other = Server::welcoming(|_, mut peer| async move {
        let question = peer.expect(Opcode::Query).await;
        peer.ok(question.id(), b"crossload.tpc\n").await;
    })
    .await;
    let refused = client().copy(&other.file("/g"), &order(&web)).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PeerUnsupported);
}

#[tokio::test]
async fn a_destination_says_whether_it_fetches_with_delegated_proxies() {
    let other = resource("root://127.0.0.1:1//f").location;
    for (answer, told) in [
        ("crossload.tpc\ngsi\nserver\n", Some(true)),
        ("crossload.tpc\nsss,gsi\nmanager\n", Some(true)),
        ("crossload.tpc\ntpcdlg\nserver\n", Some(false)),
        ("crossload.tpc\nztn\nserver\n", Some(false)),
        // A server of ours that has no proxy yet asks for one, if it would keep it.
        ("root,roots,http,https\ntpcdlg\nserver\ngsi\n", None),
        (
            "root,roots,http,https\ntpcdlg\nserver\ncrossload.delegation\n",
            Some(false),
        ),
        ("root,roots,http,https\ngsi\nserver\ngsi\n", Some(true)),
        // A redirector does not know what its servers do.
        ("crossload.tpc\ntpcdlg\nmanager\n", None),
        ("crossload.tpc\n", None),
    ] {
        let to = Server::welcoming(move |_, mut peer| async move {
            let question = peer.expect(Opcode::Query).await;
            assert_eq!(question.text(), "crossload.tpc tpcdlg role crossload.delegation\0");
            peer.ok(question.id(), answer.as_bytes()).await;
        })
        .await;
        let said = client().copy_abilities(&to.file("/g"), &other, true).await.unwrap();
        assert_eq!((said.pulls, said.with_proxy), (None, told), "{answer}");
    }
    // Without a proxy nothing is asked between servers of this protocol.
    let to = resource("root://127.0.0.1:1//g");
    let said = client().copy_abilities(&to, &other, false).await.unwrap();
    assert_eq!(said, CopyAbilities::default());
}

#[tokio::test]
async fn a_token_for_the_source_is_not_shown_in_clear_text() {
    let from = source().await;
    let to = Server::welcoming(|_, mut peer| async move {
        let second = begun(&mut peer).await;
        done(&mut peer, &second).await;
    })
    .await;
    let mut file = from.file("/f");
    file.access = Access {
        bearer: Some(Secret::new("hunter2")),
        ..Access::default()
    };
    let mut copying = client().copy(&to.file("/g"), &order(&file)).await.unwrap();
    while copying.next().await.unwrap().is_some() {}
    assert!(
        to.heard()
            .iter()
            .chain(&from.heard())
            .all(|heard| !heard.text().contains("hunter2"))
    );
}
