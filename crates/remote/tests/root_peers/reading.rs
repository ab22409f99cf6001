//! Downloads: pages and plain data, parts in any order, damage, short answers, broken connections.

use remote::limits::{ROOT_READ_BYTES, ROOT_READS_MAX};
use remote::{GetOptions, Validator};
use types::{ByteRange, ErrorCode};
use xroot_wire::response::PageStatusKind;
use xroot_wire::{ErrorNumber, Opcode, ServerFlags, respond};

use crate::script::{Heard, Peer, Server, client, pattern, read_all, server_tls, units};

const CHUNK: usize = ROOT_READ_BYTES as usize;

fn range(start: u64, end: u64) -> GetOptions {
    GetOptions {
        range: Some(ByteRange::new(start, end)),
        ..GetOptions::default()
    }
}

/// A server that opens a file of `size` bytes and then runs `script`.
async fn opening<F, Fut>(size: u64, script: F) -> Server
where
    F: Fn(Peer) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Server::welcoming(move |_, mut peer| {
        let script = script.clone();
        async move {
            let heard = peer.expect(Opcode::Open).await;
            peer.tell_size(&heard, size).await;
            script(peer).await;
        }
    })
    .await
}

async fn whole(server: &Server) -> types::Result<Vec<u8>> {
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await?;
    read_all(&mut download).await
}

#[tokio::test]
async fn pages_are_not_protected_one_by_one_where_the_whole_is_compared() {
    let content = pattern(CHUNK + 5000);
    let served = content.clone();
    let server = Server::start(move |_, mut peer| {
        let served = served.clone();
        async move {
            peer.welcome(crate::script::data_server()).await;
            peer.serve(&served).await;
        }
    })
    .await;
    let options = GetOptions {
        is_compared: true,
        ..GetOptions::default()
    };
    let mut download = client().get(&server.file("/f"), &options).await.unwrap();
    assert!(read_all(&mut download).await.unwrap() == content);
    assert_eq!(server.heard_of(Opcode::Read).len(), 2);
    assert!(server.heard_of(Opcode::PageRead).is_empty());
}

#[tokio::test]
async fn a_file_comes_in_order_with_many_requests_under_way() {
    let content = pattern(3 * CHUNK + 5000);
    let served = content.clone();
    let server = Server::welcoming(move |_, mut peer| {
        let served = served.clone();
        async move { peer.serve(&served).await }
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let mut download = client.get(&file, &GetOptions::default()).await.unwrap();
    assert!(read_all(&mut download).await.unwrap() == content);
    let reads = server.heard_of(Opcode::PageRead);
    let starts: Vec<_> = reads.iter().map(|heard| heard.range().0).collect();
    assert_eq!(starts, [0, CHUNK as u64, 2 * CHUNK as u64, 3 * CHUNK as u64]);
    for (start, end) in [(0, 1), (4095, 4098), (5000, 5000 + CHUNK as u64 + 1)] {
        let mut download = client.get(&file, &range(start, end)).await.unwrap();
        let part = read_all(&mut download).await.unwrap();
        assert!(part == content[start as usize..end as usize], "{start}-{end}");
    }
    // One after the other on the same session; the answers to the closes are not waited for.
    client.stat(&file).await.unwrap();
    assert_eq!(server.heard_of(Opcode::Login).len(), 1);
    assert_eq!(server.heard_of(Opcode::Close).len(), 4);
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_the_limit() {
    let server = opening(100 * ROOT_READ_BYTES, |mut peer| async move {
        for _ in 0..ROOT_READS_MAX {
            peer.expect(Opcode::PageRead).await;
        }
        let extra = tokio::time::timeout(std::time::Duration::from_millis(200), peer.request()).await;
        assert!(extra.is_err(), "{extra:?}");
    })
    .await;
    assert_eq!(whole(&server).await.unwrap_err().code(), ErrorCode::PeerClosed);
    assert_eq!(server.heard_of(Opcode::PageRead).len(), ROOT_READS_MAX);
}

#[tokio::test]
async fn over_tls_and_from_servers_without_pages_plain_data_are_read() {
    let content = pattern(200_000);
    let tls = server_tls();
    let served = content.clone();
    let secure = Server::start(move |_, mut peer| {
        let (tls, served) = (tls.clone(), served.clone());
        async move {
            let flags = crate::script::data_server() | ServerFlags::HAS_TLS | ServerFlags::GO_TO_TLS;
            peer.greet(flags).await;
            peer.secure(&tls).await;
            peer.log_in(&[]).await;
            peer.serve(&served).await;
        }
    })
    .await;
    let mut download = client()
        .get(&secure.secure_file("/f"), &GetOptions::default())
        .await
        .unwrap();
    assert!(read_all(&mut download).await.unwrap() == content);
    let served = content.clone();
    let old = Server::start(move |_, mut peer| {
        let served = served.clone();
        async move {
            peer.welcome(ServerFlags::SERVER).await;
            peer.serve(&served).await;
        }
    })
    .await;
    assert!(whole(&old).await.unwrap() == content);
    for server in [secure, old] {
        assert!(!server.heard_of(Opcode::Read).is_empty() && server.heard_of(Opcode::PageRead).is_empty());
    }
}

#[tokio::test]
async fn parts_of_an_answer_and_an_empty_end_are_put_together() {
    let content = pattern(10_000);
    let served = content.clone();
    let server = Server::start(move |_, mut peer| {
        let served = served.clone();
        async move {
            peer.welcome(ServerFlags::SERVER).await;
            let heard = peer.expect(Opcode::Open).await;
            peer.tell_size(&heard, served.len() as u64).await;
            let heard = peer.expect(Opcode::Read).await;
            for part in served.chunks(1234) {
                peer.put(|out| respond::partial(out, heard.id(), part)).await;
            }
            peer.ok(heard.id(), &[]).await;
            peer.serve(&served).await;
        }
    })
    .await;
    assert!(whole(&server).await.unwrap() == content);
    let pages = opening(10_000, move |mut peer| {
        let content = pattern(10_000);
        async move {
            let heard = peer.expect(Opcode::PageRead).await;
            for (start, end) in [(0, 4096), (4096, 5000), (5000, 5001), (5001, 10_000)] {
                let part = &content[start..end];
                peer.pages(heard.id(), PageStatusKind::Partial, start as u64, part)
                    .await;
            }
            peer.pages(heard.id(), PageStatusKind::Final, 10_000, &[]).await;
            peer.request().await;
        }
    })
    .await;
    assert!(whole(&pages).await.unwrap() == content);
}

#[tokio::test]
async fn answers_in_any_order_come_out_in_that_of_the_file() {
    let content = pattern(4 * CHUNK);
    let served = content.clone();
    let server = opening(content.len() as u64, move |mut peer| {
        let served = served.clone();
        async move {
            let mut asked = Vec::new();
            for _ in 0..4 {
                asked.push(peer.expect(Opcode::PageRead).await);
            }
            let half = CHUNK / 2;
            for at in [2, 0, 3, 1] {
                let (offset, _) = asked[at].range();
                let part = &served[offset as usize..][..half];
                peer.pages(asked[at].id(), PageStatusKind::Partial, offset, part).await;
            }
            for at in [1, 3, 0, 2] {
                let offset = asked[at].range().0 + half as u64;
                let part = &served[offset as usize..][..half];
                peer.pages(asked[at].id(), PageStatusKind::Final, offset, part).await;
            }
            peer.request().await;
        }
    })
    .await;
    assert!(whole(&server).await.unwrap() == content);
}

/// Answers a page read with pages; the one at `damaged` has a wrong byte.
async fn answer_damaged(peer: &mut Peer, heard: &Heard, content: &[u8], damaged: usize) {
    let (offset, length) = heard.range();
    let mut wire = units(offset, &content[offset as usize..][..length]);
    if let Some(byte) = wire.get_mut(damaged) {
        *byte ^= 1;
    }
    peer.raw_pages(heard.id(), PageStatusKind::Final, offset, &wire).await;
}

#[tokio::test]
async fn a_damaged_page_is_asked_for_again() {
    let content = pattern(50_000);
    let served = content.clone();
    let server = opening(50_000, move |mut peer| {
        let served = served.clone();
        async move {
            let heard = peer.expect(Opcode::PageRead).await;
            answer_damaged(&mut peer, &heard, &served, 3 * 4100 + 77).await;
            // The page by itself, as servers want it, and then what came behind it.
            let again = peer.expect(Opcode::PageRead).await;
            assert_eq!((again.range(), again.is_retry()), ((3 * 4096, 4096), true));
            answer_damaged(&mut peer, &again, &served, usize::MAX).await;
            let rest = peer.expect(Opcode::PageRead).await;
            assert_eq!((rest.range(), rest.is_retry()), ((4 * 4096, 50_000 - 4 * 4096), false));
            answer_damaged(&mut peer, &rest, &served, usize::MAX).await;
            peer.request().await;
        }
    })
    .await;
    assert!(whole(&server).await.unwrap() == content);
}

#[tokio::test]
async fn pages_that_are_always_damaged_end_the_download() {
    let server = opening(50_000, |mut peer| async move {
        let content = pattern(50_000);
        while let Some(heard) = peer.request().await {
            answer_damaged(&mut peer, &heard, &content, 0).await;
        }
    })
    .await;
    let error = whole(&server).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
    assert!(error.retry() && server.heard_of(Opcode::PageRead).len() < 20);
}

#[tokio::test]
async fn a_short_answer_is_completed_and_an_empty_one_is_the_end() {
    let server = opening(10_000, |mut peer| async move {
        let content = pattern(10_000);
        let heard = peer.expect(Opcode::PageRead).await;
        peer.pages(heard.id(), PageStatusKind::Final, 0, &content[..6000]).await;
        let heard = peer.expect(Opcode::PageRead).await;
        assert_eq!(heard.range(), (6000, 4000));
        peer.pages(heard.id(), PageStatusKind::Final, 6000, &content[6000..])
            .await;
        peer.request().await;
    })
    .await;
    assert!(whole(&server).await.unwrap() == pattern(10_000));
    let shrunk = opening(10_000, |mut peer| async move {
        let heard = peer.expect(Opcode::PageRead).await;
        peer.pages(heard.id(), PageStatusKind::Final, 0, &pattern(6000)).await;
        let heard = peer.expect(Opcode::PageRead).await;
        peer.pages(heard.id(), PageStatusKind::Final, 6000, &[]).await;
        peer.request().await;
    })
    .await;
    assert_eq!(whole(&shrunk).await.unwrap_err().code(), ErrorCode::PeerSizeDiffers);
}

#[tokio::test]
async fn data_that_were_not_asked_for_are_refused() {
    // More than asked for, pages of another place, plain data where pages were asked for.
    for case in 0..3 {
        let server = opening(100, move |mut peer| async move {
            let heard = peer.expect(Opcode::PageRead).await;
            match case {
                0 => peer.pages(heard.id(), PageStatusKind::Final, 0, &pattern(101)).await,
                1 => peer.pages(heard.id(), PageStatusKind::Final, 50, &pattern(50)).await,
                _ => peer.ok(heard.id(), &pattern(100)).await,
            }
            peer.request().await;
        })
        .await;
        assert_eq!(
            whole(&server).await.unwrap_err().code(),
            ErrorCode::PeerMisbehaved,
            "case {case}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_and_a_refused_read_are_told() {
    let server = opening(10_000, |mut peer| async move {
        let heard = peer.expect(Opcode::PageRead).await;
        peer.pages(heard.id(), PageStatusKind::Partial, 0, &pattern(4096)).await;
    })
    .await;
    let mut download = client().get(&server.file("/f"), &GetOptions::default()).await.unwrap();
    let first = download.next().await.unwrap().unwrap();
    assert_eq!(first.len(), 4096);
    let error = download.next().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerClosed);
    assert!(error.retry());
    assert!(download.next().await.unwrap().is_none());
    let refusing = opening(10_000, |mut peer| async move {
        let heard = peer.expect(Opcode::PageRead).await;
        peer.refuse(heard.id(), ErrorNumber::INPUT_OUTPUT, "the disk is broken")
            .await;
        peer.request().await;
    })
    .await;
    let error = whole(&refusing).await.unwrap_err();
    assert_eq!(error.peer_words(), Some("the disk is broken"));
    assert!(error.retry());
}

#[tokio::test]
async fn a_read_that_is_put_off_is_asked_again() {
    let server = opening(100, |mut peer| async move {
        let heard = peer.expect(Opcode::PageRead).await;
        peer.put(|out| respond::wait(out, heard.id(), 0, "")).await;
        let heard = peer.expect(Opcode::PageRead).await;
        peer.pages(heard.id(), PageStatusKind::Final, 0, &pattern(100)).await;
        peer.request().await;
    })
    .await;
    assert!(whole(&server).await.unwrap() == pattern(100));
}

#[tokio::test]
async fn a_file_that_has_changed_is_not_read_on() {
    let server = Server::welcoming(|_, mut peer| async move { peer.serve(&pattern(1000)).await }).await;
    let (client, file) = (client(), server.file("/f"));
    let facts = client.head(&file, &[]).await.unwrap();
    let with = |validator, end| GetOptions {
        validator,
        ..range(500, end)
    };
    let mut same = client.get(&file, &with(facts.validator(), 1000)).await.unwrap();
    assert!(read_all(&mut same).await.unwrap() == pattern(1000)[500..]);
    let other = Some(Validator::Tag("\"1-2-3\"".into()));
    for options in [with(other, 1000), with(None, 1001)] {
        let error = client.get(&file, &options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SourceChanged);
    }
}

#[tokio::test]
async fn an_empty_file_has_no_content() {
    let server = Server::welcoming(|_, mut peer| async move { peer.serve(&[]).await }).await;
    assert!(whole(&server).await.unwrap().is_empty());
    assert!(server.heard_of(Opcode::PageRead).is_empty());
}

#[tokio::test]
async fn replicas_have_ids_of_their_own_and_the_size_decides() {
    // The second replica has another id than the one that was looked at; the third another size.
    let replica = |size: usize, id: u64| async move {
        Server::welcoming(move |_, mut peer| async move {
            while let Some(heard) = peer.request().await {
                match heard.opcode() {
                    Opcode::Open => peer.tell_stat(&heard, id, size as u64).await,
                    Opcode::PageRead => {
                        let (offset, length) = heard.range();
                        let part = &pattern(size)[offset as usize..][..length];
                        peer.pages(heard.id(), PageStatusKind::Final, offset, part).await;
                    }
                    _ => peer.ok(heard.id(), &[]).await,
                }
            }
        })
        .await
    };
    for (size, is_same) in [(1000, true), (1001, false)] {
        let data = replica(size, 99).await;
        let port = data.port;
        let door = Server::start(move |_, mut peer| async move {
            peer.welcome(ServerFlags::MANAGER).await;
            while let Some(heard) = peer.request().await {
                let there = xroot_wire::response::Redirect::to_host("localhost", port);
                peer.put(|out| respond::redirect(out, heard.id(), &there)).await;
            }
        })
        .await;
        let options = GetOptions {
            validator: Some(Validator::Tag("\"4711-1700000000-1000\"".into())),
            ..range(500, 1000)
        };
        match client().get(&door.file("/f"), &options).await {
            Ok(mut download) => assert!(is_same && read_all(&mut download).await.unwrap() == pattern(1000)[500..]),
            Err(error) => assert!(!is_same && error.code() == ErrorCode::SourceChanged, "{error:?}"),
        }
    }
}
