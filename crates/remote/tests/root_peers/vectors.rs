//! Many ranges read together, and questions about the server.

use types::limits::VECTOR_READ_BYTES_MAX;
use types::{ByteRange, ErrorCode};
use xroot_wire::limits::{READV_ITEM_BYTES_MAX, READV_ITEMS_MAX, VECTOR_ITEM_BYTES};
use xroot_wire::request::VectorItem;
use xroot_wire::{ErrorNumber, Opcode, respond};

use crate::script::{HANDLE, Heard, Server, client, pattern};

fn items(heard: &Heard) -> Vec<VectorItem> {
    let (chunks, rest) = heard.payload.as_chunks::<VECTOR_ITEM_BYTES>();
    assert!(rest.is_empty());
    chunks.iter().map(|chunk| VectorItem::parse(chunk).unwrap()).collect()
}

fn answer(items: &[VectorItem], content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for item in items {
        body.extend(item.encode());
        body.extend(&content[item.offset as usize..][..item.length as usize]);
    }
    body
}

/// A server of `content` that answers vector reads in parts of `part_items` ranges.
async fn server(content: Vec<u8>, part_items: usize) -> Server {
    Server::welcoming(move |_, mut peer| {
        let content = content.clone();
        async move {
            while let Some(heard) = peer.request().await {
                match heard.opcode() {
                    Opcode::Open | Opcode::Stat => peer.tell_size(&heard, content.len() as u64).await,
                    Opcode::ReadVector => {
                        let items = items(&heard);
                        assert!(items.len() <= READV_ITEMS_MAX);
                        assert!(items.iter().all(|item| item.handle == HANDLE));
                        for part in items.chunks(part_items) {
                            let body = answer(part, &content);
                            peer.put(|out| respond::partial(out, heard.id(), &body)).await;
                        }
                        peer.ok(heard.id(), &[]).await;
                    }
                    _ => peer.ok(heard.id(), &[]).await,
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn ranges_come_in_their_order_however_many_and_large() {
    let content = pattern(3 * READV_ITEM_BYTES_MAX);
    let server = server(content.clone(), 100).await;
    let (client, file) = (client(), server.file("/f"));
    let mut ranges: Vec<_> = (0..2500)
        .map(|index| ByteRange::new(index * 1000, index * 1000 + index % 700))
        .collect();
    ranges.push(ByteRange::new(5, 5 + 2 * READV_ITEM_BYTES_MAX as u64 + 9));
    ranges.reverse();
    let mut open = client.open_ranges(&file).await.unwrap();
    assert_eq!(open.facts().size_bytes, Some(content.len() as u64));
    for _ in 0..2 {
        let read = open.read(&ranges).await.unwrap();
        assert_eq!(read.len(), ranges.len());
        for (range, data) in ranges.iter().zip(&read) {
            assert!(*data == content[range.start as usize..range.end as usize], "{range:?}");
        }
    }
    assert!(open.read(&[]).await.unwrap().is_empty());
    open.close().await;
    client.stat(&file).await.unwrap();
    assert_eq!(server.heard_of(Opcode::Login).len(), 1);
    assert_eq!(server.heard_of(Opcode::Close).len(), 1);
}

#[tokio::test]
async fn other_ranges_than_those_asked_for_are_refused() {
    for case in 0..4 {
        let server = Server::welcoming(move |_, mut peer| async move {
            let heard = peer.expect(Opcode::Open).await;
            peer.tell_size(&heard, 1000).await;
            let heard = peer.expect(Opcode::ReadVector).await;
            let mut list = items(&heard);
            let content = pattern(2000);
            match case {
                0 => list[0].offset += 1,
                1 => list[1].length += 1,
                2 => drop(list.pop()),
                _ => list.push(list[0]),
            }
            peer.ok(heard.id(), &answer(&list, &content)).await;
            peer.request().await;
        })
        .await;
        let mut open = client().open_ranges(&server.file("/f")).await.unwrap();
        let asked = [ByteRange::new(0, 10), ByteRange::new(100, 110)];
        let error = open.read(&asked).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "case {case}");
        assert_eq!(open.read(&asked).await.unwrap_err().code(), ErrorCode::PeerClosed);
    }
}

#[tokio::test]
async fn a_refusal_is_told_and_too_much_is_not_asked_for() {
    let server = Server::welcoming(|_, mut peer| async move {
        let heard = peer.expect(Opcode::Open).await;
        peer.tell_size(&heard, 1000).await;
        let heard = peer.expect(Opcode::ReadVector).await;
        peer.refuse(heard.id(), ErrorNumber::FILE_SYSTEM, "illegal seek").await;
        peer.request().await;
    })
    .await;
    let mut open = client().open_ranges(&server.file("/f")).await.unwrap();
    let all = [ByteRange::new(0, VECTOR_READ_BYTES_MAX), ByteRange::new(0, 1)];
    assert_eq!(open.read(&all).await.unwrap_err().code(), ErrorCode::BadRequest);
    let error = open.read(&[ByteRange::new(990, 1010)]).await.unwrap_err();
    assert_eq!(error.peer_words(), Some("illegal seek"));
}

#[tokio::test]
async fn configuration_and_space_are_told() {
    let server = Server::welcoming(|_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            let body: &[u8] = match heard.text().as_str() {
                "tpc nonsense chksum\0" => b"1\nnonsense\n0:adler32,1:md5\n",
                "/d" => b"oss.cgroup=public&oss.space=100&oss.free=60&oss.maxf=50&oss.used=40&oss.quota=-1\0",
                other => panic!("{other:?}"),
            };
            peer.ok(heard.id(), body).await;
        }
    })
    .await;
    let (client, file) = (client(), server.file("/d"));
    let told = client
        .configuration(&file, &["tpc", "nonsense", "chksum"])
        .await
        .unwrap();
    assert_eq!(told, [Some("1".to_owned()), None, Some("0:adler32,1:md5".to_owned())]);
    let space = client.space(&file).await.unwrap();
    assert_eq!(
        (space.total_bytes, space.free_bytes, space.quota_bytes),
        (100, 60, None)
    );
    let web = crate::script::resource("https://localhost/f");
    assert_eq!(client.space(&web).await.unwrap_err().code(), ErrorCode::PeerUnsupported);
}
