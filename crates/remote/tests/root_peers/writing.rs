//! Uploads: how the file is opened, writes under way, refusals in between, and what makes it last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use remote::PutOptions;
use remote::limits::ROOT_WRITE_WINDOW_BYTES;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use types::{ByteRange, ErrorCode, Phase};
use xroot_wire::limits::PAGE_BYTES;
use xroot_wire::pages::UnitDecoder;
use xroot_wire::response::{BadPages, OpenReply, PageStatus, StatText};
use xroot_wire::{ErrorNumber, Opcode, OpenOptions, ServerFlags, StatFlags};

use crate::script::{HANDLE, Heard, Peer, Server, client, data_server, pattern, send, server_tls, stat};

fn sized(size: usize) -> PutOptions {
    PutOptions {
        size_bytes: Some(size as u64),
        overwrite: true,
        ..PutOptions::default()
    }
}

async fn accept_open(peer: &mut Peer) {
    let heard = peer.expect(Opcode::Open).await;
    let reply = OpenReply {
        handle: HANDLE,
        stat: None,
    };
    peer.ok(heard.id(), &reply.encode()).await;
}

fn offset_of(heard: &Heard) -> u64 {
    heard.range().0
}

/// The data of a page write; every checksum must be right.
fn data_of(heard: &Heard) -> Vec<u8> {
    let mut decoder = UnitDecoder::new(offset_of(heard), heard.payload.len()).unwrap();
    let (mut data, mut input) = (Vec::new(), &heard.payload[..]);
    while let Some(piece) = decoder.next(&mut input) {
        match piece {
            xroot_wire::pages::Piece::Data { data: part, .. } => data.extend_from_slice(part),
            xroot_wire::pages::Piece::UnitEnd { sound, .. } => assert!(sound),
        }
    }
    data
}

/// Takes everything that a client writes.
async fn take_all(mut peer: Peer) {
    accept_open(&mut peer).await;
    while let Some(heard) = peer.request().await {
        match heard.opcode() {
            Opcode::PageWrite => {
                let answer = PageStatus::page_write(heard.id(), offset_of(&heard), None);
                peer.say(&answer).await;
            }
            _ => peer.ok(heard.id(), &[]).await,
        }
    }
}

#[tokio::test]
async fn a_file_is_written_as_pages_and_closed() {
    for size in [0, 1, PAGE_BYTES, 1_000_001] {
        let server = Server::welcoming(|_, peer| take_all(peer)).await;
        let content = pattern(size);
        let mut outlet = client().put(&server.file("/d/f?x=1"), &sized(size)).await.unwrap();
        send(&mut outlet, &content).await.unwrap();
        outlet.finish().await.unwrap();
        let mut written = vec![0; size];
        for write in server.heard_of(Opcode::PageWrite) {
            let (offset, data) = (offset_of(&write) as usize, data_of(&write));
            written[offset..offset + data.len()].copy_from_slice(&data);
        }
        assert!(written == content, "{size} bytes");
        let open = &server.heard_of(Opcode::Open)[0];
        assert_eq!(open.text(), format!("/d/f?x=1&oss.asize={size}"));
        let options = OpenOptions::from_bits_retain(u16::from_be_bytes([open.header.block[2], open.header.block[3]]));
        assert!(options.contains(OpenOptions::TRUNCATE | OpenOptions::PERSIST_ON_CLOSE | OpenOptions::MAKE_PATH));
        assert!(!options.contains(OpenOptions::NEW));
        assert_eq!(server.heard_of(Opcode::Close).len(), 1);
    }
}

#[tokio::test]
async fn over_tls_plain_data_are_written() {
    let tls = server_tls();
    let server = Server::start(move |_, mut peer| {
        let tls = tls.clone();
        async move {
            peer.greet(data_server() | ServerFlags::HAS_TLS | ServerFlags::GO_TO_TLS)
                .await;
            peer.secure(&tls).await;
            peer.log_in(&[]).await;
            take_all(peer).await;
        }
    })
    .await;
    let content = pattern(700_000);
    let options = PutOptions {
        size_bytes: None,
        ..sized(0)
    };
    let mut outlet = client().put(&server.secure_file("/f"), &options).await.unwrap();
    send(&mut outlet, &content).await.unwrap();
    outlet.finish().await.unwrap();
    let writes = server.heard_of(Opcode::Write);
    let written: Vec<u8> = writes.iter().flat_map(|write| write.payload.clone()).collect();
    assert!(written == content);
    assert!(server.heard_of(Opcode::PageWrite).is_empty());
    assert!(!server.heard_of(Opcode::Open)[0].text().contains("oss.asize"));
}

#[tokio::test]
async fn an_existing_file_is_not_replaced_unless_that_is_allowed() {
    let server = Server::welcoming(|_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            peer.refuse(heard.id(), ErrorNumber::EXISTS, "it is there").await;
        }
    })
    .await;
    let options = PutOptions {
        overwrite: false,
        ..sized(1)
    };
    let error = client().put(&server.file("/f"), &options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerExists);
    let block = server.heard_of(Opcode::Open)[0].header.block;
    let options = OpenOptions::from_bits_retain(u16::from_be_bytes([block[2], block[3]]));
    assert!(options.contains(OpenOptions::NEW) && !options.contains(OpenOptions::TRUNCATE));
}

#[tokio::test]
async fn a_refusal_in_the_middle_is_heard_with_its_words() {
    let server = Server::welcoming(|_, mut peer| async move {
        accept_open(&mut peer).await;
        let heard = peer.expect(Opcode::PageWrite).await;
        peer.refuse(heard.id(), ErrorNumber::NO_SPACE, "the disk is full").await;
        while peer.request().await.is_some() {}
    })
    .await;
    let size = 64 << 20;
    let mut outlet = client().put(&server.file("/f"), &sized(size)).await.unwrap();
    let sent = send(&mut outlet, &vec![1; size]).await;
    let error = match sent {
        Err(error) => error,
        Ok(()) => outlet.finish().await.unwrap_err(),
    };
    assert_eq!(error.code(), ErrorCode::PeerNoSpace);
    assert_eq!(error.peer_words(), Some("the disk is full"));
    assert!(server.heard_of(Opcode::Close).is_empty());
}

#[tokio::test]
async fn no_more_is_sent_ahead_than_the_window() {
    let server = Server::welcoming(|_, mut peer| async move {
        accept_open(&mut peer).await;
        // Nothing is answered, and everything is read.
        while peer.request().await.is_some() {}
    })
    .await;
    let size = 2 * ROOT_WRITE_WINDOW_BYTES as usize;
    let mut outlet = client().put(&server.file("/f"), &sized(size)).await.unwrap();
    let content = vec![0; size];
    let sent = tokio::time::timeout(std::time::Duration::from_secs(3), send(&mut outlet, &content)).await;
    assert!(sent.is_err());
    let ahead = outlet.sent_bytes();
    assert!(
        (ROOT_WRITE_WINDOW_BYTES..ROOT_WRITE_WINDOW_BYTES + (1 << 20)).contains(&ahead),
        "{ahead}"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_while_writing_is_told_and_nothing_is_closed() {
    let server = Server::welcoming(|_, mut peer| async move {
        accept_open(&mut peer).await;
        peer.expect(Opcode::PageWrite).await;
    })
    .await;
    let size = 64 << 20;
    let mut outlet = client().put(&server.file("/f"), &sized(size)).await.unwrap();
    let error = match send(&mut outlet, &vec![1; size]).await {
        Err(error) => error,
        Ok(()) => outlet.finish().await.unwrap_err(),
    };
    assert_eq!(error.code(), ErrorCode::PeerClosed, "{error:?}");
    assert!(error.retry());
    assert!(server.heard_of(Opcode::Close).is_empty());
}

#[tokio::test]
async fn a_page_that_arrived_damaged_is_sent_again() {
    let content = pattern(2 * PAGE_BYTES + 100);
    let repaired = content[PAGE_BYTES..2 * PAGE_BYTES].to_vec();
    let server = Server::welcoming(move |_, mut peer| {
        let repaired = repaired.clone();
        async move {
            accept_open(&mut peer).await;
            let heard = peer.expect(Opcode::PageWrite).await;
            let bad = BadPages {
                first_bytes: PAGE_BYTES as u16,
                last_bytes: PAGE_BYTES as u16,
                offsets: vec![PAGE_BYTES as u64],
            };
            peer.say(&PageStatus::page_write(heard.id(), 0, Some(&bad))).await;
            let again = peer.expect(Opcode::PageWrite).await;
            assert_eq!(offset_of(&again), PAGE_BYTES as u64);
            assert_eq!(data_of(&again), repaired);
            peer.say(&PageStatus::page_write(again.id(), PAGE_BYTES as u64, None))
                .await;
            let close = peer.expect(Opcode::Close).await;
            peer.ok(close.id(), &[]).await;
            peer.request().await;
        }
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(content.len())).await.unwrap();
    send(&mut outlet, &content).await.unwrap();
    let page = PAGE_BYTES..2 * PAGE_BYTES;
    let range = ByteRange::new(page.start as u64, page.end as u64);
    assert_eq!(outlet.damaged().await.unwrap(), [range]);
    outlet.send_again(range.start, &content[page]).await.unwrap();
    assert_eq!(outlet.damaged().await.unwrap(), []);
    outlet.finish().await.unwrap();
    assert_eq!(server.heard_of(Opcode::Close).len(), 1);
}

#[tokio::test]
async fn pages_that_arrived_damaged_and_a_refused_close_fail_the_upload() {
    let damaged = Server::welcoming(|_, mut peer| async move {
        accept_open(&mut peer).await;
        let heard = peer.expect(Opcode::PageWrite).await;
        let bad = BadPages {
            first_bytes: 100,
            last_bytes: 100,
            offsets: vec![0],
        };
        peer.say(&PageStatus::page_write(heard.id(), 0, Some(&bad))).await;
        peer.request().await;
    })
    .await;
    let mut outlet = client().put(&damaged.file("/f"), &sized(100)).await.unwrap();
    send(&mut outlet, &pattern(100)).await.unwrap();
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooManyPageErrors);
    assert!(damaged.heard_of(Opcode::Close).is_empty());

    let refusing = Server::welcoming(|_, mut peer| async move {
        accept_open(&mut peer).await;
        let heard = peer.expect(Opcode::Close).await;
        peer.refuse(heard.id(), ErrorNumber::CHECKSUM, "1 uncorrected checksum errors")
            .await;
        peer.request().await;
    })
    .await;
    let outlet = client().put(&refusing.file("/f"), &sized(0)).await.unwrap();
    let error = outlet.finish().await.unwrap_err();
    assert_eq!(
        (error.code(), error.phase()),
        (ErrorCode::ChecksumMismatch, Phase::Commit)
    );
}

#[tokio::test]
async fn neither_more_nor_less_than_announced_is_stored() {
    let server = Server::welcoming(|_, peer| take_all(peer)).await;
    let mut outlet = client().put(&server.file("/f"), &sized(10)).await.unwrap();
    assert_eq!(
        send(&mut outlet, &pattern(11)).await.unwrap_err().code(),
        ErrorCode::Internal
    );
    let mut outlet = client().put(&server.file("/f"), &sized(10)).await.unwrap();
    send(&mut outlet, &pattern(9)).await.unwrap();
    assert_eq!(outlet.finish().await.unwrap_err().code(), ErrorCode::Internal);
    assert!(server.heard_of(Opcode::Close).is_empty());
}

#[tokio::test]
async fn an_upload_that_is_given_up_closes_the_connection_without_closing_the_file() {
    let (left, mut leaving) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::welcoming(move |_, mut peer| {
        let left = left.clone();
        async move {
            accept_open(&mut peer).await;
            while peer.request().await.is_some() {}
            left.send(()).unwrap();
        }
    })
    .await;
    let mut outlet = client().put(&server.file("/f"), &sized(1000)).await.unwrap();
    send(&mut outlet, &pattern(500)).await.unwrap();
    drop(outlet);
    leaving.recv().await.unwrap();
    assert!(server.heard_of(Opcode::Close).is_empty());
}

/// A file with a stat text that says that it was not closed.
fn unclosed(size_bytes: u64) -> StatText {
    StatText {
        flags: StatFlags::PERSIST_PENDING,
        ..stat(size_bytes)
    }
}

/// Answers what a client asks about a file that is not closed.
async fn answer_unclosed(peer: &mut Peer, heard: &Heard) {
    match heard.opcode() {
        Opcode::Open => {
            let reply = OpenReply {
                handle: HANDLE,
                stat: Some(unclosed(0)),
            };
            peer.ok(heard.id(), &reply.encode()).await;
        }
        Opcode::Stat => {
            let mut text = Vec::new();
            unclosed(500).write(&mut text);
            text.push(0);
            peer.ok(heard.id(), &text).await;
        }
        Opcode::PageWrite => {
            let answer = PageStatus::page_write(heard.id(), offset_of(heard), None);
            peer.say(&answer).await;
        }
        _ => peer.ok(heard.id(), &[]).await,
    }
}

/// Answers all of them, and tells what was asked.
async fn serve_unclosed(mut peer: Peer, asked: UnboundedSender<Opcode>) {
    while let Some(heard) = peer.request().await {
        answer_unclosed(&mut peer, &heard).await;
        let _ = asked.send(heard.opcode());
    }
}

/// The next five requests.
async fn next_asked(asking: &mut UnboundedReceiver<Opcode>) -> Vec<Opcode> {
    let mut asked = Vec::new();
    while asked.len() < 5 {
        let next = tokio::time::timeout(Duration::from_secs(60), asking.recv()).await;
        asked.push(next.expect("the client asks no more").unwrap());
    }
    asked
}

/// After a mere removal XRootD would remove the next file of this name, too.
#[tokio::test]
async fn a_file_that_is_not_closed_is_removed_while_it_is_open() {
    let (asked, mut asking) = unbounded_channel();
    let server = Server::welcoming(move |_, peer| serve_unclosed(peer, asked.clone())).await;
    let client = client();
    let options = PutOptions {
        size_bytes: Some(1000),
        ..PutOptions::default()
    };
    let mut outlet = client.put(&server.file("/f"), &options).await.unwrap();
    send(&mut outlet, &pattern(500)).await.unwrap();
    drop(outlet);
    let expected = [
        Opcode::Open,
        Opcode::PageWrite,
        Opcode::Stat,
        Opcode::Remove,
        Opcode::Close,
    ];
    assert_eq!(next_asked(&mut asking).await, expected);
    client.delete_version(&server.file("/f"), None).await.unwrap();
    let expected = [Opcode::Stat, Opcode::Open, Opcode::Stat, Opcode::Remove, Opcode::Close];
    assert_eq!(next_asked(&mut asking).await, expected);
}

/// The server has not noticed that the first writer is gone, and lets no other one in before.
#[tokio::test]
async fn the_session_of_a_lost_writer_is_ended_before_its_file_is_removed() {
    let (asked, mut asking) = unbounded_channel();
    let ended = Arc::new(AtomicBool::new(false));
    let server = Server::welcoming(move |number, mut peer| {
        let (asked, ended) = (asked.clone(), Arc::clone(&ended));
        async move {
            while let Some(heard) = peer.request().await {
                match heard.opcode() {
                    // After its open the first connection is silent.
                    Opcode::Open if number == 0 => answer_unclosed(&mut peer, &heard).await,
                    _ if number == 0 => continue,
                    Opcode::Open if !ended.load(Ordering::Relaxed) => {
                        peer.refuse(heard.id(), ErrorNumber::FILE_LOCKED, "in use").await;
                    }
                    Opcode::EndSession => {
                        assert_eq!(heard.header.block, [5; 16]);
                        ended.store(true, Ordering::Relaxed);
                        peer.ok(heard.id(), &[]).await;
                    }
                    _ => answer_unclosed(&mut peer, &heard).await,
                }
                if number > 0 {
                    let _ = asked.send(heard.opcode());
                }
            }
        }
    })
    .await;
    let client = client();
    let options = PutOptions {
        size_bytes: Some(1000),
        ..PutOptions::default()
    };
    let mut outlet = client.put(&server.file("/f"), &options).await.unwrap();
    send(&mut outlet, &pattern(500)).await.unwrap();
    drop(outlet);
    client.delete_version(&server.file("/f"), None).await.unwrap();
    let expected = [
        Opcode::Stat,
        Opcode::EndSession,
        Opcode::Open,
        Opcode::Stat,
        Opcode::Remove,
    ];
    assert_eq!(next_asked(&mut asking).await, expected);
}
